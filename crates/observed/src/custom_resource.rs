//! The custom resources of NVIDIA's operators.

use std::collections::BTreeMap;

use contract::operand::Operand;
use contract::policy::{CompletionPolicy, DrainPolicy, PodDeletionPolicy};

use crate::version::split_image;
use crate::{Labels, OperandSpec, PolicyConditions};

/// An image as an operator's custom resource names it, in parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageSpec {
    /// Registry and path.
    pub repository: Option<String>,
    /// Name.
    pub image: Option<String>,
    /// Tag (drivers: without the operating system's suffix) or digest.
    pub version: Option<String>,
}

impl ImageSpec {
    /// Returns whether an image has this name, with any tag or digest; without a repository here, in
    /// any.
    pub fn names(&self, image: &str) -> bool {
        let Some(name) = &self.image else { return false };
        if let Some(repository) = &self.repository {
            // The prefix first: every decision compares all images of a template.
            let rest = image.strip_prefix(repository.as_str());
            let rest = rest.and_then(|rest| rest.strip_prefix('/'));
            return rest.is_some_and(|rest| split_image(rest).0 == name);
        }
        let found = split_image(image).0;
        found == name || found.rsplit('/').next() == Some(name)
    }
}

/// Spec and status of a ClusterPolicy.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPolicy {
    /// UID of the object.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// `spec.driver.enabled` (absent: true).
    pub driver_enabled: bool,
    /// `spec.driver.useNvidiaDriverCRD`
    pub uses_nvidia_drivers: bool,
    /// `spec.sandboxWorkloads.enabled`: GPUs for virtual machines. Drivers are not upgraded then.
    pub sandbox_workloads: bool,
    /// `spec.driver`: repository, image, version.
    pub driver: ImageSpec,
    /// `spec.driver.manager`
    pub driver_manager: ImageSpec,
    /// `spec.toolkit.enabled` (absent: true).
    pub toolkit_enabled: bool,
    /// `spec.toolkit`
    pub toolkit: ImageSpec,
    /// The settings of each known operand in the spec.
    pub operands: BTreeMap<Operand, OperandSpec>,
    /// `spec.daemonsets.labels`: the operator puts them on every pod template.
    pub labels: Labels,
    /// `spec.driver.upgradePolicy`: the time budget is estimated from it.
    pub upgrade_policy: LiveUpgradePolicy,
    /// `status.state`
    pub state: Option<String>,
    /// Reason of the condition `Ready`.
    pub ready_reason: Option<String>,
    /// `status.conditions`
    pub conditions: PolicyConditions,
    /// The field manager that last set `spec.driver`.
    pub driver_field_manager: Option<String>,
}

impl ClusterPolicy {
    /// Returns whether both differ at most in their status, which the operator writes all the time
    /// while nodes are upgraded.
    pub fn is_same_apart_from_status(&self, other: &Self) -> bool {
        let Self {
            uid,
            generation,
            driver_enabled,
            uses_nvidia_drivers,
            sandbox_workloads,
            driver,
            driver_manager,
            toolkit_enabled,
            toolkit,
            operands,
            labels,
            upgrade_policy,
            state: _,
            ready_reason: _,
            conditions: _,
            driver_field_manager,
        } = self;
        *uid == other.uid
            && *generation == other.generation
            && *driver_enabled == other.driver_enabled
            && *uses_nvidia_drivers == other.uses_nvidia_drivers
            && *sandbox_workloads == other.sandbox_workloads
            && *driver == other.driver
            && *driver_manager == other.driver_manager
            && *toolkit_enabled == other.toolkit_enabled
            && *toolkit == other.toolkit
            && *operands == other.operands
            && *labels == other.labels
            && *upgrade_policy == other.upgrade_policy
            && *driver_field_manager == other.driver_field_manager
    }
}

/// Spec and status of a NicClusterPolicy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NicClusterPolicy {
    /// UID of the object.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// The observed generation of the condition `Ready` (network-operator 26.7 and later).
    pub observed_generation: Option<i64>,
    /// `spec.ofedDriver`; `None`: the nodes' own drivers are used. Registry and version may come
    /// from `spec.global`.
    pub ofed: Option<ImageSpec>,
    /// `spec.nodeAffinity` is set: the operator does not manage every node with a NIC.
    pub node_affinity: bool,
    /// `spec.ofedDriver.upgradePolicy`
    pub upgrade_policy: LiveUpgradePolicy,
    /// The field manager that last set `spec.ofedDriver`.
    pub driver_field_manager: Option<String>,
}

/// The upgrade policy of a live object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LiveUpgradePolicy {
    /// Whether the object has one.
    pub stated: bool,
    /// `autoUpgrade`
    pub auto_upgrade: bool,
    /// `maxParallelUpgrades`
    pub max_parallel: Option<u32>,
    /// `maxUnavailable`, as written. A number in quotes, which the operators refuse, keeps its
    /// quotes.
    pub max_unavailable: Option<String>,
    /// `waitForCompletion`, if it has a selector.
    pub wait_for_completion: Option<CompletionPolicy>,
    /// `podDeletion`
    pub pod_deletion: Option<PodDeletionPolicy>,
    /// `drain`, if it is enabled.
    pub drain: Option<DrainPolicy>,
    /// Whether it has no `drain` at all.
    pub lacks_drain: bool,
}

/// Spec and status of an NVIDIADriver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NvidiaDriver {
    /// Its name.
    pub name: String,
    /// UID: the owner of its DaemonSets.
    pub uid: String,
    /// `metadata.generation`: counts the edits of the spec.
    pub generation: i64,
    /// Being deleted.
    pub deleting: bool,
    /// `spec.default` (v26.7 and later): it owns the GPU nodes that no other NVIDIADriver selects.
    pub is_default: bool,
    /// `spec.nodeSelector`; empty: every GPU node.
    pub node_selector: Labels,
    /// `spec`: repository, image, version.
    pub driver: ImageSpec,
    /// `status.conditions`
    pub conditions: PolicyConditions,
    /// The field manager that last set the spec.
    pub field_manager: Option<String>,
    /// `spec.upgradePolicy`; if it is absent, upgrades are on.
    pub upgrade_policy: LiveUpgradePolicy,
}

#[cfg(test)]
mod tests {
    use super::ImageSpec;

    #[test]
    fn image_is_named_with_and_without_its_repository() {
        let spec = |repository: Option<&str>| ImageSpec {
            repository: repository.map(str::to_owned),
            image: Some("driver".to_owned()),
            version: None,
        };
        for (repository, image, expected) in [
            (Some("nvcr.io/nvidia"), "nvcr.io/nvidia/driver:580.126.20-ubuntu24.04", true),
            (Some("nvcr.io/nvidia"), "nvcr.io/nvidia/driver@sha256:12", true),
            (Some("nvcr.io/nvidia"), "nvcr.io/nvidia/driver-manager:580", false),
            (Some("nvcr.io/nvidia"), "nvcr.io/nvidia/cloud/driver:580", false),
            (Some("localhost:5000/nvidia"), "localhost:5000/nvidia/driver:580", true),
            (Some("localhost:5000/nvidia"), "localhost:5000/nvidia/driver", true),
            (Some("localhost:5000/nvidia"), "localhost:6000/nvidia/driver:580", false),
            (Some("localhost:5000"), "localhost:5000/nvidia/driver:580", false),
            (None, "localhost:5000/nvidia/driver:580", true),
            (None, "driver", true),
            (None, "nvidia/cloud-driver:580", false),
        ] {
            assert_eq!(spec(repository).names(image), expected, "{repository:?} {image}");
        }
        assert!(!ImageSpec::default().names("driver"));
    }
}
