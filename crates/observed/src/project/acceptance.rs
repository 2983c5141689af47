//! Pods of acceptance tests. There is at most one on each node in progress, so they are decoded
//! with Kubernetes' own types.

use jiff::Timestamp;
use k8s_openapi::api::core::v1 as core;

use contract::acceptance::{NODE_ANNOTATION, RUN_LABEL, TEST_LABEL, TIME_ANNOTATION};
use contract::secret_patterns::redact;

use super::conditions::one_line;
use super::{created, filled};
use crate::acceptance::{AcceptancePhase, AcceptancePod};

/// Why a container waits whose image cannot be pulled (Kubernetes `pkg/kubelet/images/types.go` and
/// `cri-api/pkg/errors`).
const IMAGE_REASONS: [&str; 7] = [
    "ErrImagePull",
    "ImagePullBackOff",
    "ErrImageNeverPull",
    "ImageInspectError",
    "InvalidImageName",
    "RegistryUnavailable",
    "SignatureValidationFailed",
];
/// The reason of a pod that its own deadline ended. The kubelet gives another reason to a pod that it
/// refuses or evicts, such as `UnexpectedAdmissionError`, `Evicted` or `NodeShutdown` (Kubernetes
/// `pkg/kubelet`), and none to a pod whose containers failed.
const DEADLINE_EXCEEDED: &str = "DeadlineExceeded";

/// Projects the pod of an acceptance test. Its messages contain no secrets. Where a bound pod runs
/// counts, and not its annotation: on another node, it proves nothing about the annotated one.
pub fn acceptance_pod(object: &core::Pod) -> Option<AcceptancePod> {
    let metadata = &object.metadata;
    let label = |key: &str| metadata.labels.as_ref().and_then(|labels| labels.get(key));
    let annotation = |key: &str| metadata.annotations.as_ref().and_then(|all| all.get(key));
    let bound = object.spec.as_ref().and_then(|spec| spec.node_name.as_ref());
    Some(AcceptancePod {
        name: filled(metadata.name.as_ref()),
        uid: filled(metadata.uid.as_ref()),
        node: filled(bound.or_else(|| annotation(NODE_ANNOTATION))),
        test: label(TEST_LABEL)?.clone(),
        time: annotation(TIME_ANNOTATION).and_then(|time| time.parse().ok()),
        digest: filled(label(RUN_LABEL)),
        created: created(metadata.creation_timestamp.as_ref()),
        deleting: metadata.deletion_timestamp.is_some(),
        phase: acceptance_phase(object),
        log_container: log_container(object),
    })
}

/// Returns how far the pod of an acceptance test is, whether a hook or a user created it. Its
/// messages contain no secrets.
pub fn acceptance_phase(object: &core::Pod) -> AcceptancePhase {
    let Some(status) = &object.status else { return AcceptancePhase::Pending };
    match status.phase.as_deref() {
        Some("Succeeded") => AcceptancePhase::Succeeded { seconds: seconds(object, status) },
        Some("Failed") => {
            let reason = status.reason.as_deref().filter(|reason| !reason.is_empty());
            let timed_out = reason == Some(DEADLINE_EXCEEDED);
            if reason.is_some() && !timed_out {
                return AcceptancePhase::EndedByKubelet(failure(status));
            }
            let (message, seconds) = (failure(status), seconds(object, status));
            AcceptancePhase::Failed { message, timed_out, seconds }
        }
        Some("Running") => AcceptancePhase::Running,
        Some(_) | None => waiting(object, status),
    }
}

/// Returns the phase of a pod that has not started.
fn waiting(object: &core::Pod, status: &core::PodStatus) -> AcceptancePhase {
    let is_bound = object.spec.as_ref().is_some_and(|spec| spec.node_name.is_some());
    let unscheduled = condition(status, "PodScheduled")
        .filter(|condition| condition.status == "False" && !is_bound);
    if let Some(condition) = unscheduled {
        let message = condition.message.as_ref().or(condition.reason.as_ref());
        return AcceptancePhase::Unschedulable(clean(&filled(message)));
    }
    let image = containers(status).find_map(|container| {
        let waiting = container.state.as_ref()?.waiting.as_ref()?;
        let reason = waiting.reason.as_deref().filter(|reason| IMAGE_REASONS.contains(reason))?;
        Some(described(&format!("{}: {reason}", container.name), waiting.message.as_deref()))
    });
    image.map_or(AcceptancePhase::Pending, AcceptancePhase::ImageNotPulled)
}

/// Returns why a pod failed: what the kubelet says about the pod, and the exit code of the first
/// container that failed.
fn failure(status: &core::PodStatus) -> String {
    let pod = status.reason.as_ref().map(|reason| described(reason, status.message.as_deref()));
    let container = containers(status).find_map(failed).map(|(container, ended)| {
        // `Error` says only that the exit code is not 0.
        let reason = ended.reason.as_deref().filter(|reason| *reason != "Error");
        let reason = reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
        let text = format!("{}: exit code {}{reason}", container.name, ended.exit_code);
        described(&text, ended.message.as_deref())
    });
    pod.into_iter().chain(container).collect::<Vec<_>>().join("; ")
}

/// Returns the name of the first container of a pod that failed: the message of its phase has the
/// exit code. `None`: no container failed.
pub fn failed_container(object: &core::Pod) -> Option<&str> {
    let (container, _) = containers(object.status.as_ref()?).find_map(failed)?;
    Some(&container.name)
}

/// Returns a container with its end, if it failed.
fn failed(
    container: &core::ContainerStatus,
) -> Option<(&core::ContainerStatus, &core::ContainerStateTerminated)> {
    let ended = container.state.as_ref()?.terminated.as_ref()?;
    (ended.exit_code != 0).then_some((container, ended))
}

/// Returns the name of the first container that failed, or else of the first that runs.
fn log_container(object: &core::Pod) -> Option<String> {
    let runs = |container: &&core::ContainerStatus| {
        container.state.as_ref().is_some_and(|state| state.running.is_some())
    };
    let running = || containers(object.status.as_ref()?).find(runs);
    failed_container(object).or_else(|| Some(running()?.name.as_str())).map(str::to_owned)
}

/// Returns the seconds from the pod's creation to the end of its last container. The clocks of
/// control plane and node may differ, so the time until the pod was scheduled is by the first, and
/// the time since the kubelet accepted it by the second.
fn seconds(object: &core::Pod, status: &core::PodStatus) -> u64 {
    let between = |from: Option<Timestamp>, to: Option<Timestamp>| {
        let seconds = from.zip(to).map_or(0, |(from, to)| to.duration_since(from).as_secs());
        u64::try_from(seconds).unwrap_or(0)
    };
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let scheduled = condition(status, "PodScheduled")
        .filter(|condition| condition.status == "True")
        .and_then(|condition| condition.last_transition_time.as_ref());
    let ended = containers(status).filter_map(|container| {
        Some(container.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref()?.0)
    });
    between(created, scheduled.map(|time| time.0))
        .saturating_add(between(status.start_time.as_ref().map(|time| time.0), ended.max()))
}

fn condition<'a>(status: &'a core::PodStatus, kind: &str) -> Option<&'a core::PodCondition> {
    status.conditions.iter().flatten().find(|condition| condition.type_ == kind)
}

/// Returns the statuses of all containers. Init containers are last: a sidecar ends after the
/// container that failed.
fn containers(status: &core::PodStatus) -> impl Iterator<Item = &core::ContainerStatus> {
    let init = status.init_container_statuses.iter().flatten();
    status.container_statuses.iter().flatten().chain(init)
}

/// Returns a text with its details, if there are any.
fn described(text: &str, details: Option<&str>) -> String {
    match details.map(clean).filter(|details| !details.is_empty()) {
        Some(details) => format!("{text}: {details}"),
        None => text.to_owned(),
    }
}

/// Returns a message on one line, without secrets. A container may write anything into it.
fn clean(text: &str) -> String {
    one_line(&redact(text).0)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use contract::acceptance::{AcceptanceTime, HAND_LABEL};

    use super::*;

    fn projected(status: &Value) -> AcceptancePod {
        let object = json!({
            "metadata": {
                "name": "dcgm-0123456789", "namespace": "gpu-rollout-acceptance", "uid": "u1",
                "creationTimestamp": "2026-01-02T03:00:00Z",
                "labels": {TEST_LABEL: "dcgm", RUN_LABEL: "0123456789abcdef"},
                "annotations": {NODE_ANNOTATION: "gpu-1", TIME_ANNOTATION: "before"},
            },
            "spec": {"containers": [{"name": "main"}]},
            "status": status,
        });
        let object = serde_json::from_value(object).expect("a pod");
        acceptance_pod(&object).expect("it has a test")
    }

    fn ended(name: &str, state: &Value) -> Value {
        json!({"name": name, "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": state})
    }

    #[test]
    fn view_has_test_node_and_time() {
        let seen = projected(&json!({}));
        assert_eq!(
            (&*seen.name, &*seen.uid, &*seen.node, &*seen.test, &*seen.digest),
            ("dcgm-0123456789", "u1", "gpu-1", "dcgm", "0123456789abcdef")
        );
        assert_eq!((seen.time, seen.deleting), (Some(AcceptanceTime::Before), false));
        assert_eq!(seen.created.to_string(), "2026-01-02T03:00:00Z");
        assert_eq!(seen.phase, AcceptancePhase::Pending);
    }

    /// A pod with the annotation of one node ran on another one: its success proves nothing.
    #[test]
    fn bound_pod_belongs_to_the_node_that_it_runs_on() {
        for (bound, expected) in [(None, "gpu-1"), (Some("gpu-1"), "gpu-1"), (Some("cpu"), "cpu")] {
            let object = json!({
                "metadata": {
                    "labels": {TEST_LABEL: "dcgm"}, "annotations": {NODE_ANNOTATION: "gpu-1"},
                },
                "spec": {"containers": [], "nodeName": bound},
            });
            let object = serde_json::from_value(object).expect("a pod");
            assert_eq!(acceptance_pod(&object).expect("it has a test").node, expected);
        }
    }

    #[test]
    fn pod_without_a_test_is_not_kept_and_one_without_a_node_is() {
        let pod = |labels: Value| {
            serde_json::from_value(json!({"metadata": {"name": "a", "labels": labels}}))
                .expect("a pod")
        };
        assert_eq!(acceptance_pod(&pod(json!({}))), None);
        let seen = acceptance_pod(&pod(json!({TEST_LABEL: "dcgm"}))).expect("it has a test");
        assert_eq!((&*seen.node, seen.time), ("", None));
    }

    #[test]
    fn phase_names_what_is_wrong() {
        let waiting = |reason: &str| {
            let state = json!({"waiting": {"reason": reason, "message": "manifest\nunknown"}});
            json!({"phase": "Pending", "containerStatuses": [ended("main", &state)]})
        };
        let scheduled = |reason: &str, message: Option<&str>| {
            json!({"phase": "Pending", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": reason, "message": message},
            ]})
        };
        let unschedulable = |text: &str| AcceptancePhase::Unschedulable(text.to_owned());
        for (status, expected) in [
            (
                scheduled("Unschedulable", Some("0/3 nodes are available")),
                unschedulable("0/3 nodes are available"),
            ),
            (scheduled("SchedulingGated", None), unschedulable("SchedulingGated")),
            (
                waiting("ImagePullBackOff"),
                AcceptancePhase::ImageNotPulled(
                    "main: ImagePullBackOff: manifest unknown".to_owned(),
                ),
            ),
            (waiting("ContainerCreating"), AcceptancePhase::Pending),
            (json!({"phase": "Running"}), AcceptancePhase::Running),
        ] {
            assert_eq!(projected(&status).phase, expected, "{status}");
        }
    }

    #[test]
    fn end_has_exit_code_and_seconds_by_one_clock_each() {
        // The node's clock is an hour ahead.
        let times = json!({
            "startTime": "2026-01-02T04:00:02Z",
            "conditions": [{
                "type": "PodScheduled", "status": "True",
                "lastTransitionTime": "2026-01-02T03:00:03Z",
            }],
        });
        let with = |mut status: Value| {
            for (key, value) in times.as_object().into_iter().flatten() {
                status[key] = value.clone();
            }
            projected(&status).phase
        };
        let exit = |code: i32, reason: &str, message: &str| {
            json!({"terminated": {"exitCode": code, "reason": reason, "message": message,
                "finishedAt": "2026-01-02T04:01:02Z"}})
        };
        let of = |phase: &str, states: &[Value]| {
            let list: Vec<Value> = states.iter().map(|state| ended("main", state)).collect();
            json!({"phase": phase, "containerStatuses": list})
        };
        assert_eq!(
            with(of("Succeeded", &[exit(0, "Completed", "")])),
            AcceptancePhase::Succeeded { seconds: 63 }
        );
        let failed = |message: &str, timed_out: bool| AcceptancePhase::Failed {
            message: message.to_owned(),
            timed_out,
            seconds: 63,
        };
        assert_eq!(
            with(of("Failed", &[exit(0, "Completed", ""), exit(3, "Error", "2 of 8 GPUs")])),
            failed("main: exit code 3: 2 of 8 GPUs", false)
        );
        assert_eq!(
            with(of("Failed", &[exit(137, "OOMKilled", "")])),
            failed("main: exit code 137 (OOMKilled)", false)
        );
        let mut refused = json!({"phase": "Failed", "message": "Allocate failed due to 8 > 1"});
        refused["reason"] = json!("UnexpectedAdmissionError");
        assert_eq!(
            with(refused),
            AcceptancePhase::EndedByKubelet(
                "UnexpectedAdmissionError: Allocate failed due to 8 > 1".to_owned()
            )
        );
        let mut late = of("Failed", &[exit(137, "Error", "")]);
        late["reason"] = json!("DeadlineExceeded");
        late["message"] = json!("Pod was active on the node longer than the specified deadline");
        assert_eq!(
            with(late),
            failed(
                "DeadlineExceeded: Pod was active on the node longer than the specified deadline; main: exit code 137",
                true
            )
        );
    }

    #[test]
    fn pod_by_hand_has_a_phase_and_the_container_that_failed() {
        let exit = |code: i32| json!({"terminated": {"exitCode": code, "reason": "Error"}});
        let of = |name: &str, code: i32| json!([ended(name, &exit(code))]);
        for (status, message, timed_out, container) in [
            (
                json!({"phase": "Failed", "containerStatuses": of("test", 3)}),
                "test: exit code 3",
                false,
                Some("test"),
            ),
            (
                json!({"phase": "Failed", "initContainerStatuses": of("setup", 1)}),
                "setup: exit code 1",
                false,
                Some("setup"),
            ),
            (
                json!({"phase": "Failed", "initContainerStatuses": of("sidecar", 143),
                    "containerStatuses": of("test", 3)}),
                "test: exit code 3",
                false,
                Some("test"),
            ),
            (
                json!({"phase": "Failed", "reason": "DeadlineExceeded", "message": "too long"}),
                "DeadlineExceeded: too long",
                true,
                None,
            ),
        ] {
            let object = json!({
                "metadata": {"name": "dcgm", "labels": {HAND_LABEL: "dcgm"}}, "status": status,
            });
            let object: core::Pod = serde_json::from_value(object).expect("a pod");
            let expected =
                AcceptancePhase::Failed { message: message.to_owned(), timed_out, seconds: 0 };
            assert_eq!(acceptance_phase(&object), expected, "{status}");
            assert_eq!(failed_container(&object), container, "{status}");
            assert_eq!(acceptance_pod(&object), None, "no hook takes it for its own");
        }
    }

    #[test]
    fn log_is_of_first_failed_or_running_container() {
        let exit = |code: i32| json!({"terminated": {"exitCode": code}});
        let (runs, waits) = (json!({"running": {}}), json!({"waiting": {"reason": "Pending"}}));
        for (main, init, expected) in [
            (&[("a", exit(0)), ("b", exit(3)), ("c", exit(4))][..], &[][..], Some("b")),
            (&[("a", waits.clone())], &[("init", exit(1))], Some("init")),
            (&[("a", waits.clone()), ("b", runs.clone())], &[], Some("b")),
            (&[("a", runs.clone())], &[("sidecar", runs)], Some("a")),
            (&[("a", exit(0))], &[], None),
            (&[("a", waits)], &[], None),
        ] {
            let list = |containers: &[(&str, Value)]| -> Vec<Value> {
                containers.iter().map(|(name, state)| ended(name, state)).collect()
            };
            let status = json!({
                "containerStatuses": list(main), "initContainerStatuses": list(init),
            });
            let found = projected(&status).log_container;
            assert_eq!(found.as_deref(), expected, "{status}");
        }
    }

    #[test]
    fn message_of_a_container_loses_its_secrets() {
        let text = "login failed: password=hunter2hunter2";
        let state = json!({"terminated": {"exitCode": 1, "message": text}});
        let status = json!({"phase": "Failed", "containerStatuses": [ended("main", &state)]});
        let AcceptancePhase::Failed { message, .. } = projected(&status).phase else {
            panic!("it failed");
        };
        assert!(message.contains("login failed") && !message.contains("hunter2"), "{message}");
    }
}
