//! Pods that belong together: those of one controller, or one that has none.

use observed::workload::{PodController, Workload};

use super::random::TimeSpread;
use super::setup::{WorkloadKind, WorkloadSetup};

/// Where workloads are that nobody has found.
pub(super) const NAMESPACE: &str = "ml";

/// Pods of one controller.
#[derive(Debug)]
pub(super) struct WorkloadPods {
    /// Its pods are called by it and a number.
    pub(super) name: String,
    pub(super) kind: WorkloadKind,
    /// A pod of it, without name, UID and place.
    pub(super) template: Workload,
    /// GPUs that a pod of it takes.
    pub(super) gpus: usize,
    /// Its pods find a place outside of the fleet.
    pub(super) elsewhere: bool,
    /// How long somebody's finalizer holds its pods after their end, in milliseconds.
    pub(super) finalizer: u64,
    /// When a job has ended, in milliseconds from its start.
    pub(super) ends: TimeSpread,
    /// Pods that there are to be.
    pub(super) wanted: usize,
    pub(super) made: usize,
}

impl WorkloadPods {
    pub(super) fn is_daemon_set(&self) -> bool {
        self.kind == WorkloadKind::DaemonSet
    }

    pub(super) fn new(workers: &WorkloadSetup) -> Self {
        let mut labels = workers.labels.clone();
        labels.insert("app".to_owned(), workers.name.clone());
        let (api_version, kind) = match workers.kind {
            WorkloadKind::ReplicaSet => ("apps/v1", "ReplicaSet"),
            WorkloadKind::Job => ("batch/v1", "Job"),
            WorkloadKind::DaemonSet => ("apps/v1", "DaemonSet"),
            WorkloadKind::Bare => ("", ""),
        };
        let template = Workload {
            namespace: NAMESPACE.to_owned(),
            labels,
            controller: (workers.kind != WorkloadKind::Bare).then(|| controller(api_version, kind, &workers.name)),
            grace_seconds: workers.grace_seconds,
            empty_dir: workers.empty_dir,
            resources: workers.gpu.then(|| "nvidia.com/gpu".to_owned()).into_iter().collect(),
            runtime_class: workers.hidden.then(|| "nvidia".to_owned()),
            finalizers: (workers.finalizer > 0).then(|| "example.com/hold".to_owned()).into_iter().collect(),
            ..Workload::default()
        };
        Self {
            name: workers.name.clone(),
            kind: workers.kind,
            template,
            gpus: usize::from(workers.gpu),
            elsewhere: false,
            finalizer: workers.finalizer,
            ends: workers.ends,
            wanted: 0,
            made: 0,
        }
    }

    /// The one whose pods these are. `gpus`: how many each of them takes.
    pub(super) fn found(name: &str, template: &Workload, gpus: usize, ends: TimeSpread) -> Self {
        let kind = match template.controller.as_ref().map(|controller| controller.kind.as_str()) {
            None => WorkloadKind::Bare,
            Some("DaemonSet") => WorkloadKind::DaemonSet,
            Some("Job") => WorkloadKind::Job,
            Some(_) => WorkloadKind::ReplicaSet,
        };
        Self { name: name.to_owned(), kind, template: template.clone(), gpus, elsewhere: gpus == 0, finalizer: 0, ends, wanted: 0, made: 0 }
    }
}

pub(super) fn controller(api_version: &str, kind: &str, name: &str) -> PodController {
    PodController { api_version: api_version.to_owned(), kind: kind.to_owned(), name: name.to_owned(), uid: format!("of-{name}") }
}
