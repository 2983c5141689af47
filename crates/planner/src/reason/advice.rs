//! The hint for each reason.

use contract::driver::Driver;
use contract::names;
use contract::record::proof::HaltCause;
use nvidia_upgrade::explain::ControllerWait;

use super::Reason;
use super::upgrade::UpgradeReason;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::rolling_update::AwaitedNode;

mod daemon_set;
mod ofed;

impl Reason {
    /// Returns what the user can do about the reason, in the terms of the driver's operator.
    pub fn advice(&self, driver: Driver) -> &'static str {
        if let Self::DriverOutOfDate { why: Some(why), .. }
        | Self::UpgradeUnfinished { why: Some(why), .. } = self
            && (why.stops_all() || matches!(**why, ControllerWait::Off))
        {
            // The policy for nodes does not matter while the controller upgrades no node at all.
            return why.advice();
        }
        if let Self::DriverNotReady { trouble: None, restarts: 0, .. } = self {
            return "wait: the driver is starting; if it is not ready after several minutes, check the log of its pod";
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
                "install the CustomResourceDefinitions of the GPU Operator first (in a bundle, the *-crds release)"
            }
            Self::OperatorMissing { .. } => {
                "install the GPU Operator, or set rollout.operatorNamespace to its namespace"
            }
            Self::OperatorNotReady { replicas: 0, .. } => {
                "scale the operator's Deployment up again: until then, no operator acts on the spec; find out who scaled it to 0"
            }
            Self::OperatorNotReady { .. } => {
                "check the Deployment and its pods: new pods may be unable to start, or old pods may not end"
            }
            Self::OperatorNotLeading { silent: true, .. } => {
                "wait; if this lasts, the operator's pod hangs: delete it, and its Deployment starts another one"
            }
            Self::OperatorNotLeading { holder: None, .. } => {
                "wait: the newest pod takes the operator's Lease; if it does not, check the operator's log and lease/53822513.nvidia.com"
            }
            Self::OperatorNotLeading { .. } => {
                "wait: the newest pod becomes the leader when the operator's Lease, which the old pod still holds, expires (15 s with Helm, 65 s with OLM); if it does not, check the operator's log and lease/53822513.nvidia.com"
            }
            Self::OperatorNotSeen { .. } => "wait: a leader renews its Lease every two seconds",
            Self::OperatorActing { .. } => "wait: the GPU Operator may still change its DaemonSets",
            Self::OtherChart { .. } => {
                "deploy the component's release and its hook release from the same bundle; if your deployer does not order releases, wait: it installs the component later, and then runs the hook again"
            }
            Self::PolicyMissing { kind: names::NVIDIA_DRIVER_KIND, .. } => {
                "deploy the operator's release with the values of its hook release (driver.nvidiaDriverCRD); if your deployer does not order releases, wait: it installs the operator's release later"
            }
            Self::PolicyMissing { .. } => {
                "deploy the operator's release again: its chart creates the ClusterPolicy (since v26.7, only if clusterPolicy.deployCR is not false); if it has another name, set rollout.clusterPolicy; clusters with a GPUCluster instead of a ClusterPolicy are not supported"
            }
            Self::NvidiaDriverMissing => {
                "create an NVIDIADriver, or set driver.nvidiaDriverCRD.enabled to false"
            }
            Self::Precondition { changed_in_run: true, .. } => {
                "find out who changed the field, and set it back; to keep the new value, change the recipe and deploy again"
            }
            Self::Precondition { .. } => {
                "deploy the operator's release with the same values as its hook release, and find out who manages the field"
            }
            // Source: the watches and the returned results of nvidiadriver_controller.go, v26.7.0.
            Self::ReconcileFailed { kind: names::NVIDIA_DRIVER_KIND, .. } => {
                "fix the problem in the operator's message; if that changes neither the spec of an NVIDIADriver nor the labels of a GPU node (a missing Secret, for example), also restart the operator's Deployment: the operator may not try again by itself"
            }
            Self::ReconcileFailed { .. } => {
                "fix the problem in the operator's message: the operator keeps trying"
            }
            Self::PolicyIgnored { .. } => {
                "set rollout.clusterPolicy to the ClusterPolicy that owns the operator's DaemonSets (see their metadata.ownerReferences); never delete that ClusterPolicy: the operator's DaemonSets, and with them the drivers, would go with it"
            }
            Self::DriverLeftOver { .. } => {
                "the operator deletes only nvidia-driver-daemonset, never a DaemonSet for one kernel or one RHCOS release, so delete this one yourself: cordon and drain its nodes first, because this removes the driver from all of them"
            }
            Self::SpecNotObserved { .. } => {
                "wait: the operator and the DaemonSet controller usually act within seconds; if they do not, the operator's log says why"
            }
            Self::DaemonSetMissing { .. } => {
                "check the operator's log and the conditions of the ClusterPolicy (and of the NVIDIADrivers); the operator also needs the operating system and kernel labels of the nodes (node-feature-discovery) to create the driver's DaemonSet"
            }
            Self::NodesUndiscovered { .. } => {
                "check the worker pods of node-feature-discovery on the ready nodes that have none of its labels"
            }
            Self::NoNodeFeatures => {
                "check whether the pods of node-feature-discovery exist and run (chart value nfd.enabled)"
            }
            Self::NoGpuNodes { .. } => {
                "if the cluster should have GPU nodes, check node-feature-discovery; if not, wait until the operator reports `NoGPUNodes`"
            }
            Self::NodeNotLabeled => {
                "find out in the operator's log why it has not labeled the node"
            }
            Self::NodeWithoutDaemonSet => {
                "compare the operating system and kernel labels of the node (node-feature-discovery) with the node selectors of the driver DaemonSets, and check the operator's log"
            }
            Self::NodeInOtherPool { found: None, .. } => {
                "wait: the operator sets the label; if it does not within a few minutes, check the operator's log"
            }
            Self::NodeInOtherPool { .. } => {
                "the label nvidia.com/gpu-operator.driver.owner decides which NVIDIADriver governs the node; to leave the node where it is, change its other labels back, so that only the NVIDIADriver in this label selects it; to move the node, cordon and drain it, then set this label to the NVIDIADriver that selects the node: this replaces the driver pod at once"
            }
            Self::NodeNotReady { .. } => {
                "repair the node, or raise tolerateNotReady, the number of NotReady nodes that the run accepts (in a recipe, under rollout.gpuDriver or rollout.ofedDriver; in the hook chart, under rollout); only if the machine will not come back, delete the node (kubectl delete node)"
            }
            Self::DriverPodMissing => {
                "find out why the DaemonSet controller creates no pod: the events of the DaemonSet say why"
            }
            Self::DriverPodUnschedulable { .. } => {
                "free resources for the driver pod, or correct taints and selectors"
            }
            Self::DriverOutOfDate { .. } => {
                concat!(
                    "if autoUpgrade is true, wait: NVIDIA's controller upgrades the node when driver.upgradePolicy allows; otherwise, deploy a bundle in mode drive, or upgrade by hand: ",
                    contract::manual_upgrade_steps!(),
                )
            }
            Self::DriverNotReady { .. } => {
                "check the driver pod's log: kubectl logs POD -c nvidia-driver-ctr"
            }
            Self::UpgradeUnfinished { .. } => {
                "wait: NVIDIA's controller checks its nodes at least every two minutes"
            }
            Self::UpgradeFailed { .. } => {
                "fix the cause, such as a pod that cannot be evicted or a driver that does not start, then run gpu-rollout retry NODE; gpu-rollout why NODE shows the pods and events"
            }
            Self::Skipped { .. } => {
                "to have the node upgraded, remove the label nvidia.com/gpu-driver-upgrade.skip; in the modes steer and drive, also deploy the bundle again if no hook is running"
            }
            Self::ToolkitNotReady { .. } => {
                "wait: it starts after the driver; if it does not become ready, check the pod of nvidia-container-toolkit-daemonset on the node"
            }
            Self::OperandMissing { .. } => {
                "find out why the DaemonSet creates no pod for the node: kubectl describe daemonset; its node selector and the node's labels nvidia.com/gpu.deploy.* must match"
            }
            Self::OperandNotReady { operand, .. } => operand.remedy(),
            Self::ToolkitOutdated { awaited: Some(AwaitedNode { is_ready: true, .. }) }
            | Self::OperandOutdated { awaited: Some(AwaitedNode { is_ready: true, .. }), .. } => {
                "wait; if the pod on the named node does not become ready, find out why: gpu-rollout why NODE"
            }
            Self::ToolkitOutdated { awaited: Some(_) } => {
                "repair or remove the node that stalls the rolling update, or raise daemonsets.rollingUpdate.maxUnavailable"
            }
            Self::OperandOutdated { awaited: Some(_), .. } => {
                "repair or remove the node that stalls the rolling update, raise daemonsets.rollingUpdate.maxUnavailable, or raise tolerateNotReady, the number of NotReady nodes that the run accepts (in a recipe, under rollout.gpuDriver or rollout.ofedDriver; in the hook chart, under rollout)"
            }
            Self::ToolkitOutdated { .. }
            | Self::OperandOutdated { .. }
            | Self::RestartRolling { .. } => {
                "wait: the DaemonSet replaces its pods as its update strategy allows (kubectl rollout status)"
            }
            Self::NodeTainted { .. } => {
                "remove the taint, or let the operands tolerate it (daemonsets.tolerations); to leave the node out, drain it and label it nvidia.com/gpu.deploy.operands=false, which removes its driver and device plugin"
            }
            Self::MigReconfiguring { .. } => {
                "wait: the MIG manager is reconfiguring the node; if it does not finish, check its log on the node"
            }
            Self::GpusNotOffered => {
                "check what the kubelet reports (kubectl describe node: Allocatable), then the device plugin's log on the node, and nvidia-smi"
            }
            Self::GpusDegraded { .. } => {
                "look for a failed GPU on the node (nvidia-smi, dmesg for Xid errors); if the lower number is intended, deploy again"
            }
            Self::PluginQueued { away, limit, .. } | Self::RestartQueued { away, limit, .. }
                if away < limit =>
            {
                "wait: the hook replaces it within seconds"
            }
            Self::PluginQueued { .. } => {
                "wait: the hook replaces it when another plugin is ready again; the limit is rollout.dra.maxUnavailable"
            }
            Self::PluginHeldUp { .. } => {
                "repair the replacement plugins that are not ready (gpu-rollout status lists their nodes), then deploy again"
            }
            Self::PluginStale { .. } => {
                "delete the plugin pod of the node, or set rollout.dra.reroll to auto"
            }
            Self::PluginMissing => {
                "find out why the plugin's DaemonSet creates no pod for the node"
            }
            Self::PluginUnschedulable { .. } => {
                "free resources for the plugin pod, or correct taints and selectors of the DRA driver"
            }
            Self::PluginNotReady { .. } => {
                "wait: it starts after the driver and the toolkit; if it does not become ready, check the plugin pod's log on the node"
            }
            Self::SliceMissing { .. } => {
                "wait: a plugin publishes its devices within seconds of its start; if there is still no ResourceSlice after 30 s, check the plugin's log on the node"
            }
            Self::SliceOutdated { .. } => {
                "wait: a plugin publishes its devices within seconds of its start; if it still publishes the old driver after 30 s, check its log, and nvidiaDriverRoot in the values of the DRA driver"
            }
            Self::DraMissing { .. } => {
                "install the DRA driver, set rollout.dra.namespaces to its namespace, or set rollout.dra.required to auto"
            }
            Self::DraScheduledNowhere { .. } => {
                "compare the DaemonSet's node selector and affinity with the labels of the GPU nodes"
            }
            Self::ConfigMissing { .. } => {
                "apply the ConfigMap that the device plugin's values name (in a bundle, the component's *-config release)"
            }
            Self::ConfigNotApplied { .. } => {
                "deploy the ConfigMap's release again, with the values of this hook; if the text changes back, find out what else writes the ConfigMap"
            }
            Self::RestartQueued { .. } => {
                "wait: the hook replaces it when the plugin pods of another node are ready again; the limit is rollout.devicePlugin.maxUnavailable"
            }
            Self::RestartHeldUp { .. } => {
                "repair the replacement pods that are not ready (gpu-rollout status lists their nodes), then deploy again"
            }
            Self::RestartPending { .. } => {
                "check the pod and its log on the node; if the pod rejects its configuration, the log of its init container says why"
            }
            Self::WriteRefused { .. } => {
                "change the admission policy, webhook or quota that refuses the write, then deploy again (in modes drive and steer, while the hook runs, gpu-rollout retry NODE is enough)"
            }
            Self::WriteRetried { .. } => {
                "find out why the named admission webhook fails; the hook retries the write a few times"
            }
            Self::Upgrading(reason) => reason.advice(),
            Self::Quiet { .. } => "wait: the conditions must hold for the quiet period",
        }
    }
}

impl UpgradeReason {
    fn advice(&self) -> &'static str {
        match self {
            Self::Paused { until: Some(_), is_late: false, .. } => {
                "the pause ends by itself, and the node continues then; to end it earlier, ask the user who paused (the reason has the name; a pause by annotation has none), and run gpu-rollout resume"
            }
            Self::Paused { until: Some(_), is_late: true, .. } => {
                "ask the user who paused (the reason has the name; a pause by annotation has none) whether the pause is still needed: it ends by itself, but too late for the run. If it is needed, deploy the bundle again when it has ended; if the deployer tries again by itself, that is not necessary, because its next run waits for the end. If it is not needed, run gpu-rollout resume, which lists all pauses and asks before it ends one"
            }
            Self::Paused { until: None, .. } => {
                "ask the user who paused (the reason has the name; a pause by annotation has none) whether the pause is still needed. If it is not, run gpu-rollout resume, which lists all pauses and asks before it ends one. If there are several, choose with --by, --selector or --all"
            }
            Self::Refused(StartRefusal::Paused { .. }) => {
                "raise the limit and deploy again; gpu-rollout resume has no effect here"
            }
            Self::Refused(StartRefusal::Slots { .. }) => {
                "wait: the node's upgrade starts when another node is done; the limit is policy.maxParallelUpgrades"
            }
            Self::Refused(StartRefusal::Unavailable { .. }) => {
                "make the named nodes available again, or raise policy.maxUnavailable"
            }
            Self::Refused(StartRefusal::Group { .. }) => {
                "wait: the node's upgrade starts when another node of its group is available again; the limit is policy.topology.maxUnavailable"
            }
            Self::Soak { .. } => {
                "wait: policy.soak sets how long the hook pauses after a node before it starts the next one"
            }
            Self::OutsideWindow { deadline: Some(_), .. } => {
                "deploy again when a window opens; that is not necessary if a run that the deployer starts by itself is still running then. To upgrade earlier, change policy.windows, and render and deploy the bundle again: the time budget of its hook follows the windows (without a recipe: change the windows in the values of the hook chart, and raise rollout.budgetSeconds there)"
            }
            Self::OutsideWindow { deadline: None, .. } => {
                "wait: policy.windows sets when the hook may start nodes; to start them now, change it and deploy again"
            }
            Self::CanariesFirst { awaited, .. } if !awaited.is_empty() => {
                "run gpu-rollout why NODE for the node that cannot be started, and remove what holds it back, or label it to be skipped"
            }
            Self::CanariesFirst { .. } => {
                "wait: policy.canary sets how many nodes are upgraded first"
            }
            Self::RampStep { .. } => {
                "wait: policy.ramp sets which share of the nodes is upgraded before the next step"
            }
            Self::StepSoak { .. } => {
                "wait: policy.canary.soak sets how long the hook pauses after each step"
            }
            Self::Halted { cause: HaltCause::FailedTests, .. } => {
                "find out why the tests failed: run gpu-rollout why NODE for the nodes that failed. If the tests are bad, correct them in the recipe. If the failed nodes are bad, repair them, and run gpu-rollout retry NODE for each of them. Then run gpu-rollout resume, and deploy the bundle again"
            }
            Self::Halted { cause: HaltCause::FailedProofs | HaltCause::FailedNodes, .. } => {
                "find out why the proof failed: run gpu-rollout why NODE for the nodes that failed. If the driver is bad, deploy the previous one. If the failed nodes are bad, repair them, run gpu-rollout retry NODE for each of them and then gpu-rollout resume, and deploy the bundle again"
            }
            Self::FailureBudget { .. } => {
                "fix the cause of the failures, run gpu-rollout retry for the failed nodes, then deploy again; the limit is policy.failureBudget"
            }
            Self::NoTime { held: None, .. } => {
                "when this run has ended, deploy again: the next run continues; to give it more time, raise the driver's perNode in the recipe (without a recipe: rollout.budgetSeconds of the hook chart)"
            }
            Self::NoTime { held: Some(_), .. } => {
                "make the named nodes available again, or raise the limit (policy.maxUnavailable or policy.topology.maxUnavailable); then deploy again"
            }
            Self::ForeignCordon => {
                "uncordon the node to have it upgraded, or set foreignCordon to `include`, which upgrades cordoned nodes too"
            }
            Self::Maintenance { .. } => {
                "find out who requested the maintenance and when it ends: kubectl get nodemaintenances -A"
            }
            Self::Requestor => {
                "wait: the hook continues when the maintenance-operator releases the node"
            }
            Self::OtherDriver { ours: true, .. } => {
                "another hook release of gpu-rollout left this state: deploy that release again to finish the node, and then this one; only if you will not, run gpu-rollout abort, which ends all rollouts, and uncordons the node even if its driver does not work"
            }
            Self::OtherDriver { .. } => {
                "wait: the upgrade starts when the node's other driver is done"
            }
            Self::Cordoning => "wait: the hook is cordoning the node",
            Self::Jobs { .. } => {
                "wait: the upgrade continues when the jobs have ended; policy.waitForCompletion.timeout limits the wait"
            }
            Self::Listing | Self::Releasing => "wait",
            Self::Queued => {
                "wait: the upgrade continues when the pods of another node have left; policy.maxParallelUpgrades sets how many nodes are upgraded at the same time"
            }
            Self::Evicting { .. } => {
                "wait: the pods have their grace periods; if they stay, find out what keeps them: PodDisruptionBudgets or finalizers; if podDeletion fails and the policy has a drain, the hook drains the node; if it has none, the attempt fails"
            }
            Self::DriverEnding { .. } | Self::AcceptanceEnding { .. } => {
                "wait; if the pod does not end, find out what keeps it: its grace period, its finalizers or the kubelet of the node"
            }
            Self::DriverComing => {
                "wait; if no pod appears, the events of the driver's DaemonSet say why"
            }
            Self::Unwanted => {
                "wait: if for one minute no DaemonSet schedules a pod, the hook releases the node"
            }
            Self::Validating { .. } => {
                "wait: it runs after the driver; if it does not succeed, check the pod of nvidia-operator-validator on the node"
            }
            Self::Accepting { trouble: Some(_), .. } => {
                "repair the problem that is named, such as a missing image or pull secret: kubectl describe pods -n gpu-rollout-acceptance"
            }
            Self::Accepting { trouble: None, .. } => {
                "wait: the node's upgrade continues when the test has passed; rollout.acceptance sets the tests and their timeouts"
            }
            Self::NotAccepted { .. } => {
                "the new driver is not the cause, because the test ran with the old one: repair the node or change the test, then run gpu-rollout retry NODE; if no hook is running, also deploy again"
            }
            Self::Retry { .. } => {
                "fix the cause before the next attempt; no other action is needed"
            }
            Self::Failed { cause: FailureCause::AcceptanceFailed, .. } => {
                "read the test's result with gpu-rollout why NODE. If the node or the test is the cause, fix it, and run gpu-rollout retry NODE; if the rollout has halted, also run gpu-rollout resume; if no hook is running, also deploy again. If the driver is the cause, deploy another version"
            }
            Self::Failed { cause: FailureCause::TerminationTimeout, .. } => {
                "find out what keeps the old driver pod: its grace period, its finalizers or the kubelet of the node; then run gpu-rollout retry NODE; if no hook is running, also deploy again"
            }
            Self::Failed { .. } => {
                "fix the cause, then run gpu-rollout retry NODE; if no hook is running, also deploy again"
            }
            Self::NewerRecord { .. } => {
                "deploy with the version of gpu-rollout that wrote the record, or with a newer one"
            }
        }
    }
}
