//! Why something waits, or ended as it did: typed, with a text for people, whether it can resolve by itself, and what to do.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use contract::record::{VerdictReason, WriteKind};
use nvidia_upgrade::state::ControllerState;

mod advice;
mod class;
mod operand;
mod text;
pub mod upgrade;

pub use class::{OPERATOR_ACTING, OPERATOR_NOT_SEEN};
pub use operand::OperandName;

/// What is waited for. Every wait of the engine is one of these.
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
    /// The operator's Deployment is not there.
    OperatorMissing {
        /// Its expected name.
        deployment: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The operator's Deployment is not rolled out.
    OperatorNotReady {
        /// Its name.
        deployment: String,
        /// Replicas that are available and of the newest template.
        available: i32,
        /// Replicas that are wanted.
        replicas: i32,
    },
    /// No pod of the newest ReplicaSet of the operator leads, so that nothing is reconciled, or not by the newest program.
    OperatorNotLeading {
        /// The operator's Deployment.
        deployment: String,
        /// Its newest pod, if one is ready.
        pod: Option<String>,
        /// Who holds the Lease.
        holder: Option<String>,
        /// The newest pod holds the Lease and was not seen to renew it.
        silent: bool,
    },
    /// The operator's newest pod holds the Lease, and we have not looked for long enough to see it renewed.
    OperatorNotSeen {
        /// The operator's Deployment.
        deployment: String,
        /// Who holds the Lease.
        holder: String,
    },
    /// The operator leads, and has changed its DaemonSets, or got a new spec, only just now.
    OperatorActing {
        /// Until when it has to leave them alone.
        until: Timestamp,
    },
    /// A component is still, or already, there in another version than the one that the hook is made for.
    OtherChart {
        /// The object that tells.
        object: String,
        /// Chart and version that it is from.
        found: String,
        /// The version that the hook is made for.
        expected: String,
    },
    /// There is no custom resource that the operator would act on.
    PolicyMissing {
        /// Its kind.
        kind: &'static str,
        /// Its expected name.
        name: String,
    },
    /// There is no NVIDIADriver though the ClusterPolicy leaves the driver to them.
    NvidiaDriverMissing,
    /// The live custom resource does not say what the bundle's values say.
    Precondition {
        /// Its kind.
        kind: &'static str,
        /// Its name.
        name: Box<str>,
        /// Field path, from `spec` on.
        field: &'static str,
        /// What the values say.
        expected: String,
        /// What the live object says.
        found: String,
        /// Who set the field last, if the server tells.
        manager: Option<String>,
    },
    /// The operator reports that it cannot act on a custom resource (condition `Error`).
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
    /// The operator's DaemonSets belong to another custom resource: it acts on one ClusterPolicy and ignores every other.
    PolicyIgnored {
        /// The ClusterPolicy that the settings name.
        name: String,
    },
    /// The ClusterPolicy asks for no driver, and a driver DaemonSet of it goes on: the operator deletes only the one without a suffix.
    DriverLeftOver {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// The operator has not yet made its objects from the live spec.
    SpecNotObserved {
        /// The object that is behind.
        object: String,
        /// What in it.
        field: String,
        /// What the custom resource asks for.
        expected: String,
        /// What it has.
        found: String,
    },
    /// There are nodes for it but the operator has not made a DaemonSet that it should have.
    DaemonSetMissing {
        /// Whose.
        what: &'static str,
    },
    /// No node with the device was found, and node-feature-discovery has not been to every node.
    NodesUndiscovered {
        /// The device.
        device: &'static str,
        /// How many ready nodes it has not labeled.
        count: usize,
    },
    /// node-feature-discovery has not labeled any node.
    NoNodeFeatures,
    /// No node has a GPU, and the operator does not (yet) say so itself.
    NoGpuNodes {
        /// What the ClusterPolicy's Ready condition gives as reason.
        operator_says: Option<String>,
    },
    /// The operator has not labeled the node for its operands.
    NodeNotLabeled,
    /// The node has the device, and no driver DaemonSet selects it.
    NodeWithoutDaemonSet,
    /// The operator has not assigned the node to the NVIDIADriver that selects it.
    NodeInOtherPool {
        /// The NVIDIADriver that selects it.
        wanted: String,
        /// The one that its owner label names.
        found: Option<String>,
    },
    /// Node condition Ready is not True.
    NodeNotReady {
        /// Since when.
        since: Option<Timestamp>,
    },
    /// No driver pod on the node.
    DriverPodMissing,
    /// The driver pod cannot be scheduled.
    DriverPodUnschedulable {
        /// What the scheduler says.
        message: String,
    },
    /// The node's driver pod is of an older revision.
    DriverOutOfDate {
        /// The vendor's upgrade state of the node.
        state: Option<String>,
        /// Why the vendor's controller does not move it.
        why: Option<Box<nvidia_upgrade::explain::ControllerWait>>,
    },
    /// The driver pod is of the newest revision and not ready.
    DriverNotReady {
        /// The vendor's upgrade state of the node.
        state: Option<String>,
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
        /// Restarts of its containers.
        restarts: i32,
    },
    /// The vendor's controller has not finished with the node.
    UpgradeUnfinished {
        /// The vendor's upgrade state of the node.
        state: String,
        /// Why it does not go on.
        why: Option<Box<nvidia_upgrade::explain::ControllerWait>>,
    },
    /// The vendor's controller has given the node up.
    UpgradeFailed {
        /// What is wrong with the driver pod, if anything.
        trouble: Option<String>,
    },
    /// The user's skip label keeps the node on its old driver.
    Skipped {
        /// The label.
        label: &'static str,
    },
    /// The container toolkit's pod is missing or not ready.
    ToolkitNotReady {
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
    },
    /// A node has no pod of an operand that it should have.
    OperandMissing {
        /// The operand.
        operand: OperandName,
    },
    /// The operand's pod is of an older revision of its DaemonSet.
    OperandOutdated {
        /// The operand.
        operand: OperandName,
        /// The node whose pod keeps the DaemonSet from going on, if one does.
        stalled_by: Option<String>,
    },
    /// The operand's pod is of the newest revision and not ready.
    OperandNotReady {
        /// The operand.
        operand: OperandName,
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
        /// The most restarts of a container that is not ready.
        restarts: i32,
    },
    /// A taint keeps the operator's pods off the node.
    NodeTainted {
        /// The DaemonSet whose pods do not tolerate it.
        daemon_set: String,
        /// `key=value:effect`
        taint: String,
    },
    /// MIG manager is changing the node's MIG layout.
    MigReconfiguring {
        /// Value of the label `nvidia.com/mig.config.state`.
        state: String,
    },
    /// Driver and operands are ready, and the node offers no GPU to pods.
    GpusNotOffered,
    /// The node offers fewer GPUs than before the run, in the same MIG layout and with the same sharing.
    GpusDegraded {
        /// The extended resource.
        resource: String,
        /// How many it offers.
        offered: u64,
        /// How many it had when the run began.
        baseline: u64,
    },
    /// The DRA plugin is stale and its turn has not come.
    PluginQueued {
        /// Why it is stale.
        cause: String,
        /// Plugins that are away because of us.
        away: usize,
        /// How many may be.
        limit: usize,
    },
    /// The DRA plugin is stale and its turn will not come: the plugins that went before it did not come back.
    PluginHeldUp {
        /// Why it is stale.
        cause: String,
        /// How many did not come back.
        failed: usize,
    },
    /// The DRA plugin is stale and is not replaced because the settings say so.
    PluginStale {
        /// Why it is stale.
        cause: String,
    },
    /// The DRA plugin pod is not there.
    PluginMissing,
    /// The DRA plugin pod cannot be scheduled.
    PluginUnschedulable {
        /// What the scheduler says.
        message: String,
    },
    /// The DRA plugin pod is not ready.
    PluginNotReady {
        /// What is wrong with a container, if anything.
        trouble: Option<String>,
    },
    /// The plugin has not published the node's devices.
    SliceMissing {
        /// The DRA driver's name.
        driver: String,
    },
    /// The plugin still publishes another driver version, even after it was replaced.
    SliceOutdated {
        /// The version that it publishes.
        published: String,
        /// The version that is loaded.
        loaded: String,
    },
    /// A DRA driver is required and there is none.
    DraMissing {
        /// Where it was looked for.
        namespaces: Vec<String>,
    },
    /// There is a DRA driver, but its DaemonSet wants no pod although there are GPU nodes.
    DraScheduledNowhere {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// The device plugin's ConfigMap is not there.
    ConfigMissing {
        /// Its name.
        config_map: String,
        /// Where it was looked for.
        namespace: String,
    },
    /// The device plugin's ConfigMap does not say what the values say.
    ConfigNotApplied {
        /// Its name.
        config_map: String,
        /// The first configuration that differs.
        key: String,
        /// What it holds.
        found: &'static str,
    },
    /// A pod of the device plugin is stale and its turn has not come.
    RestartQueued {
        /// Why it is stale.
        cause: String,
        /// Nodes with pods that are away because of us.
        away: usize,
        /// How many there may be.
        limit: usize,
    },
    /// A pod of the device plugin is stale and its turn will not come: those that went before it did not come back.
    RestartHeldUp {
        /// Why it is stale.
        cause: String,
        /// On how many nodes they did not.
        failed: usize,
    },
    /// A pod of the device plugin is stale, and its DaemonSet is replacing it by itself.
    RestartRolling {
        /// The DaemonSet.
        daemon_set: String,
    },
    /// A restarted pod of the device plugin is not back.
    RestartPending {
        /// Its DaemonSet.
        daemon_set: String,
        /// What is wrong with it.
        trouble: String,
    },
    /// The API server refused a write of this node: admission denied it, it is invalid, or it exceeds a quota.
    WriteRefused {
        /// The write.
        write: WriteKind,
        /// The server's words.
        message: String,
        /// The node keeps a cordon of ours.
        cordoned: bool,
    },
    /// A write of this node failed because of an admission webhook, and is tried again.
    WriteRetried {
        /// The write.
        write: WriteKind,
        /// The server's words.
        message: String,
        /// How often it was tried.
        attempts: u32,
        /// How often it may be.
        limit: u32,
    },
    /// The node's upgrade, where we do or steer it.
    Upgrading(upgrade::UpgradeReason),
    /// All is well; it must stay so for a while.
    Quiet {
        /// Until when.
        until: Timestamp,
    },
}

impl Reason {
    /// A field of the live custom resource that does not say what the bundle's values say.
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
        }
    }

    /// Whether it only waits for others: what they wait for is the more telling.
    pub fn waits_for_others(&self) -> bool {
        if let Self::Upgrading(reason) = self {
            return reason.waits_for_others();
        }
        if let Self::DriverOutOfDate { state, .. } = self {
            return ControllerState::from_label(state.as_deref()).is_idle();
        }
        matches!(
            self,
            Self::PluginQueued { .. }
                | Self::PluginHeldUp { .. }
                | Self::RestartQueued { .. }
                | Self::RestartHeldUp { .. }
                | Self::Quiet { .. }
        )
    }

    /// Whether it can tell why the vendor's controller does not move the node.
    pub fn asks_why(&self) -> bool {
        matches!(self, Self::DriverOutOfDate { .. } | Self::UpgradeUnfinished { .. })
    }

    /// The same, and why the vendor's controller does not move the node.
    #[must_use]
    pub fn with_why(mut self, wait: Option<&nvidia_upgrade::explain::ControllerWait>) -> Self {
        if let (
            Self::DriverOutOfDate { why, .. } | Self::UpgradeUnfinished { why, .. },
            Some(wait),
        ) = (&mut self, wait)
        {
            *why = Some(Box::new(wait.clone()));
        }
        self
    }

    /// The same without what changes from moment to moment, for the run record: it is written when a reason changes.
    #[must_use]
    pub fn lasting(&self) -> Self {
        let mut lasting = self.clone();
        if let Self::DriverOutOfDate { why, .. } | Self::UpgradeUnfinished { why, .. } =
            &mut lasting
        {
            *why = None;
        }
        lasting
    }

    /// Whether it is about restarts of the device plugin.
    pub fn is_device_plugins(&self) -> bool {
        matches!(
            self,
            Self::RestartQueued { .. }
                | Self::RestartHeldUp { .. }
                | Self::RestartRolling { .. }
                | Self::RestartPending { .. }
        )
    }
}

/// One wait: what, where, since when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    /// The node, or the whole fleet.
    pub node: Option<Arc<str>>,
    /// What is waited for. Many nodes wait for the same.
    pub reason: Arc<Reason>,
    /// Since when it has been this reason.
    pub since: Timestamp,
}

impl Wait {
    /// As the verdict names it.
    pub fn verdict_reason(&self) -> VerdictReason {
        VerdictReason::new(self.node.as_deref(), self.reason.name())
    }
}

impl fmt::Display for Wait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(formatter, "{node}: {}", self.reason),
            None => write!(formatter, "{}", self.reason),
        }
    }
}
