//! Random policies, and their fields in the custom resource.

use serde_json::{Value, json};

use super::draw::Draw;
use super::world::SHORT;

/// The label of the workloads that the controller waits for.
pub(super) const JOB: (&str, &str) = ("job", "yes");
/// The label that some drains select.
pub(super) const WEB: (&str, &str) = ("app", "web");

/// Draws the upgrade policy of a ClusterPolicy or an NVIDIADriver. `jobs`: it may wait for jobs.
pub(super) fn gpu(draw: &mut Draw, jobs: bool) -> Value {
    let mut policy = json!({
        "autoUpgrade": !draw.once_in(12),
        "maxParallelUpgrades": draw.one(&[0, 1, 1, 2, 3]),
        "drain": drain(draw),
    });
    let limit = draw.one(&[
        json!("100%"),
        json!("50%"),
        json!("25%"),
        json!(1),
        json!(2),
        json!(0),
        Value::Null,
        json!("lots"),
        json!("2"),
    ]);
    // An invalid limit ends every pass. A few such worlds are enough.
    if !limit.is_null() && (limit != "lots" && limit != "2" || draw.once_in(4)) {
        policy["maxUnavailable"] = limit;
    }
    if !draw.once_in(8) {
        policy["podDeletion"] = step(draw);
    }
    if draw.once_in(16) {
        policy["drain"] = Value::Null;
    }
    if jobs && draw.once_in(3) {
        policy["waitForCompletion"] = waits(draw);
    }
    policy
}

/// Draws the upgrade policy of a NicClusterPolicy.
pub(super) fn ofed(draw: &mut Draw) -> Value {
    let mut policy = json!({"autoUpgrade": !draw.once_in(12), "maxParallelUpgrades": draw.one(&[0, 1, 1, 2, 3])});
    if !draw.once_in(4) {
        policy["drain"] = drain(draw);
    }
    if draw.once_in(3) {
        policy["waitForCompletion"] = waits(draw);
    }
    policy
}

fn waits(draw: &mut Draw) -> Value {
    let selector = if draw.once_in(4) { String::new() } else { format!("{}={}", JOB.0, JOB.1) };
    json!({"podSelector": selector, "timeoutSeconds": draw.one(&[0, 300])})
}

fn step(draw: &mut Draw) -> Value {
    json!({"force": draw.once_in(2), "deleteEmptyDir": draw.once_in(2), "timeoutSeconds": draw.one(&[0, 300, 300, SHORT])})
}

fn drain(draw: &mut Draw) -> Value {
    let mut drain = step(draw);
    drain["enable"] = draw.once_in(2).into();
    if draw.once_in(3) {
        drain["podSelector"] = format!("{}={}", WEB.0, WEB.1).into();
    } else if draw.once_in(20) {
        drain["podSelector"] = "no selector at all".into();
    }
    drain
}
