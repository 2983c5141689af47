//! Which pods of the device plugin the hook restarts, when, and how often.

use std::sync::Arc;

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::record::{NodeOutcome, RecordedPluginConfig};
use contract::settings::{ConfigFallback, Reroll};
use contract::task::Task;
use observed::{
    ClusterPolicy, Observed, ObservedConfigMap, ObservedContainer, ObservedDaemonSet, ObservedNode,
    ObservedPod, ObservedRevision, OptionalApi,
};
use planner::device_plugin::{DevicePlugins, NodePluginConfig};
use planner::memory::RunMemory;
use planner::note::DecisionNote;
use planner::reason::Reason;

use crate::fleet::{Fleet, NEW, OLD, at, named, reason_of, replaced, waits};

const NAMESPACE: &str = "nvidia-device-plugin";

pub(crate) fn pairs<Map: FromIterator<(String, String)>>(pairs: &[(&str, &str)]) -> Map {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

pub(crate) fn daemon_set(uid: &str, container: &str) -> ObservedDaemonSet {
    ObservedDaemonSet {
        namespace: NAMESPACE.into(),
        name: uid.into(),
        uid: uid.into(),
        observed: true,
        images: pairs(&[(container, "nvcr.io/nvidia/k8s-device-plugin:v0.20.0")]),
        config_maps: vec!["plugins".into()],
        ..ObservedDaemonSet::default()
    }
}

/// Sets the pod of one DaemonSet on a node, ready since this second.
pub(crate) fn pod(fleet: &mut Fleet, node: &str, owner: &str, second: i64) {
    let uid = fleet.uid();
    fleet
        .observed
        .device_plugin
        .pods
        .changed()
        .retain(|pod| pod.node.as_deref() != Some(node) || pod.owner.as_deref() != Some(owner));
    fleet.observed.device_plugin.pods.push(ObservedPod {
        namespace: NAMESPACE.into(),
        name: format!("{owner}-{uid}"),
        uid,
        owner: Some(owner.into()),
        node: Some(node.into()),
        revision: Some("1".into()),
        running: true,
        ready: true,
        ready_since: Some(at(second)),
        created: at(second),
        containers: vec![ObservedContainer {
            name: "nvidia-device-plugin-ctr".into(),
            started: Some(at(second)),
            ..ObservedContainer::default()
        }],
        ..ObservedPod::default()
    });
}

/// Sets the newest text of a configuration, and the time of the change.
pub(crate) fn configure(fleet: &mut Fleet, key: &str, digest: &str, second: i64) {
    let config = fleet.observed.device_plugin.config.get_or_insert_default();
    config.digests.insert(key.into(), digest.into());
    config.changed = Some(at(second));
}

/// Returns settled nodes `gpu-0` … with the stand-alone plugin and GPU feature discovery, without
/// an operator.
pub(crate) fn stand_alone(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(0);
    fleet.observed = Observed::default();
    fleet.settings.tasks = vec![Task::RestartPlugins];
    fleet.settings.component = "nvidia-device-plugin".into();
    fleet.settings.device_plugin.namespace = NAMESPACE.into();
    fleet.settings.device_plugin.config_map = Some("plugins".into());
    fleet.settings.device_plugin.fallbacks = vec![ConfigFallback::Named, ConfigFallback::Single];
    fleet.settings.device_plugin.max_unavailable = Count::Number(1);
    add_plugin(&mut fleet, nodes);
    fleet
}

fn add_plugin(fleet: &mut Fleet, nodes: usize) {
    fleet.observed.device_plugin.daemon_sets = vec![
        daemon_set("plugin", "nvidia-device-plugin-ctr"),
        daemon_set("discovery", "gpu-feature-discovery-ctr"),
    ];
    add_revisions(fleet);
    configure(fleet, "default", "a", -9000);
    configure(fleet, "shared", "a", -9000);
    for index in 0..nodes {
        let name = format!("gpu-{index}");
        if !fleet.observed.nodes.contains_key(&name) {
            let node = ObservedNode {
                name: name.clone(),
                uid: name.clone(),
                created: at(-9000),
                ready: true,
                ..ObservedNode::default()
            };
            fleet.observed.nodes.insert(name.clone(), node);
        }
        pod(fleet, &name, "plugin", -5000);
        pod(fleet, &name, "discovery", -5000);
    }
}

fn add_revisions(fleet: &mut Fleet) {
    for owner in ["plugin", "discovery"] {
        fleet.observed.device_plugin.revisions.push(ObservedRevision {
            owner: owner.into(),
            revision: 1,
            hash: "1".into(),
        });
    }
}

/// Starts the next run at this second, with the state that a finished run leaves.
fn next_run(fleet: &mut Fleet, second: i64) {
    let next = RunMemory::following(&fleet.memory.nodes, at(second), at(second + 3000));
    let memory = std::mem::replace(&mut fleet.memory, next);
    fleet.memory.configs = memory.configs;
}

#[test]
fn unchanged_fleet_is_not_touched_and_is_remembered() {
    let mut fleet = stand_alone(2);
    let first = fleet.decide(0);
    assert!(first.actions.is_empty());
    assert_eq!(waits(&first), ["*:Quiet"]);
    let verdict = fleet.decide(15).verdict.expect("settled");
    assert_eq!(named(&verdict), ["*:Settled"]);
    assert!(fleet.memory.nodes.is_empty());
    assert_eq!(
        fleet.memory.configs["shared"],
        RecordedPluginConfig { digest: "a".into(), since: at(-9000) }
    );
}

#[test]
fn changed_configuration_restarts_pods_once_in_small_batches() {
    let mut fleet = stand_alone(3);
    fleet.node("gpu-2").labels = pairs(&[(names::DEVICE_PLUGIN_CONFIG_LABEL, "shared")]);
    fleet.pass(0);
    next_run(&mut fleet, 100);
    configure(&mut fleet, "default", "b", 90);
    let decision = fleet.decide(100);
    assert_eq!(replaced(&decision), ["gpu-0", "gpu-0"], "both pods of one node");
    assert_eq!(
        waits(&decision),
        ["gpu-0:RestartPending", "gpu-1:RestartQueued"],
        "gpu-2 uses another one"
    );
    assert_eq!(
        decision.waits[1].reason.to_string(),
        "a pod of the device plugin is stale (its container started at 2023-11-14T20:50:00Z, its configuration `default` dates from 2023-11-14T22:14:50Z) and is queued for replacement: the pods of 1 of at most 1 nodes are unavailable"
    );
    assert!(fleet.decide(101).actions.is_empty(), "the deletions are under way");
    pod(&mut fleet, "gpu-0", "plugin", 105);
    let decision = fleet.decide(106);
    assert_eq!(
        waits(&decision),
        ["gpu-0:RestartPending", "gpu-1:RestartQueued"],
        "the other pod is not back"
    );
    pod(&mut fleet, "gpu-0", "discovery", 107);
    fleet.pass(108);
    let decision = fleet.decide(109);
    assert!(
        waits(&decision).contains(&"gpu-1:RestartPending".to_owned()),
        "{:?}",
        waits(&decision)
    );
    pod(&mut fleet, "gpu-1", "plugin", 112);
    pod(&mut fleet, "gpu-1", "discovery", 112);
    fleet.pass(113);
    assert_eq!(named(&fleet.decide(128).verdict.expect("settled")), ["*:Settled"]);
    assert_eq!(
        fleet.memory.nodes.values().map(|record| record.replaced.len()).sum::<usize>(),
        4,
        "pods that were restarted"
    );
    assert!(!fleet.memory.nodes.contains_key("gpu-2"));
    next_run(&mut fleet, 200);
    assert!(fleet.decide(200).well, "and a second run finds nothing to do");
}

#[test]
fn death_between_record_and_deletion_repeats_same_pod() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    let first = fleet.decide(100);
    let configs = fleet.memory.configs.clone();
    fleet.restart();
    fleet.memory.configs = configs.clone();
    assert_eq!(fleet.decide(130).actions, first.actions, "the deletions were lost");
    // The clock of this node is behind, so its new pods look older than the configuration.
    pod(&mut fleet, "gpu-0", "plugin", 80);
    pod(&mut fleet, "gpu-0", "discovery", 80);
    fleet.restart();
    fleet.memory.configs = configs;
    let decision = fleet.decide(140);
    assert!(decision.actions.is_empty() && decision.well, "{:?}", waits(&decision));
}

#[test]
fn config_map_time_counts_without_record_and_ties() {
    for (second, stale) in [(-5001, false), (-5000, true), (-4999, true)] {
        let mut fleet = stand_alone(1);
        configure(&mut fleet, "default", "a", second);
        assert_eq!(
            !fleet.decide(0).actions.is_empty(),
            stale,
            "changed at {second}, pods of -5000"
        );
    }
    let mut fleet = stand_alone(1);
    let config = fleet.observed.device_plugin.config.as_mut().expect("a ConfigMap");
    (config.changed, config.created) = (None, at(-4000));
    assert!(!fleet.decide(0).actions.is_empty(), "a server that tells no times");
}

#[test]
fn change_without_server_time_counts_as_now() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    fleet
        .observed
        .device_plugin
        .config
        .as_mut()
        .expect("a ConfigMap")
        .digests
        .insert("default".into(), "b".into());
    fleet.pass(50);
    assert_eq!(fleet.memory.configs["default"].since, at(50));
    assert_eq!(replaced(&fleet.decide(52)), ["gpu-0", "gpu-0"]);
}

#[test]
fn nothing_restarts_before_config_map_has_the_values() {
    let mut fleet = stand_alone(1);
    fleet.settings.device_plugin.digests = Some(pairs(&[("default", "b")]));
    let decision = fleet.decide(0);
    assert!(decision.actions.is_empty());
    assert_eq!(
        decision.waits[0].reason.to_string(),
        "ConfigMap `plugins` does not match the values of the bundle: it contains another text under key `default`"
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
fn pods_their_daemon_set_replaces_are_left_alone() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    for owner in ["plugin", "discovery"] {
        fleet.observed.device_plugin.revisions.push(ObservedRevision {
            owner: owner.into(),
            revision: 2,
            hash: "2".into(),
        });
    }
    let decision = fleet.decide(100);
    assert!(decision.actions.is_empty());
    assert_eq!(waits(&decision), ["gpu-0:RestartRolling"]);
    for daemon_set in &mut fleet.observed.device_plugin.daemon_sets {
        daemon_set.on_delete = true;
    }
    assert_eq!(
        replaced(&fleet.decide(101)),
        ["gpu-0", "gpu-0"],
        "with OnDelete only the hook replaces pods"
    );
}

#[test]
fn pods_wait_until_update_strategy_is_known() {
    type Arrange = fn(&mut Fleet);
    let cases: [(Arrange, Arrange); 3] = [
        (
            |fleet| {
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.observed = false)
            },
            |fleet| {
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.observed = true)
            },
        ),
        (|fleet| fleet.observed.device_plugin.revisions.clear(), |fleet| add_revisions(fleet)),
        (
            |fleet| {
                let labels = pairs(&[("helm.sh/chart", "gpu-operator-v2"), ("app", "reserved")]);
                let policy =
                    ClusterPolicy { uid: "policy".into(), labels, ..ClusterPolicy::default() };
                fleet.observed.cluster_policy = OptionalApi::Served(Some(policy));
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.owner = Some("policy".into()));
            },
            |fleet| {
                let labels = pairs(&[("helm.sh/chart", "gpu-operator-v2")]);
                fleet
                    .observed
                    .device_plugin
                    .daemon_sets
                    .iter_mut()
                    .for_each(|one| one.template_labels.clone_from(&labels));
            },
        ),
    ];
    for (index, (before, after)) in cases.into_iter().enumerate() {
        let mut fleet = stand_alone(1);
        fleet.pass(0);
        configure(&mut fleet, "default", "b", 90);
        before(&mut fleet);
        let decision = fleet.decide(100);
        assert_eq!(
            (decision.actions.len(), waits(&decision)),
            (0, vec!["gpu-0:RestartRolling".to_owned()]),
            "case {index}"
        );
        after(&mut fleet);
        assert_eq!(replaced(&fleet.decide(101)), ["gpu-0", "gpu-0"], "case {index}");
    }
}

#[test]
fn missing_pod_fails_its_node_and_delays_others() {
    let mut fleet = stand_alone(2);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    fleet.pass(100);
    for owner in ["plugin", "discovery"] {
        pod(&mut fleet, "gpu-0", owner, 105);
    }
    for pod in fleet
        .observed
        .device_plugin
        .pods
        .changed()
        .iter_mut()
        .map(Arc::make_mut)
        .filter(|pod| pod.node.as_deref() == Some("gpu-0"))
    {
        (pod.ready, pod.trouble) =
            (false, Some("nvidia-device-plugin-init: CrashLoopBackOff".into()));
    }
    fleet.pass(110);
    fleet.pass(410);
    let decision = fleet.decide(411);
    assert_eq!(
        (decision.outcomes["gpu-0"], decision.outcomes["gpu-1"]),
        (NodeOutcome::Failed, NodeOutcome::Failed)
    );
    let verdict = fleet.decide(430).verdict.expect("over");
    assert_eq!(verdict.code, ExitCode::PluginsNotServing);
    assert_eq!(named(&verdict), ["gpu-0:RestartPending", "gpu-1:RestartHeldUp"]);
    let trouble = "nvidia-device-plugin-init: CrashLoopBackOff".to_owned();
    assert_eq!(
        *reason_of(&decision, "gpu-0"),
        Reason::RestartPending { daemon_set: "plugin".into(), trouble }
    );
}

#[test]
fn retry_of_failed_run_takes_no_more_nodes() {
    let mut fleet = stand_alone(3);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    assert_eq!(replaced(&fleet.decide(100)), ["gpu-0", "gpu-0"]);
    for owner in ["plugin", "discovery"] {
        pod(&mut fleet, "gpu-0", owner, 105);
    }
    for pod in fleet
        .observed
        .device_plugin
        .pods
        .changed()
        .iter_mut()
        .map(Arc::make_mut)
        .filter(|pod| pod.node.as_deref() == Some("gpu-0"))
    {
        pod.ready = false;
    }
    for begin in [1000, 2000, 3000] {
        next_run(&mut fleet, begin);
        let verdict = (begin..begin + 500).find_map(|second| {
            let decision = fleet.decide(second);
            assert!(decision.actions.is_empty(), "second {second}: {:?}", decision.actions);
            decision.verdict
        });
        assert_eq!(verdict.expect("over").code, ExitCode::PluginsNotServing);
    }
    for pod in fleet.observed.device_plugin.pods.changed().iter_mut().map(Arc::make_mut) {
        pod.ready = true;
    }
    next_run(&mut fleet, 4000);
    assert_eq!(
        replaced(&fleet.decide(4000)),
        ["gpu-1", "gpu-1"],
        "once it is repaired the others get their turn"
    );
}

#[test]
fn tolerated_stale_dra_plugin_hides_no_restart() {
    let mut fleet = Fleet::at_rest(8);
    fleet.settings.tasks = vec![Task::Settle, Task::Reroll, Task::RestartPlugins];
    fleet.settings.dra.reroll = Reroll::Off;
    fleet.settings.device_plugin.config_map = Some("plugins".into());
    fleet.settings.device_plugin.fallbacks = vec![ConfigFallback::Named];
    fleet.settings.device_plugin.max_unavailable = Count::Number(2);
    add_plugin(&mut fleet, 8);
    for index in 0..8 {
        let name = format!("gpu-{index}");
        fleet.driver(&name, "old", OLD, -100);
        for owner in ["plugin", "discovery"] {
            pod(&mut fleet, &name, owner, -50);
        }
    }
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    let mut restarted = Vec::new();
    for second in 100..130 {
        let decision = fleet.decide(second);
        restarted.extend(replaced(&decision).into_iter().map(str::to_owned));
    }
    restarted.sort();
    restarted.dedup();
    assert_eq!(restarted, ["gpu-0", "gpu-1"], "two of eight, until they are back");
}

#[test]
fn node_whose_only_pod_is_missing_stays() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    fleet.pass(100);
    fleet.observed.device_plugin.pods.changed().clear();
    assert_eq!(waits(&fleet.decide(101)), ["gpu-0:RestartPending"]);
    fleet.pass(401);
    assert_eq!(fleet.decide(416).verdict.expect("over").code, ExitCode::PluginsNotServing);
}

#[test]
fn node_that_is_not_ready_is_postponed() {
    let mut fleet = stand_alone(1);
    fleet.pass(0);
    configure(&mut fleet, "default", "b", 90);
    fleet.node("gpu-0").ready = false;
    let decision = fleet.decide(100);
    assert_eq!(
        (decision.actions.len(), waits(&decision)),
        (0, vec!["gpu-0:NodeNotReady".to_owned()])
    );
    fleet.node("gpu-0").ready = true;
    assert_eq!(fleet.decide(101).actions.len(), 2);
}

#[test]
fn only_stand_alone_plugin_is_restarted_after_driver() {
    for (owner, restarted) in [(None, 2), (Some("policy".to_owned()), 0)] {
        let mut fleet = Fleet::at_rest(1);
        fleet.settings.tasks = vec![Task::Settle, Task::RestartPlugins];
        fleet.settings.device_plugin.config_map = Some("plugins".into());
        fleet.settings.device_plugin.fallbacks = vec![ConfigFallback::Empty];
        add_plugin(&mut fleet, 1);
        let chart = fleet.policy().labels["helm.sh/chart"].clone();
        for daemon_set in &mut fleet.observed.device_plugin.daemon_sets {
            daemon_set.owner.clone_from(&owner);
            daemon_set.template_labels = pairs(&[("helm.sh/chart", &chart)]);
        }
        for owner in ["plugin", "discovery"] {
            pod(&mut fleet, "gpu-0", owner, -4900);
        }
        assert!(fleet.decide(0).well, "{owner:?}");
        fleet.bump();
        fleet.migration_begins();
        assert!(fleet.decide(10).actions.is_empty(), "the driver comes first");
        fleet.migrate("gpu-0", 20);
        fleet.pass(21);
        assert_eq!(fleet.decide(23).actions.len(), restarted, "{owner:?}");
        assert!(fleet.decide(24).actions.is_empty());
        for owner in ["plugin", "discovery"] {
            pod(&mut fleet, "gpu-0", owner, 25);
        }
        assert!(fleet.decide(26).well, "{owner:?}");
    }
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
