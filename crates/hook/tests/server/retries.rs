//! `gpu-rollout retry` of a node whose driver NVIDIA's controller upgrades.

use contract::driver::Driver;
use ops::apply::{RequestOutcome, apply};
use ops::node_request::NodeRequest;
use serde_json::{Value, json};

use crate::person::Person;
use crate::world::World;
use crate::world::objects::Operand;

const NODE: &str = "gpu-1";

/// Sets the upgrade state of the node, and makes its driver fail if asked for. Returns the name of
/// the driver pod.
fn fails_in(world: &World, state: &str, driver_fails: bool) -> String {
    world.edit("nodes", "", NODE, |node| {
        node["metadata"]["labels"][Driver::Gpu.traits().state_label] = json!(state);
    });
    let namespace = &world.settings.operator_namespace;
    let pod = world.name_of_pod(namespace, Operand::Driver.daemon_set(), NODE);
    if driver_fails {
        world.edit("pods", namespace, &pod, |pod| {
            pod["status"]["conditions"][0]["status"] = json!("False");
            let container = &mut pod["status"]["containerStatuses"][0];
            (container["ready"], container["restartCount"]) = (json!(false), json!(12));
            container["state"] = json!({"waiting": {"reason": "CrashLoopBackOff"}});
        });
    }
    pod
}

/// The state before, whether the driver fails, the state after, and whether the driver pod is
/// deleted.
#[tokio::test(flavor = "local", start_paused = true)]
async fn retry_restarts_driver_or_changes_state() {
    let cases = [
        ("upgrade-failed", true, json!("upgrade-failed"), true),
        ("upgrade-failed", false, json!("upgrade-required"), false),
        ("state-of-a-later-version", true, Value::Null, false),
        ("upgrade-done", true, json!("upgrade-done"), false),
    ];
    for (state, driver_fails, after, deleted) in cases {
        let world = World::at_rest(2);
        let pod = fails_in(&world, state, driver_fails);
        let mut person =
            Person::with_rights(&world, &[("patch", "", "nodes"), ("delete", "", "pods")]).await;
        let outcome =
            apply(&mut person.observers[0], NodeRequest::Retry, NODE, || world.clock.now())
                .await
                .unwrap();
        let label =
            &world.get("nodes", "", NODE)["metadata"]["labels"][Driver::Gpu.traits().state_label];
        assert_eq!(*label, after, "{state}: {outcome:?}");
        let pod = world.get("pods", &world.settings.operator_namespace, &pod);
        let is_deleted = pod.is_null() || !pod["metadata"]["deletionTimestamp"].is_null();
        assert_eq!(is_deleted, deleted, "{state}: {outcome:?}");
        let changes = after != json!(state) || deleted;
        assert_eq!(matches!(outcome, RequestOutcome::Done(_)), changes, "{state}: {outcome:?}");
    }
}
