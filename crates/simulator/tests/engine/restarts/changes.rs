//! A change of a configuration restarts the pods that use it, once.

use contract::names;
use contract::record::RecordedPluginConfig;

use super::{configure, next_run, pairs, pod, stand_alone};
use crate::fleet::{at, named, replaced, waits};

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
        decision.waits.at(1).reason.to_string(),
        "a pod of the device plugin is stale (its container started at 2023-11-14T20:50:00Z, its configuration `default` dates from 2023-11-14T22:14:50Z) and is queued for replacement: the plugin is unavailable on 1 node, and the limit is 1"
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
