//! Reasons for which a node or the fleet waits, or has its outcome. Each is typed, and has a
//! message, a class (whether it resolves itself) and a hint.

use jiff::Timestamp;

use contract::record::WriteKind;

use super::rolling_update::AwaitedNode;

mod advice;
mod class;
mod node_wait;
mod operand;
mod questions;
mod start_refusal;
mod text;
pub mod upgrade;

pub use class::{
    ACCEPTING, FAILURE_BUDGET_SPENT, NO_TIME_LEFT, OPERATOR_ACTING, OPERATOR_NOT_LEADING,
    OPERATOR_NOT_SEEN, OUTSIDE_WINDOW, PAUSED,
};
pub use node_wait::Wait;
pub use operand::OperandName;

/// A reason. Every wait of the engine has one.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(ReasonKind), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum Reason {
    /// The CustomResourceDefinition of the operator's custom resource is missing.
    PolicyApiMissing {
        /// The API resource.
        resource: &'static str,
    },
    /// The operator's Deployment does not exist.
    OperatorMissing {
        /// Its expected name.
        deployment: String,
        /// The namespace in which the hook looked for it.
        namespace: String,
    },
    /// The operator's Deployment is not rolled out.
    OperatorNotReady {
        /// Its name.
        deployment: String,
        /// Its namespace.
        namespace: String,
        /// Replicas that are updated and available.
        available: i32,
        /// Desired number of replicas.
        replicas: i32,
    },
    /// No pod of the operator's newest ReplicaSet is the leader, so nothing is reconciled, or not
    /// by the newest version.
    OperatorNotLeading {
        /// The operator's Deployment.
        deployment: String,
        /// Its namespace.
        namespace: String,
        /// Its newest pod, if one is ready.
        pod: Option<String>,
        /// Holder of the Lease.
        holder: Option<String>,
        /// Whether the newest pod holds the Lease, but no renewal has been observed.
        silent: bool,
    },
    /// The operator's newest pod holds the Lease, but the hook has not watched it long enough to
    /// observe a renewal.
    OperatorNotSeen {
        /// The operator's Deployment.
        deployment: String,
        /// Its namespace.
        namespace: String,
        /// Holder of the Lease.
        holder: String,
        /// For how many seconds after its start the hook may not have observed a renewal.
        limit_seconds: u64,
    },
    /// The operator is the leader, and recently changed its DaemonSets or received a new spec.
    OperatorActing {
        /// Time until which the DaemonSets must stay unchanged.
        until: Timestamp,
    },
    /// A component has another version than the one that the hook expects.
    OtherChart {
        /// The object that shows the version.
        object: String,
        /// Its chart and version.
        found: String,
        /// The expected version.
        expected: String,
    },
    /// The custom resource of the operator does not exist.
    PolicyMissing {
        /// Its kind.
        kind: &'static str,
        /// Its expected name.
        name: String,
    },
    /// There is no NVIDIADriver, although the ClusterPolicy leaves the driver to NVIDIADrivers.
    NvidiaDriverMissing,
    /// The live custom resource does not match the values of the bundle.
    Precondition {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: Box<str>,
        /// Field path, starting with `spec`.
        field: &'static str,
        /// The value in the bundle's values.
        expected: String,
        /// The value in the live object.
        found: String,
        /// The field manager that last set the field, if the API server reports it.
        manager: Option<String>,
        /// Whether the spec matched earlier in this run: another user or controller changed it.
        changed_in_run: bool,
    },
    /// The operator reports that it cannot reconcile a custom resource (condition `Error`).
    ReconcileFailed {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: String,
        /// The condition's reason.
        reason: String,
        /// The condition's message.
        message: String,
    },
    /// The operator's DaemonSets belong to another custom resource: it reconciles one ClusterPolicy
    /// and ignores all others.
    PolicyIgnored {
        /// The ClusterPolicy that the settings name.
        name: String,
    },
    /// The ClusterPolicy disables the driver, but a driver DaemonSet of it still exists: the
    /// operator deletes only the one without a suffix.
    DriverLeftOver {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// The operator has not yet updated its objects to the live spec.
    SpecNotObserved {
        /// The outdated object.
        object: String,
        /// The field of the object.
        field: String,
        /// The value in the custom resource.
        expected: String,
        /// The value in the object.
        found: String,
    },
    /// Nodes need a DaemonSet that the operator has not created.
    DaemonSetMissing {
        /// The component of the DaemonSet.
        what: &'static str,
    },
    /// No node with the device was found, and node-feature-discovery has not labeled every node.
    NodesUndiscovered {
        /// The device.
        device: &'static str,
        /// Number of ready nodes without its labels.
        count: usize,
    },
    /// node-feature-discovery has not labeled any node.
    NoNodeFeatures,
    /// No node has a GPU, and the operator does not (yet) confirm it.
    NoGpuNodes {
        /// The reason of the ClusterPolicy's Ready condition.
        operator_says: Option<String>,
    },
    /// The operator has not labeled the node for its operands.
    NodeNotLabeled,
    /// The node has the device, but no driver DaemonSet selects it.
    NodeWithoutDaemonSet,
    /// The operator has not assigned the node to the NVIDIADriver that selects it.
    NodeInOtherPool {
        /// The NVIDIADriver that selects it.
        wanted: String,
        /// The NVIDIADriver that its owner label names.
        found: Option<String>,
    },
    /// Node condition Ready is not True.
    NodeNotReady {
        /// Time since which it is NotReady.
        since: Option<Timestamp>,
    },
    /// No driver pod on the node.
    DriverPodMissing,
    /// The driver pod cannot be scheduled.
    DriverPodUnschedulable {
        /// The message of the scheduler.
        message: String,
    },
    /// The node's driver pod has an older revision.
    DriverOutOfDate {
        /// NVIDIA's upgrade state of the node.
        state: Option<String>,
        /// Why NVIDIA's controller does not continue with the node.
        why: Option<Box<nvidia_upgrade::explain::ControllerWait>>,
    },
    /// The driver pod has the newest revision, but is not ready.
    DriverNotReady {
        /// NVIDIA's upgrade state of the node.
        state: Option<String>,
        /// The problem of a container, if there is one.
        trouble: Option<String>,
        /// Restarts of its containers.
        restarts: i32,
    },
    /// NVIDIA's controller has not finished with the node.
    UpgradeUnfinished {
        /// NVIDIA's upgrade state of the node.
        state: String,
        /// Why it does not continue.
        why: Option<Box<nvidia_upgrade::explain::ControllerWait>>,
    },
    /// The upgrade of the node by NVIDIA's controller failed.
    UpgradeFailed {
        /// The problem of the driver pod, if there is one.
        trouble: Option<String>,
    },
    /// The user's skip label keeps the node on its old driver.
    Skipped {
        /// The label.
        label: &'static str,
    },
    /// The container toolkit's pod is missing or not ready.
    ToolkitNotReady {
        /// The problem of a container, if there is one.
        trouble: Option<String>,
    },
    /// The container toolkit's pod has an older revision of its DaemonSet.
    ToolkitOutdated {
        /// The node that the rolling update of the DaemonSet waits for, if there is one.
        awaited: Option<AwaitedNode>,
    },
    /// A node has no pod of an operand that it should have.
    OperandMissing {
        /// The operand.
        operand: OperandName,
    },
    /// The operand's pod has an older revision of its DaemonSet.
    OperandOutdated {
        /// The operand.
        operand: OperandName,
        /// The node that the rolling update of the DaemonSet waits for, if there is one.
        awaited: Option<AwaitedNode>,
    },
    /// The operand's pod has the newest revision, but is not ready.
    OperandNotReady {
        /// The operand.
        operand: OperandName,
        /// The problem of a container, if there is one.
        trouble: Option<String>,
        /// The largest restart count of a container that is not ready.
        restarts: i32,
    },
    /// A taint keeps the operator's pods off the node.
    NodeTainted {
        /// The DaemonSet whose pods do not tolerate it.
        daemon_set: String,
        /// `key=value:effect`
        taint: String,
    },
    /// The MIG manager is changing the node's MIG layout.
    MigReconfiguring {
        /// Value of the label `nvidia.com/mig.config.state`.
        state: String,
    },
    /// Driver and operands are ready, but the node offers no GPU to pods.
    GpusNotOffered,
    /// The node offers fewer GPUs than before the run, with the same MIG layout and the same
    /// sharing.
    GpusDegraded {
        /// The extended resource.
        resource: String,
        /// How many it offers.
        offered: u64,
        /// How many it offered at the start of the run.
        baseline: u64,
    },
    /// The DRA plugin is stale, and is queued for replacement.
    PluginQueued {
        /// Why it is stale.
        cause: String,
        /// Number of plugins that are unavailable because of the hook.
        away: usize,
        /// The limit.
        limit: usize,
    },
    /// The DRA plugin is stale, and is not replaced, because replaced plugins did not come back.
    PluginHeldUp {
        /// Why it is stale.
        cause: String,
        /// Number of plugins that did not come back.
        failed: usize,
    },
    /// The DRA plugin is stale, and the settings forbid its replacement.
    PluginStale {
        /// Why it is stale.
        cause: String,
    },
    /// The DRA plugin pod does not exist.
    PluginMissing,
    /// The DRA plugin pod cannot be scheduled.
    PluginUnschedulable {
        /// The message of the scheduler.
        message: String,
    },
    /// The DRA plugin pod is not ready.
    PluginNotReady {
        /// The problem of a container, if there is one.
        trouble: Option<String>,
    },
    /// The plugin has not published the node's devices.
    SliceMissing {
        /// The DRA driver's name.
        driver: String,
    },
    /// The plugin still publishes another driver version, even after its replacement.
    SliceOutdated {
        /// The version that it publishes.
        published: String,
        /// The version that is loaded.
        loaded: String,
    },
    /// A DRA driver is required, but there is none.
    DraMissing {
        /// The namespace in which the hook looked for it.
        namespaces: Vec<String>,
    },
    /// There is a DRA driver, but its DaemonSet schedules no pod although there are GPU nodes.
    DraScheduledNowhere {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// The device plugin's ConfigMap does not exist.
    ConfigMissing {
        /// Its name.
        config_map: String,
        /// The namespace in which the hook looked for it.
        namespace: String,
    },
    /// The device plugin's ConfigMap does not match the values.
    ConfigNotApplied {
        /// Its name.
        config_map: String,
        /// The first configuration that differs.
        key: String,
        /// What the ConfigMap contains.
        found: &'static str,
    },
    /// A pod of the device plugin is stale, and is queued for replacement.
    RestartQueued {
        /// Why it is stale.
        cause: String,
        /// Number of nodes with pods that are unavailable because of the hook.
        away: usize,
        /// The limit.
        limit: usize,
    },
    /// A pod of the device plugin is stale, and is not replaced, because replaced pods did not come
    /// back.
    RestartHeldUp {
        /// Why it is stale.
        cause: String,
        /// Number of nodes on which they did not come back.
        failed: usize,
    },
    /// A pod of the device plugin is stale, and its DaemonSet is replacing it.
    RestartRolling {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// A restarted pod of the device plugin is not back.
    RestartPending {
        /// Its DaemonSet.
        daemon_set: String,
        /// The problem.
        trouble: String,
    },
    /// The API server refused a write about this node: admission denied it, it is invalid, or it
    /// exceeds a quota.
    WriteRefused {
        /// The write.
        write: WriteKind,
        /// The message of the API server.
        message: String,
        /// Whether the node keeps the hook's cordon.
        cordoned: bool,
    },
    /// A write about this node failed because of an admission webhook, and will be retried.
    WriteRetried {
        /// The write.
        write: WriteKind,
        /// The message of the API server.
        message: String,
        /// Number of attempts.
        attempts: u32,
        /// Maximum number of attempts.
        limit: u32,
    },
    /// The node's upgrade in the modes `steer` and `drive`.
    Upgrading(upgrade::UpgradeReason),
    /// All conditions are met, and must hold for the quiet period.
    Quiet {
        /// End of the quiet period.
        until: Timestamp,
    },
}

impl Reason {
    /// Creates the reason for a field of the live custom resource that does not match the values of
    /// the bundle.
    pub fn precondition(
        kind: &'static str,
        name: &str,
        field: &'static str,
        expected: &str,
        found: Option<&str>,
        manager: Option<&String>,
    ) -> Self {
        let (expected, found) = (expected.to_owned(), found.unwrap_or("absent").to_owned());
        Self::Precondition {
            kind,
            name: name.into(),
            field,
            expected,
            found,
            manager: manager.cloned(),
            changed_in_run: false,
        }
    }

    /// Says of a field that does not match that it matched earlier in this run.
    #[must_use]
    pub(crate) fn changed_in_run(mut self) -> Self {
        if let Self::Precondition { changed_in_run, .. } = &mut self {
            *changed_in_run = true;
        }
        self
    }
}
