//! A workload: the pods of one controller, or one pod that has none.

use observed::workload::{PodController, Workload};

use super::random::TimeSpread;
use super::setup::{WorkloadKind, WorkloadSetup};

/// The namespace of workloads that the setup makes up.
pub(super) const NAMESPACE: &str = "ml";

/// The controller of some pods.
#[derive(Debug)]
pub(super) struct SimulatedWorkload {
    /// The name prefix of its pods.
    pub(super) name: String,
    pub(super) kind: WorkloadKind,
    /// A pod of it, without name, UID and node.
    pub(super) template: Workload,
    /// GPUs that a pod of it takes.
    pub(super) gpus: usize,
    /// Its pods are bound to nodes outside of the fleet.
    pub(super) elsewhere: bool,
    /// How long a finalizer holds its pods after their end, in milliseconds.
    pub(super) finalizer: u64,
    /// When a job has ended, in milliseconds from its start.
    pub(super) ends: TimeSpread,
    /// The desired number of pods.
    pub(super) wanted: usize,
    /// Counts the pods that it has created.
    pub(super) created: usize,
}

impl SimulatedWorkload {
    pub(super) fn new(setup: &WorkloadSetup) -> Self {
        let mut labels = setup.labels.clone();
        labels.insert("app".to_owned(), setup.name.clone());
        let (api_version, kind) = match setup.kind {
            WorkloadKind::ReplicaSet => ("apps/v1", "ReplicaSet"),
            WorkloadKind::Job => ("batch/v1", "Job"),
            WorkloadKind::DaemonSet => ("apps/v1", "DaemonSet"),
            WorkloadKind::Bare => ("", ""),
        };
        let template = Workload {
            namespace: NAMESPACE.to_owned(),
            labels,
            controller: (setup.kind != WorkloadKind::Bare)
                .then(|| controller(api_version, kind, &setup.name)),
            grace_seconds: setup.grace_seconds,
            empty_dir: setup.empty_dir,
            resources: setup.gpu.then(|| "nvidia.com/gpu".to_owned()).into_iter().collect(),
            runtime_class: setup.hidden.then(|| "nvidia".to_owned()),
            finalizers: (setup.finalizer > 0)
                .then(|| "example.com/hold".to_owned())
                .into_iter()
                .collect(),
            ..Workload::default()
        };
        Self {
            name: setup.name.clone(),
            kind: setup.kind,
            template,
            gpus: usize::from(setup.gpu),
            elsewhere: false,
            finalizer: setup.finalizer,
            ends: setup.ends,
            wanted: 0,
            created: 0,
        }
    }

    /// The workload of a pod that was found. `gpus`: how many each of its pods takes.
    pub(super) fn from_found(
        name: &str,
        template: &Workload,
        gpus: usize,
        ends: TimeSpread,
    ) -> Self {
        let kind = match template.controller.as_ref().map(|controller| controller.kind.as_str()) {
            None => WorkloadKind::Bare,
            Some("DaemonSet") => WorkloadKind::DaemonSet,
            Some("Job") => WorkloadKind::Job,
            Some(_) => WorkloadKind::ReplicaSet,
        };
        Self {
            name: name.to_owned(),
            kind,
            template: template.clone(),
            gpus,
            elsewhere: gpus == 0,
            finalizer: 0,
            ends,
            wanted: 0,
            created: 0,
        }
    }
}

pub(super) fn controller(api_version: &str, kind: &str, name: &str) -> PodController {
    PodController {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
        name: name.to_owned(),
        uid: format!("of-{name}"),
    }
}
