//! What a person can do about each reason.

use contract::driver::Driver;
use contract::names;

use super::Reason;
use super::upgrade::UpgradeReason;
use crate::drive_upgrade::start_limits::StartRefusal;

mod daemon_set;
mod ofed;

impl Reason {
    /// What a person can do about it, in the words of the driver's operator.
    pub fn advice(&self, driver: Driver) -> &'static str {
        if let Self::DriverOutOfDate { why: Some(why), .. }
        | Self::UpgradeUnfinished { why: Some(why), .. } = self
            && why.stops_all()
        {
            // What the policy says of nodes does not matter while the controller does nothing at all.
            return why.advice();
        }
        match driver {
            Driver::Gpu => None,
            Driver::Ofed => self.ofed_advice(),
            Driver::DaemonSet => self.daemon_set_advice(),
        }
        .unwrap_or_else(|| self.common_advice())
    }

    fn common_advice(&self) -> &'static str {
        match self {
            Self::PolicyApiMissing { .. } => {
                "install the CustomResourceDefinitions of the GPU operator (the bundle's *-crds release) first"
            }
            Self::OperatorMissing { .. } => {
                "install the GPU operator, or set rollout.operatorNamespace to where it is"
            }
            Self::OperatorNotReady { .. } => {
                "look at the pods of deployment/gpu-operator: kubectl describe pod -l app=gpu-operator"
            }
            Self::OperatorNotLeading { .. } => {
                "wait: the newest pod leads when the old Lease has expired (15 s with Helm, 65 s with OLM); if it does not, look at the operator's log and at lease/53822513.nvidia.com"
            }
            Self::OperatorNotSeen { .. } => "wait: a leader renews its Lease every two seconds",
            Self::OperatorActing { .. } => "wait: the operator may still change its DaemonSets",
            Self::OtherChart { .. } => {
                "deploy the component's release and its hook release from the same bundle; a deployer without order brings it later, and the hook runs again"
            }
            Self::PolicyMissing { kind: names::NVIDIA_DRIVER_KIND, .. } => {
                "deploy the operator's release with the values of its hook release (driver.nvidiaDriverCRD); a deployer without order brings it later"
            }
            Self::PolicyMissing { .. } => {
                "with the operator's chart, set clusterPolicy.deployCR; under another name, set rollout.clusterPolicy; clusters that use a GPUCluster instead are not supported"
            }
            Self::NvidiaDriverMissing => {
                "create an NVIDIADriver, or set driver.nvidiaDriverCRD.enabled to false"
            }
            Self::Precondition { .. } => {
                "deploy the operator's release with the same values as its hook release; see who manages the field"
            }
            Self::ReconcileFailed { .. } => {
                "correct what the operator's message names; the condition goes when the operator has looked again (after a change of the custom resource)"
            }
            Self::PolicyIgnored { .. } => {
                "keep one ClusterPolicy (kubectl get clusterpolicies) and delete the others, or set rollout.clusterPolicy to the one that owns the DaemonSets"
            }
            Self::DriverLeftOver { .. } => {
                "cordon and empty its nodes, then delete the DaemonSet: the operator itself deletes only nvidia-driver-daemonset, and none of those for a kernel or an RHCOS release"
            }
            Self::SpecNotObserved { .. } => {
                "the operator has not acted on the newest spec: look at its log"
            }
            Self::DaemonSetMissing { .. } => {
                "look at the operator's log and at the conditions of the ClusterPolicy (and of the NVIDIADrivers); a driver also needs the nodes' labels of operating system and kernel (node-feature-discovery)"
            }
            Self::NodesUndiscovered { .. } => {
                "look at the workers of node-feature-discovery on these nodes"
            }
            Self::NoNodeFeatures => {
                "node-feature-discovery has not run: check its pods (chart value nfd.enabled)"
            }
            Self::NoGpuNodes { .. } => {
                "if there should be GPU nodes, look at node-feature-discovery; if not, wait until the operator says so itself"
            }
            Self::NodeNotLabeled => "the operator has not labeled the node: look at its log",
            Self::NodeWithoutDaemonSet => {
                "compare operating system and kernel labels of the node (node-feature-discovery) with the node selectors of the driver DaemonSets, and look at the operator's log"
            }
            Self::NodeInOtherPool { .. } => {
                "cordon and empty the node, then set the label nvidia.com/gpu-operator.driver.owner to the NVIDIADriver that is to own it: its driver pod is replaced at once; to keep the node where it is, remove the label that moved it"
            }
            Self::NodeNotReady { .. } => {
                "repair or remove the node, or raise rollout.tolerateNotReady"
            }
            Self::DriverPodMissing => {
                "see why the DaemonSet controller makes no pod: kubectl describe daemonset"
            }
            Self::DriverPodUnschedulable { .. } => {
                "make room for the driver pod, or fix taints and selectors"
            }
            Self::DriverOutOfDate { .. } => {
                "the vendor's controller takes nodes by driver.upgradePolicy; with autoUpgrade false delete the driver pod yourself"
            }
            Self::DriverNotReady { .. } => {
                "look at the driver pod's log: kubectl logs -c nvidia-driver-ctr"
            }
            Self::UpgradeUnfinished { .. } => {
                "the vendor's controller goes on by itself, at the latest at its next two-minute tick"
            }
            Self::UpgradeFailed { .. } => {
                "remove what it failed for (a pod that may not be evicted, a driver that does not start: gpu-rollout why NODE), then label the node nvidia.com/gpu-driver-upgrade-state=upgrade-required to try again"
            }
            Self::Skipped { .. } => {
                "remove the label nvidia.com/gpu-driver-upgrade.skip to let the node be upgraded"
            }
            Self::ToolkitNotReady { .. } => {
                "look at the pod of nvidia-container-toolkit-daemonset on the node"
            }
            Self::OperandMissing { operand } | Self::OperandNotReady { operand, .. } => {
                operand.remedy()
            }
            Self::OperandOutdated { stalled_by: Some(_), .. } => {
                "repair or remove the node that stalls the rolling update, raise daemonsets.rollingUpdate.maxUnavailable, or tolerate the node with rollout.tolerateNotReady"
            }
            Self::OperandOutdated { .. } => {
                "wait: the DaemonSet replaces its pods by its update strategy (kubectl rollout status)"
            }
            Self::NodeTainted { .. } => {
                "remove the taint, or let the operator's pods tolerate it (daemonsets.tolerations); to leave the node out, label it nvidia.com/gpu.deploy.operands=false"
            }
            Self::MigReconfiguring { .. } => {
                "wait: MIG manager is changing the node; if it does not end, look at its log on the node"
            }
            Self::GpusNotOffered => {
                "see what the kubelet knows (kubectl describe node: Allocatable), then the log of the device plugin on the node, and nvidia-smi"
            }
            Self::GpusDegraded { .. } => {
                "look for a failed GPU on the node (nvidia-smi, dmesg for Xid errors); if fewer GPUs are meant, deploy again"
            }
            Self::PluginQueued { away, limit, .. } | Self::RestartQueued { away, limit, .. }
                if away < limit =>
            {
                "wait: it is replaced in a second"
            }
            Self::PluginQueued { .. } => {
                "its turn comes when another plugin is back; rollout.dra.maxUnavailable is the limit"
            }
            Self::PluginHeldUp { .. } => {
                "repair the plugins that did not come back, then deploy again"
            }
            Self::PluginStale { .. } => {
                "delete the plugin pod of the node, or set rollout.dra.reroll to auto"
            }
            Self::PluginMissing => "see why the plugin's DaemonSet makes no pod for the node",
            Self::PluginUnschedulable { .. } => {
                "make room for the plugin pod, or fix taints and selectors of the DRA driver"
            }
            Self::PluginNotReady { .. } => "look at the plugin pod's log on the node",
            Self::SliceMissing { .. } => {
                "wait: a plugin publishes within seconds of its start; if it has not after half a minute, look at its log on the node"
            }
            Self::SliceOutdated { .. } => {
                "wait: a plugin publishes within seconds of its start; if it still publishes the old driver after half a minute, look at its log, and at nvidiaDriverRoot in the DRA driver's values"
            }
            Self::DraMissing { .. } => {
                "install the DRA driver, set rollout.dra.namespaces to where it is, or rollout.dra.required to auto"
            }
            Self::DraScheduledNowhere { .. } => {
                "compare the DaemonSet's node selector and affinity with the labels of the GPU nodes"
            }
            Self::ConfigMissing { .. } => {
                "apply the ConfigMap that the device plugin's values name (in a bundle the component's *-config release)"
            }
            Self::ConfigNotApplied { .. } => {
                "deploy the release that holds the ConfigMap with the same values as this hook; see who manages it"
            }
            Self::RestartQueued { .. } => {
                "its turn comes when another node's pods are back; rollout.devicePlugin.maxUnavailable is the limit"
            }
            Self::RestartHeldUp { .. } => {
                "repair the pods that did not come back, then deploy again"
            }
            Self::RestartRolling { .. } => {
                "the DaemonSet replaces its pods by its update strategy: kubectl rollout status"
            }
            Self::RestartPending { .. } => {
                "look at the pod and its log on the node; its init container names a configuration that it refuses"
            }
            Self::WriteRefused { .. } => {
                "change the admission policy, webhook or quota that refuses the write, then deploy again (in drive and steer gpu-rollout retry is enough)"
            }
            Self::WriteRetried { .. } => {
                "see why the admission webhook that is named fails; the write is tried again a few times"
            }
            Self::Upgrading(reason) => reason.advice(),
            Self::Quiet { .. } => "nothing: it only has to stay so",
        }
    }
}

impl UpgradeReason {
    fn advice(&self) -> &'static str {
        match self {
            Self::Paused { .. } => "gpu-rollout resume lets it go on",
            Self::Refused(StartRefusal::Paused { .. }) => {
                "raise the limit to let the rollout go on"
            }
            Self::Refused(StartRefusal::Slots { .. }) => {
                "its turn comes when another node is done; policy.maxParallelUpgrades is the limit"
            }
            Self::Refused(StartRefusal::Unavailable { .. }) => {
                "bring back the nodes that are named, or raise policy.maxUnavailable"
            }
            Self::Refused(StartRefusal::Group { .. }) => {
                "its turn comes when another node of its group is back; policy.topology.maxUnavailable is the limit"
            }
            Self::Soak { .. } => {
                "nothing: policy.soak lets each node run for a while before the next one goes"
            }
            Self::FailureBudget { .. } => {
                "repair the nodes that failed, then deploy again; policy.failureBudget is the limit"
            }
            Self::NoTime { held: None, .. } => {
                "deploy again: the run goes on where it stopped; give it more time (perNode)"
            }
            Self::NoTime { held: Some(_), .. } => {
                "bring back the nodes that are named, or raise the limit (policy.maxUnavailable, policy.topology.maxUnavailable); then deploy again"
            }
            Self::ForeignCordon => {
                "uncordon the node to let it be upgraded, or set policy.foreignCordon to include such nodes"
            }
            Self::Maintenance { .. } => {
                "see who asked for it and when it ends: kubectl get nodemaintenances -A"
            }
            Self::Requestor => {
                "the maintenance-operator has the node; the hook goes on when it gives it back"
            }
            Self::OtherDriver { .. } => "its turn comes when the other driver of the node is done",
            Self::Cordoning => "nothing: the cordon is on its way",
            Self::Jobs { .. } => {
                "it goes on when the jobs have ended; policy.waitForCompletion.timeout is the limit"
            }
            Self::Listing => "nothing: the node's pods are being listed",
            Self::Queued => {
                "its turn comes when the pods of another node have left; policy.maxParallelUpgrades is the number of nodes that go at once"
            }
            Self::Evicting { .. } => {
                "see what holds the pods that are named: their PodDisruptionBudgets, finalizers, grace periods"
            }
            Self::DriverEnding { .. } => {
                "nothing yet; if it lasts, see what holds the pod: its grace period, its finalizers, the kubelet of the node"
            }
            Self::DriverComing => {
                "nothing yet; if it lasts, see why there is no pod: kubectl describe daemonset"
            }
            Self::Unwanted => "nothing: the node is given back if that stays so for a minute",
            Self::Validating { .. } => "look at the pod of nvidia-operator-validator on the node",
            Self::Retry { .. } => "remove what it failed for before it is tried again",
            Self::Failed { .. } => "remove what it failed for, then deploy again",
            Self::NewerRecord { .. } => {
                "deploy with the version of gpu-rollout that wrote it, or a newer one"
            }
            Self::GivingBack => "nothing: its labels, annotations and cordon are being taken off",
        }
    }
}
