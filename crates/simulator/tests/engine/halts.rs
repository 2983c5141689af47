//! Halts of a rollout: which failures count.

use contract::driver::Driver;
use contract::proof::Halt;
use contract::record::{NodeRecord, RefusedWrite, WriteKind};
use planner::decide::Action;

use crate::drive::Driven;
use crate::fleet::at;

/// Regression: a node had failed with an earlier driver, and a write to it was refused. The rollout
/// of the new driver halted, although this driver had failed nowhere.
#[test]
fn refused_write_with_old_failure_does_not_halt_a_new_driver() {
    let mut fleet = Driven::new(2).fleet;
    fleet.settings.upgrade.halt = Some(Halt::default());
    fleet.settings.upgrade.policy.max_unavailable = None;
    let traits = Driver::Gpu.traits();
    let record = serde_json::json!({
        "version": 1, "state": "upgrade-failed", "since": at(-60), "started": at(-600),
        "digest": "earlier", "cordoned": true, "attempts": {"driver-failing": 2},
        "failure": {"cause": "driver-failing", "message": "no"},
    });
    let node = fleet.node("gpu-0");
    node.unschedulable = true;
    node.annotations.insert(traits.own_record.into(), record.to_string());
    node.labels.insert(traits.own_state_label.into(), "upgrade-failed".into());
    let refused = RefusedWrite {
        write: WriteKind::Node,
        message: "denied".into(),
        stays: true,
        cordon: false,
        requested: false,
    };
    let known =
        NodeRecord { uid: node.uid.clone(), refused: Some(refused), ..NodeRecord::default() };
    fleet.memory.nodes.insert("gpu-0", known);
    let decision = fleet.decide(0);
    let proof = decision.memory.proof.as_ref().expect("the driver is being proven");
    assert_eq!(proof.halt, None);
    let is_start = |action: &&Action| matches!(action, Action::PatchNode(patch) if patch.starts);
    let started: Vec<&str> = decision.actions.iter().filter(is_start).map(Action::node).collect();
    assert_eq!(started, ["gpu-1"]);
}
