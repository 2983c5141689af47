//! One node during a decision: its memory, its actions, and when to decide again.

use std::sync::Arc;

use crate::action::{NodePatch, PodEviction};
use crate::memory::PendingPatch;
use crate::note::DecisionNote;
use crate::pods::eviction_retry::EvictionHistory;
use crate::reason::Reason;
use contract::driver::DriverTraits;
use contract::record::{NodeOutcome, NodeRecord, RefusedWrite};
use contract::settings::Settings;
use observed::ObservedNode;

use super::Action;
use super::alarm::Alarm;
use super::inputs::FleetInputs;
use super::node_memory::NodeMemory;
use super::refused_node;
use jiff::Timestamp;

/// Seconds after which a write whose result has not been observed is issued again.
pub(super) const REPEAT_SECONDS: u64 = 10;

/// A node during a decision.
pub(super) struct NodeDraft<'a> {
    pub(super) fleet: &'a FleetInputs<'a>,
    pub(super) node: &'a ObservedNode,
    before: NodeMemory,
    pub(super) memory: NodeMemory,
    pub(super) alarm: Alarm,
    /// Whether its pods, which are watched, stay among those that the next decision needs.
    pub(super) keeps_focus: bool,
    pub(super) effects: NodeEffects,
}

/// The effects of a decision on a node, apart from its memory.
#[derive(Default, PartialEq)]
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
pub(super) struct NodeEffects {
    /// Plugin pods that are replaced.
    pub(super) replacements: Vec<Action>,
    /// Actions that continue its upgrade.
    pub(super) actions: Vec<Action>,
    /// Actions that start its upgrade.
    pub(super) starts: Vec<Action>,
    /// Pods that must leave, before it is decided which evictions are requested now.
    pub(super) evictions: Vec<(PodEviction, Option<EvictionHistory>)>,
    /// UIDs of pods whose deletion is requested, names of pods whose creation is, and requests for
    /// logs.
    pub(super) issued: Vec<String>,
    /// UIDs of pods whose eviction counts as not requested.
    pub(super) unasked: Vec<String>,
    pub(super) notes: Vec<DecisionNote>,
    /// Whether this decision needs its pods, and so does the next one.
    pub(super) focus: bool,
    /// Whether it is released after it has passed its acceptance tests.
    pub(super) tested: bool,
    /// Whether it is released unchanged because the time is over.
    pub(super) released_unchanged: bool,
    /// Whether its assessment depends on more than the fleet and itself.
    pub(super) depends_on_others: bool,
}

impl<'a> NodeDraft<'a> {
    pub(super) fn new(fleet: &'a FleetInputs<'a>, node: &'a ObservedNode) -> Self {
        let before = NodeMemory::of(fleet.memory, node);
        let memory = before.clone();
        Self {
            fleet,
            node,
            before,
            memory,
            alarm: Alarm::new(fleet.now, Timestamp::MAX),
            keeps_focus: false,
            effects: NodeEffects::default(),
        }
    }

    pub(super) fn settings(&self) -> &'a Settings {
        self.fleet.settings
    }

    pub(super) fn traits(&self) -> &'static DriverTraits {
        self.fleet.traits
    }

    pub(super) fn now(&self) -> Timestamp {
        self.fleet.now
    }

    /// Returns whether another decision about it, with the new memory, would do nothing and have
    /// the same result.
    pub(super) fn is_settled(&self) -> bool {
        self.effects == NodeEffects::default()
            && self.memory == self.before
            && self.memory.patched.is_none()
    }

    /// Returns the old memory, the new memory and the effects.
    pub(super) fn into_parts(self) -> (NodeMemory, NodeMemory, NodeEffects, Alarm) {
        (self.before, self.memory, self.effects, self.alarm)
    }

    /// Records the reason for which the node waits, and returns since when it has been that kind of
    /// reason. A decision may name several reasons, and only the final one is kept. If it is the
    /// reason of the previous decision, its start stays, although others were named before it.
    pub(super) fn waits(&mut self, reason: &Reason) -> Timestamp {
        if let Some((kind, since)) =
            self.before.waiting.filter(|(kind, _)| *kind == reason.wait_name())
        {
            self.memory.waiting = Some((kind, since));
            return since;
        }
        self.memory.waits(reason, self.fleet.now)
    }

    /// Returns the node's record in this run.
    pub(super) fn record(&self) -> Option<&NodeRecord> {
        self.memory.record_of(self.node)
    }

    /// Returns whether this decision changes its outcome in the run record.
    pub(super) fn changes_outcome(&self) -> bool {
        let outcome =
            |memory: &NodeMemory| memory.record.as_ref().and_then(|record| record.outcome);
        outcome(&self.before) != outcome(&self.memory)
    }

    /// Changes the node's record, and creates it if needed; a node that was recreated under the
    /// same name gets a new one.
    pub(super) fn change_record(&mut self, change: impl FnOnce(&mut NodeRecord)) {
        let uid = &self.node.uid;
        let record = match self.memory.record.take() {
            Some(record) if record.uid == *uid => record,
            Some(_) | None => NodeRecord { uid: uid.clone(), ..NodeRecord::default() }.into(),
        };
        change(Arc::make_mut(self.memory.record.insert(record)));
    }

    /// Returns whether the node belongs to the run: it is in the cohort, or the hook upgrades it.
    pub(super) fn is_member(&self) -> bool {
        let ours = self.node.annotations.contains_key(self.fleet.traits.own_record);
        let started = self.memory.patched.as_ref().is_some_and(|patched| patched.starts);
        self.fleet.memory.is_in_cohort(&self.node.uid) || ours || started
    }

    /// Returns whether the run has waited for the node so far.
    pub(super) fn is_under_way(&self) -> bool {
        self.fleet.memory.is_in_cohort(&self.node.uid)
            && self.record().is_some_and(|record| record.outcome.is_none())
    }

    /// Returns the refused write because of which the upgrade of the node is stopped in this run.
    pub(super) fn refused_write(&self) -> Option<&RefusedWrite> {
        self.record()?.refused.as_ref()
    }

    /// Returns whether nothing more is written to the node in this run.
    pub(super) fn takes_no_patch(&self) -> bool {
        self.refused_write().is_some_and(|refused| refused.stays)
    }

    /// Issues a patch, unless a patch for the same state of the node is pending.
    pub(super) fn issue(&mut self, patch: NodePatch) -> bool {
        let patch = self.taken(patch, false);
        let issued = patch.is_some();
        self.effects.actions.extend(patch);
        issued
    }

    /// Issues the patch that starts its upgrade, with the same condition.
    pub(super) fn issue_start(&mut self, patch: NodePatch) {
        let patch = self.taken(patch, true);
        self.effects.starts.extend(patch);
    }

    fn taken(&mut self, mut patch: NodePatch, starts: bool) -> Option<Action> {
        if self.takes_no_patch() || refused_node::tried_again(self).is_some() {
            return None;
        }
        if let Some(patched) = &self.memory.patched
            && patched.version == patch.version
            && !self.alarm.passed(patched.at, REPEAT_SECONDS)
        {
            return None;
        }
        let now = self.fleet.now;
        self.memory.patched =
            Some(PendingPatch { version: patch.version.clone(), at: now, starts });
        self.alarm.passed(now, REPEAT_SECONDS);
        patch.starts = starts;
        Some(Action::PatchNode(patch))
    }

    /// Returns whether a patch of the node is pending: its change has not been observed.
    pub(super) fn is_patched(&mut self) -> bool {
        let at = self.memory.patched.as_ref().map(|patched| patched.at);
        at.is_some_and(|at| !self.alarm.passed(at, REPEAT_SECONDS))
    }

    /// Returns whether the deletion of the pod with this UID, the creation of the pod of an
    /// acceptance test with this name, or this reading of a log was just requested. If not, it
    /// counts as requested from now on.
    pub(super) fn is_just_requested(&mut self, pod: &str) -> bool {
        let issued = self.fleet.memory.issued.get(pod).map(|request| request.at);
        if issued.is_some_and(|at| !self.alarm.passed(at, REPEAT_SECONDS)) {
            return true;
        }
        self.effects.issued.push(pod.to_owned());
        self.alarm.passed(self.fleet.now, REPEAT_SECONDS);
        false
    }

    /// Returns the outcome of the node of this name, if it is known.
    pub(super) fn outcome_of(&mut self, node: &str) -> Option<NodeOutcome> {
        self.effects.depends_on_others = true;
        self.fleet.memory.nodes.get(node)?.outcome
    }
}
