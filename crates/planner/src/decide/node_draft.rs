//! One node while it is decided on: what is remembered of it, what is to be done, and when to decide again.

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
use super::refused_writes;
use jiff::Timestamp;

/// Seconds after which a write that has not been seen is issued again.
pub(super) const REPEAT_SECONDS: u64 = 10;

/// A node that is decided on.
pub(super) struct NodeDraft<'a> {
    pub(super) fleet: &'a FleetInputs<'a>,
    pub(super) node: &'a ObservedNode,
    before: NodeMemory,
    pub(super) memory: NodeMemory,
    pub(super) alarm: Alarm,
    pub(super) effects: NodeEffects,
}

/// What a decision does for a node, apart from what it remembers of it.
#[derive(Default, PartialEq)]
pub(super) struct NodeEffects {
    /// Plugin pods that are replaced.
    pub(super) replacements: Vec<Action>,
    /// What goes on with it.
    pub(super) actions: Vec<Action>,
    /// What begins its upgrade.
    pub(super) starts: Vec<Action>,
    /// Pods that have to go, before it is chosen which are asked for now.
    pub(super) evictions: Vec<(PodEviction, Option<EvictionHistory>)>,
    /// UIDs of pods whose deletion is asked for.
    pub(super) issued: Vec<String>,
    /// UIDs of pods whose eviction counts as not asked for.
    pub(super) unasked: Vec<String>,
    pub(super) notes: Vec<DecisionNote>,
    /// Its pods have to be seen for the next decision.
    pub(super) focus: bool,
    /// The time is over, and it is given back untouched.
    pub(super) handed_back: bool,
    /// Its assessment depends on more than the fleet and itself.
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

    /// Returns whether deciding on it again, from what is remembered then, does nothing and has the same result.
    pub(super) fn is_settled(&self) -> bool {
        self.effects == NodeEffects::default()
            && self.memory == self.before
            && self.memory.patched.is_none()
    }

    /// What was remembered, what is, and what is to be done.
    pub(super) fn into_parts(self) -> (NodeMemory, NodeMemory, NodeEffects, Alarm) {
        (self.before, self.memory, self.effects, self.alarm)
    }

    /// Notes what the node waits for, and answers since when it has been that kind of reason.
    pub(super) fn waits(&mut self, reason: &Reason) -> Timestamp {
        self.memory.waits(reason, self.fleet.now)
    }

    /// The node's record in this run.
    pub(super) fn record(&self) -> Option<&NodeRecord> {
        self.memory.record_of(self.node)
    }

    /// Changes the node's record, which is made if need be; a node that came back under the same name gets a new one.
    pub(super) fn change_record(&mut self, change: impl FnOnce(&mut NodeRecord)) {
        let uid = &self.node.uid;
        let record = match self.memory.record.take() {
            Some(record) if record.uid == *uid => record,
            Some(_) | None => NodeRecord { uid: uid.clone(), ..NodeRecord::default() },
        };
        change(self.memory.record.insert(record));
    }

    /// Whether the run is about the node: it belongs to the cohort, or its upgrade is ours.
    pub(super) fn is_member(&self) -> bool {
        let ours = self.node.annotations.contains_key(self.fleet.traits.own_record);
        let started = self.memory.patched.as_ref().is_some_and(|patched| patched.starts);
        self.fleet.memory.is_in_cohort(&self.node.uid) || ours || started
    }

    /// Whether the run has waited for the node so far.
    pub(super) fn is_under_way(&self) -> bool {
        self.fleet.memory.is_in_cohort(&self.node.uid)
            && self.record().is_some_and(|record| record.outcome.is_none())
    }

    /// The refused write for which the node is given up in this run.
    pub(super) fn refused_write(&self) -> Option<&RefusedWrite> {
        self.record()?.refused.as_ref()
    }

    /// Whether nothing more is written to the node in this run.
    pub(super) fn takes_no_patch(&self) -> bool {
        self.refused_write().is_some_and(|refused| refused.stays)
    }

    /// Issues a patch, unless one for the same state of the node is under way.
    pub(super) fn issue(&mut self, patch: NodePatch) -> bool {
        let patch = self.taken(patch, false);
        let issued = patch.is_some();
        self.effects.actions.extend(patch);
        issued
    }

    /// The same of the patch that starts its upgrade.
    pub(super) fn issue_start(&mut self, patch: NodePatch) {
        let patch = self.taken(patch, true);
        self.effects.starts.extend(patch);
    }

    fn taken(&mut self, mut patch: NodePatch, starts: bool) -> Option<Action> {
        if self.takes_no_patch() || refused_writes::tried_again(self).is_some() {
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

    /// Whether a patch of the node is under way: what it will change has not been seen.
    pub(super) fn is_patched(&mut self) -> bool {
        let at = self.memory.patched.as_ref().map(|patched| patched.at);
        at.is_some_and(|at| !self.alarm.passed(at, REPEAT_SECONDS))
    }

    /// Returns whether the deletion of this pod was asked for just now. If not, it is from now on.
    pub(super) fn is_being_deleted(&mut self, uid: &str) -> bool {
        let issued = self.fleet.memory.issued.get(uid).copied();
        if issued.is_some_and(|issued| !self.alarm.passed(issued, REPEAT_SECONDS)) {
            return true;
        }
        self.effects.issued.push(uid.to_owned());
        self.alarm.passed(self.fleet.now, REPEAT_SECONDS);
        false
    }

    /// How it ended for the node of this name, as far as that is known.
    pub(super) fn outcome_of(&mut self, node: &str) -> Option<NodeOutcome> {
        self.effects.depends_on_others = true;
        self.fleet.memory.nodes.get(node)?.outcome
    }
}
