//! The class of each reason: its name, whether it resolves itself, and the exit code of a run that
//! ends for it.

use contract::exit::ExitCode;
use nvidia_upgrade::explain::ControllerWait;

use super::Reason;
use super::upgrade::UpgradeReason;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::rolling_update::AwaitedNode;

/// The name of [`Reason::OperatorNotSeen`]. The reason depends on changes that a hook observed over
/// time, so a command reads it from the run record.
pub const OPERATOR_NOT_SEEN: &str = "OperatorNotSeen";
/// The name of [`Reason::OperatorNotLeading`], which a command also reads from the run record.
pub const OPERATOR_NOT_LEADING: &str = "OperatorNotLeading";
/// The name of [`Reason::OperatorActing`], which a command also reads from the run record.
pub const OPERATOR_ACTING: &str = "OperatorActing";

/// The name of [`UpgradeReason::FailureBudget`], after which a run starts no more upgrades.
pub const FAILURE_BUDGET_SPENT: &str = "FailureBudgetSpent";
/// The name of [`UpgradeReason::NoTime`], after which a run starts no more upgrades.
pub const NO_TIME_LEFT: &str = "NoTimeLeft";

/// The name of [`UpgradeReason::Paused`], which is not a fault: commands list it after the others.
pub const PAUSED: &str = "Paused";
/// The name of [`UpgradeReason::OutsideWindow`].
pub const OUTSIDE_WINDOW: &str = "OutsideWindow";
/// The name of [`UpgradeReason::Accepting`].
pub const ACCEPTING: &str = "Accepting";

/// Name, whether the wait can end without manual action, exit code.
type ReasonClass = (&'static str, bool, ExitCode);

impl Reason {
    /// Returns a constant name for events, metrics and logs.
    pub fn name(&self) -> &'static str {
        self.class().0
    }

    /// Returns whether the wait can end without manual action. If NVIDIA's controller does not
    /// continue with the node, the controller's own wait decides. The operator never moves a node
    /// from one NVIDIADriver to another, deletes no DaemonSet of a driver that was left over, and
    /// does not scale itself up from 0.
    pub fn resolves_itself(&self) -> bool {
        self.class().1
    }

    /// Returns the exit code of a run that ends for this reason.
    pub fn exit_code(&self) -> ExitCode {
        self.class().2
    }

    /// Returns whether a run fails if the whole fleet waits for this reason for longer than the
    /// grace time, and not only at the run's deadline.
    pub fn ends_run(&self) -> bool {
        matches!(
            self.exit_code(),
            ExitCode::ApiMissing
                | ExitCode::OperatorMissing
                | ExitCode::Precondition
                | ExitCode::NoGpuNodes
                | ExitCode::DraMissing
        )
    }

    fn class(&self) -> ReasonClass {
        use ExitCode::{
            ApiMissing, Budget, DraMissing, DraNotServing, NoGpuNodes, NodesFailed,
            OperatorMissing, PluginsNotServing, Precondition, Success,
        };
        match self {
            Self::PolicyApiMissing { .. } => ("PolicyApiMissing", false, ApiMissing),
            Self::OperatorMissing { .. } => ("OperatorMissing", false, OperatorMissing),
            Self::OperatorNotReady { replicas, .. } => {
                ("OperatorNotReady", *replicas != 0, OperatorMissing)
            }
            Self::OperatorNotLeading { .. } => (OPERATOR_NOT_LEADING, true, OperatorMissing),
            Self::OperatorNotSeen { .. } => (OPERATOR_NOT_SEEN, true, Budget),
            Self::OperatorActing { .. } => (OPERATOR_ACTING, true, Budget),
            Self::OtherChart { .. } => ("OtherChart", true, Precondition),
            Self::PolicyMissing { .. } => ("PolicyMissing", false, OperatorMissing),
            Self::NvidiaDriverMissing => ("NvidiaDriverMissing", false, OperatorMissing),
            // A deployer that does not order releases installs the values later.
            Self::Precondition { changed_in_run, .. } => {
                ("Precondition", !changed_in_run, Precondition)
            }
            Self::ReconcileFailed { .. } => ("ReconcileFailed", true, OperatorMissing),
            Self::PolicyIgnored { .. } => ("PolicyIgnored", true, OperatorMissing),
            Self::DriverLeftOver { .. } => ("DriverLeftOver", false, Precondition),
            Self::SpecNotObserved { .. } => ("SpecNotObserved", true, Budget),
            Self::DaemonSetMissing { .. } => ("DaemonSetMissing", true, Budget),
            Self::NodesUndiscovered { .. } => ("NodesUndiscovered", true, Budget),
            Self::NoNodeFeatures => ("NoNodeFeatures", true, NoGpuNodes),
            Self::NoGpuNodes { .. } => ("NoGpuNodes", true, NoGpuNodes),
            Self::NodeNotLabeled => ("NodeNotLabeled", true, Budget),
            Self::NodeWithoutDaemonSet => ("NodeWithoutDaemonSet", true, Budget),
            Self::NodeInOtherPool { found, .. } => ("NodeInOtherPool", found.is_none(), Budget),
            Self::NodeNotReady { .. } => ("NodeNotReady", true, Budget),
            Self::DriverPodMissing => ("DriverPodMissing", true, Budget),
            Self::DriverPodUnschedulable { .. } => ("DriverPodUnschedulable", true, Budget),
            Self::DriverOutOfDate { why, .. } => {
                ("DriverOutOfDate", can_resolve(why.as_deref()), Budget)
            }
            Self::DriverNotReady { .. } => ("DriverNotReady", true, Budget),
            Self::UpgradeUnfinished { why, .. } => {
                ("UpgradeUnfinished", can_resolve(why.as_deref()), Budget)
            }
            Self::UpgradeFailed { .. } => ("UpgradeFailed", false, NodesFailed),
            Self::Skipped { .. } => ("Skipped", false, Success),
            Self::ToolkitNotReady { .. } => ("ToolkitNotReady", true, Budget),
            Self::ToolkitOutdated { awaited } => {
                ("ToolkitOutdated", goes_on(awaited.as_ref()), Budget)
            }
            Self::OperandMissing { .. } => ("OperandMissing", true, Budget),
            Self::OperandOutdated { awaited, .. } => {
                ("OperandOutdated", goes_on(awaited.as_ref()), Budget)
            }
            Self::OperandNotReady { .. } => ("OperandNotReady", true, Budget),
            Self::NodeTainted { .. } => ("NodeTainted", false, Budget),
            Self::MigReconfiguring { .. } => ("MigReconfiguring", true, Budget),
            Self::GpusNotOffered => ("GpusNotOffered", true, NodesFailed),
            Self::GpusDegraded { .. } => ("GpusDegraded", false, NodesFailed),
            Self::PluginQueued { .. } => ("PluginQueued", true, Budget),
            Self::PluginHeldUp { .. } => ("PluginHeldUp", false, DraNotServing),
            Self::PluginStale { .. } => ("PluginStale", false, DraNotServing),
            Self::PluginMissing => ("PluginMissing", true, DraNotServing),
            Self::PluginUnschedulable { .. } => ("PluginUnschedulable", true, DraNotServing),
            Self::PluginNotReady { .. } => ("PluginNotReady", true, DraNotServing),
            Self::SliceMissing { .. } => ("SliceMissing", true, DraNotServing),
            Self::SliceOutdated { .. } => ("SliceOutdated", true, DraNotServing),
            Self::DraMissing { .. } => ("DraMissing", false, DraMissing),
            Self::DraScheduledNowhere { .. } => ("DraScheduledNowhere", false, DraMissing),
            Self::ConfigMissing { .. } => ("ConfigMissing", false, Precondition),
            Self::ConfigNotApplied { .. } => ("ConfigNotApplied", true, Precondition),
            Self::RestartQueued { .. } => ("RestartQueued", true, Budget),
            Self::RestartHeldUp { .. } => ("RestartHeldUp", false, PluginsNotServing),
            Self::RestartRolling { .. } => ("RestartRolling", true, Budget),
            Self::RestartPending { .. } => ("RestartPending", true, PluginsNotServing),
            Self::WriteRefused { .. } => ("WriteRefused", false, NodesFailed),
            Self::WriteRetried { .. } => ("WriteRetried", true, NodesFailed),
            Self::Upgrading(reason) => reason.class(),
            Self::Quiet { .. } => ("Quiet", true, Budget),
        }
    }
}

/// Returns whether a rolling update that waits for this node goes on.
fn goes_on(awaited: Option<&AwaitedNode>) -> bool {
    awaited.is_none_or(|node| node.is_ready)
}

fn can_resolve(why: Option<&ControllerWait>) -> bool {
    why.is_none_or(ControllerWait::can_resolve)
}

impl UpgradeReason {
    fn class(&self) -> ReasonClass {
        use ExitCode::{Budget, NewerFormat, NodesFailed, Success};
        match self {
            Self::Paused { until, is_late, .. } => (PAUSED, until.is_some() && !is_late, Budget),
            Self::Refused(StartRefusal::Paused { .. }) => ("UpgradePaused", false, Budget),
            Self::Refused(StartRefusal::Slots { .. }) => ("SlotsTaken", true, Budget),
            Self::Refused(StartRefusal::Unavailable { .. }) => ("TooManyUnavailable", true, Budget),
            Self::Refused(StartRefusal::Group { .. }) => ("GroupBusy", true, Budget),
            Self::Soak { .. } => ("Soaking", true, Budget),
            Self::OutsideWindow { deadline, .. } => (OUTSIDE_WINDOW, deadline.is_none(), Budget),
            Self::CanariesFirst { .. } => ("CanariesFirst", true, Budget),
            Self::RampStep { .. } => ("RampStep", true, Budget),
            Self::StepSoak { .. } => ("StepSoak", true, Budget),
            Self::Halted { .. } => ("Halted", false, ExitCode::Halted),
            Self::FailureBudget { .. } => (FAILURE_BUDGET_SPENT, false, NodesFailed),
            Self::NoTime { .. } => (NO_TIME_LEFT, false, Budget),
            Self::ForeignCordon => ("ForeignCordon", false, Success),
            Self::Maintenance { .. } => ("NodeMaintenance", true, Budget),
            Self::Requestor => ("RequestorMode", true, Budget),
            Self::OtherDriver { ours, .. } => ("OtherDriver", !ours, Budget),
            Self::Cordoning => ("Cordoning", true, Budget),
            Self::Jobs { .. } => ("JobsRunning", true, Budget),
            Self::Listing => ("PodsNotListed", true, Budget),
            Self::Queued => ("PodsNotFollowed", true, Budget),
            Self::Evicting { .. } => ("Evicting", true, Budget),
            Self::DriverEnding { .. } => ("DriverEnding", true, Budget),
            Self::DriverComing => ("DriverComing", true, Budget),
            Self::Unwanted => ("DriverNotWanted", true, Budget),
            Self::Validating { .. } => ("Validating", true, Budget),
            Self::Accepting { .. } => (ACCEPTING, true, Budget),
            Self::AcceptanceEnding { .. } => ("AcceptanceEnding", true, Budget),
            Self::NotAccepted { .. } => ("NotAccepted", false, Success),
            Self::Retry { .. } => ("RetryDue", true, NodesFailed),
            Self::Failed { .. } => ("UpgradeFailed", false, NodesFailed),
            Self::NewerRecord { .. } => ("NewerRecord", false, NewerFormat),
            Self::Releasing => ("Releasing", true, Budget),
        }
    }
}
