//! Refused writes: the node that a write was refused for fails, its slot is free, and the other nodes go on.
//!
//! The caller only notes what the server answered. Here it is judged: a refusal that is final goes into the node's record, so that it
//! survives the process. A node that still takes patches is then marked as failed, and uncordoned if its driver was not touched. One that
//! does not stays as it is. Either way nothing more is asked for in this run, unless a person asks for the node.

use crate::reason::Reason;
use crate::refusal::RefusalKind;
use crate::upgrade::record::{NodeRecordState, read};
use contract::driver::DriverTraits;
use contract::record::{RefusedWrite, WriteKind};
use nvidia_upgrade::state::ControllerState as VendorState;
use observed::ObservedNode;

use super::Deciding;
use super::drive::is_requested;

impl Deciding<'_> {
    /// Judges the refusals that were noted since the last decision.
    pub(super) fn judge_refusals(&mut self) {
        if self.memory.refusals.is_empty() {
            return;
        }
        let (now, nodes) = (self.now, &self.observed.nodes);
        self.memory.refusals.retain(|(node, _), refusal| nodes.contains_key(node) && !refusal.is_forgotten(now));
        let is_final = self.memory.refusals.iter().filter(|(_, refusal)| refusal.is_final());
        let given_up: Vec<_> = is_final.map(|(object, _)| object.clone()).collect();
        for object in given_up {
            let Some(refusal) = self.memory.refusals.remove(&object) else { continue };
            let (name, pod) = object;
            let Some(node) = nodes.get(&name) else { continue };
            match refusal.write {
                // Part of it may have taken effect, which is to be seen first.
                WriteKind::Node if refusal.kind == RefusalKind::Changed => {}
                // It counted as if it had taken effect.
                WriteKind::Node => drop(self.memory.patched.remove(&name)),
                WriteKind::PodDeletion => drop(self.memory.issued.remove(&pod)),
                WriteKind::Eviction => {}
            }
            let traits = self.settings.driver.traits();
            let changed = refusal.kind == RefusalKind::Changed;
            let is_ours = self.settings.mode.decides() && (changed || is_in_progress(node, traits));
            let requested = is_requested(node, traits);
            self.record(node, |record| {
                // A plugin that is still there holds no slot.
                record.replaced.remove(&pod);
                let is_patch = refusal.write == WriteKind::Node;
                if let Some(before) = &mut record.refused {
                    // What was to give it back is refused too. The first refusal is the cause.
                    before.stays |= is_patch;
                } else {
                    let (write, message, cordon) = (refusal.write, refusal.message, refusal.cordon);
                    record.refused = Some(RefusedWrite { write, message, stays: is_patch && !is_ours, cordon, requested });
                }
            });
        }
    }

    /// The refused write for which the node is given up in this run.
    pub(super) fn refused_write(&self, node: &ObservedNode) -> Option<&RefusedWrite> {
        self.memory.refused(node)
    }

    /// Whether nothing more is written to the node in this run.
    pub(super) fn takes_no_patch(&self, node: &ObservedNode) -> bool {
        self.refused_write(node).is_some_and(|refused| refused.stays)
    }

    /// Whether the deletion of the node's plugin pods was refused.
    pub(super) fn keeps_its_pods(&self, node: &ObservedNode) -> Option<Reason> {
        let refused = self.refused_write(node).filter(|refused| refused.write == WriteKind::PodDeletion)?;
        Some(self.write_refused(node, refused))
    }

    /// A person who asks for a node that was given up has removed what refused its write: it is tried again, once for each request.
    pub(super) fn heed_request(&mut self, node: &ObservedNode) {
        let Some(refused) = self.refused_write(node) else { return };
        let (requested, before) = (is_requested(node, self.settings.driver.traits()), refused.requested);
        if requested == before {
            return;
        }
        self.record(node, |record| match &mut record.refused {
            Some(refused) if !requested => refused.requested = false,
            refused => *refused = None,
        });
    }

    /// What the node waits for while a write of it is tried again. `None`: nothing, or its time has come.
    pub(super) fn tried_again(&mut self, node: &ObservedNode) -> Option<Reason> {
        let first = (node.name.clone(), String::new());
        let of_node = self.memory.refusals.range(first..).take_while(|((name, _), _)| *name == node.name);
        // Evictions have their own pauses, each pod its own.
        let waits = of_node.map(|(_, refusal)| refusal).filter(|refusal| refusal.write != WriteKind::Eviction && refusal.due() > self.now);
        let refusal = waits.max_by_key(|refusal| refusal.due())?.clone();
        self.wakes(refusal.due());
        let (write, limit) = (refusal.write, refusal.limit());
        Some(Reason::WriteRetried { write, message: refusal.message, attempts: refusal.times, limit })
    }

    /// What the node waits for, where the vendor's controller acts: the refusal, unless that one is at work on the node and may finish it.
    pub(super) fn or_refused(&mut self, node: &ObservedNode, reason: &Reason) -> Option<Reason> {
        if VendorState::from_label(node.labels.get(self.settings.driver.traits().state_label).map(String::as_str)).is_busy() {
            return None;
        }
        if let Some(refused) = self.refused_write(node) {
            return Some(self.write_refused(node, refused)).filter(|refused| refused != reason);
        }
        self.tried_again(node)
    }

    pub(super) fn write_refused(&self, node: &ObservedNode, refused: &RefusedWrite) -> Reason {
        let ours = match read(node, self.settings.driver.traits()) {
            NodeRecordState::Record(record) => record.cordoned,
            NodeRecordState::Nothing | NodeRecordState::Broken => refused.cordon,
            NodeRecordState::Newer(_) => false,
        };
        Reason::WriteRefused { write: refused.write, message: refused.message.clone(), cordoned: ours && node.unschedulable }
    }
}

/// Whether our upgrade of the node is under way.
fn is_in_progress(node: &ObservedNode, traits: &DriverTraits) -> bool {
    match read(node, traits) {
        NodeRecordState::Record(record) => record.state.is_in_progress(),
        NodeRecordState::Nothing | NodeRecordState::Newer(_) | NodeRecordState::Broken => false,
    }
}
