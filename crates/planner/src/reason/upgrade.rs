//! Why a node does not move in an upgrade that we do or steer.

use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::start_limits::StartRefusal;
use crate::pods::{FOCUS_LIMIT, listed};
use contract::driver::Driver;

/// What is waited for in an upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    test,
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(UpgradingKind), vis(pub(crate)), derive(strum::EnumIter))
)]
pub enum UpgradeReason {
    /// Somebody has paused it.
    Paused {
        /// Who.
        by: String,
        /// Why.
        why: Option<String>,
        /// Since when. `None`: unknown.
        at: Option<Timestamp>,
    },
    /// The node's turn has not come.
    Refused(StartRefusal),
    /// The last node that ended must have run for a while.
    Soak {
        /// Until when.
        until: Timestamp,
    },
    /// So many nodes have failed that no other one is started.
    FailureBudget {
        /// Which ones.
        failed: Arc<[String]>,
        /// How many may.
        budget: usize,
    },
    /// There is not enough time left for a node.
    NoTime {
        /// When the run must have ended.
        deadline: Timestamp,
        /// Seconds that a node is expected to take.
        per_node: u64,
        /// What kept the node from its turn, and would go on doing so with more time.
        held: Option<StartRefusal>,
    },
    /// Somebody else has cordoned the node.
    ForeignCordon,
    /// Somebody asks NVIDIA's maintenance-operator to take the node out of service.
    Maintenance {
        /// Name of the NodeMaintenance.
        name: String,
        /// Who asked.
        requestor: String,
    },
    /// The vendor's controller has handed the node to the maintenance-operator.
    Requestor,
    /// Another driver of the node is being upgraded.
    OtherDriver {
        /// Which one.
        driver: Driver,
        /// How far it is.
        state: String,
        /// It was left so by a hook of ours.
        ours: bool,
    },
    /// The node is being cordoned.
    Cordoning,
    /// Jobs run on the node.
    Jobs {
        /// `namespace/name` of each.
        jobs: Vec<String>,
        /// When they are not waited for any longer.
        until: Option<Timestamp>,
    },
    /// The node's pods have not been listed yet.
    Listing,
    /// The pods of as many other nodes are being followed as can be at once.
    Queued,
    /// Pods are being evicted.
    Evicting {
        /// `namespace/name` of each that is still there, with what holds it.
        pods: Vec<String>,
        /// When that counts as a failure.
        until: Option<Timestamp>,
    },
    /// The old driver pod was deleted, and is still there.
    DriverEnding {
        /// The pod.
        pod: String,
    },
    /// The old driver pod is gone, and there is no other one yet.
    DriverComing,
    /// No DaemonSet wants a driver pod on the node any more.
    Unwanted,
    /// The validator has not succeeded.
    Validating {
        /// What is wrong with it.
        trouble: String,
        /// When that counts as a failure.
        until: Timestamp,
    },
    /// The node failed and will be tried again.
    Retry {
        /// Why it failed.
        message: String,
        /// How often it has been tried.
        attempts: u32,
        /// How often it may be.
        limit: u32,
        /// When.
        at: Timestamp,
    },
    /// The node failed, and will not be tried again.
    Failed {
        /// The kind.
        cause: FailureCause,
        /// In words.
        message: String,
        /// How often it has been tried.
        attempts: u32,
        /// It stays cordoned.
        cordoned: bool,
    },
    /// The node carries the record of a newer program.
    NewerRecord {
        /// Its version.
        version: u32,
    },
    /// All is done, and the node is being given back.
    GivingBack,
}

impl UpgradeReason {
    /// Whether it only waits for others.
    pub(super) fn waits_for_others(&self) -> bool {
        matches!(
            self,
            Self::Paused { .. }
                | Self::Refused(_)
                | Self::Soak { .. }
                | Self::FailureBudget { .. }
                | Self::NoTime { .. }
                | Self::OtherDriver { .. }
                | Self::Queued
        )
    }
}

/// ` until …`, or nothing.
fn until(at: Option<&Timestamp>) -> String {
    at.map_or_else(String::new, |at| format!(", until {at:.0}"))
}

impl fmt::Display for UpgradeReason {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { by, why, at } => {
                write!(out, "paused by {by}")?;
                at.map_or(Ok(()), |at| write!(out, " since {at:.0}"))?;
                why.as_ref().map_or(Ok(()), |why| write!(out, ": {why}"))
            }
            Self::Refused(refusal) => refusal.fmt(out),
            Self::Soak { until } => write!(out, "the node before it has to run until {until:.0}"),
            Self::FailureBudget { failed, budget } => {
                write!(
                    out,
                    "{} nodes have failed ({}) and {budget} may: no other node is started",
                    failed.len(),
                    listed(failed)
                )
            }
            Self::NoTime { deadline, per_node, held: None } => {
                write!(
                    out,
                    "a node takes {per_node} s and the run has to end at {deadline:.0}: no other node is started"
                )
            }
            Self::NoTime { held: Some(refusal), .. } => {
                write!(out, "{refusal}; there is no time left to wait for that")
            }
            Self::ForeignCordon => write!(out, "somebody else has cordoned the node"),
            Self::Maintenance { name, requestor } => {
                write!(out, "`{requestor}` has the node in maintenance (NodeMaintenance `{name}`)")
            }
            Self::Requestor => write!(
                out,
                "the vendor's controller has handed the node to the maintenance-operator"
            ),
            Self::OtherDriver { driver, state, .. } => {
                write!(out, "the {} driver of the node is at `{state}`", driver.traits().name)
            }
            Self::Cordoning => write!(out, "the node is being cordoned"),
            Self::Jobs { jobs, until: at } => {
                let count = if jobs.len() == 1 {
                    "1 job runs".to_owned()
                } else {
                    format!("{} jobs run", jobs.len())
                };
                write!(out, "{count} on the node: {}{}", listed(jobs), until(at.as_ref()))
            }
            Self::Listing => write!(out, "the node's pods are being listed"),
            Self::Queued => write!(
                out,
                "the pods of {FOCUS_LIMIT} other nodes are being followed, and of no more at once"
            ),
            Self::Evicting { pods, until: at } => write!(
                out,
                "{} pods have to go: {}{}",
                pods.len(),
                listed(pods),
                until(at.as_ref())
            ),
            Self::DriverEnding { pod } => {
                write!(out, "the old driver pod is on its way out: {pod}")
            }
            Self::DriverComing => {
                write!(out, "the old driver pod is gone, and the new one has not come")
            }
            Self::Unwanted => write!(out, "no driver DaemonSet wants a pod on the node any more"),
            Self::Validating { trouble, until: at } => {
                write!(
                    out,
                    "the driver is ready and its validator is not: {trouble}{}",
                    until(Some(at))
                )
            }
            Self::Retry { message, attempts, limit, at } => {
                write!(out, "{message}; attempt {} of {limit} at {at:.0}", attempts + 1)
            }
            Self::Failed { cause, message, attempts, cordoned } => {
                let stays = match (cordoned, cause) {
                    (true, _) => "; it stays cordoned",
                    // Its driver may be on its way already.
                    (false, FailureCause::CordonContested) => {
                        "; it is left as whoever uncordons it wants it"
                    }
                    (false, _) => "; it runs on with its old driver",
                };
                let plural = if *attempts == 1 { "" } else { "s" };
                write!(out, "{message} ({attempts} attempt{plural}){stays}")
            }
            Self::NewerRecord { version } => {
                write!(
                    out,
                    "the node carries a record of version {version}, which this program does not know"
                )
            }
            Self::GivingBack => {
                write!(out, "what the rollout has put on the node is being taken off")
            }
        }
    }
}

impl fmt::Display for StartRefusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused { key } => write!(out, "{key} is 0: nothing is started"),
            Self::Slots { limit, holders } => {
                write!(out, "{} of {limit} slots are taken: {}", holders.len(), listed(holders))
            }
            Self::Unavailable { limit, total, holders } => {
                write!(
                    out,
                    "{} of {total} nodes are unavailable and {limit} may be: {}",
                    holders.len(),
                    listed(holders)
                )
            }
            Self::Group { group, limit, holders } => {
                write!(
                    out,
                    "{} nodes of its group `{group}` are unavailable and {limit} may be: {}",
                    holders.len(),
                    listed(holders)
                )
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The driver pod may be gone, or its driver loading, when the cordon is taken away for the last time.
    #[test]
    fn contested_cordon_says_nothing_about_old_driver() {
        let failed = |cause| {
            UpgradeReason::Failed { cause, message: "why".into(), attempts: 2, cordoned: false }
                .to_string()
        };
        assert_eq!(
            failed(FailureCause::CordonContested),
            "why (2 attempts); it is left as whoever uncordons it wants it"
        );
        assert_eq!(
            failed(FailureCause::EvictionTimeout),
            "why (2 attempts); it runs on with its old driver"
        );
    }
}
