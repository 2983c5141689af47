//! Reasons for which a node waits in an upgrade in the modes `steer` and `drive`.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::pods::{FOCUS_LIMIT, listed};
use contract::acceptance::AcceptanceTime;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::proof::RampShare;
use contract::record::proof::{HaltCause, Halted};
use nvidia_upgrade::explain::OptionalText;
use nvidia_upgrade::state::ExplainedState;

/// A reason in an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(UpgradingKind), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum UpgradeReason {
    /// A user has paused it.
    Paused {
        /// The user.
        by: String,
        /// The reason for the pause.
        why: Option<String>,
        /// Start of the pause. `None`: unknown.
        at: Option<Timestamp>,
        /// When the pause ends by itself. `None`: never.
        until: Option<Timestamp>,
        /// Whether that is too late for a node that starts then: the run must have ended before.
        is_late: bool,
    },
    /// A limit refuses the start of the node.
    Refused(StartRefusal),
    /// The soak after the previous node has not ended.
    Soak {
        /// Until when.
        until: Timestamp,
    },
    /// No maintenance window is open.
    OutsideWindow {
        /// When the next one opens.
        opens: Timestamp,
        /// Time by which the run must have ended, if this is too early for a node that starts then.
        deadline: Option<Timestamp>,
    },
    /// The canaries come first.
    CanariesFirst {
        /// The canaries; empty until they are chosen.
        canaries: Arc<[String]>,
        /// How many of them are proven.
        proven: usize,
        /// The only nodes with their label values, which would be canaries, and cannot be started
        /// now.
        awaited: Arc<[String]>,
    },
    /// The ramp allows no more nodes until those of this step are proven.
    RampStep {
        /// The share of the fleet.
        share: RampShare,
        /// The share as a number of nodes.
        limit: usize,
        /// Number of nodes.
        total: usize,
    },
    /// The soak after a step of the proof has not ended.
    StepSoak {
        /// The step.
        step: String,
        /// Until when.
        until: Timestamp,
        /// What may be started then.
        next: String,
    },
    /// The rollout has halted: no more upgrades start.
    Halted {
        /// What reached its limit.
        cause: HaltCause,
        /// The failed nodes.
        nodes: Arc<[String]>,
        /// The label values of these nodes by which canaries are chosen.
        labels: Arc<[String]>,
        /// Since when.
        at: Timestamp,
    },
    /// The failure budget is exceeded: no more upgrades start.
    FailureBudget {
        /// The failed nodes.
        failed: Arc<[String]>,
        /// The budget.
        budget: usize,
    },
    /// There is not enough time left for a node.
    NoTime {
        /// Time by which the run must have ended.
        deadline: Timestamp,
        /// Seconds that a node is expected to take.
        per_node: u64,
        /// The limit that refused the node, and would also do so with more time.
        held: Option<StartRefusal>,
    },
    /// The node has a foreign cordon.
    ForeignCordon,
    /// Another user or controller has asked NVIDIA's maintenance-operator to take the node out of
    /// service.
    Maintenance {
        /// Name of the NodeMaintenance.
        name: String,
        /// The requestor.
        requestor: String,
    },
    /// NVIDIA's controller has handed the node to the maintenance-operator.
    Requestor,
    /// Another driver of the node is being upgraded.
    OtherDriver {
        /// The other driver.
        driver: Driver,
        /// Its upgrade state.
        state: String,
        /// Whether a hook of gpu-rollout left this state.
        ours: bool,
    },
    /// The node is being cordoned.
    Cordoning,
    /// Jobs run on the node.
    Jobs {
        /// `namespace/name` of each.
        jobs: Vec<String>,
        /// When the hook stops waiting for them, and continues the upgrade.
        until: Option<Timestamp>,
    },
    /// The node's pods have not been listed yet.
    Listing,
    /// The hook already watches the pods of the maximum number of nodes.
    Queued,
    /// Pods are being evicted.
    Evicting {
        /// `namespace/name` of each remaining pod, with its obstacle.
        pods: Vec<String>,
        /// When the wait counts as a failure.
        until: Option<Timestamp>,
    },
    /// The old driver pod was deleted, and is still terminating.
    DriverEnding {
        /// The pod.
        pod: String,
        /// Why it may not end, if something is known.
        trouble: Option<String>,
    },
    /// The old driver pod is gone, and the new one does not exist yet.
    DriverComing,
    /// No DaemonSet schedules a driver pod on the node any more.
    Unwanted,
    /// The validator has not succeeded.
    Validating {
        /// The problem.
        trouble: String,
        /// When the wait counts as a failure.
        until: Timestamp,
    },
    /// An acceptance test runs, or is about to.
    Accepting {
        /// The test.
        test: String,
        /// Whether it runs with the old or the new driver.
        time: AcceptanceTime,
        /// The problem, if there is one.
        trouble: Option<String>,
        /// When the test counts as failed.
        until: Timestamp,
    },
    /// The pod of an acceptance test that has ended, or of an earlier attempt, is being deleted.
    AcceptanceEnding {
        /// The pod.
        pod: String,
    },
    /// An acceptance test did not pass with the old driver, which the node keeps.
    NotAccepted {
        /// The message.
        message: String,
        /// Whether it stays cordoned.
        cordoned: bool,
    },
    /// The node failed, and will be retried.
    Retry {
        /// Why it failed.
        message: String,
        /// Number of attempts.
        attempts: u32,
        /// Maximum number of attempts.
        limit: u32,
        /// Time of the next attempt.
        at: Timestamp,
    },
    /// The node failed, and will not be retried.
    Failed {
        /// The cause.
        cause: FailureCause,
        /// The message.
        message: String,
        /// Number of attempts.
        attempts: u32,
        /// Whether it stays cordoned.
        cordoned: bool,
    },
    /// The node has the record of a newer program.
    NewerRecord {
        /// Its version.
        version: u32,
    },
    /// The node is done, and the hook is releasing it.
    Releasing,
}

impl UpgradeReason {
    /// Returns whether it waits for a step of the proof: canaries, a share of the ramp, or the soak
    /// after them.
    pub fn waits_for_proof(&self) -> bool {
        matches!(self, Self::CanariesFirst { .. } | Self::RampStep { .. } | Self::StepSoak { .. })
    }

    /// Returns whether it only waits for others.
    pub(super) fn waits_for_others(&self) -> bool {
        matches!(
            self,
            Self::Paused { .. }
                | Self::Refused(_)
                | Self::Soak { .. }
                | Self::OutsideWindow { .. }
                | Self::CanariesFirst { .. }
                | Self::RampStep { .. }
                | Self::StepSoak { .. }
                | Self::Halted { .. }
                | Self::FailureBudget { .. }
                | Self::NoTime { .. }
                | Self::OtherDriver { .. }
                | Self::Queued
        )
    }
}

impl From<&Halted> for UpgradeReason {
    fn from(halt: &Halted) -> Self {
        let Halted { at, cause, nodes, labels } = halt;
        let (nodes, labels) = (nodes.as_slice().into(), labels.as_slice().into());
        Self::Halted { cause: *cause, nodes, labels, at: *at }
    }
}

impl fmt::Display for UpgradeReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { by, why, at, until, is_late: _ } => {
                write!(out, "paused by {by}")?;
                at.map_or(Ok(()), |at| write!(out, " at {at:.0}"))?;
                until.map_or(Ok(()), |until| write!(out, " until {until:.0}"))?;
                why.as_ref().map_or(Ok(()), |why| write!(out, ": {why}"))
            }
            Self::Refused(refusal) => refusal.fmt(out),
            Self::Soak { until } => {
                write!(out, "the soak after the previous node ends at {until:.0}")
            }
            Self::OutsideWindow { opens, deadline } => {
                write!(out, "no maintenance window is open; the next one opens at {opens:.0}")?;
                deadline.map_or(Ok(()), |at| {
                    write!(out, ", too late for this run, which must end at {at:.0}")
                })
            }
            Self::CanariesFirst { canaries, proven, awaited } => {
                match (canaries.is_empty(), awaited.is_empty()) {
                    (true, true) => write!(out, "the canaries come first, and are being chosen")?,
                    (true, false) => write!(out, "the canaries come first")?,
                    (false, _) => write!(
                        out,
                        "the canaries come first, and {proven} of {} are proven: {}",
                        canaries.len(),
                        listed(canaries)
                    )?,
                }
                if awaited.is_empty() {
                    return Ok(());
                }
                write!(
                    out,
                    "; as a canary, the hook also needs the only node with its label values, which cannot be started now: {}",
                    listed(awaited)
                )
            }
            Self::RampStep { share, limit, total } => {
                write!(
                    out,
                    "the ramp starts no more than {share} ({limit} of {total} nodes) until these are proven"
                )
            }
            Self::StepSoak { step, until, next } => {
                write!(out, "{step} proven; the soak ends at {until:.0}, then: {next}")
            }
            Self::Halted { cause, nodes, labels, at } => {
                let failed = match cause {
                    HaltCause::FailedProofs => "proof failed",
                    HaltCause::FailedNodes => "upgrades failed",
                    HaltCause::FailedTests => "acceptance tests failed with the old driver",
                };
                write!(out, "the rollout halted at {at:.0}: {failed} ({})", listed(nodes))?;
                if labels.is_empty() {
                    Ok(())
                } else {
                    write!(out, "; each failed node has {}", listed(labels))
                }
            }
            Self::FailureBudget { failed, budget } => {
                write!(
                    out,
                    "failure budget exceeded: {} failed ({}), and the limit is {budget}; no more upgrades start",
                    with_noun(failed.len(), "node"),
                    listed(failed)
                )
            }
            Self::NoTime { deadline, per_node, held: None } => {
                write!(
                    out,
                    "too late to start: one node takes {per_node} s, and less is left until the run must end at {deadline:.0}"
                )
            }
            Self::NoTime { held: Some(refusal), .. } => {
                write!(out, "{refusal}; the run has no time left to wait")
            }
            Self::ForeignCordon => write!(out, "another user or controller has cordoned the node"),
            Self::Maintenance { name, requestor } => {
                write!(
                    out,
                    "`{requestor}` has requested maintenance of the node (NodeMaintenance `{name}`)"
                )
            }
            Self::Requestor => {
                write!(out, "NVIDIA's controller has handed the node to the maintenance-operator")
            }
            Self::OtherDriver { driver, state, .. } => {
                write!(
                    out,
                    "the {} driver of the node is in upgrade state {}",
                    driver.traits().name,
                    ExplainedState(state)
                )
            }
            Self::Cordoning => write!(out, "the node is being cordoned"),
            Self::Jobs { jobs, until: at } => {
                let count = if jobs.len() == 1 {
                    "1 job runs".to_owned()
                } else {
                    format!("{} jobs run", jobs.len())
                };
                write!(out, "{count} on the node: {}", listed(jobs))?;
                at.map_or(Ok(()), |at| {
                    write!(
                        out,
                        "; the hook waits until {at:.0}, and then continues the upgrade anyway"
                    )
                })
            }
            Self::Listing => write!(out, "the node's pods are being listed"),
            Self::Queued => write!(
                out,
                "the hook already watches the pods of {FOCUS_LIMIT} other nodes, which is the limit"
            ),
            Self::Evicting { pods, until: at } => {
                write!(
                    out,
                    "{} must leave the node: {}",
                    with_noun(pods.len(), "pod"),
                    listed(pods)
                )?;
                at.map_or(Ok(()), |at| {
                    write!(out, "; if a pod is still there at {at:.0}, this step fails")
                })
            }
            Self::DriverEnding { pod, trouble } => {
                let trouble = OptionalText("; ", trouble, "");
                write!(out, "the old driver pod is terminating: {pod}{trouble}")
            }
            Self::DriverComing => {
                write!(out, "the old driver pod is gone, and the new pod does not exist yet")
            }
            Self::Unwanted => {
                write!(out, "no driver DaemonSet schedules a pod on the node any more")
            }
            Self::Validating { trouble, until: at } => {
                write!(
                    out,
                    "the driver is ready, but its validator is not: {trouble}; if this lasts until {at:.0}, the attempt fails; if the time budget ends first, the run fails"
                )
            }
            Self::Accepting { test, time, trouble, until: at } => {
                let (driver, then) = match time {
                    AcceptanceTime::Before => (" with the old driver", "the node keeps it"),
                    AcceptanceTime::After => ("", "the node fails"),
                };
                let trouble = OptionalText(": ", trouble, "");
                write!(
                    out,
                    "acceptance test `{test}`{driver} has not ended{trouble}; if it does not pass by {at:.0}, {then}"
                )
            }
            Self::AcceptanceEnding { pod } => {
                write!(out, "pod {pod} of an acceptance test is being deleted")
            }
            Self::NotAccepted { message, cordoned } => {
                let cordon = if *cordoned { " and its cordon" } else { "" };
                write!(out, "{message}; the node keeps its old driver{cordon}")
            }
            Self::Retry { message, attempts, limit, at } => {
                write!(out, "{message}; attempt {} of {limit} starts after {at:.0}", attempts + 1)
            }
            Self::Failed { cause, message, attempts, cordoned } => {
                let stays = match (cordoned, cause) {
                    (true, _) => "; the node stays cordoned",
                    // Its driver pod may already be terminating.
                    (false, FailureCause::CordonContested) => "; the hook does not cordon it again",
                    (false, cause) if cause.is_before_restart() => {
                        "; the node keeps its old driver"
                    }
                    (false, _) => "",
                };
                if cause.is_acceptance() {
                    return write!(out, "{message}{stays}");
                }
                let plural = if *attempts == 1 { "" } else { "s" };
                write!(out, "{message}; {attempts} attempt{plural}{stays}")
            }
            Self::NewerRecord { version } => {
                write!(
                    out,
                    "the node has a record of version {version}, which this version of gpu-rollout does not support"
                )
            }
            Self::Releasing => {
                write!(out, "the hook is removing its labels, annotations and cordon from the node")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver pod may be gone, or its driver loading, when the cordon is removed for the last
    /// time.
    #[test]
    fn contested_cordon_says_nothing_about_old_driver() {
        let failed = |cause| {
            UpgradeReason::Failed { cause, message: "why".into(), attempts: 2, cordoned: false }
                .to_string()
        };
        assert_eq!(
            failed(FailureCause::CordonContested),
            "why; 2 attempts; the hook does not cordon it again"
        );
        assert_eq!(
            failed(FailureCause::EvictionTimeout),
            "why; 2 attempts; the node keeps its old driver"
        );
    }
}
