//! The limit of unavailable nodes in a topology group.

use contract::count::Count;
use contract::driver::Driver;
use contract::policy::TopologyLimit;
use planner::decide::Action;

use super::Driven;
use crate::fleet::at;

const CLIQUE: &str = "nvidia.com/gpu.clique";

/// Regression: while the driver of a node was being replaced, or after it had failed, GPU feature
/// discovery did not set the label. The group lost the node, and a second node of it was started.
#[test]
fn node_without_its_label_stays_in_its_group() {
    for (label, expected) in [(CLIQUE, &["gpu-2"][..]), ("rack", &["gpu-1", "gpu-2"][..])] {
        let mut fleet = Driven::new(3).fleet;
        let upgrade = &mut fleet.settings.upgrade;
        let max_unavailable = Count::Number(1);
        upgrade.topology = Some(TopologyLimit { label: CLIQUE.into(), max_unavailable });
        upgrade.policy.max_parallel_upgrades = 3;
        upgrade.policy.max_unavailable = None;
        let record = serde_json::json!({
            "version": 1, "state": "upgrade-failed", "since": at(-60), "started": at(-600),
            "digest": fleet.settings.digest, "cordoned": true,
            "group": {"label": label, "value": "one"}, "attempts": {"driver-failing": 2},
            "failure": {"cause": "driver-failing", "message": "no"},
        });
        let traits = Driver::Gpu.traits();
        let node = fleet.node("gpu-0");
        node.unschedulable = true;
        node.annotations.insert(traits.own_record.into(), record.to_string());
        node.labels.insert(traits.own_state_label.into(), "upgrade-failed".into());
        fleet.node("gpu-1").labels.insert(CLIQUE.into(), "one".into());
        fleet.node("gpu-2").labels.insert(CLIQUE.into(), "two".into());
        let decision = fleet.decide(0);
        let is_start =
            |action: &&Action| matches!(action, Action::PatchNode(patch) if patch.starts);
        let started: Vec<&str> =
            decision.actions.iter().filter(is_start).map(Action::node).collect();
        assert_eq!(started, expected, "{label}");
    }
}
