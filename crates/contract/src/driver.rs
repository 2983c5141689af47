//! The kinds of driver that are rolled out, and the one table of what differs between them. Everything else about a rollout is the same
//! code (NVIDIA's operators share theirs too: k8s-operator-libs `pkg/upgrade`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::names;

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
    /// The GPU driver, of the GPU operator.
    #[default]
    Gpu,
    /// The network driver (OFED, DOCA-OFED), of the network operator.
    Ofed,
    /// Any DaemonSet with the update strategy `OnDelete` that the settings name. It has no operator that upgrades anything, and so no
    /// controller to wake or to steer.
    #[serde(rename = "daemonset")]
    DaemonSet,
}

/// What a driver's rollout is recognized by.
#[derive(Debug)]
pub struct DriverTraits {
    /// The driver's name in settings and chart.
    pub name: &'static str,
    /// Its operator, for people.
    pub operator: &'static str,
    /// The component of recipes that brings the operator.
    pub component: &'static str,
    /// The operator's Deployment, unless the settings name another.
    pub operator_deployment: &'static str,
    /// The kind of the custom resource that asks for the driver.
    pub policy_kind: &'static str,
    /// Its API resource.
    pub policy_resource: &'static str,
    /// Where the upgrade policy is in it, for people.
    pub upgrade_policy: &'static str,
    /// The field that names the driver's version.
    pub version_field: &'static str,
    /// What a node has that needs the driver, for people.
    pub device: &'static str,
    /// The labels that say so, each with `true` as value.
    pub device_labels: &'static [&'static str],
    /// The label of driver DaemonSets and pods; without a value its presence counts. `None`: what is watched is the driver's alone.
    pub label: Option<(&'static str, Option<&'static str>)>,
    /// The container that installs the driver; empty: nothing is read of it.
    pub container: &'static str,
    /// The node label with the state of the vendor's upgrade.
    pub state_label: &'static str,
    /// The node label by which a user leaves a node alone.
    pub skip_label: &'static str,
    /// The pod label by which a pod is left out of drains; used as `<label>!=true`.
    pub drain_skip_label: &'static str,
    /// Node annotation: the driver pod waits with loading the driver until this is gone or empty.
    pub safe_load: &'static str,
    /// Node annotation: the node was cordoned before the vendor's upgrade began, and stays so. Its presence counts.
    pub initially_unschedulable: &'static str,
    /// Node annotation: Unix seconds since when the vendor's controller has been waiting for jobs.
    pub wait_start: &'static str,
    /// Node annotation: Unix seconds since when it has been waiting for the validator.
    pub validation_start: &'static str,
    /// Node annotation: an upgrade of the node is requested (`true`).
    pub requested: &'static str,
    /// Node annotation: NVIDIA's maintenance-operator does the upgrade's evictions. Its presence counts.
    pub requestor: &'static str,
    /// Label of the pods that validate the driver, if there are any.
    pub validator: Option<(&'static str, &'static str)>,
    /// Node label of ours: the state of an upgrade that we do ourselves.
    pub own_state_label: &'static str,
    /// Node annotation of ours: what must survive of it (`upgrade::record` of the planner).
    pub own_record: &'static str,
    /// Node annotation of ours: the skip label on the node is our hold.
    pub hold: &'static str,
    /// Node annotation of ours: how often a node that the vendor's controller gave up has been tried again.
    pub retries: &'static str,
    /// Node annotation of ours: the state label on the node, which has no driver, is ours and only there to wake the controller.
    pub wake: &'static str,
}

const GPU: DriverTraits = DriverTraits {
    name: "gpu",
    operator: "GPU operator",
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
    operator: "network operator",
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

/// All keys are ours: those that belong to a vendor elsewhere are read too, and never set.
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

impl Driver {
    /// Every driver.
    pub const ALL: [Self; 3] = [Self::Gpu, Self::Ofed, Self::DaemonSet];

    /// Whether an operator of the vendor's brings it, with a controller that could upgrade it.
    pub fn has_operator(self) -> bool {
        match self {
            Self::Gpu | Self::Ofed => true,
            Self::DaemonSet => false,
        }
    }

    /// What people say to a node about it: the labels and annotations of ours that are no traces of a run.
    pub fn words_of_people(self) -> [&'static str; 3] {
        let traits = self.traits();
        [traits.skip_label, traits.requested, traits.safe_load]
    }

    /// The driver's row of the table.
    pub fn traits(self) -> &'static DriverTraits {
        match self {
            Self::Gpu => &GPU,
            Self::Ofed => &OFED,
            Self::DaemonSet => &DAEMON_SET,
        }
    }
}
