//! Nodes on which an operand is paused or disabled, and nodes that are tainted or down.

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::operand::Operand;
use contract::record::NodeOutcome;
use observed::ObservedTaint;
use planner::reason::Reason;

use super::{change, ends, fleet, offers, remove};
use crate::fleet::{Fleet, at, reason_of, waits};

#[test]
fn paused_operand_is_still_waited_for() {
    let mut fleet = fleet(2);
    let label = format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX);
    fleet.node("gpu-1").labels.insert(label, "paused-for-driver-upgrade".into());
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:OperandMissing"]);
}

#[test]
fn unlabeled_node_is_not_done() {
    let mut fleet = fleet(2);
    fleet.node("gpu-1").labels.remove(&format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX));
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:NodeNotLabeled"]);
}

#[test]
fn disabled_operand_on_node_is_not_awaited() {
    let mut fleet = fleet(2);
    fleet
        .node("gpu-1")
        .labels
        .insert(format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX), "false".into());
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    offers(&mut fleet, "gpu-1", "0", "0");
    assert!(fleet.decide(0).well);
}

#[test]
fn untolerated_taint_is_named_and_does_not_hang() {
    let mut fleet = fleet(2);
    fleet.node("gpu-1").taints.push(ObservedTaint {
        key: "team".into(),
        value: "a".into(),
        effect: "NoSchedule".into(),
    });
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:NodeTainted"]);
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
    assert_eq!(decision.outcomes["gpu-1"], NodeOutcome::Deferred);
}

/// Regression: dropped tolerations, or a taint on the whole pool, were handled as problems of
/// single nodes, and the verdict was "settled: 0 of 2 nodes done".
#[test]
fn taint_of_every_node_is_not_deferred() {
    let mut fleet = fleet(2);
    for node in ["gpu-0", "gpu-1"] {
        fleet.node(node).taints.push(ObservedTaint {
            key: "team".into(),
            value: "a".into(),
            effect: "NoSchedule".into(),
        });
        remove(&mut fleet, Operand::DevicePlugin, node);
    }
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(verdict.code, ExitCode::Budget, "{}", verdict.message);
    let Reason::NodeTainted { taint, .. } = reason_of(&decision, "gpu-1") else {
        panic!("{}", verdict.message)
    };
    assert_eq!(taint, "team=a:NoSchedule");
}

/// A Ready node with a failing driver blocks the rolling updates of the operands too, as their pods
/// wait for its driver.
#[test]
fn roll_behind_failing_pod_names_its_node() {
    let mut fleet = fleet(3);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        change(&mut fleet, Operand::DevicePlugin, node, |pod| pod.revision = Some("old".into()));
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| {
        (pod.revision, pod.ready) = (Some("newest".into()), false);
    });
    let decision = fleet.decide(0);
    for node in ["gpu-0", "gpu-2"] {
        let reason = &reason_of(&decision, node);
        assert!(
            matches!(reason, Reason::OperandOutdated { awaited: Some(awaited), .. } if awaited.name == "gpu-1" && awaited.is_ready),
            "{reason}"
        );
        assert!(reason.resolves_itself());
    }
}

/// The number of nodes of a DaemonSet sets the limit of its rolling update. The results of other
/// nodes do not depend on it.
#[test]
fn roll_names_the_awaited_node_when_fewer_may_be_unavailable() {
    let mut fleet = fleet(3);
    for node in ["gpu-0", "gpu-2"] {
        change(&mut fleet, Operand::DevicePlugin, node, |pod| pod.revision = Some("old".into()));
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| pod.ready = false);
    let name = Operand::DevicePlugin.traits().daemon_set;
    let awaited = |fleet: &mut Fleet, second, desired| {
        let daemon_sets = &mut fleet.observed.daemon_sets;
        let plugin = daemon_sets.iter_mut().find(|daemon_set| daemon_set.name == name);
        let plugin = plugin.expect("the device plugin");
        (plugin.desired, plugin.max_unavailable) = (desired, Some(Count::Percent(50)));
        let reason = reason_of(&fleet.decide(second), "gpu-2");
        let Reason::OperandOutdated { awaited, .. } = reason else { panic!("{reason}") };
        awaited.map(|node| node.name)
    };
    for second in 0..3 {
        assert_eq!(awaited(&mut fleet, second, 4), None, "two may be unavailable");
    }
    assert_eq!(awaited(&mut fleet, 3, 2).as_deref(), Some("gpu-1"));
}

/// A node that is down blocks a rolling update with `maxUnavailable: 1`. Tolerating it also covers
/// the nodes after it.
#[test]
fn tolerated_node_covers_the_roll_it_stalls() {
    let mut fleet = fleet(3);
    fleet.settings.tolerate_not_ready = Count::Number(1);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        change(&mut fleet, Operand::DevicePlugin, node, |pod| pod.revision = Some("old".into()));
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-0", |pod| pod.revision = Some("newest".into()));
    fleet.node("gpu-1").ready = false;
    fleet.node("gpu-1").ready_since = Some(at(-5000));
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| {
        (pod.deleting, pod.ready) = (true, false);
    });
    let pod = fleet.driver_pod("gpu-1");
    pod.ready = false;
    let decision = fleet.decide(0);
    let stalled = decision
        .waits
        .iter()
        .chain(decision.ended.iter())
        .find(|wait| wait.node.as_deref() == Some("gpu-2"))
        .expect("gpu-2 waits");
    assert!(
        matches!(&*stalled.reason, Reason::OperandOutdated { awaited: Some(node), .. } if node.name == "gpu-1" && !node.is_ready),
        "{stalled}"
    );
    let verdict = ends(&mut fleet).0;
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
}
