//! Acceptance tests that a user runs by hand: reads their templates, and creates, reads and deletes
//! their pods.

use std::iter::once;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodTemplate};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use observed::acceptance::AcceptancePhase;

use super::call::{CallError, call, optional};
use super::object_writes::{create, delete};

/// The reasons with which a container waits for an image that cannot be pulled (Kubernetes
/// `pkg/kubelet/images/types.go`).
const IMAGE_TROUBLE: [&str; 4] =
    ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"];

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), ACCEPTANCE_NAMESPACE)
}

/// Lists the PodTemplates of acceptance tests; there are none if the namespace does not exist. RBAC:
/// `list` on `podtemplates` in the namespace of acceptance tests.
///
/// # Errors
/// The call failed.
pub async fn list_templates(client: &Client) -> Result<Vec<PodTemplate>, CallError> {
    let api: Api<PodTemplate> = Api::namespaced(client.clone(), ACCEPTANCE_NAMESPACE);
    Ok(call(api.list(&ListParams::default())).await?.items)
}

/// Creates a pod. RBAC: `create` on `pods` in the namespace of acceptance tests.
///
/// # Errors
/// The call failed. The pod may exist anyway.
pub async fn create_pod(client: &Client, pod: &Pod) -> Result<(), CallError> {
    create(pods(client), pod).await
}

/// Reads a pod. `None`: it does not exist. RBAC: `get` on `pods` in the namespace of acceptance
/// tests.
///
/// # Errors
/// The call failed.
pub async fn read_pod(client: &Client, name: &str) -> Result<Option<Pod>, CallError> {
    call(pods(client).get_opt(name)).await
}

/// Deletes a pod, if it exists. RBAC: `delete` on `pods` in the namespace of acceptance tests.
///
/// # Errors
/// The call failed.
pub async fn delete_pod(client: &Client, name: &str) -> Result<(), CallError> {
    optional(delete(pods(client), name, &DeleteParams::default()).await).map(drop)
}

/// Returns how far the pod of an acceptance test is.
pub fn phase(pod: &Pod) -> AcceptancePhase {
    let Some(status) = &pod.status else { return AcceptancePhase::Pending };
    let containers = || {
        let init = status.init_container_statuses.iter().flatten();
        init.chain(status.container_statuses.iter().flatten())
    };
    match status.phase.as_deref() {
        Some("Succeeded") => {
            return AcceptancePhase::Succeeded { seconds: seconds(pod, containers()) };
        }
        Some("Failed") => {
            let reason = status.reason.as_deref();
            let of_pod = || {
                let parts = [reason, status.message.as_deref()];
                parts.into_iter().flatten().collect::<Vec<_>>().join(": ")
            };
            let message = containers().find_map(failure).unwrap_or_else(of_pod);
            return AcceptancePhase::Failed {
                message,
                timed_out: reason == Some("DeadlineExceeded"),
                seconds: seconds(pod, containers()),
            };
        }
        Some("Running") => return AcceptancePhase::Running,
        Some(_) | None => {}
    }
    let is_unscheduled = |type_: &str, reason: Option<&str>| {
        type_ == "PodScheduled" && reason == Some("Unschedulable")
    };
    let mut conditions = status.conditions.iter().flatten();
    if let Some(condition) =
        conditions.find(|condition| is_unscheduled(&condition.type_, condition.reason.as_deref()))
    {
        return AcceptancePhase::Unschedulable(condition.message.clone().unwrap_or_default());
    }
    match containers().find_map(image_trouble) {
        Some(message) => AcceptancePhase::ImageNotPulled(message),
        None => AcceptancePhase::Pending,
    }
}

/// Returns the name of the container because of which the pod failed. `None`: no container has
/// failed.
pub fn failed_container(pod: &Pod) -> Option<&str> {
    let status = pod.status.as_ref()?;
    let mut containers = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten()
        .filter(|container| failure(container).is_some());
    containers.next().map(|container| container.name.as_str())
}

/// Describes how a container failed.
fn failure(container: &ContainerStatus) -> Option<String> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    if ended.exit_code == 0 {
        return None;
    }
    let details = [ended.reason.as_deref(), ended.message.as_deref()];
    let details: Vec<&str> = details
        .into_iter()
        .flatten()
        .map(str::trim)
        .filter(|text| !text.is_empty() && *text != "Error")
        .collect();
    let text = format!("container {} exited with code {}", container.name, ended.exit_code);
    Some(once(text.as_str()).chain(details).collect::<Vec<_>>().join(": "))
}

/// Describes why the image of a container cannot be pulled.
fn image_trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref().filter(|reason| IMAGE_TROUBLE.contains(reason))?;
    let message = waiting.message.as_deref().map(|text| format!(": {text}")).unwrap_or_default();
    Some(format!("{reason}{message}"))
}

/// Returns the seconds from the creation of a pod to the end of its last container.
fn seconds<'c>(pod: &Pod, containers: impl Iterator<Item = &'c ContainerStatus>) -> u64 {
    let ended = |container: &ContainerStatus| -> Option<Timestamp> {
        Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    };
    let end = containers.filter_map(ended).max();
    let created = pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let seconds = created.zip(end).map(|(created, end)| end.duration_since(created).as_secs());
    seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(status: &Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "dcgm", "creationTimestamp": "2027-01-01T00:00:00Z"},
            "status": status,
        }))
        .expect("a pod")
    }

    fn container(state: &Value) -> Value {
        json!([{
            "name": "test", "image": "dcgm", "imageID": "", "ready": false, "restartCount": 0,
            "state": state,
        }])
    }

    #[test]
    fn phase_has_the_reason_of_the_kubelet() {
        let ended = |code: i32| {
            container(&json!({"terminated": {
                "exitCode": code, "reason": "Error", "finishedAt": "2027-01-01T00:04:00Z",
            }}))
        };
        let waiting = container(&json!({"waiting": {
            "reason": "ImagePullBackOff", "message": "not found",
        }}));
        let unscheduled = json!([{
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "message": "Insufficient nvidia.com/gpu",
        }]);
        for (status, expected) in [
            (json!({"phase": "Pending"}), AcceptancePhase::Pending),
            (json!({"phase": "Running"}), AcceptancePhase::Running),
            (
                json!({"phase": "Pending", "conditions": unscheduled}),
                AcceptancePhase::Unschedulable("Insufficient nvidia.com/gpu".to_owned()),
            ),
            (
                json!({"phase": "Pending", "containerStatuses": waiting}),
                AcceptancePhase::ImageNotPulled("ImagePullBackOff: not found".to_owned()),
            ),
            (
                json!({"phase": "Succeeded", "containerStatuses": ended(0)}),
                AcceptancePhase::Succeeded { seconds: 240 },
            ),
            (
                json!({"phase": "Failed", "containerStatuses": ended(3)}),
                AcceptancePhase::Failed {
                    message: "container test exited with code 3".to_owned(),
                    timed_out: false,
                    seconds: 240,
                },
            ),
            (
                json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"}),
                AcceptancePhase::Failed {
                    message: "DeadlineExceeded: too long".to_owned(),
                    timed_out: true,
                    seconds: 0,
                },
            ),
        ] {
            assert_eq!(phase(&pod(&status)), expected, "{status}");
        }
        let failed = pod(&json!({"phase": "Failed", "containerStatuses": ended(3)}));
        assert_eq!(failed_container(&failed), Some("test"));
    }
}
