//! Mode `steer`: the vendor's controller does the work, and we say when each node goes. Nodes are held by its skip label; one is let go of by
//! taking the label away and cordoning it in the same patch, with the note that makes the controller leave the cordon: it is ours until the
//! node is checked. If we die, held nodes run on with their old driver.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::contract::driver::Traits;
use crate::contract::record::RefusedWrite;
use crate::rollout::action::NodePatch;
use crate::rollout::hold;
use crate::rollout::node::DriverPod;
use crate::rollout::observed::Node;
use crate::rollout::reason::Reason;
use crate::rollout::reason::upgrade::Upgrading;
use crate::rollout::upgrade::cause::Cause;
use crate::rollout::upgrade::record::{Failure, Found, Record, VERSION};
use crate::rollout::upgrade::state::State;
use crate::rollout::upgrade::throttle::{Member, Throttle};
use crate::rollout::vendor::state::State as VendorState;

use super::drive::{Subject, is_requested, needs_upgrade, put, subject};
use super::sweep::Sweep;
use super::{Deciding, Fleet, after};

/// How it stands with a node.
enum Turn {
    /// It needs nothing.
    Over,
    /// It waits.
    Waits(Reason),
    /// We may let go of it.
    Candidate,
}

impl Deciding<'_> {
    /// Steers the nodes' upgrades. `left`: what each node waits for apart from that; the answer: with it.
    pub(super) fn steer(&mut self, sweep: &Sweep<'_>, left: Vec<Option<Arc<Reason>>>, fleet: &Fleet<'_>) -> Vec<Option<Arc<Reason>>> {
        let left = self.assist(sweep, left, fleet);
        let Some(operands) = &fleet.operands else { return left };
        let traits = self.settings.driver.traits();
        let subjects: Vec<Subject<'_>> = sweep.nodes().zip(left).map(|(node, left)| subject(node, left, operands, traits, None)).collect();
        let as_member = |subject: &Subject<'_>| {
            let member = self.member(subject);
            // One that the controller gave up holds no slot; if it keeps its cordon it is unavailable by that.
            let active = vendor_state(subject.node, traits).is_busy();
            let in_progress = member.in_progress || active;
            Member { in_progress, unavailable: member.unavailable || active, ..member }
        };
        let members: Vec<Member> = subjects.iter().map(as_member).collect();
        let named: Vec<(&str, &Member)> = subjects.iter().map(|subject| subject.node.name.as_str()).zip(&members).collect();
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
                Turn::Over => {
                    ends |= self.is_under_way(subject.node);
                    None
                }
                Turn::Waits(reason) => Some(Arc::new(reason)),
                Turn::Candidate => {
                    candidates.push(at);
                    None
                }
            });
        }
        let mut throttle = Throttle::new(&self.settings.upgrade, &named);
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

    fn steered(&mut self, subject: &Subject<'_>, traits: &Traits) -> Turn {
        match &subject.found {
            Found::Newer(version) => Turn::Waits(Reason::Upgrading(Upgrading::NewerRecord { version: *version })),
            Found::Broken => {
                self.clear_away(subject);
                Turn::Waits(Reason::Upgrading(Upgrading::GivingBack))
            }
            Found::Record(record)
                if record.state == State::UpgradeFailed
                    && !record.cordoned
                    && (record.digest != self.settings.digest
                        || is_requested(subject.node, traits)
                        || record.failure.as_ref().is_some_and(|failure| failure.cause.is_refusal())) =>
            {
                // It failed for what was deployed before, or what refused its writes may have been changed, or somebody asks for it: it is held, and gets its turn like any other.
                self.clear_away(subject);
                Turn::Waits(Reason::Upgrading(Upgrading::GivingBack))
            }
            Found::Record(record) => {
                self.recorded(subject.node);
                Turn::Waits(self.lifted(subject, record, traits))
            }
            Found::Nothing => self.resting(subject, traits),
        }
    }

    /// A node that we have let go of.
    fn lifted(&mut self, subject: &Subject<'_>, record: &Record, traits: &Traits) -> Reason {
        let vendor = vendor_state(subject.node, traits);
        let current = subject.pod.as_ref().is_some_and(|driver| driver.newest && driver.pod.containers_ready && !driver.pod.deleting);
        if matches!(vendor, VendorState::Unknown | VendorState::Done) && current {
            if let Some(trouble) = self.validation(subject, record) {
                let validating = Reason::Upgrading(Upgrading::Validating { trouble: trouble.clone(), until: self.memory.deadline });
                let since = self.memory.waits(Some(&subject.node.name), &validating, self.now);
                let until = after(since, self.settings.upgrade.validation_seconds);
                if until <= self.now {
                    return match &record.failure {
                        Some(failure) => self.failed_reason(record, failure),
                        None => self.failed_for(subject, record, Cause::ValidationTimeout, trouble),
                    };
                }
                self.wakes(until);
                return Reason::Upgrading(Upgrading::Validating { trouble, until });
            }
            return match subject.left.as_deref() {
                Some(reason) if !self.tolerates(reason) => reason.clone(),
                Some(_) | None => self.handed_back(subject, record),
            };
        }
        if let Some(Reason::UpgradeFailed { trouble }) = subject.left.as_deref()
            && record.state != State::UpgradeFailed
        {
            // Its attempts are used up: it must not keep its slot.
            let touched = subject.pod.as_ref().is_none_or(|driver| driver.newest);
            let cause = if touched { Cause::DriverFailing } else { Cause::EvictionTimeout };
            let mut given_up = record.clone();
            given_up.attempts.insert(cause, self.settings.upgrade.attempts.saturating_sub(1));
            let message = format!("the operator gave the node up{}", trouble.as_ref().map(|text| format!(": {text}")).unwrap_or_default());
            return self.failed_for(subject, &given_up, cause, message);
        }
        if let Some(failure) = record.failure.as_ref().filter(|_| record.state == State::UpgradeFailed) {
            return self.failed_reason(record, failure);
        }
        if record.state == State::Lifted && !subject.node.unschedulable {
            return self.cordoned_again(subject, record);
        }
        subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(Upgrading::Cordoning))
    }

    fn failed_reason(&self, record: &Record, failure: &Failure) -> Reason {
        Reason::Upgrading(Upgrading::Failed {
            cause: failure.cause,
            message: failure.message.clone(),
            attempts: record.attempts(failure.cause, &self.settings.digest),
            cordoned: record.cordoned,
        })
    }

    /// A node of which a write was refused. What the vendor's controller has begun it finishes.
    fn refused_steered(&mut self, subject: &Subject<'_>, refused: &RefusedWrite, traits: &Traits) -> Turn {
        let node = subject.node;
        if self.is_patched(node) {
            return Turn::Waits(Reason::Upgrading(Upgrading::Cordoning));
        }
        if let Some(reason) = self.tried_again(node) {
            return Turn::Waits(reason);
        }
        if vendor_state(node, traits).is_busy() {
            return Turn::Waits(subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(Upgrading::Cordoning)));
        }
        match &subject.found {
            Found::Record(record) if record.state.is_in_progress() && !refused.stays => {
                let old = |driver: &DriverPod<'_>| !driver.newest && driver.pod.containers_ready && !driver.pod.deleting;
                let untouched = subject.pod.as_ref().is_some_and(old);
                let cause = if untouched { Cause::WriteRefused } else { Cause::WriteRefusedAfterRestart };
                let reason = self.failed_for(subject, record, cause, refused.message.clone());
                Turn::Waits(reason)
            }
            Found::Nothing if !needs_upgrade(subject, traits) && !hold::is_held(node, self.settings.driver) => {
                subject.left.as_deref().cloned().map_or(Turn::Over, Turn::Waits)
            }
            Found::Nothing | Found::Broken | Found::Newer(_) | Found::Record(_) => Turn::Waits(self.write_refused(node, refused)),
        }
    }

    /// A node that we have not let go of.
    fn resting(&mut self, subject: &Subject<'_>, traits: &Traits) -> Turn {
        let (node, driver) = (subject.node, self.settings.driver);
        if !needs_upgrade(subject, traits) {
            let mut patch = NodePatch::of(node);
            hold::release(node, driver, &mut patch);
            if patch.is_empty() {
                return subject.left.as_deref().cloned().map_or(Turn::Over, Turn::Waits);
            }
            let current = subject.pod.as_ref().is_some_and(|driver| driver.newest);
            if vendor_state(node, traits) == VendorState::UpgradeRequired && current {
                // The template went back before its turn came: the controller would not look whether there is still something to do.
                patch.labels.insert(traits.state_label.to_owned(), Some(VendorState::Done.label().to_owned()));
            }
            // It has nothing to be held back from.
            self.issue(patch, false);
            return Turn::Waits(Reason::Upgrading(Upgrading::GivingBack));
        }
        if hold::is_held(node, driver) {
            return self.forbidden_by_others(subject).map_or(Turn::Candidate, Turn::Waits);
        }
        if hold::can_be_held(node, driver) {
            // A hold that was lost: the controller goes one node at a time without us, but not by our limits.
            self.issue(hold::hold(node, driver), false);
        }
        Turn::Waits(subject.left.as_deref().cloned().unwrap_or(Reason::Upgrading(Upgrading::Cordoning)))
    }

    /// Lets go of a node: label, cordon and record in one patch.
    fn lift(&mut self, subject: &Subject<'_>, traits: &Traits) -> Upgrading {
        let node = subject.node;
        let record = Record {
            version: VERSION,
            state: State::Lifted,
            since: self.now,
            started: self.now,
            digest: self.settings.digest.clone(),
            cordoned: !node.unschedulable,
            recordoned: 0,
            paused: None,
            steps: BTreeMap::from([(State::Lifted, self.now)]),
            restart_only: false,
            requested: false,
            daemon_set: None,
            driver_pod: subject.pod.as_ref().map(|driver| driver.pod.uid.clone()),
            attempts: BTreeMap::new(),
            failure: None,
        };
        let mut patch = NodePatch::of(node);
        hold::release(node, self.settings.driver, &mut patch);
        put(&mut patch, &record, traits);
        patch.annotations.insert(traits.initially_unschedulable.to_owned(), Some("true".to_owned()));
        patch.unschedulable = (!node.unschedulable).then_some(true);
        if vendor_state(node, traits) == VendorState::Failed {
            // The controller gave it up before; its label begins anew.
            patch.labels.insert(traits.state_label.to_owned(), Some(VendorState::UpgradeRequired.label().to_owned()));
        }
        self.issue(patch, true);
        Upgrading::Cordoning
    }
}

fn vendor_state(node: &Node, traits: &Traits) -> VendorState {
    VendorState::of(node.labels.get(traits.state_label).map(String::as_str))
}
