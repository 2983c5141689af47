//! Why a node does not move under the vendor's controller: typed, with numbers and names.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;

use super::controller_generation::TICK;
use super::pass::{PassError, PassOptions, VALIDATION_SECONDS, pass};
use super::predict::{PredictedMove, PredictedStep, moves};
use super::rules::PolicyRules;
use super::snapshot::{NodeEntry, PodRevision, SnapshotError, UpgradeSnapshot};
use super::state::ControllerState;
use super::throttle::{PendingDecision, PolicyLimit, slots};

mod table;
mod text;

pub use text::OptionalText;

/// A node that has not come to its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WaitingNode {
    /// The node.
    pub node: String,
    /// Its state.
    pub state: ControllerState,
    /// What it waits for.
    pub wait: ControllerWait,
}

/// What a node waits for. Its lists are shared: all pending nodes of a large fleet wait for the same nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[cfg_attr(
    feature = "kinds",
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(WaitKind), vis(pub), derive(strum::EnumIter))
)]
pub enum ControllerWait {
    /// Upgrades are switched off.
    Off,
    /// Sandbox workloads switch the upgrade controller off: container nodes keep drivers that no controller upgrades.
    SandboxWorkloads,
    /// The controller does nothing for any node.
    Blocked {
        /// Why.
        error: SnapshotError,
    },
    /// Its passes end before they come to the node.
    PassEnds {
        /// Why.
        error: PassError,
    },
    /// The controller would move it, and has not looked: nothing of what happened wakes it.
    Asleep {
        /// What it does as soon as it looks.
        step: PredictedStep,
        /// Since when it sleeps, if that is known.
        since: Option<Timestamp>,
        /// When it looks at the latest.
        until: Option<Timestamp>,
    },
    /// The user's label keeps it.
    Skipped {
        /// The label.
        label: &'static str,
    },
    /// As many nodes are in progress as may be.
    Parallel {
        /// `maxParallelUpgrades`
        limit: u32,
        /// The nodes that take the slots.
        holders: Arc<[SlotHolder]>,
        /// Nodes that take the rest of them with the next pass.
        ahead: Arc<[String]>,
    },
    /// As many nodes are unavailable as may be.
    Unavailable {
        /// How many may.
        limit: usize,
        /// `maxUnavailable` as it is written.
        written: String,
        /// How many nodes there are.
        total: usize,
        /// How many count as unavailable.
        counted: usize,
        /// Which ones.
        holders: Arc<[SlotHolder]>,
        /// Nodes that take the rest with the next pass.
        ahead: Arc<[String]>,
    },
    /// Jobs run.
    Jobs {
        /// How many pods of them.
        count: usize,
        /// Since when they are waited for.
        since: Option<Timestamp>,
        /// Until when. `None`: without limit.
        until: Option<Timestamp>,
    },
    /// The pods that use the device are being evicted.
    Evicting {
        /// How many seconds that may take; 0 is without limit.
        timeout_seconds: u64,
        /// A drain follows if it does not succeed.
        drain: bool,
    },
    /// It is being drained.
    Draining {
        /// How many seconds that may take; 0 is without limit.
        timeout_seconds: u64,
    },
    /// The maintenance-operator has not got it ready.
    Maintenance {
        /// Reason of the object's condition `Ready`.
        found: Option<String>,
    },
    /// It was handed to the maintenance-operator, and that mode is off now.
    MaintenanceOff,
    /// The old driver pod is on its way out.
    Terminating {
        /// The pod.
        pod: String,
    },
    /// The new driver is not ready.
    DriverStarting {
        /// The pod.
        pod: String,
        /// What is wrong with a container.
        trouble: Option<String>,
        /// Restarts of one that is not ready.
        restarts: i32,
    },
    /// There is no pod of the validator on it; no time runs.
    NoValidator,
    /// The validator is not ready.
    Validating {
        /// Its pod.
        pod: String,
        /// When that counts as a failure. `None`: the time has not begun.
        until: Option<Timestamp>,
    },
    /// It was given up with its old driver.
    FailedBefore,
    /// It was given up, and its new driver is not ready.
    FailedDriver {
        /// The pod.
        pod: String,
        /// What is wrong with a container.
        trouble: Option<String>,
    },
    /// A state that the controller does not know.
    UnknownState {
        /// The label's value.
        label: String,
    },
}

/// A node that others wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlotHolder {
    /// The node.
    pub node: String,
    /// Its state.
    pub state: ControllerState,
    /// It was given up.
    pub failed: bool,
    /// Cordoned.
    pub cordoned: bool,
    /// Known not to be Ready.
    pub not_ready: bool,
}

impl SlotHolder {
    fn from_entry(entry: &NodeEntry<'_>) -> Self {
        Self {
            node: entry.node.to_owned(),
            state: entry.state,
            failed: entry.state == ControllerState::Failed,
            cordoned: entry.unschedulable,
            not_ready: entry.ready == Some(false),
        }
    }
}

/// What one pass would do now, and what the nodes wait for that it would not move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PassOutlook {
    /// What a pass that ran now would move.
    pub moves: Vec<PredictedMove>,
    /// Why the nodes with an entry of their own do not move, in the controller's order.
    pub waits: Vec<WaitingNode>,
    /// What all of the snapshot's counted nodes wait for that are pending.
    pub pending_wait: Option<ControllerWait>,
}

/// Looks at what a pass that ran now would do, and at what is left. `asleep_since`: when the controller last had a reason to run.
pub fn explain_pass(
    snapshot: &UpgradeSnapshot<'_>,
    rules: &PolicyRules,
    options: &PassOptions,
    asleep_since: Option<Timestamp>,
) -> PassOutlook {
    let outcome = pass(snapshot, rules, options);
    let all = moves(snapshot, &outcome);
    // What a node does first is what it waits for.
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
    // Any one stands for all of them: nothing is done with them, and nothing of their own keeps them.
    let pending = NodeEntry { state: ControllerState::UpgradeRequired, ..NodeEntry::default() };
    let pending_wait =
        if snapshot.counted.pending_nodes.is_empty() { None } else { view.wait(&pending) };
    PassOutlook { moves: all, waits, pending_wait }
}

/// Which of the two limits keeps pending nodes, and who is in their way.
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
    /// `None`: there is nothing to wait for.
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
        match entry.state {
            ControllerState::Unknown | ControllerState::Done => None,
            ControllerState::UpgradeRequired => Some(self.slot.clone()),
            ControllerState::WaitForJobsRequired => Some(self.jobs(entry)),
            ControllerState::PodDeletionRequired => Some(ControllerWait::Evicting {
                timeout_seconds: self
                    .rules
                    .policy
                    .pod_deletion
                    .as_ref()
                    .map_or(0, |deletion| deletion.timeout_seconds),
                drain: self.rules.policy.drain.is_some(),
            }),
            ControllerState::DrainRequired => Some(ControllerWait::Draining {
                timeout_seconds: self
                    .rules
                    .policy
                    .drain
                    .as_ref()
                    .map_or(0, |drain| drain.timeout_seconds),
            }),
            ControllerState::NodeMaintenanceRequired if self.options.requestor.is_none() => {
                Some(ControllerWait::MaintenanceOff)
            }
            ControllerState::NodeMaintenanceRequired => {
                let reason = entry.maintenance.as_ref().and_then(|object| object.reason);
                Some(ControllerWait::Maintenance { found: reason.map(str::to_owned) })
            }
            ControllerState::PodRestartRequired => Some(driver_starting(entry)),
            ControllerState::ValidationRequired => Some(validating(entry)),
            ControllerState::UncordonRequired => Some(ControllerWait::MaintenanceOff),
            ControllerState::Failed if entry.pod.revision == PodRevision::Newest => {
                Some(ControllerWait::FailedDriver {
                    pod: entry.pod.name.to_owned(),
                    trouble: entry.pod.trouble.map(str::to_owned),
                })
            }
            ControllerState::Failed => Some(ControllerWait::FailedBefore),
            // A node whose turn has come is always moved.
            ControllerState::CordonRequired
            | ControllerState::PostMaintenanceRequired
            | ControllerState::Unrecognized => {
                Some(ControllerWait::UnknownState { label: entry.label.to_owned() })
            }
        }
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
            let until = second(entry.notes.validation_start)
                .map(|since| later(since, seconds(VALIDATION_SECONDS)));
            ControllerWait::Validating { pod: validator.name.to_owned(), until }
        }
    }
}

/// A time in an annotation.
fn second(text: Option<&str>) -> Option<Timestamp> {
    Timestamp::from_second(text?.parse().ok()?).ok()
}

fn seconds(seconds: u64) -> SignedDuration {
    SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))
}

fn later(since: Timestamp, pause: SignedDuration) -> Timestamp {
    since.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
