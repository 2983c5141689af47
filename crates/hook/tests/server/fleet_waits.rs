//! What `status` reports while the whole fleet waits for the operator.

use contract::driver::Driver;
use contract::names;
use ops::status::{NodeStage, status};
use serde_json::{Value, json};

use crate::person::Person;
use crate::settings::OPERATOR;
use crate::world::World;
use crate::world::objects::Operand;

/// Regression (P16): without a ClusterPolicy, as with a GPUCluster, `status` reported that all nodes
/// were done, also one that was cordoned.
#[tokio::test(flavor = "local", start_paused = true)]
async fn fleet_without_cluster_policy_is_not_called_done() {
    let world = World::at_rest(2);
    world.remove("clusterpolicies", "", names::CLUSTER_POLICY);
    world.edit("nodes", "", "gpu-1", |node| {
        node["spec"]["unschedulable"] = json!(true);
        node["metadata"]["labels"][Driver::Gpu.traits().state_label] =
            json!("pod-restart-required");
    });
    let mut person = Person::with_rights(&world, &[]).await;
    let status = status(&person.observe(&world).await);
    assert!(status.nodes.iter().all(|row| row.stage == NodeStage::Unknown), "{:#?}", status.nodes);
    assert_eq!((status.totals.done, status.totals.slots.used), (0, 1));
    assert_eq!(status.fleet[0].reason, "PolicyMissing");
}

/// Regression: an operator that could not create the driver DaemonSet said why in a condition of
/// the ClusterPolicy. `status` reported that all nodes were done, and no command repeated the
/// operator's message.
#[tokio::test(flavor = "local", start_paused = true)]
async fn missing_driver_daemon_set_shows_operators_message() {
    let world = World::at_rest(2);
    let daemon_set = Operand::Driver.daemon_set();
    world.remove("daemonsets", OPERATOR, daemon_set);
    let is_driver = |object: &Value| object["metadata"]["ownerReferences"][0]["name"] == daemon_set;
    world.server.change(|state| state.store.objects.retain(|_, object| !is_driver(object)));
    world.edit("clusterpolicies", "", "cluster-policy", |policy| {
        policy["status"] = json!({"state": "notReady", "conditions": [{
            "type": "Error", "status": "True", "reason": "ReconcileFailed",
            "message": "Failed to reconcile state-driver: no kernel",
        }]});
    });
    let mut person = Person::with_rights(&world, &[]).await;
    let status = status(&person.observe(&world).await);
    assert_eq!(status.totals.done, 0, "{:#?}", status.totals);
    assert!(status.nodes.iter().all(|row| row.stage == NodeStage::Unknown), "{:#?}", status.nodes);
    let fleet = status.fleet.first().expect("the whole fleet waits");
    assert!(fleet.text.contains("Failed to reconcile state-driver: no kernel"), "{fleet:#?}");
    let waits = |row: &ops::status::NodeRow| {
        row.waiting.as_ref().is_some_and(|waiting| waiting.text == fleet.text)
    };
    assert!(status.nodes.iter().all(waits), "{:#?}", status.nodes);
}
