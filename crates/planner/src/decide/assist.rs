//! Mode `assist`: the vendor's controller decides and acts; it is woken when it would go on and has not noticed, and nodes that it gave up
//! with their old driver are tried again within a budget.
//!
//! What wakes it differs between releases (`nvidia_upgrade::generation`): the skip label of a node, with a value that skips nothing, or the
//! state label of a node that is not part of its state. All of it is ours by name, and goes again.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::action::NodePatch;
use crate::node::{DriverOperands, is_driver_node};
use crate::note::DecisionNote;
use crate::policies;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::pause;
use crate::upgrade::record::{NodeRecordState, read};
use crate::upgrade::state::UpgradeState::Lifted;
use crate::{abort, hold};
use contract::driver::DriverTraits;
use contract::task::Task;
use nvidia_upgrade::generation::ControllerGeneration;
use nvidia_upgrade::predict::PredictedMove;
use nvidia_upgrade::state::ControllerState;
use nvidia_upgrade::wake::WakingChange;
use observed::ObservedNode;

use super::sweep::{Seen, Sweep};
use super::{Deciding, FleetInputs};

/// Seconds that the controller gets to go on by itself before it is woken: what it watches it acts on in less.
const NOTICE_SECONDS: u64 = 1;
/// How often it is woken for one node in one state.
const MOST_WAKES: u32 = 3;
/// Seconds between two such wakes: the first, doubled each time. A pass over a thousand nodes takes ten.
const WAKE_SECONDS: u64 = 5;
/// The value of a skip label that is ours begins with it. Only `true` skips.
pub const WAKE_VALUE: &str = "gpu-rollout-wake-";
/// The format of [`RetryCount`].
const RETRIES_VERSION: u32 = 1;

/// How often a node has been tried again, on the node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct RetryCount {
    version: u32,
    /// The trigger digest under which they are counted.
    digest: String,
    /// How often.
    attempts: u32,
    /// When last.
    at: Timestamp,
}

impl Deciding<'_> {
    /// Assists the vendor's controller. `left`: what each node waits for apart from that; the answer: with why the controller does not
    /// move it. A node at rest is only looked at again if the controller gave it up.
    pub(super) fn assist(
        &mut self,
        sweep: &Sweep<'_>,
        left: Vec<Option<Arc<Reason>>>,
        fleet: &FleetInputs<'_>,
    ) -> Vec<Option<Arc<Reason>>> {
        self.forget_seen_patches();
        let traits = self.settings.driver.traits();
        let Some(generation) = self.generation() else {
            self.notes.push(DecisionNote::OperatorVersionUnknown);
            let release = |(seen, reason): (&Seen<'_>, Option<Arc<Reason>>)| self.released(seen.node).map(Arc::new).or(reason);
            return sweep.listed.iter().zip(left).map(release).collect();
        };
        self.clean_bystanders(sweep, traits);
        let roll = self.roll(sweep.since);
        let outlook = self.vendor(generation, sweep.since, &roll);
        self.wake(generation, &outlook.moves, sweep, fleet.operands.as_ref(), traits);
        let mut whys = outlook.whys();
        let explained = |(seen, reason): (&Seen<'_>, Option<Arc<Reason>>)| {
            let reason = whys.with_why(seen.name, reason);
            let given_up = matches!(reason.as_deref(), Some(Reason::UpgradeFailed { .. }));
            if seen.rest.is_some() && !given_up {
                return reason;
            }
            let node = seen.node;
            if !self.settings.has(Task::Steer) && self.paused(node).is_some() {
                // Nobody takes off what keeps the controller from it, or has it tried again.
                self.hold_paused(node);
                return reason;
            }
            let may = given_up && !self.takes_no_patch(node);
            let retried = if may { self.retry(node, fleet.operands.as_ref(), traits) } else { None };
            let ours = self.released(node).or(retried).map(Arc::new);
            ours.or(reason).or_else(|| self.clean(node, traits).or_else(|| self.left_behind(node)).map(Arc::new))
        };
        sweep.listed.iter().zip(left).map(explained).collect()
    }

    /// Why the vendor's controller does not move the nodes, where the hook only observes.
    pub(super) fn explained(&mut self, sweep: &Sweep<'_>, left: Vec<Option<Arc<Reason>>>) -> Vec<Option<Arc<Reason>>> {
        self.note_holds(sweep);
        let Some(generation) = self.generation() else { return left };
        let roll = self.roll(sweep.since);
        let outlook = self.vendor(generation, sweep.since, &roll);
        let mut whys = outlook.whys();
        sweep.listed.iter().zip(left).map(|(seen, reason)| whys.with_why(seen.name, reason)).collect()
    }

    /// A hold of mode `steer`, or of an upgrade of the operator: the newest operator leads, and nobody else would let go of the node.
    fn released(&mut self, node: &ObservedNode) -> Option<Reason> {
        if self.settings.has(Task::Steer) || !node.annotations.contains_key(self.settings.driver.traits().hold) {
            return None;
        }
        let mut patch = NodePatch::for_node(node);
        hold::release(node, self.settings.driver, &mut patch);
        self.issue(patch, false);
        Some(Reason::Upgrading(UpgradeReason::GivingBack))
    }

    /// Names holds that this hook may not take off: mode `observe` writes to no node.
    fn note_holds(&mut self, sweep: &Sweep<'_>) {
        let driver = self.settings.driver;
        let held = sweep
            .nodes()
            .filter(|node| hold::HoldPurpose::from_node(node, driver).is_some_and(|purpose| purpose != hold::HoldPurpose::Pause))
            .count();
        if held > 0 {
            self.notes.push(DecisionNote::HeldByOtherMode { nodes: held, mode: self.settings.mode.name() });
        }
    }

    /// What another mode left on the node.
    fn left_behind(&mut self, node: &ObservedNode) -> Option<Reason> {
        if self.settings.has(Task::Steer) {
            return None;
        }
        // What stands there for another driver is that one's hook's.
        let patch = abort::of_driver(node, self.settings.driver)?;
        self.issue(patch, false);
        Some(Reason::Upgrading(UpgradeReason::GivingBack))
    }

    /// Wakes the controller if it would move a node, has had time to notice, and has not been woken too often for it.
    fn wake(
        &mut self,
        generation: ControllerGeneration,
        moves: &[PredictedMove],
        sweep: &Sweep<'_>,
        operands: Option<&DriverOperands<'_>>,
        traits: &DriverTraits,
    ) {
        let mut pending = BTreeMap::new();
        // What it has begun with it finishes. Other paused nodes are kept from it by their holds; until those are seen it is not to look.
        let wanted =
            |one: &&PredictedMove| one.from.is_busy() || self.observed.nodes.get(&one.node).is_none_or(|node| self.paused(node).is_none());
        for one in moves.iter().filter(wanted) {
            let key = (one.node.clone(), one.from.label());
            let since = self.memory.pending.get(&key).copied().unwrap_or(self.now);
            pending.insert(key, since);
        }
        self.memory.wakes.retain(|key, _| pending.contains_key(key));
        self.memory.pending = pending;
        let due: Vec<(String, &'static str)> = self
            .memory
            .pending
            .clone()
            .into_iter()
            .filter(|(key, since)| {
                let (count, last) = self.memory.wakes.get(key).copied().unwrap_or((0, *since));
                let pause = if count == 0 { NOTICE_SECONDS } else { WAKE_SECONDS << (count - 1).min(4) };
                count < MOST_WAKES && self.passed(last, pause)
            })
            .map(|(key, _)| key)
            .collect();
        let Some((first, _)) = due.first() else { return };
        let by_label = generation.is_woken_by(WakingChange::NodeSkip) || generation.is_woken_by(WakingChange::NodeLabel);
        let woken =
            if by_label { self.wake_by_skip_label(first, sweep, traits) } else { self.wake_by_state_label(sweep, operands, traits) };
        if woken {
            for key in due {
                let wakes = self.memory.wakes.entry(key).or_insert((0, self.now));
                *wakes = (wakes.0 + 1, self.now);
            }
        }
    }

    /// A skip label that skips nothing, on the node that is to go on; on another one if somebody else's label is there.
    fn wake_by_skip_label(&mut self, node: &str, sweep: &Sweep<'_>, traits: &DriverTraits) -> bool {
        let free = |node: &&ObservedNode| node.labels.get(traits.skip_label).is_none_or(|value| value.starts_with(WAKE_VALUE));
        let may = |node: &&ObservedNode| free(node) && !self.takes_no_patch(node);
        let own = self.observed.nodes.get(node).filter(may);
        let Some(node) = own.or_else(|| sweep.nodes().find(may)) else { return false };
        let number = node.labels.get(traits.skip_label).and_then(|value| value.strip_prefix(WAKE_VALUE)?.parse::<u32>().ok()).unwrap_or(0);
        let mut patch = NodePatch::for_node(node);
        patch.labels.insert(traits.skip_label.to_owned(), Some(format!("{WAKE_VALUE}{}", number.wrapping_add(1))));
        self.issue(patch, false)
    }

    /// A state label on a node without driver, which is not part of the controller's state; without such a node the label of one that is
    /// done goes: the controller sets it back at once.
    fn wake_by_state_label(&mut self, sweep: &Sweep<'_>, operands: Option<&DriverOperands<'_>>, traits: &DriverTraits) -> bool {
        let bystander = self.observed.nodes.values().find(|node| {
            sweep.place(&node.name).is_none()
                && !self.takes_no_patch(node)
                && !is_driver_node(node, self.settings.driver)
                && (!node.labels.contains_key(traits.state_label) || node.annotations.contains_key(traits.wake))
        });
        if let Some(node) = bystander {
            let mut patch = NodePatch::for_node(node);
            patch.labels.insert(traits.state_label.to_owned(), Some(ControllerState::Done.label().to_owned()));
            patch.annotations.insert(traits.wake.to_owned(), Some("true".to_owned()));
            return self.issue(patch, false);
        }
        let is = |state: ControllerState| {
            move |node: &&ObservedNode| node.labels.get(traits.state_label).is_some_and(|found| found == state.label())
        };
        // One that still waits for its turn; the controller puts it there again. The last one: its turn is the farthest.
        // One that somebody asked to be upgraded though it is current would be forgotten with its label.
        let outdated = |node: &&ObservedNode| operands.and_then(|operands| operands.driver_pod(node)).is_some_and(|pod| !pod.newest);
        let waiting = is(ControllerState::UpgradeRequired);
        let may = |node: &&ObservedNode| !self.takes_no_patch(node);
        let node = sweep.nodes().find(|node| is(ControllerState::Done)(node) && may(node));
        let node = node.or_else(|| sweep.nodes().rev().find(|node| waiting(node) && outdated(node) && may(node)));
        let Some(node) = node else { return false };
        let mut patch = NodePatch::for_node(node);
        patch.labels.insert(traits.state_label.to_owned(), None);
        self.issue(patch, false)
    }

    /// Takes away what woke the controller, from nodes that it is done with.
    fn clean(&mut self, node: &ObservedNode, traits: &DriverTraits) -> Option<Reason> {
        let state = ControllerState::from_label(node.labels.get(traits.state_label).map(String::as_str));
        if state.is_in_progress() {
            return None;
        }
        let mut patch = NodePatch::for_node(node);
        if node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE)) {
            patch.labels.insert(traits.skip_label.to_owned(), None);
        }
        if node.annotations.contains_key(traits.retries) && matches!(state, ControllerState::Unknown | ControllerState::Done) {
            patch.annotations.insert(traits.retries.to_owned(), None);
        }
        if patch.is_empty() {
            return None;
        }
        self.issue(patch, false);
        Some(Reason::Upgrading(UpgradeReason::GivingBack))
    }

    /// Takes our state label from nodes without driver. A node that has it is never at rest: that it goes is asked for until it is seen.
    fn clean_bystanders(&mut self, sweep: &Sweep<'_>, traits: &DriverTraits) {
        for node in sweep.looked_at(self.observed).into_iter().filter(|node| node.annotations.contains_key(traits.wake)) {
            let mut patch = NodePatch::for_node(node);
            let ours = node.labels.get(traits.state_label).is_some_and(|state| state == ControllerState::Done.label());
            // A node that has become one of the controller's keeps what that says of it.
            if ours && !is_driver_node(node, self.settings.driver) {
                patch.labels.insert(traits.state_label.to_owned(), None);
            }
            patch.annotations.insert(traits.wake.to_owned(), None);
            self.issue(patch, false);
        }
    }

    /// A node that the controller gave up while its old driver ran on. The label begins its upgrade anew; times that it noted for the
    /// last one would end the next at once.
    fn retry(&mut self, node: &ObservedNode, operands: Option<&DriverOperands<'_>>, traits: &DriverTraits) -> Option<Reason> {
        // Under `steer` only a node that we have let go of under this digest is tried again by its label.
        let lifted = match read(node, traits) {
            NodeRecordState::Record(record) => record.state == Lifted && record.digest == self.settings.digest,
            NodeRecordState::Nothing | NodeRecordState::Newer(_) | NodeRecordState::Broken => false,
        };
        if self.settings.has(Task::Steer) && !lifted {
            return None;
        }
        let untouched = operands.and_then(|operands| operands.driver_pod(node)).is_some_and(|pod| !pod.newest && !pod.pod.deleting);
        if !untouched {
            return None;
        }
        let known = node.annotations.get(traits.retries).and_then(|text| serde_json::from_str::<RetryCount>(text).ok());
        let known = known.filter(|retries| retries.digest == self.settings.digest);
        // The controller's own attempt is the first.
        let attempts = 1 + known.as_ref().map_or(0, |retries| retries.attempts);
        let limit = self.settings.upgrade.attempts;
        if attempts >= limit {
            return None;
        }
        let message = "the operator gave the node up, and its old driver runs on";
        let reason = UpgradeReason::Retry { message: message.to_owned(), attempts, limit, at: Timestamp::MIN };
        let failed_since = self.memory.waits(Some(&node.name), &Reason::Upgrading(reason), self.now);
        let at = failed_since.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
        // Where we steer, a node that somebody uncordoned is cordoned again first.
        let closed = !lifted || node.unschedulable;
        if at <= self.now && closed && !self.retried && self.has_room(node, traits) {
            self.retried = true;
            let retries = RetryCount { version: RETRIES_VERSION, digest: self.settings.digest.clone(), attempts, at: self.now };
            let mut patch = NodePatch::for_node(node);
            patch.labels.insert(traits.state_label.to_owned(), Some(ControllerState::UpgradeRequired.label().to_owned()));
            // A struct of plain fields always has a JSON form.
            patch.annotations.insert(traits.retries.to_owned(), Some(serde_json::to_string(&retries).unwrap_or_default()));
            for noted in [traits.wait_start, traits.validation_start] {
                if node.annotations.contains_key(noted) {
                    patch.annotations.insert(noted.to_owned(), None);
                }
            }
            self.issue(patch, false);
        } else if at > self.now {
            self.wakes(at);
        }
        Some(Reason::Upgrading(UpgradeReason::Retry { message: message.to_owned(), attempts, limit, at }))
    }

    /// Whether the node's own policy lets one more be in progress: the cordon of one that is tried again would let it pass the controller's
    /// limits.
    fn has_room(&self, node: &ObservedNode, traits: &DriverTraits) -> bool {
        let live = policies::live(self.observed, self.settings).into_iter().find(|live| live.governs(node));
        let limit = live.as_ref().and_then(|live| live.policy.max_parallel).unwrap_or(1);
        let governed = |node: &&ObservedNode| live.as_ref().is_none_or(|live| live.governs(node));
        limit == 0 || self.observed.nodes.values().filter(governed).filter(|node| is_busy(node, traits)).count() < limit as usize
    }
}

/// Whether the vendor's controller is at work on the node.
fn is_busy(node: &ObservedNode, traits: &DriverTraits) -> bool {
    ControllerState::from_label(node.labels.get(traits.state_label).map(String::as_str)).is_busy()
}
