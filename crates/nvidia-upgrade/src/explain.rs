//! Explains why a node waits for NVIDIA's controller: typed, with numbers and names.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;

use super::controller_generation::TICK;
use super::pass::{PassError, PassOptions, VALIDATION_SECONDS, pass};
use super::policy_rules::PolicyRules;
use super::predict::{PredictedMove, PredictedStep, moves};
use super::snapshot::{CountedEntries, NodeEntry, PodRevision, SnapshotError, UpgradeSnapshot};
use super::state::ControllerState;
use super::throttle::{PendingDecision, PolicyLimit, slots};

mod table;
mod text;

pub use text::OptionalText;

/// A node whose upgrade has not ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingNode {
    /// The node.
    pub node: String,
    /// Its state.
    pub state: ControllerState,
    /// The wait.
    pub wait: ControllerWait,
}

/// The wait of a node. Its lists are shared: all pending nodes of a large fleet wait for the same
/// nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "kinds",
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(WaitKind), vis(pub), derive(strum::EnumIter))
)]
pub enum ControllerWait {
    /// Automatic upgrades are off.
    Off,
    /// Sandbox workloads disable the upgrade controller: container nodes keep drivers that no
    /// controller upgrades.
    SandboxWorkloads,
    /// The controller cannot upgrade any node.
    Blocked {
        /// The error.
        error: SnapshotError,
    },
    /// Its passes end before they reach the node.
    PassEnds {
        /// The error.
        error: PassError,
    },
    /// The controller would continue with the node, but has made no pass: no event wakes it.
    Asleep {
        /// The step of its next pass.
        step: PredictedStep,
        /// Since when it has been asleep, if that is known.
        since: Option<Timestamp>,
        /// The latest time of its next pass.
        until: Option<Timestamp>,
    },
    /// The user's skip label excludes it.
    Skipped {
        /// The label.
        label: &'static str,
    },
    /// The limit of nodes in progress is reached.
    Parallel {
        /// `maxParallelUpgrades`
        limit: u32,
        /// The nodes that occupy the slots.
        holders: Arc<[SlotHolder]>,
        /// Nodes that will occupy the remaining slots in the next pass.
        ahead: Arc<[String]>,
    },
    /// The limit of unavailable nodes is reached.
    Unavailable {
        /// The limit.
        limit: usize,
        /// `maxUnavailable`, as written.
        written: String,
        /// Number of nodes.
        total: usize,
        /// Number of nodes that count as unavailable.
        counted: usize,
        /// The unavailable nodes.
        holders: Arc<[SlotHolder]>,
        /// Nodes that will become unavailable in the next pass.
        ahead: Arc<[String]>,
    },
    /// Jobs are running.
    Jobs {
        /// Number of their pods.
        count: usize,
        /// Since when the controller has been waiting for them.
        since: Option<Timestamp>,
        /// Until when it waits; `None` if unlimited.
        until: Option<Timestamp>,
    },
    /// The pods that use the device are being evicted.
    Evicting {
        /// Timeout in seconds; 0 is unlimited.
        timeout_seconds: u64,
        /// Whether a drain follows if the evictions do not succeed.
        drain: bool,
    },
    /// It is being drained.
    Draining {
        /// Timeout in seconds; 0 is unlimited.
        timeout_seconds: u64,
    },
    /// The maintenance-operator has not prepared the node.
    Maintenance {
        /// Reason of the object's condition `Ready`.
        found: Option<String>,
    },
    /// The node was handed to the maintenance-operator, but requestor mode is off now.
    MaintenanceOff,
    /// The old driver pod is terminating.
    Terminating {
        /// The pod.
        pod: String,
    },
    /// The new driver is not ready.
    DriverStarting {
        /// The pod.
        pod: String,
        /// The problem of a container.
        trouble: Option<String>,
        /// Restarts of a container that is not ready.
        restarts: i32,
    },
    /// There is no pod of the validator on the node; no timeout applies.
    NoValidator,
    /// The validator is not ready.
    Validating {
        /// Its pod.
        pod: String,
        /// When the wait counts as a failure; `None` if its time has not started.
        until: Option<Timestamp>,
    },
    /// The upgrade failed, and the node keeps its old driver.
    FailedBefore,
    /// The upgrade failed, and the new driver is not ready.
    FailedDriver {
        /// The pod.
        pod: String,
        /// The problem of a container.
        trouble: Option<String>,
    },
    /// A state that the controller does not know.
    UnknownState {
        /// The label's value.
        label: String,
    },
}

impl ControllerWait {
    /// Returns from when on a pass moves the node on, or fails it, although nothing has changed. The
    /// controller compares whole seconds.
    pub fn times_out_at(&self) -> Option<Timestamp> {
        match self {
            Self::Jobs { until, .. } | Self::Validating { until, .. } => {
                until.map(|until| later(until, SignedDuration::from_secs(1)))
            }
            Self::Off
            | Self::SandboxWorkloads
            | Self::Blocked { .. }
            | Self::PassEnds { .. }
            | Self::Asleep { .. }
            | Self::Skipped { .. }
            | Self::Parallel { .. }
            | Self::Unavailable { .. }
            | Self::Evicting { .. }
            | Self::Draining { .. }
            | Self::Maintenance { .. }
            | Self::MaintenanceOff
            | Self::Terminating { .. }
            | Self::DriverStarting { .. }
            | Self::NoValidator
            | Self::FailedBefore
            | Self::FailedDriver { .. }
            | Self::UnknownState { .. } => None,
        }
    }
}

/// A node that others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHolder {
    /// The node.
    pub node: String,
    /// Why it counts.
    pub cause: HolderCause,
}

/// Why a node counts against a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HolderCause {
    /// Its upgrade is in progress. The step is not named: the nodes that wait would have another
    /// reason after each step.
    InProgress,
    /// Its upgrade failed.
    Failed,
    /// It cannot take workloads.
    Unavailable {
        /// Whether it is cordoned.
        cordoned: bool,
        /// Whether it is known not to be Ready.
        not_ready: bool,
    },
}

impl SlotHolder {
    fn from_entry(entry: &NodeEntry<'_>) -> Self {
        let cause = if entry.state == ControllerState::Failed {
            HolderCause::Failed
        } else if entry.state.is_in_progress() {
            HolderCause::InProgress
        } else {
            HolderCause::Unavailable {
                cordoned: entry.unschedulable,
                not_ready: entry.ready == Some(false),
            }
        };
        Self { node: entry.node.to_owned(), cause }
    }
}

/// The prediction of one pass: the nodes that it would continue with, and the waits of the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOutlook {
    /// The steps of a pass that ran now.
    pub moves: Vec<PredictedMove>,
    /// The waits of nodes with an entry of their own, in the controller's order.
    pub waits: Vec<WaitingNode>,
    /// The wait of all pending nodes that the snapshot only counts.
    pub pending_wait: Option<ControllerWait>,
    /// The wait of all skipped nodes that the snapshot only counts.
    pub skipped_wait: Option<ControllerWait>,
}

/// Predicts a pass that runs now, and the waits of the other nodes. `asleep_since`: when the
/// controller last had a reason to run.
pub fn explain_pass(
    snapshot: &UpgradeSnapshot<'_>,
    rules: &PolicyRules,
    options: &PassOptions,
    asleep_since: Option<Timestamp>,
) -> PassOutlook {
    let outcome = pass(snapshot, rules, options);
    let all = moves(snapshot, &outcome);
    // The first step of a node is the one that it waits for.
    let moved = all.iter().rev().map(|moved| (moved.node.clone(), moved.step)).collect();
    let slot = slot(snapshot, rules);
    let view =
        ExplainView { snapshot, rules, options, slot, moved, error: outcome.error, asleep_since };
    let waiting = |entry: &NodeEntry<'_>| {
        Some(WaitingNode {
            node: entry.node.to_owned(),
            state: entry.state,
            wait: view.wait(entry)?,
        })
    };
    let waits = snapshot.entries.iter().filter_map(waiting).collect();
    // One entry represents all of them: the pass does nothing with them, and nothing else blocks
    // them.
    let pending = NodeEntry { state: ControllerState::UpgradeRequired, ..NodeEntry::default() };
    let skipped = NodeEntry { skip: Some("true"), ..pending.clone() };
    let CountedEntries { pending: pending_nodes, skipped: skipped_nodes, .. } = snapshot.counted;
    let common = |entry: &NodeEntry<'_>, count: usize| view.wait(entry).filter(|_| count > 0);
    PassOutlook {
        waits,
        pending_wait: common(&pending, pending_nodes),
        skipped_wait: common(&skipped, skipped_nodes),
        moves: all,
    }
}

/// Returns which of the two limits blocks pending nodes, and the nodes that use it up.
fn slot(snapshot: &UpgradeSnapshot<'_>, rules: &PolicyRules) -> ControllerWait {
    let (entries, policy) = (&snapshot.entries, &rules.policy);
    let throttle = slots(snapshot, policy);
    let holders = |test: &dyn Fn(&NodeEntry<'_>) -> bool| {
        entries.iter().filter(|entry| test(entry)).map(SlotHolder::from_entry).collect()
    };
    let ahead = throttle
        .turns(entries)
        .filter(|(_, turn)| *turn == PendingDecision::Starts)
        .map(|(entry, _)| entry.node.to_owned())
        .collect();
    match throttle.limit {
        PolicyLimit::Parallel => ControllerWait::Parallel {
            limit: policy.max_parallel_upgrades,
            holders: holders(&|entry| entry.state.is_in_progress()),
            ahead,
        },
        PolicyLimit::Unavailable | PolicyLimit::Pending => ControllerWait::Unavailable {
            limit: throttle.max_unavailable,
            written: policy
                .max_unavailable
                .map_or_else(|| "all".to_owned(), |limit| limit.to_string()),
            total: throttle.total,
            counted: throttle.counted,
            holders: holders(&|entry| {
                entry.is_unavailable() || entry.state == ControllerState::CordonRequired
            }),
            ahead,
        },
    }
}

struct ExplainView<'v, 'a> {
    snapshot: &'v UpgradeSnapshot<'a>,
    rules: &'v PolicyRules,
    options: &'v PassOptions,
    slot: ControllerWait,
    moved: BTreeMap<String, PredictedStep>,
    error: Option<PassError>,
    asleep_since: Option<Timestamp>,
}

impl ExplainView<'_, '_> {
    /// Returns the wait; `None` if there is nothing to wait for.
    fn wait(&self, entry: &NodeEntry<'_>) -> Option<ControllerWait> {
        let is_idle = matches!(entry.state, ControllerState::Unknown | ControllerState::Done)
            && entry.pod.revision != PodRevision::Older;
        if !self.rules.auto_upgrade {
            return (!is_idle).then_some(ControllerWait::Off);
        }
        if let Some(error) = &self.snapshot.blocked {
            return (!is_idle).then(|| ControllerWait::Blocked { error: error.clone() });
        }
        if let Some(step) = self.moved.get(entry.node) {
            let until = self.asleep_since.map(|since| later(since, TICK));
            return Some(ControllerWait::Asleep { step: *step, since: self.asleep_since, until });
        }
        if entry.state == ControllerState::UpgradeRequired && entry.is_skipped() {
            return Some(ControllerWait::Skipped { label: self.driver().traits().skip_label });
        }
        if let Some(error) = &self.error {
            return (!is_idle).then(|| ControllerWait::PassEnds { error: error.clone() });
        }
        self.in_state(entry)
    }

    /// Returns what the state of the node waits for.
    fn in_state(&self, entry: &NodeEntry<'_>) -> Option<ControllerWait> {
        let policy = &self.rules.policy;
        Some(match entry.state {
            ControllerState::Unknown | ControllerState::Done => return None,
            ControllerState::UpgradeRequired => self.slot.clone(),
            ControllerState::WaitForJobsRequired => self.jobs(entry),
            ControllerState::PodDeletionRequired => ControllerWait::Evicting {
                timeout_seconds: policy
                    .pod_deletion
                    .as_ref()
                    .map_or(0, |deletion| deletion.timeout_seconds),
                drain: policy.drain.is_some(),
            },
            ControllerState::DrainRequired => ControllerWait::Draining {
                timeout_seconds: policy.drain.as_ref().map_or(0, |drain| drain.timeout_seconds),
            },
            ControllerState::NodeMaintenanceRequired if self.options.requestor.is_none() => {
                ControllerWait::MaintenanceOff
            }
            ControllerState::NodeMaintenanceRequired => {
                let reason = entry.maintenance.as_ref().and_then(|object| object.reason);
                ControllerWait::Maintenance { found: reason.map(str::to_owned) }
            }
            ControllerState::PodRestartRequired => driver_starting(entry),
            ControllerState::ValidationRequired => validating(entry),
            ControllerState::UncordonRequired => ControllerWait::MaintenanceOff,
            ControllerState::Failed if entry.pod.revision == PodRevision::Newest => {
                ControllerWait::FailedDriver {
                    pod: entry.pod.name.to_owned(),
                    trouble: entry.pod.trouble.map(str::to_owned),
                }
            }
            ControllerState::Failed => ControllerWait::FailedBefore,
            // The controller always continues with a node in this state.
            ControllerState::CordonRequired
            | ControllerState::PostMaintenanceRequired
            | ControllerState::Unrecognized => {
                ControllerWait::UnknownState { label: entry.label.to_owned() }
            }
        })
    }

    fn driver(&self) -> Driver {
        self.snapshot.driver
    }

    fn jobs(&self, entry: &NodeEntry<'_>) -> ControllerWait {
        let limit =
            self.rules.policy.wait_for_completion.as_ref().map_or(0, |wait| wait.timeout_seconds);
        let since = second(entry.notes.wait_start);
        let until = since.filter(|_| limit > 0).map(|since| later(since, seconds(limit)));
        ControllerWait::Jobs { count: entry.jobs, since, until }
    }
}

fn driver_starting(entry: &NodeEntry<'_>) -> ControllerWait {
    let pod = entry.pod.name.to_owned();
    if entry.pod.revision == PodRevision::Newest {
        let trouble = entry.pod.trouble.map(str::to_owned);
        ControllerWait::DriverStarting { pod, trouble, restarts: entry.pod.unready_restarts }
    } else {
        ControllerWait::Terminating { pod }
    }
}

fn validating(entry: &NodeEntry<'_>) -> ControllerWait {
    match entry.validators.iter().find(|validator| !validator.ready) {
        None => ControllerWait::NoValidator,
        Some(validator) => {
            // A ready pod before it resets the time in every pass.
            let is_reset = entry.validators.first().is_some_and(|first| first.ready);
            let start = entry.notes.validation_start.filter(|_| !is_reset);
            let until = second(start).map(|since| later(since, seconds(VALIDATION_SECONDS)));
            ControllerWait::Validating { pod: validator.name.to_owned(), until }
        }
    }
}

/// Returns the time in an annotation.
fn second(text: Option<&str>) -> Option<Timestamp> {
    Timestamp::from_second(text?.parse().ok()?).ok()
}

fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn later(since: Timestamp, pause: SignedDuration) -> Timestamp {
    since.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
