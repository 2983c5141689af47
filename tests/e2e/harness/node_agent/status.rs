//! Pod statuses as a kubelet writes them.

use anyhow::Result;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::sandbox::Sandbox;
use super::specification::Refusal;

/// Whether the pod has ended.
pub(super) fn is_final(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

/// The container is not started.
pub(super) fn waiting(pod: &Pod, refusal: &Refusal) -> Value {
    let state = json!({"waiting": {"reason": refusal.reason, "message": refusal.message}});
    status(pod, "Pending", false, "", json!({"ready": false, "started": false, "state": state}))
}

/// The container runs.
pub(super) fn running(pod: &Pod, sandbox: &Sandbox) -> Value {
    let state = json!({"running": {"startedAt": sandbox.started()}});
    status(pod, "Running", true, "", json!({"ready": true, "started": true, "state": state}))
}

/// The container has ended.
pub(super) fn ended(pod: &Pod, sandbox: &Sandbox, code: i32) -> Value {
    let container = pod.spec.iter().flat_map(|spec| &spec.containers).next();
    let policy = container.and_then(|container| container.termination_message_policy.as_deref());
    let fall_back = code != 0 && policy == Some("FallbackToLogsOnError");
    let state = json!({"terminated": {
        "exitCode": code,
        "reason": if code == 0 { "Completed" } else { "Error" },
        "message": sandbox.termination_message(fall_back),
        "startedAt": sandbox.started(),
        "finishedAt": Timestamp::now(),
    }});
    let (phase, reason) =
        if code == 0 { ("Succeeded", "PodCompleted") } else { ("Failed", "PodFailed") };
    status(pod, phase, false, reason, json!({"ready": false, "started": false, "state": state}))
}

fn status(pod: &Pod, phase: &str, ready: bool, reason: &str, container: Value) -> Value {
    let now = Timestamp::now();
    let ready = if ready { "True" } else { "False" };
    let condition = |kind: &str, status: &str, reason: &str| json!({"type": kind, "status": status, "reason": reason, "lastTransitionTime": now});
    let specification = pod.spec.iter().flat_map(|spec| &spec.containers).next();
    let mut container_status = json!({
        "name": specification.map(|container| &container.name),
        "image": specification.and_then(|container| container.image.as_ref()),
        "imageID": "",
        "restartCount": 0,
        "containerID": format!("bwrap://{}", pod.uid().unwrap_or_default()),
    });
    if let (Some(fields), Value::Object(more)) = (container_status.as_object_mut(), container) {
        fields.extend(more);
    }
    json!({"status": {
        "phase": phase,
        "startTime": pod.metadata.creation_timestamp,
        "hostIP": "127.0.0.1",
        "podIP": "127.0.0.1",
        "podIPs": [{"ip": "127.0.0.1"}],
        "conditions": [
            condition("Initialized", "True", ""),
            condition("Ready", ready, reason),
            condition("ContainersReady", ready, reason),
        ],
        "containerStatuses": [container_status],
    }})
}

/// Writes a status to the pod with the same UID; a pod that is gone needs none.
pub(super) async fn write(api: &Api<Pod>, pod: &Pod, status: &Value) -> Result<()> {
    let mut patch = status.clone();
    patch["metadata"] = json!({"uid": pod.uid()});
    match api.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(patch)).await
    {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
