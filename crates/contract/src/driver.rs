//! The kinds of driver that gpu-rollout upgrades, and the table of their differences. Everything
//! else about a rollout is shared code (NVIDIA's operators share theirs too: k8s-operator-libs
//! `pkg/upgrade`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;

/// The steps of an upgrade without a hook, as a literal for messages that contain them.
#[macro_export]
macro_rules! manual_upgrade_steps {
    () => {
        "cordon and drain the node, delete its driver pod, and uncordon the node when the new pod is ready, one node at a time"
    };
}

/// A kind of driver.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Driver {
    /// The GPU driver, of the GPU Operator.
    #[default]
    Gpu,
    /// The OFED driver (DOCA-OFED), of the Network Operator.
    Ofed,
    /// A DaemonSet of your own with the update strategy `OnDelete`, named in the settings. No
    /// operator upgrades it, so there is no controller to wake or to steer.
    #[serde(rename = "daemonset")]
    DaemonSet,
}

/// The properties of a driver's rollout.
#[derive(Debug)]
pub struct DriverTraits {
    /// The driver's name in settings and chart.
    pub name: &'static str,
    /// The operator's name in messages.
    pub operator: &'static str,
    /// The recipe component that installs the operator.
    pub component: &'static str,
    /// The operator's Deployment, unless the settings name another.
    pub operator_deployment: &'static str,
    /// The kind of the custom resource that specifies the driver.
    pub policy_kind: &'static str,
    /// The API resource of that kind.
    pub policy_resource: &'static str,
    /// The path of the upgrade policy in that resource, for messages.
    pub upgrade_policy: &'static str,
    /// The field with the driver's version.
    pub version_field: &'static str,
    /// The device of a node that needs the driver, for messages.
    pub device: &'static str,
    /// The labels of nodes with the device, each with the value `true`.
    pub device_labels: &'static [&'static str],
    /// The label of driver DaemonSets and pods; if it has no value, its presence is enough. `None`:
    /// all watched objects belong to the driver.
    pub label: Option<(&'static str, Option<&'static str>)>,
    /// The container that installs the driver; empty if the hook reads nothing of it.
    pub container: &'static str,
    /// The start of all labels and annotations of nodes that NVIDIA's controller reads, from
    /// [`Self::state_label`] to [`Self::requestor`].
    pub controller_prefix: &'static str,
    /// The node label with the state of NVIDIA's upgrade.
    pub state_label: &'static str,
    /// The node label with which a user excludes a node from upgrades.
    pub skip_label: &'static str,
    /// The pod label that excludes a pod from drains; used as `<label>!=true`.
    pub drain_skip_label: &'static str,
    /// Node annotation: the driver pod does not load the driver until this is absent or empty.
    pub safe_load: &'static str,
    /// Node annotation: the node was cordoned before NVIDIA's upgrade started, and stays cordoned.
    /// Its presence is enough.
    pub initially_unschedulable: &'static str,
    /// Node annotation: Unix time, in seconds, at which NVIDIA's controller started to wait for
    /// jobs.
    pub wait_start: &'static str,
    /// Node annotation: Unix time, in seconds, at which NVIDIA's controller started to wait for the
    /// validator.
    pub validation_start: &'static str,
    /// Node annotation: an upgrade of the node is requested (`true`).
    pub requested: &'static str,
    /// Node annotation: NVIDIA's maintenance-operator performs the evictions of the upgrade. Its
    /// presence is enough.
    pub requestor: &'static str,
    /// Label of the pods that validate the driver, if the driver has such pods.
    pub validator: Option<(&'static str, &'static str)>,
    /// gpu-rollout's node label: the state of an upgrade in mode `steer` or `drive`.
    pub own_state_label: &'static str,
    /// gpu-rollout's node annotation: the part of the upgrade's state that must survive a restart
    /// of the hook (`drive_upgrade::record` of the planner).
    pub own_record: &'static str,
    /// gpu-rollout's node annotation: the skip label on the node is a hold.
    pub hold: &'static str,
    /// gpu-rollout's node annotation: how many times the hook has retried a node whose upgrade by
    /// NVIDIA's controller failed.
    pub retries: &'static str,
    /// gpu-rollout's node annotation: the hook set the state label of this node, which has no
    /// driver, only to wake NVIDIA's controller.
    pub wake: &'static str,
}

const GPU: DriverTraits = DriverTraits {
    name: "gpu",
    operator: "GPU Operator",
    component: names::GPU_OPERATOR,
    operator_deployment: names::OPERATOR_DEPLOYMENT,
    policy_kind: "ClusterPolicy",
    policy_resource: "clusterpolicies.nvidia.com",
    upgrade_policy: "driver.upgradePolicy",
    version_field: "spec.driver.version",
    device: "GPU",
    device_labels: &names::GPU_LABELS,
    label: Some((names::DRIVER_COMPONENT.0, Some(names::DRIVER_COMPONENT.1))),
    container: names::DRIVER_CONTAINER,
    controller_prefix: "nvidia.com/gpu-driver-upgrade",
    state_label: names::UPGRADE_STATE_LABEL,
    skip_label: names::UPGRADE_SKIP_LABEL,
    drain_skip_label: names::DRAIN_SKIP_LABEL,
    safe_load: "nvidia.com/gpu-driver-upgrade.driver-wait-for-safe-load",
    initially_unschedulable: "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable",
    wait_start: "nvidia.com/gpu-driver-upgrade-wait-for-pod-completion-start-time",
    validation_start: "nvidia.com/gpu-driver-upgrade-validation-start-time",
    requested: "nvidia.com/gpu-driver-upgrade-requested",
    requestor: "nvidia.com/gpu-driver-upgrade-requestor-mode",
    validator: Some(names::VALIDATOR_APP),
    own_state_label: "gpu-rollout.dev/gpu-driver-upgrade-state",
    own_record: "gpu-rollout.dev/gpu-driver-upgrade",
    hold: "gpu-rollout.dev/gpu-driver-hold",
    retries: "gpu-rollout.dev/gpu-driver-retries",
    wake: "gpu-rollout.dev/gpu-driver-wake",
};

const OFED: DriverTraits = DriverTraits {
    name: "ofed",
    operator: "Network Operator",
    component: names::NETWORK_OPERATOR,
    operator_deployment: names::NETWORK_OPERATOR_DEPLOYMENT,
    policy_kind: "NicClusterPolicy",
    policy_resource: "nicclusterpolicies.mellanox.com",
    upgrade_policy: "ofedDriver.upgradePolicy",
    version_field: "spec.ofedDriver.version",
    device: "NIC",
    device_labels: &[names::NIC_PRESENT_LABEL],
    label: Some((names::OFED_DRIVER_LABEL, None)),
    container: names::OFED_CONTAINER,
    controller_prefix: "nvidia.com/ofed-driver-upgrade",
    state_label: names::OFED_UPGRADE_STATE_LABEL,
    skip_label: names::OFED_UPGRADE_SKIP_LABEL,
    drain_skip_label: names::OFED_DRAIN_SKIP_LABEL,
    safe_load: "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load",
    initially_unschedulable: "nvidia.com/ofed-driver-upgrade.node-initial-state.unschedulable",
    wait_start: "nvidia.com/ofed-driver-upgrade-wait-for-pod-completion-start-time",
    validation_start: "nvidia.com/ofed-driver-upgrade-validation-start-time",
    requested: "nvidia.com/ofed-driver-upgrade-requested",
    requestor: "nvidia.com/ofed-driver-upgrade-requestor-mode",
    validator: None,
    own_state_label: "gpu-rollout.dev/ofed-driver-upgrade-state",
    own_record: "gpu-rollout.dev/ofed-driver-upgrade",
    hold: "gpu-rollout.dev/ofed-driver-hold",
    retries: "gpu-rollout.dev/ofed-driver-retries",
    wake: "gpu-rollout.dev/ofed-driver-wake",
};

/// All keys are gpu-rollout's own. The hook also reads keys that belong to NVIDIA with other
/// drivers, and never sets them.
const DAEMON_SET: DriverTraits = DriverTraits {
    name: "daemonset",
    operator: "DaemonSet",
    component: "",
    operator_deployment: "",
    policy_kind: "DaemonSet",
    policy_resource: "daemonsets.apps",
    upgrade_policy: "",
    version_field: "",
    device: "driver",
    device_labels: &[],
    label: None,
    container: "",
    controller_prefix: "gpu-rollout.dev/daemonset-driver-",
    state_label: "gpu-rollout.dev/daemonset-driver-vendor-state",
    skip_label: "gpu-rollout.dev/daemonset-driver-upgrade.skip",
    drain_skip_label: "gpu-rollout.dev/daemonset-driver-upgrade-drain.skip",
    safe_load: "gpu-rollout.dev/daemonset-driver-upgrade.driver-wait-for-safe-load",
    initially_unschedulable: "gpu-rollout.dev/daemonset-driver-vendor-unschedulable",
    wait_start: "gpu-rollout.dev/daemonset-driver-vendor-wait-start",
    validation_start: "gpu-rollout.dev/daemonset-driver-vendor-validation-start",
    requested: "gpu-rollout.dev/daemonset-driver-upgrade-requested",
    requestor: "gpu-rollout.dev/daemonset-driver-vendor-requestor",
    validator: None,
    own_state_label: "gpu-rollout.dev/daemonset-driver-upgrade-state",
    own_record: "gpu-rollout.dev/daemonset-driver-upgrade",
    hold: "gpu-rollout.dev/daemonset-driver-hold",
    retries: "gpu-rollout.dev/daemonset-driver-retries",
    wake: "gpu-rollout.dev/daemonset-driver-wake",
};

impl DriverTraits {
    /// Returns the node annotations that NVIDIA's controller reads and writes.
    pub fn controller_annotations(&self) -> [&'static str; 6] {
        [
            self.safe_load,
            self.initially_unschedulable,
            self.wait_start,
            self.validation_start,
            self.requested,
            self.requestor,
        ]
    }
}

impl Driver {
    /// Every driver.
    pub const ALL: [Self; 3] = [Self::Gpu, Self::Ofed, Self::DaemonSet];

    /// Returns whether an NVIDIA operator installs the driver, with a controller that could upgrade
    /// it.
    pub fn has_operator(self) -> bool {
        match self {
            Self::Gpu | Self::Ofed => true,
            Self::DaemonSet => false,
        }
    }

    /// Returns the labels and annotations of gpu-rollout with which users configure a node. They
    /// are not traces of a run.
    pub fn words_of_people(self) -> [&'static str; 3] {
        let traits = self.traits();
        [traits.skip_label, traits.requested, traits.safe_load]
    }

    /// Returns the driver's row of the table.
    pub fn traits(self) -> &'static DriverTraits {
        match self {
            Self::Gpu => &GPU,
            Self::Ofed => &OFED,
            Self::DaemonSet => &DAEMON_SET,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_the_controller_reads_starts_with_its_prefix() {
        for driver in Driver::ALL {
            let traits = driver.traits();
            let labels = [traits.state_label, traits.skip_label];
            for key in labels.into_iter().chain(traits.controller_annotations()) {
                assert!(key.starts_with(traits.controller_prefix), "{key}");
            }
        }
    }
}
