//! Mode `steer`: the vendor's controller does the work, and we say when each node goes. Nodes are held by its skip label; one is let go of by
//! taking the label away and cordoning it in the same patch, with the note that makes the controller leave the cordon: it is ours until the
//! node is checked. If we die, held nodes run on with their old driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::NodePatch;
use crate::hold;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::FailureCause;
use crate::upgrade::record::{NodeFailure, NodeRecordState, UpgradeRecord, VERSION};
use crate::upgrade::state::UpgradeState;
use crate::upgrade::throttle::{StartThrottle, ThrottledNode};
use contract::driver::DriverTraits;
use contract::record::RefusedWrite;
use nvidia_upgrade::state::ControllerState as VendorState;
use observed::ObservedNode;

use super::drive::{DrivenNode, is_requested, needs_upgrade, put, subject};
use super::sweep::Sweep;
use super::{Deciding, FleetInputs, after};

/// How it stands with a node.
enum SteerVerdict {
    /// It needs nothing.
    Over,
    /// It waits.
    Waits(Reason),
    /// We may let go of it.
    Candidate,
}

impl Deciding<'_> {
    /// Steers the nodes' upgrades. `left`: what each node waits for apart from that; the answer: with it.
    pub(super) fn steer(&mut self, sweep: &Sweep<'_>, left: Vec<Option<Arc<Reason>>>, fleet: &FleetInputs<'_>) -> Vec<Option<Arc<Reason>>> {
        let left = self.assist(sweep, left, fleet);
        let Some(operands) = &fleet.operands else { return left };
        let traits = self.settings.driver.traits();
        let subjects: Vec<DrivenNode<'_>> =
            sweep.nodes().zip(left).map(|(node, left)| subject(node, left, operands, traits, None)).collect();
        let as_member = |subject: &DrivenNode<'_>| {
            let member = self.member(subject);
            // One that the controller gave up holds no slot; if it keeps its cordon it is unavailable by that.
            let active = vendor_state(subject.node, traits).is_busy();
            let in_progress = member.in_progress || active;
            ThrottledNode { in_progress, unavailable: member.unavailable || active, ..member }
        };
        let members: Vec<ThrottledNode> = subjects.iter().map(as_member).collect();
        let named: Vec<(&str, &ThrottledNode)> = subjects.iter().map(|subject| subject.node.name.as_str()).zip(&members).collect();
        let mut reasons = Vec::with_capacity(subjects.len());
        let mut candidates = Vec::new();
        let mut ends = false;
        for (at, subject) in subjects.iter().enumerate() {
            self.heed_request(subject.node);
            let refused = self.refused_write(subject.node).cloned();
            let turn = match &refused {
                Some(refused) => self.refused_steered(subject, refused, traits),
                None => self.steered(subject, traits),
            };
            reasons.push(match turn {
                SteerVerdict::Over => {
                    ends |= self.is_under_way(subject.node);
                    None
                }
                SteerVerdict::Waits(reason) => Some(Arc::new(reason)),
                SteerVerdict::Candidate => {
                    candidates.push(at);
                    None
                }
            });
        }
        let mut throttle = StartThrottle::new(&self.settings.upgrade, &named);
        let failed: Vec<String> =
            subjects.iter().filter(|subject| self.is_given_up(subject)).map(|subject| subject.node.name.clone()).collect();
        let barrier = if candidates.is_empty() { None } else { self.barrier(failed, subjects.len(), ends) };
        for at in candidates {
            let refused = self.refused(named[at], barrier.as_ref(), &mut throttle);
            let reason = refused.unwrap_or_else(|| self.lift(&subjects[at], traits));
            reasons[at] = Some(Arc::new(Reason::Upgrading(reason)));
        }
        reasons
    }

    fn steered(&mut self, subject: &DrivenNode<'_>, traits: &DriverTraits) -> SteerVerdict {
        match &subject.found {
            NodeRecordState::Newer(version) => SteerVerdict::Waits(Reason::Upgrading(UpgradeReason::NewerRecord { version: *version })),
            NodeRecordState::Broken => {
                self.clear_away(subject);
                SteerVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack))
            }
            NodeRecordState::Record(record)
                if record.state == UpgradeState::UpgradeFailed
                    && !record.cordoned
                    && (record.digest != self.settings.digest
                        || is_requested(subject.node, traits)
                        || record.failure.as_ref().is_some_and(|failure| failure.cause.is_refusal())) =>
            {
                // It failed for what was deployed before, or what refused its writes may have been changed, or somebody asks for it: it is held, and gets its turn like any other.
                self.clear_away(subject);
                SteerVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack))
            }
            NodeRecordState::Record(record) => {
                self.recorded(subject.node);
                SteerVerdict::Waits(self.lifted(subject, record, traits))
            }
            NodeRecordState::Nothing => self.resting(subject, traits),
        }
    }

    /// A node that we have let go of.
    fn lifted(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord, traits: &DriverTraits) -> Reason {
        let vendor = vendor_state(subject.node, traits);
        let current = subject.pod.as_ref().is_some_and(|driver| driver.newest && driver.pod.containers_ready && !driver.pod.deleting);
        if matches!(vendor, VendorState::Unknown | VendorState::Done) && current {
            if let Some(trouble) = self.validation(subject, record) {
                let validating = Reason::Upgrading(UpgradeReason::Validating { trouble: trouble.clone(), until: self.memory.deadline });
                let since = self.memory.waits(Some(&subject.node.name), &validating, self.now);
                let until = after(since, self.settings.upgrade.validation_seconds);
                if until <= self.now {
                    return match &record.failure {
                        Some(failure) => self.failed_reason(record, failure),
                        None => self.failed_for(subject, record, FailureCause::ValidationTimeout, trouble),
                    };
                }
                self.wakes(until);
                return Reason::Upgrading(UpgradeReason::Validating { trouble, until });
            }
            return match subject.left.as_deref() {
                Some(reason) if !self.tolerates(reason) => reason.clone(),
                Some(_) | None => self.handed_back(subject, record),
            };
        }
        if let Some(Reason::UpgradeFailed { trouble }) = subject.left.as_deref()
            && record.state != UpgradeState::UpgradeFailed
        {
            // Its attempts are used up: it must not keep its slot.
            let touched = subject.pod.as_ref().is_none_or(|driver| driver.newest);
            let cause = if touched { FailureCause::DriverFailing } else { FailureCause::EvictionTimeout };
            let mut given_up = record.clone();
            given_up.attempts.insert(cause, self.settings.upgrade.attempts.saturating_sub(1));
            let message = format!("the operator gave the node up{}", trouble.as_ref().map(|text| format!(": {text}")).unwrap_or_default());
            return self.failed_for(subject, &given_up, cause, message);
        }
        if let Some(failure) = record.failure.as_ref().filter(|_| record.state == UpgradeState::UpgradeFailed) {
            return self.failed_reason(record, failure);
        }
        if record.state == UpgradeState::Lifted && !subject.node.unschedulable {
            return self.cordoned_again(subject, record);
        }
        subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(UpgradeReason::Cordoning))
    }

    fn failed_reason(&self, record: &UpgradeRecord, failure: &NodeFailure) -> Reason {
        Reason::Upgrading(UpgradeReason::Failed {
            cause: failure.cause,
            message: failure.message.clone(),
            attempts: record.attempts(failure.cause, &self.settings.digest),
            cordoned: record.cordoned,
        })
    }

    /// A node of which a write was refused. What the vendor's controller has begun it finishes.
    fn refused_steered(&mut self, subject: &DrivenNode<'_>, refused: &RefusedWrite, traits: &DriverTraits) -> SteerVerdict {
        let node = subject.node;
        if self.is_patched(node) {
            return SteerVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        if let Some(reason) = self.tried_again(node) {
            return SteerVerdict::Waits(reason);
        }
        if vendor_state(node, traits).is_busy() {
            return SteerVerdict::Waits(subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(UpgradeReason::Cordoning)));
        }
        match &subject.found {
            NodeRecordState::Record(record) if record.state.is_in_progress() && !refused.stays => {
                let old = |driver: &DriverPod<'_>| !driver.newest && driver.pod.containers_ready && !driver.pod.deleting;
                let untouched = subject.pod.as_ref().is_some_and(old);
                let cause = if untouched { FailureCause::WriteRefused } else { FailureCause::WriteRefusedAfterRestart };
                let reason = self.failed_for(subject, record, cause, refused.message.clone());
                SteerVerdict::Waits(reason)
            }
            NodeRecordState::Nothing if !needs_upgrade(subject, traits) && !hold::is_held(node, self.settings.driver) => {
                subject.left.as_deref().cloned().map_or(SteerVerdict::Over, SteerVerdict::Waits)
            }
            NodeRecordState::Nothing | NodeRecordState::Broken | NodeRecordState::Newer(_) | NodeRecordState::Record(_) => {
                SteerVerdict::Waits(self.write_refused(node, refused))
            }
        }
    }

    /// A node that we have not let go of.
    fn resting(&mut self, subject: &DrivenNode<'_>, traits: &DriverTraits) -> SteerVerdict {
        let (node, driver) = (subject.node, self.settings.driver);
        if !needs_upgrade(subject, traits) {
            let mut patch = NodePatch::for_node(node);
            hold::release(node, driver, &mut patch);
            if patch.is_empty() {
                return subject.left.as_deref().cloned().map_or(SteerVerdict::Over, SteerVerdict::Waits);
            }
            let current = subject.pod.as_ref().is_some_and(|driver| driver.newest);
            if vendor_state(node, traits) == VendorState::UpgradeRequired && current {
                // The template went back before its turn came: the controller would not look whether there is still something to do.
                patch.labels.insert(traits.state_label.to_owned(), Some(VendorState::Done.label().to_owned()));
            }
            // It has nothing to be held back from.
            self.issue(patch, false);
            return SteerVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack));
        }
        if hold::is_held(node, driver) {
            return self.forbidden_by_others(subject).map_or(SteerVerdict::Candidate, SteerVerdict::Waits);
        }
        if hold::can_be_held(node, driver) {
            // A hold that was lost: the controller goes one node at a time without us, but not by our limits.
            self.issue(hold::hold(node, driver), false);
        }
        SteerVerdict::Waits(subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(UpgradeReason::Cordoning)))
    }

    /// Lets go of a node: label, cordon and record in one patch.
    fn lift(&mut self, subject: &DrivenNode<'_>, traits: &DriverTraits) -> UpgradeReason {
        let node = subject.node;
        let record = UpgradeRecord {
            version: VERSION,
            state: UpgradeState::Lifted,
            since: self.now,
            started: self.now,
            digest: self.settings.digest.clone(),
            cordoned: !node.unschedulable,
            recordoned: 0,
            paused: None,
            steps: BTreeMap::from([(UpgradeState::Lifted, self.now)]),
            restart_only: false,
            requested: false,
            daemon_set: None,
            driver_pod: subject.pod.as_ref().map(|driver| driver.pod.uid.clone()),
            attempts: BTreeMap::new(),
            failure: None,
        };
        let mut patch = NodePatch::for_node(node);
        hold::release(node, self.settings.driver, &mut patch);
        put(&mut patch, &record, traits);
        patch.annotations.insert(traits.initially_unschedulable.to_owned(), Some("true".to_owned()));
        patch.unschedulable = (!node.unschedulable).then_some(true);
        if vendor_state(node, traits) == VendorState::Failed {
            // The controller gave it up before; its label begins anew.
            patch.labels.insert(traits.state_label.to_owned(), Some(VendorState::UpgradeRequired.label().to_owned()));
        }
        self.issue(patch, true);
        UpgradeReason::Cordoning
    }
}

fn vendor_state(node: &ObservedNode, traits: &DriverTraits) -> VendorState {
    VendorState::from_label(node.labels.get(traits.state_label).map(String::as_str))
}
