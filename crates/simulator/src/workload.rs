//! A workload: the pods of one controller, or one pod without a controller.

use observed::workload::{PodController, Workload};

use super::random::TimeSpread;
use super::setup::{WorkloadKind, WorkloadSetup};

/// The namespace of generated workloads.
pub(super) const NAMESPACE: &str = "ml";

/// A simulated workload with its controller.
#[derive(Debug)]
pub(super) struct SimulatedWorkload {
    /// The name prefix of its pods.
    pub(super) name: String,
    pub(super) kind: WorkloadKind,
    /// The template of its pods, without name, UID and node.
    pub(super) template: Workload,
    /// The number of GPUs that each of its pods uses.
    pub(super) gpus: usize,
    /// Whether its pods are bound to nodes outside of the fleet.
    pub(super) elsewhere: bool,
    /// How long a finalizer delays the removal of its pods after their end, in milliseconds.
    pub(super) finalizer: u64,
    /// The duration of a job, in milliseconds from its start.
    pub(super) ends: TimeSpread,
    /// The desired number of pods.
    pub(super) wanted: usize,
    /// The number of pods that it has created.
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

    /// Returns the workload of a pod of a found fleet. `gpus`: the number of GPUs that each of its
    /// pods uses.
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
