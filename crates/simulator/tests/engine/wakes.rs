//! When the hook wakes NVIDIA's controller in mode `assist`.

use std::time::Duration;

use contract::names;
use contract::task::Task;
use planner::action::NodePatch;
use planner::decide::{Action, Decision};

use crate::fleet::{Fleet, NEW, at};

/// The time until the hook sees that a node has changed.
const SEEN: Duration = Duration::from_millis(100);

/// Returns a fleet with a node whose driver the controller replaces. The new one is not ready yet.
fn replacing(nodes: usize, version: &str) -> Fleet {
    let mut fleet = Fleet::migrating(nodes);
    fleet.is_assisted(version);
    fleet.settings.tasks.retain(|task| *task != Task::Reroll);
    fleet.is_seen_by_controller();
    fleet.pass(0);
    fleet.node("gpu-0").unschedulable = true;
    fleet.state("gpu-0", "pod-restart-required");
    fleet.driver("gpu-0", "new", NEW, 10);
    fleet.is_seen_by_controller();
    fleet.pass(10);
    fleet
}

/// Returns the patch that wakes the controller. The hook patches nodes for nothing else here.
fn wake(decision: &Decision) -> Option<&NodePatch> {
    decision
        .actions
        .iter()
        .find_map(|action| if let Action::PatchNode(patch) = action { Some(patch) } else { None })
}

/// The controller does not watch driver pods.
#[test]
fn ready_driver_wakes_the_controller_at_once() {
    for (nodes, version) in [(3, "v26.7.0"), (1000, "v26.7.0"), (1000, "v26.3.1")] {
        let mut fleet = replacing(nodes, version);
        assert_eq!(wake(&fleet.decide(139)), None, "{nodes} nodes, {version}");
        fleet.driver_pod("gpu-0").containers_ready = true;
        assert!(wake(&fleet.decide(140)).is_some(), "{nodes} nodes, {version}");
    }
}

/// Returns when the hook wakes the controller within 100 seconds, in seconds from 140 on. `seen`:
/// whether its patches reach the node.
fn wakes(fleet: &mut Fleet, seen: bool) -> Vec<i64> {
    let (mut now, mut wakes) = (at(140), Vec::new());
    while now < at(240) {
        let decision = fleet.decide_at(now);
        let patch = wake(&decision);
        if let Some(patch) = patch {
            wakes.push(now.duration_since(at(140)).as_secs());
            if seen {
                fleet.patch(patch);
            }
            fleet.node(&patch.node).version.push('1');
        }
        // The hook decides when it sees that the node has changed.
        now = if patch.is_some() { now + SEEN } else { decision.wake_at };
    }
    wakes
}

/// The controller's own write starts another pass, when the present one is over. Until then, a wake
/// changes nothing.
#[test]
fn controller_has_time_for_its_next_pass() {
    for (nodes, expected) in [(3, [1, 6, 16]), (1000, [6, 12, 24])] {
        let mut fleet = replacing(nodes, "v26.7.0");
        fleet.driver_pod("gpu-0").containers_ready = true;
        fleet.state("gpu-0", "uncordon-required");
        assert_eq!(wakes(&mut fleet, true), expected, "{nodes} nodes");
    }
}

/// A pass takes as long as the nodes with a driver need.
#[test]
fn nodes_without_driver_do_not_prolong_a_pass() {
    let mut fleet = replacing(3, "v26.7.0");
    for index in 0..500 {
        let mut node = fleet.node("gpu-1").clone();
        (node.name, node.uid) = (format!("cpu-{index}"), format!("uid-cpu-{index}"));
        node.labels.clear();
        fleet.observed.nodes.insert(node.name.clone(), node);
    }
    fleet.driver_pod("gpu-0").containers_ready = true;
    fleet.state("gpu-0", "uncordon-required");
    assert_eq!(wakes(&mut fleet, true), [1, 6, 16]);
}

/// Nothing is known about the time before the process: the controller may be asleep.
#[test]
fn new_process_does_not_wait_for_a_pass() {
    let mut fleet = replacing(1000, "v26.7.0");
    fleet.driver_pod("gpu-0").containers_ready = true;
    fleet.restart();
    assert_eq!(wakes(&mut fleet, true)[0], 1);
}

/// A wake that the API server refused starts no pass.
#[test]
fn refused_wake_is_repeated_soon() {
    let mut fleet = replacing(1000, "v26.7.0");
    fleet.driver_pod("gpu-0").containers_ready = true;
    assert_eq!(wakes(&mut fleet, false), [0, 5, 15]);
}

/// Regression: a changed skip label counted as an event that wakes each release of the controller,
/// so the hook did not wake those that do not watch it.
#[test]
fn skip_label_wakes_only_releases_that_watch_it() {
    for (version, first) in [("v26.3.1", 0), ("v26.7.0", 1)] {
        let mut fleet = replacing(3, version);
        fleet.pass(139);
        fleet.driver_pod("gpu-0").containers_ready = true;
        fleet.node("gpu-1").labels.insert(names::UPGRADE_SKIP_LABEL.into(), "false".into());
        assert_eq!(wakes(&mut fleet, true)[0], first, "{version}");
    }
}
