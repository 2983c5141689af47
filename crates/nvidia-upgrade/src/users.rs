//! The pods of a node that the gpu-operator counts as users of the GPU, and which of them its drain
//! helper would evict (gpu-operator `controllers/upgrade_controller.go`, kubectl `pkg/drain`).

use contract::names;
use contract::policy::PodDeletionPolicy;

use super::controller_generation::ControllerGeneration;
use super::snapshot::NodeDevicePods;
use observed::workload::{PodPhase, Workload, Workloads};

/// Prefixes of the resources that make a pod a user of the GPU. Resources for virtual machines have
/// other names.
const RESOURCES: [&str; 2] = ["nvidia.com/gpu", "nvidia.com/mig-"];

/// Counts the pods of one node, as the controller does.
pub fn users(
    pods: &[Workload],
    workloads: &Workloads,
    policy: &PodDeletionPolicy,
    generation: ControllerGeneration,
) -> NodeDevicePods {
    let wanted: Vec<&Workload> =
        pods.iter().filter(|pod| uses_gpu(pod, workloads, generation)).collect();
    let evictable = wanted.iter().filter(|pod| is_evictable(pod, policy)).count();
    NodeDevicePods { wanted: wanted.len(), evictable }
}

/// Returns whether a pod is Running or Pending, with such a resource in a container (not an init
/// container), or with an allocated GPU from DRA. A claim that cannot be read counts; a claim
/// without a name, or without an allocation, does not.
pub fn uses_gpu(pod: &Workload, workloads: &Workloads, generation: ControllerGeneration) -> bool {
    let claimed = |name: &str| {
        let claims = workloads.claims.served().map(Vec::as_slice).unwrap_or_default();
        let claim =
            claims.iter().find(|claim| claim.namespace == pod.namespace && claim.name == name);
        claim.is_none_or(|claim| claim.drivers.contains(names::DRA_GPU_DRIVER))
    };
    matches!(pod.phase, PodPhase::Running | PodPhase::Pending)
        && (pod.resources.iter().any(|name| RESOURCES.iter().any(|start| name.starts_with(start)))
            || (generation.features().claims
                && pod.claims.iter().flatten().any(|name| claimed(name))))
}

/// Returns whether the drain helper would evict it. A pod of a DaemonSet is never evicted, whatever
/// the policy (its DaemonSet is assumed to exist).
fn is_evictable(pod: &Workload, policy: &PodDeletionPolicy) -> bool {
    !is_of_daemon_set(pod)
        && !pod.mirror
        && (policy.delete_empty_dir || !(pod.empty_dir || pod.memory_dir))
        && (policy.force || pod.controller.is_some())
}

/// Returns whether the drain helper treats the pod as one of a DaemonSet.
pub(super) fn is_of_daemon_set(pod: &Workload) -> bool {
    pod.controller.as_ref().is_some_and(|controller| {
        controller.api_version == "apps/v1" && controller.kind == "DaemonSet"
    })
}
