//! The class of each reason: its name, whether it resolves itself, and the exit code of a run that
//! ends for it.

use contract::exit::ExitCode;

use super::Reason;
use super::upgrade::UpgradeReason;
use crate::drive_upgrade::start_limits::StartRefusal;

/// The name of [`Reason::OperatorNotSeen`]. The reason depends on changes that a hook observed over
/// time, so a command reads it from the run record.
pub const OPERATOR_NOT_SEEN: &str = "OperatorNotSeen";
/// The name of [`Reason::OperatorNotLeading`], which a command also reads from the run record.
pub const OPERATOR_NOT_LEADING: &str = "OperatorNotLeading";
/// The name of [`Reason::OperatorActing`], which a command also reads from the run record.
pub const OPERATOR_ACTING: &str = "OperatorActing";

/// Name, whether waiting can help, exit code.
type ReasonClass = (&'static str, bool, ExitCode);

impl Reason {
    /// Returns a constant name for events, metrics and logs.
    pub fn name(&self) -> &'static str {
        self.class().0
    }

    /// Returns whether waiting can help.
    pub fn resolves_itself(&self) -> bool {
        self.class().1
    }

    /// Returns the exit code of a run that ends for this reason.
    pub fn exit_code(&self) -> ExitCode {
        self.class().2
    }

    fn class(&self) -> ReasonClass {
        use ExitCode::{
            ApiMissing, Budget, DraMissing, DraNotServing, NoGpuNodes, NodesFailed,
            OperatorMissing, PluginsNotServing, Precondition, Success,
        };
        match self {
            Self::PolicyApiMissing { .. } => ("PolicyApiMissing", false, ApiMissing),
            Self::OperatorMissing { .. } => ("OperatorMissing", false, OperatorMissing),
            Self::OperatorNotReady { .. } => ("OperatorNotReady", true, OperatorMissing),
            Self::OperatorNotLeading { .. } => (OPERATOR_NOT_LEADING, true, OperatorMissing),
            Self::OperatorNotSeen { .. } => (OPERATOR_NOT_SEEN, true, Budget),
            Self::OperatorActing { .. } => (OPERATOR_ACTING, true, Budget),
            Self::OtherChart { .. } => ("OtherChart", true, Precondition),
            Self::PolicyMissing { .. } => ("PolicyMissing", false, OperatorMissing),
            Self::NvidiaDriverMissing => ("NvidiaDriverMissing", false, OperatorMissing),
            Self::Precondition { .. } => ("Precondition", true, Precondition),
            Self::ReconcileFailed { .. } => ("ReconcileFailed", true, OperatorMissing),
            Self::PolicyIgnored { .. } => ("PolicyIgnored", true, OperatorMissing),
            Self::DriverLeftOver { .. } => ("DriverLeftOver", true, Precondition),
            Self::SpecNotObserved { .. } => ("SpecNotObserved", true, Budget),
            Self::DaemonSetMissing { .. } => ("DaemonSetMissing", true, Budget),
            Self::NodesUndiscovered { .. } => ("NodesUndiscovered", true, Budget),
            Self::NoNodeFeatures => ("NoNodeFeatures", true, NoGpuNodes),
            Self::NoGpuNodes { .. } => ("NoGpuNodes", true, NoGpuNodes),
            Self::NodeNotLabeled => ("NodeNotLabeled", true, Budget),
            Self::NodeWithoutDaemonSet => ("NodeWithoutDaemonSet", true, Budget),
            Self::NodeInOtherPool { .. } => ("NodeInOtherPool", true, Budget),
            Self::NodeNotReady { .. } => ("NodeNotReady", true, Budget),
            Self::DriverPodMissing => ("DriverPodMissing", true, Budget),
            Self::DriverPodUnschedulable { .. } => ("DriverPodUnschedulable", true, Budget),
            Self::DriverOutOfDate { .. } => ("DriverOutOfDate", true, Budget),
            Self::DriverNotReady { .. } => ("DriverNotReady", true, Budget),
            Self::UpgradeUnfinished { .. } => ("UpgradeUnfinished", true, Budget),
            Self::UpgradeFailed { .. } => ("UpgradeFailed", false, NodesFailed),
            Self::Skipped { .. } => ("Skipped", false, Success),
            Self::ToolkitNotReady { .. } => ("ToolkitNotReady", true, Budget),
            Self::ToolkitOutdated { .. } => ("ToolkitOutdated", true, Budget),
            Self::OperandMissing { .. } => ("OperandMissing", true, Budget),
            Self::OperandOutdated { stalled_by: Some(_), .. } => ("OperandOutdated", false, Budget),
            Self::OperandOutdated { .. } => ("OperandOutdated", true, Budget),
            Self::OperandNotReady { .. } => ("OperandNotReady", true, Budget),
            Self::NodeTainted { .. } => ("NodeTainted", false, Budget),
            Self::MigReconfiguring { .. } => ("MigReconfiguring", true, Budget),
            Self::GpusNotOffered => ("GpusNotOffered", true, NodesFailed),
            Self::GpusDegraded { .. } => ("GpusDegraded", false, NodesFailed),
            Self::PluginQueued { .. } => ("PluginQueued", true, Budget),
            Self::PluginHeldUp { .. } => ("PluginHeldUp", true, DraNotServing),
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
            Self::RestartHeldUp { .. } => ("RestartHeldUp", true, PluginsNotServing),
            Self::RestartRolling { .. } => ("RestartRolling", true, Budget),
            Self::RestartPending { .. } => ("RestartPending", true, PluginsNotServing),
            Self::WriteRefused { .. } => ("WriteRefused", false, NodesFailed),
            Self::WriteRetried { .. } => ("WriteRetried", true, NodesFailed),
            Self::Upgrading(reason) => reason.class(),
            Self::Quiet { .. } => ("Quiet", true, Budget),
        }
    }
}

impl UpgradeReason {
    fn class(&self) -> ReasonClass {
        use ExitCode::{Budget, NewerFormat, NodesFailed, Success};
        match self {
            Self::Paused { .. } => ("Paused", false, Budget),
            Self::Refused(StartRefusal::Paused { .. }) => ("UpgradePaused", false, Budget),
            Self::Refused(StartRefusal::Slots { .. }) => ("SlotsTaken", true, Budget),
            Self::Refused(StartRefusal::Unavailable { .. }) => ("TooManyUnavailable", true, Budget),
            Self::Refused(StartRefusal::Group { .. }) => ("GroupBusy", true, Budget),
            Self::Soak { .. } => ("Soaking", true, Budget),
            Self::FailureBudget { .. } => ("FailureBudgetSpent", false, NodesFailed),
            Self::NoTime { .. } => ("NoTimeLeft", false, Budget),
            Self::ForeignCordon => ("ForeignCordon", false, Success),
            Self::Maintenance { .. } => ("NodeMaintenance", true, Budget),
            Self::Requestor => ("RequestorMode", true, Budget),
            Self::OtherDriver { .. } => ("OtherDriver", true, Budget),
            Self::Cordoning => ("Cordoning", true, Budget),
            Self::Jobs { .. } => ("JobsRunning", true, Budget),
            Self::Listing => ("PodsNotListed", true, Budget),
            Self::Queued => ("PodsNotFollowed", true, Budget),
            Self::Evicting { .. } => ("Evicting", true, Budget),
            Self::DriverEnding { .. } => ("DriverEnding", true, Budget),
            Self::DriverComing => ("DriverComing", true, Budget),
            Self::Unwanted => ("DriverNotWanted", true, Budget),
            Self::Validating { .. } => ("Validating", true, Budget),
            Self::Retry { .. } => ("RetryDue", true, NodesFailed),
            Self::Failed { .. } => ("UpgradeFailed", false, NodesFailed),
            Self::NewerRecord { .. } => ("NewerRecord", false, NewerFormat),
            Self::Releasing => ("Releasing", true, Budget),
        }
    }
}
