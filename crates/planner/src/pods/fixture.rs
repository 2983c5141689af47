//! Pods for tests.

use std::collections::BTreeSet;

use jiff::Timestamp;

use observed::workload::{PodController, PodPhase, Workload};

/// Seconds of the story's clock.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

/// A running pod of a ReplicaSet that uses nothing, on `gpu-0`.
pub(crate) fn pod(name: &str) -> Workload {
    Workload {
        namespace: "team".into(),
        name: name.into(),
        uid: format!("uid-{name}"),
        node: "gpu-0".into(),
        phase: PodPhase::Running,
        ready: true,
        created: at(-5000),
        grace_seconds: 30,
        controller: Some(controller("apps/v1", "ReplicaSet", "server")),
        ..Workload::default()
    }
}

/// A pod that requests a GPU.
pub(crate) fn gpu_pod(name: &str) -> Workload {
    Workload { resources: BTreeSet::from(["nvidia.com/gpu".to_owned()]), ..pod(name) }
}

/// A controller of this kind.
pub(crate) fn controller(api_version: &str, kind: &str, name: &str) -> PodController {
    PodController {
        api_version: api_version.into(),
        kind: kind.into(),
        name: name.into(),
        uid: format!("uid-{name}"),
    }
}

/// The same pod, of this DaemonSet.
pub(crate) fn of_daemon_set(name: &str, pod: Workload) -> Workload {
    Workload { controller: Some(controller("apps/v1", "DaemonSet", name)), ..pod }
}

/// The same pod, without a controller.
pub(crate) fn bare(pod: Workload) -> Workload {
    Workload { controller: None, ..pod }
}

/// The same pod, with a label.
pub(crate) fn labeled(key: &str, value: &str, mut pod: Workload) -> Workload {
    pod.labels.insert(key.to_owned(), value.to_owned());
    pod
}
