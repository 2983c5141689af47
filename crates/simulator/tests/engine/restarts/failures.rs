//! Pods that do not come back, and nodes that are not ready.

use std::sync::Arc;

use contract::count::Count;
use contract::exit::ExitCode;
use contract::record::NodeOutcome;
use contract::settings::{ConfigFallback, Reroll};
use contract::task::Task;
use planner::reason::Reason;

use super::{add_plugin, configure, next_run, pod, stand_alone};
use crate::fleet::{Fleet, OLD, named, reason_of, replaced, waits};

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
        .edit()
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
        reason_of(&decision, "gpu-0"),
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
        .edit()
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
    for pod in fleet.observed.device_plugin.pods.edit().iter_mut().map(Arc::make_mut) {
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
    fleet.observed.device_plugin.pods.edit().clear();
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
