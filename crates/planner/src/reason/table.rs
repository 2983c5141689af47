//! The table of reasons: a row each.

use contract::exit::ExitCode;
use contract::names;

use super::Reason;

impl Reason {
    /// The table: name, whether it can resolve by itself, exit code of a run that ends for it, advice.
    pub(super) fn row(&self) -> (&'static str, bool, ExitCode, &'static str) {
        use ExitCode::{
            ApiMissing, Budget, DraMissing, DraNotServing, NoGpuNodes, NodesFailed, OperatorMissing, PluginsNotServing, Precondition,
            Success,
        };
        match self {
            Self::PolicyApiMissing { .. } => (
                "PolicyApiMissing",
                false,
                ApiMissing,
                "install the CustomResourceDefinitions of the GPU operator (the bundle's *-crds release) first",
            ),
            Self::OperatorMissing { .. } => {
                ("OperatorMissing", false, OperatorMissing, "install the GPU operator, or set rollout.operatorNamespace to where it is")
            }
            Self::OperatorNotReady { .. } => (
                "OperatorNotReady",
                true,
                OperatorMissing,
                "look at the pods of deployment/gpu-operator: kubectl describe pod -l app=gpu-operator",
            ),
            Self::OperatorNotLeading { .. } => (
                "OperatorNotLeading",
                true,
                OperatorMissing,
                "wait: the newest pod leads when the old Lease has expired (15 s with Helm, 65 s with OLM); if it does not, look at the operator's log and at lease/53822513.nvidia.com",
            ),
            Self::OperatorNotSeen { .. } => ("OperatorNotSeen", true, Budget, "wait: a leader renews its Lease every two seconds"),
            Self::OperatorActing { .. } => ("OperatorActing", true, Budget, "wait: the operator may still change its DaemonSets"),
            Self::OtherChart { .. } => (
                "OtherChart",
                true,
                Precondition,
                "deploy the component's release and its hook release from the same bundle; a deployer without order brings it later, and the hook runs again",
            ),
            Self::PolicyMissing { kind: names::NVIDIA_DRIVER_KIND, .. } => (
                "PolicyMissing",
                false,
                OperatorMissing,
                "deploy the operator's release with the values of its hook release (driver.nvidiaDriverCRD); a deployer without order brings it later",
            ),
            Self::PolicyMissing { .. } => (
                "PolicyMissing",
                false,
                OperatorMissing,
                "with the operator's chart, set clusterPolicy.deployCR; under another name, set rollout.clusterPolicy; clusters that use a GPUCluster instead are not supported",
            ),
            Self::NvidiaDriverMissing => {
                ("NvidiaDriverMissing", false, OperatorMissing, "create an NVIDIADriver, or set driver.nvidiaDriverCRD.enabled to false")
            }
            Self::Precondition { .. } => (
                "Precondition",
                true,
                Precondition,
                "deploy the operator's release with the same values as its hook release; see who manages the field",
            ),
            Self::ReconcileFailed { .. } => (
                "ReconcileFailed",
                true,
                OperatorMissing,
                "correct what the operator's message names; the condition goes when the operator has looked again (after a change of the custom resource)",
            ),
            Self::PolicyIgnored { .. } => (
                "PolicyIgnored",
                true,
                OperatorMissing,
                "keep one ClusterPolicy (kubectl get clusterpolicies) and delete the others, or set rollout.clusterPolicy to the one that owns the DaemonSets",
            ),
            Self::DriverLeftOver { .. } => (
                "DriverLeftOver",
                true,
                Precondition,
                "cordon and empty its nodes, then delete the DaemonSet: the operator itself deletes only nvidia-driver-daemonset, and none of those for a kernel or an RHCOS release",
            ),
            Self::SpecNotObserved { .. } => {
                ("SpecNotObserved", true, Budget, "the operator has not acted on the newest spec: look at its log")
            }
            Self::DaemonSetMissing { .. } => (
                "DaemonSetMissing",
                true,
                Budget,
                "look at the operator's log and at the conditions of the ClusterPolicy (and of the NVIDIADrivers); a driver also needs the nodes' labels of operating system and kernel (node-feature-discovery)",
            ),
            Self::NodesUndiscovered { .. } => {
                ("NodesUndiscovered", true, Budget, "look at the workers of node-feature-discovery on these nodes")
            }
            Self::NoNodeFeatures => {
                ("NoNodeFeatures", true, NoGpuNodes, "node-feature-discovery has not run: check its pods (chart value nfd.enabled)")
            }
            Self::NoGpuNodes { .. } => (
                "NoGpuNodes",
                true,
                NoGpuNodes,
                "if there should be GPU nodes, look at node-feature-discovery; if not, wait until the operator says so itself",
            ),
            Self::NodeNotLabeled => ("NodeNotLabeled", true, Budget, "the operator has not labeled the node: look at its log"),
            Self::NodeWithoutDaemonSet => (
                "NodeWithoutDaemonSet",
                true,
                Budget,
                "compare operating system and kernel labels of the node (node-feature-discovery) with the node selectors of the driver DaemonSets, and look at the operator's log",
            ),
            Self::NodeInOtherPool { .. } => (
                "NodeInOtherPool",
                true,
                Budget,
                "cordon and empty the node, then set the label nvidia.com/gpu-operator.driver.owner to the NVIDIADriver that is to own it: its driver pod is replaced at once; to keep the node where it is, remove the label that moved it",
            ),
            Self::NodeNotReady { .. } => ("NodeNotReady", true, Budget, "repair or remove the node, or raise rollout.tolerateNotReady"),
            Self::DriverPodMissing => {
                ("DriverPodMissing", true, Budget, "see why the DaemonSet controller makes no pod: kubectl describe daemonset")
            }
            Self::DriverPodUnschedulable { .. } => {
                ("DriverPodUnschedulable", true, Budget, "make room for the driver pod, or fix taints and selectors")
            }
            Self::DriverOutOfDate { .. } => (
                "DriverOutOfDate",
                true,
                Budget,
                "the vendor's controller takes nodes by driver.upgradePolicy; with autoUpgrade false delete the driver pod yourself",
            ),
            Self::DriverNotReady { .. } => {
                ("DriverNotReady", true, Budget, "look at the driver pod's log: kubectl logs -c nvidia-driver-ctr")
            }
            Self::UpgradeUnfinished { .. } => {
                ("UpgradeUnfinished", true, Budget, "the vendor's controller goes on by itself, at the latest at its next two-minute tick")
            }
            Self::UpgradeFailed { .. } => (
                "UpgradeFailed",
                false,
                NodesFailed,
                "repair the driver on the node, then label it nvidia.com/gpu-driver-upgrade-state=upgrade-required to try again",
            ),
            Self::Skipped { .. } => {
                ("Skipped", false, Success, "remove the label nvidia.com/gpu-driver-upgrade.skip to let the node be upgraded")
            }
            Self::ToolkitNotReady { .. } => {
                ("ToolkitNotReady", true, Budget, "look at the pod of nvidia-container-toolkit-daemonset on the node")
            }
            Self::OperandMissing { operand } => ("OperandMissing", true, Budget, operand.remedy()),
            Self::OperandOutdated { stalled_by: Some(_), .. } => (
                "OperandOutdated",
                false,
                Budget,
                "repair or remove the node that stalls the rolling update, raise daemonsets.rollingUpdate.maxUnavailable, or tolerate the node with rollout.tolerateNotReady",
            ),
            Self::OperandOutdated { .. } => {
                ("OperandOutdated", true, Budget, "wait: the DaemonSet replaces its pods by its update strategy (kubectl rollout status)")
            }
            Self::OperandNotReady { operand, .. } => ("OperandNotReady", true, Budget, operand.remedy()),
            Self::NodeTainted { .. } => (
                "NodeTainted",
                false,
                Budget,
                "remove the taint, or let the operator's pods tolerate it (daemonsets.tolerations); to leave the node out, label it nvidia.com/gpu.deploy.operands=false",
            ),
            Self::MigReconfiguring { .. } => (
                "MigReconfiguring",
                true,
                Budget,
                "wait: MIG manager is changing the node; if it does not end, look at its log on the node",
            ),
            Self::GpusNotOffered => (
                "GpusNotOffered",
                true,
                NodesFailed,
                "see what the kubelet knows (kubectl describe node: Allocatable), then the log of the device plugin on the node, and nvidia-smi",
            ),
            Self::GpusDegraded { .. } => (
                "GpusDegraded",
                false,
                NodesFailed,
                "look for a failed GPU on the node (nvidia-smi, dmesg for Xid errors); if fewer GPUs are meant, deploy again",
            ),
            Self::PluginQueued { .. } => {
                ("PluginQueued", true, Budget, "its turn comes when another plugin is back; rollout.dra.maxUnavailable is the limit")
            }
            Self::PluginHeldUp { .. } => {
                ("PluginHeldUp", true, DraNotServing, "repair the plugins that did not come back, then deploy again")
            }
            Self::PluginStale { .. } => {
                ("PluginStale", false, DraNotServing, "delete the plugin pod of the node, or set rollout.dra.reroll to auto")
            }
            Self::PluginMissing => ("PluginMissing", true, DraNotServing, "see why the plugin's DaemonSet makes no pod for the node"),
            Self::PluginUnschedulable { .. } => {
                ("PluginUnschedulable", true, DraNotServing, "make room for the plugin pod, or fix taints and selectors of the DRA driver")
            }
            Self::PluginNotReady { .. } => ("PluginNotReady", true, DraNotServing, "look at the plugin pod's log on the node"),
            Self::SliceMissing { .. } => {
                ("SliceMissing", true, DraNotServing, "the plugin published no devices: look at its log on the node")
            }
            Self::SliceOutdated { .. } => (
                "SliceOutdated",
                true,
                DraNotServing,
                "the plugin still sees the old driver: look at its log, and at nvidiaDriverRoot in the DRA driver's values",
            ),
            Self::DraMissing { .. } => (
                "DraMissing",
                false,
                DraMissing,
                "install the DRA driver, set rollout.dra.namespaces to where it is, or rollout.dra.required to auto",
            ),
            Self::DraScheduledNowhere { .. } => (
                "DraScheduledNowhere",
                false,
                DraMissing,
                "compare the DaemonSet's node selector and affinity with the labels of the GPU nodes",
            ),
            Self::ConfigMissing { .. } => (
                "ConfigMissing",
                false,
                Precondition,
                "apply the ConfigMap that the device plugin's values name (in a bundle the component's *-config release)",
            ),
            Self::ConfigNotApplied { .. } => (
                "ConfigNotApplied",
                true,
                Precondition,
                "deploy the release that holds the ConfigMap with the same values as this hook; see who manages it",
            ),
            Self::RestartQueued { .. } => (
                "RestartQueued",
                true,
                Budget,
                "its turn comes when another node's pods are back; rollout.devicePlugin.maxUnavailable is the limit",
            ),
            Self::RestartHeldUp { .. } => {
                ("RestartHeldUp", true, PluginsNotServing, "repair the pods that did not come back, then deploy again")
            }
            Self::RestartRolling { .. } => {
                ("RestartRolling", true, Budget, "the DaemonSet replaces its pods by its update strategy: kubectl rollout status")
            }
            Self::RestartPending { .. } => (
                "RestartPending",
                true,
                PluginsNotServing,
                "look at the pod and its log on the node; its init container names a configuration that it refuses",
            ),
            Self::WriteRefused { .. } => (
                "WriteRefused",
                false,
                NodesFailed,
                "change the admission policy, webhook or quota that refuses the write, then deploy again (in drive and steer gpu-rollout retry is enough)",
            ),
            Self::WriteRetried { .. } => (
                "WriteRetried",
                true,
                NodesFailed,
                "see why the admission webhook that is named fails; the write is tried again a few times",
            ),
            Self::Upgrading(reason) => reason.row(),
            Self::Quiet { .. } => ("Quiet", true, Budget, "nothing: it only has to stay so"),
        }
    }
}
