//! Which configuration a node uses, and what happens while the right one is missing.

use contract::exit::ExitCode;
use contract::names;
use contract::settings::ConfigFallback;
use contract::task::Task;
use observed::ObservedConfigMap;
use planner::device_plugin::{DevicePlugins, NodePluginConfig};
use planner::note::DecisionNote;

use super::{configure, daemon_set, pairs, pod, stand_alone};
use crate::fleet::{Fleet, NEW, named, replaced, waits};

#[test]
fn nothing_restarts_before_config_map_has_the_values() {
    let mut fleet = stand_alone(1);
    fleet.settings.device_plugin.digests = Some(pairs(&[("default", "b")]));
    let decision = fleet.decide(0);
    assert!(decision.actions.is_empty());
    assert_eq!(
        decision.waits.at(0).reason.to_string(),
        "ConfigMap `plugins` does not match the values of the bundle: it contains different text under key `default`"
    );
    configure(&mut fleet, "default", "b", 3);
    assert_eq!(replaced(&fleet.decide(10)), ["gpu-0", "gpu-0"]);

    let mut fleet = stand_alone(1);
    fleet.settings.device_plugin.digests = Some(pairs(&[("default", "b")]));
    fleet.pass(0);
    assert_eq!(fleet.decide(120).verdict.expect("over").code, ExitCode::Precondition);
    let mut fleet = stand_alone(1);
    fleet.observed.device_plugin.config = None;
    assert_eq!(waits(&fleet.decide(0)), ["*:ConfigMissing"]);
    assert_eq!(fleet.decide(120).verdict.expect("over").code, ExitCode::Precondition);
}

#[test]
fn node_with_missing_configuration_keeps_its_gpus() {
    let mut fleet = stand_alone(2);
    fleet.node("gpu-0").labels = pairs(&[(names::DEVICE_PLUGIN_CONFIG_LABEL, "gone")]);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    let decision = fleet.decide(100);
    assert_eq!(replaced(&decision), ["gpu-1", "gpu-1"]);
    assert_eq!(
        decision.notes,
        [DecisionNote::ConfigKeyMissing { nodes: vec![("gpu-0".into(), "gone".into())] }]
    );
}

#[test]
fn missing_configuration_while_pods_away_frees_the_slot() {
    let mut fleet = stand_alone(2);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    assert_eq!(replaced(&fleet.decide(100)), ["gpu-0", "gpu-0"]);
    fleet.node("gpu-0").labels = pairs(&[(names::DEVICE_PLUGIN_CONFIG_LABEL, "gone")]);
    for owner in ["plugin", "discovery"] {
        pod(&mut fleet, "gpu-0", owner, 105);
    }
    let decision = fleet.decide(106);
    assert_eq!(replaced(&decision), ["gpu-1", "gpu-1"], "{:?}", waits(&decision));
}

#[test]
fn a_missing_configuration_that_nothing_uses_blocks_nothing() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.tasks = vec![Task::Settle, Task::Reroll, Task::RestartPlugins];
    fleet.settings.device_plugin.config_map = Some("left-over".into());
    assert_eq!(waits(&fleet.decide(0)), ["*:ConfigMissing"], "what uses it may be yet to come");
    fleet.pass(120);
    let verdict = fleet.decide(135).verdict.expect("over");
    assert_eq!(verdict.code, ExitCode::Success);
    assert_eq!(named(&verdict), ["*:Settled", "*:ConfigNotUsed"]);
}

#[test]
fn missing_configuration_during_driver_upgrade_ends_nothing() {
    let mut fleet = Fleet::at_rest(1);
    fleet.settings.tasks = vec![Task::Settle, Task::Reroll, Task::RestartPlugins];
    fleet.settings.device_plugin.config_map = Some("plugins".into());
    fleet.observed.device_plugin.daemon_sets = vec![daemon_set("plugin", "nvidia-device-plugin")];
    fleet.bump();
    fleet.migration_begins();
    fleet.pass(0);
    assert_eq!(fleet.decide(300).verdict, None, "the driver is under way");
    fleet.migrate("gpu-0", 310);
    fleet.pass(310);
    assert_eq!(replaced(&fleet.decide(312)), ["gpu-0"], "the DRA plugin follows it");
    fleet.plugin("gpu-0", 315, NEW);
    fleet.pass(316);
    assert_eq!(fleet.decide(317).verdict.expect("over").code, ExitCode::Precondition);
}

/// Keys of the ConfigMap, the node's label, the default, the fallbacks, the choice.
type Row = (
    &'static [&'static str],
    Option<&'static str>,
    Option<&'static str>,
    &'static [ConfigFallback],
    NodePluginConfig<'static>,
);

#[test]
fn a_node_chooses_as_config_manager_does() {
    let key = names::DEVICE_PLUGIN_CONFIG_LABEL;
    let both: &[&str] = &["default", "shared"];
    let rows: [Row; 12] = [
        (
            both,
            Some("shared"),
            Some("default"),
            &[ConfigFallback::Named],
            NodePluginConfig::Key("shared"),
        ),
        (both, Some(""), Some("shared"), &[ConfigFallback::Named], NodePluginConfig::Key("shared")),
        (both, None, Some("shared"), &[ConfigFallback::Named], NodePluginConfig::Key("shared")),
        (
            both,
            Some("gone"),
            Some("default"),
            &[ConfigFallback::Named],
            NodePluginConfig::Missing("gone"),
        ),
        (both, None, Some("gone"), &[ConfigFallback::Named], NodePluginConfig::Missing("gone")),
        (
            both,
            None,
            None,
            &[ConfigFallback::Named, ConfigFallback::Single],
            NodePluginConfig::Key("default"),
        ),
        (both, None, None, &[ConfigFallback::Single], NodePluginConfig::None),
        (
            &["only"],
            None,
            None,
            &[ConfigFallback::Named, ConfigFallback::Single],
            NodePluginConfig::Key("only"),
        ),
        (
            &["only"],
            None,
            None,
            &[ConfigFallback::Empty, ConfigFallback::Single],
            NodePluginConfig::None,
        ),
        (both, None, None, &[ConfigFallback::Empty], NodePluginConfig::None),
        (
            &["one", "two"],
            None,
            None,
            &[ConfigFallback::Named, ConfigFallback::Single],
            NodePluginConfig::None,
        ),
        (
            &[],
            None,
            None,
            &[ConfigFallback::Named, ConfigFallback::Single, ConfigFallback::Empty],
            NodePluginConfig::None,
        ),
    ];
    for (keys, label, default, fallbacks, expected) in rows {
        let mut fleet = stand_alone(1);
        let digests = keys.iter().map(|key| ((*key).to_owned(), "a".to_owned())).collect();
        fleet.observed.device_plugin.config =
            Some(ObservedConfigMap { digests, ..ObservedConfigMap::default() });
        fleet.settings.device_plugin.default = default.map(str::to_owned);
        fleet.settings.device_plugin.fallbacks = fallbacks.to_vec();
        fleet.node("gpu-0").labels =
            label.into_iter().map(|label| (key.to_owned(), label.to_owned())).collect();
        let plugins = DevicePlugins::new(&fleet.observed, &fleet.settings.device_plugin);
        assert_eq!(
            plugins.choice(&fleet.observed.nodes["gpu-0"]),
            expected,
            "{keys:?} {label:?} {default:?} {fallbacks:?}"
        );
    }
}
