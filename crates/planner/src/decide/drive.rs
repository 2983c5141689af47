//! Mode `drive`: the upgrade machine. Every decision is on levels: what a node needs follows from its driver pod, its pods and its record,
//! whoever wrote them and whenever.
//!
//! A node's actions are in order, its patch first: one that fails stops those behind it. What a patch changes is only built upon when it has
//! been seen on the node.

use std::sync::Arc;

use jiff::Timestamp;

use crate::hold;
use crate::node::{DriverOperands, DriverPod};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::pause;
use crate::upgrade::record::{NodeRecordState, UpgradeRecord, is_anothers, read};
use crate::upgrade::state::UpgradeState;
use crate::upgrade::throttle::ThrottledNode;
use contract::driver::DriverTraits;
use contract::policy::ForeignCordon;
use contract::task::Task;
use observed::ObservedNode;

use super::nodes::Judged;
use super::rest::Driven;
use super::sweep::Sweep;
use super::{Deciding, FleetInputs, after};

mod advance;
mod clear;
mod end;
mod others;
mod patch;
mod refused;
mod start;

use patch::REPEAT_SECONDS;
pub(super) use patch::put;

/// A node, with all that its turn depends on.
pub(super) struct DrivenNode<'a> {
    pub(super) node: &'a ObservedNode,
    /// Its driver pod, if it is to have one.
    pub(super) pod: Option<DriverPod<'a>>,
    /// A driver DaemonSet is to have a pod there.
    wanted: bool,
    /// The taint of the node that no driver pod gets past.
    tainted: Option<Reason>,
    pub(super) found: NodeRecordState,
    /// What it waits for apart from its upgrade.
    pub(super) left: Option<Arc<Reason>>,
}

impl DrivenNode<'_> {
    pub(super) fn record(&self) -> Option<&UpgradeRecord> {
        match &self.found {
            NodeRecordState::Record(record) => Some(record),
            NodeRecordState::Nothing | NodeRecordState::Newer(_) | NodeRecordState::Broken => None,
        }
    }

    fn in_progress(&self) -> bool {
        self.record().is_some_and(|record| record.state.is_in_progress()) || matches!(self.found, NodeRecordState::Newer(_))
    }

    /// Somebody else has cordoned it.
    fn foreign_cordon(&self) -> bool {
        self.node.unschedulable && !self.record().is_some_and(|record| record.cordoned)
    }
}

impl Deciding<'_> {
    /// Drives the nodes' upgrades. What those that are judged wait for becomes what they wait for with it. The answer: by the places of the
    /// nodes, what those wait for that may be started as far as they are concerned.
    pub(super) fn drive<'s>(&mut self, sweep: &Sweep<'s>, judged: &mut [Judged<'s>], fleet: &FleetInputs<'_>) -> Vec<Option<Arc<Reason>>> {
        let Some(operands) = &fleet.operands else { return Vec::new() };
        let (traits, identity) = (self.settings.driver.traits(), self.settings.own_daemon_set());
        self.forget_seen_patches();
        let as_subject = |node, left| subject(node, left, operands, traits, identity.as_deref());
        let subjects: Vec<DrivenNode<'_>> = judged.iter_mut().map(|one| as_subject(one.node, one.reason.take())).collect();
        for (subject, one) in subjects.iter().zip(&mut *judged) {
            one.driven.member = self.counts(subject).then(|| self.member(subject));
            one.driven.given_up = self.is_given_up(subject);
            one.driven.in_progress = subject.in_progress();
        }
        let mut ends = false;
        for (subject, one) in subjects.iter().zip(&mut *judged) {
            self.moment = one.moment;
            match self.turn(subject) {
                DriveVerdict::Over => ends |= self.is_under_way(subject.node),
                DriveVerdict::Waits(reason) => one.reason = Some(Arc::new(reason)),
                DriveVerdict::Left => one.reason.clone_from(&subject.left),
                DriveVerdict::Candidate(again) => one.driven.candidate = Some(again),
            }
            one.moment = self.moment;
        }
        let mut own = judged.iter().zip(&subjects).peekable();
        let all: Vec<(&Driven, Option<&DrivenNode<'_>>)> = sweep
            .listed
            .iter()
            .enumerate()
            .filter_map(|(place, seen)| match seen.rest {
                Some(standing) => Some((&standing.driven, None)),
                None => own.next_if(|(one, _)| one.place == place).map(|(one, subject)| (&one.driven, Some(subject))),
            })
            .collect();
        self.begin(sweep, &all, ends, as_subject)
    }

    /// Whether limits are shares of the node too. Of a driver without operator nobody knows where a pod is still to come: a node without one
    /// must not make the fleet look larger for a moment.
    fn counts(&self, subject: &DrivenNode<'_>) -> bool {
        self.settings.driver.has_operator() || subject.pod.is_some() || subject.record().is_some()
    }

    /// Gives back what was begun and not touched, when the run ends while the fleet as a whole waits.
    pub(super) fn hand_all_back(&mut self, sweep: &Sweep<'_>, operands: &DriverOperands<'_>) {
        if !self.settings.has(Task::Drive) || self.now < self.memory.deadline {
            return;
        }
        self.forget_seen_patches();
        let (traits, identity) = (self.settings.driver.traits(), self.settings.own_daemon_set());
        for node in sweep.nodes() {
            let subject = subject(node, None, operands, traits, identity.as_deref());
            let Some(record) = subject.record().filter(|record| record.state != UpgradeState::UpgradeFailed).cloned() else { continue };
            if self.is_untouched(&subject, &record) {
                // What it waits for is what the fleet waits for.
                drop(self.hand_back(&subject, &record));
            }
        }
    }

    /// The node as limits see it. What was asked for and has not been seen counts as if it had.
    pub(super) fn member(&self, subject: &DrivenNode<'_>) -> ThrottledNode {
        let node = subject.node;
        let started = self.memory.patched.get(&node.name).filter(|patched| patched.starts);
        // Of a patch that admission changed nothing may ever be seen.
        let refused = self.refused_write(node);
        let started = started.is_some_and(|patched| refused.is_none() || self.now < after(patched.at, REPEAT_SECONDS));
        let in_progress = subject.in_progress() && refused.is_none_or(|refused| !refused.stays) || started;
        let topology = self.settings.upgrade.topology.as_ref();
        ThrottledNode {
            in_progress,
            unavailable: in_progress || node.unschedulable || !node.ready || self.other_driver(node).is_some(),
            group: topology.and_then(|topology| node.labels.get(&topology.label)).cloned(),
        }
    }

    /// A failed node that will not be tried again under this digest, unless somebody asks for it.
    pub(super) fn is_given_up(&self, subject: &DrivenNode<'_>) -> bool {
        if self.refused_write(subject.node).is_some() {
            return true;
        }
        let Some(record) = subject.record().filter(|record| record.state == UpgradeState::UpgradeFailed) else { return false };
        let Some(failure) = &record.failure else { return false };
        record.digest == self.settings.digest
            && !failure.cause.is_refusal()
            && record.attempts(failure.cause, &self.settings.digest) >= self.settings.upgrade.attempts
            && !is_requested(subject.node, self.settings.driver.traits())
    }

    /// One node.
    fn turn(&mut self, subject: &DrivenNode<'_>) -> DriveVerdict {
        if subject.record().is_some() {
            // From now on the run is about the node, whatever becomes of it.
            self.recorded(subject.node);
        }
        self.heed_request(subject.node);
        if let Some(refused) = self.refused_write(subject.node).cloned() {
            return self.refused_turn(subject, &refused);
        }
        if let Some(reason) = self.tried_again(subject.node) {
            self.keeps_focus(subject.node);
            return DriveVerdict::Waits(reason);
        }
        match &subject.found {
            NodeRecordState::Newer(version) => DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::NewerRecord { version: *version })),
            NodeRecordState::Broken => {
                self.clear_away(subject);
                DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack))
            }
            NodeRecordState::Nothing => self.untouched(subject),
            NodeRecordState::Record(record) if record.state == UpgradeState::UpgradeFailed => self.failed_node(subject, record),
            NodeRecordState::Record(record) => self.advance(subject, record),
        }
    }

    /// A node that carries nothing of ours.
    fn untouched(&mut self, subject: &DrivenNode<'_>) -> DriveVerdict {
        if !needs_upgrade(subject, self.settings.driver.traits()) {
            return if subject.left.is_some() { DriveVerdict::Left } else { DriveVerdict::Over };
        }
        if let Some(reason) = self.forbidden(subject) {
            return DriveVerdict::Waits(reason);
        }
        DriveVerdict::Candidate(0)
    }

    /// A node whose upgrade failed. It is done as soon as all is well, whoever repaired it; it is tried again while it has attempts left.
    fn failed_node(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> DriveVerdict {
        let Some(failure) = &record.failure else {
            self.clear_away(subject);
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack));
        };
        if advance::is_unwanted(subject) {
            return self.unwanted(subject, record);
        }
        let current = subject.pod.as_ref().is_some_and(|pod| pod.newest && pod.pod.containers_ready && !pod.pod.deleting);
        let well = match &subject.left {
            None => true,
            Some(reason) => self.is_excused(subject.node, reason),
        };
        if current && well && (self.validation(subject, record).is_none() || self.validator_failed_before(subject)) {
            return self.give_back(subject, record);
        }
        // Whoever asks for the node has removed what it failed for: its attempts are counted anew.
        // What refused its writes in an earlier run may have been changed since.
        let same = record.digest == self.settings.digest
            && !is_requested(subject.node, self.settings.driver.traits())
            && !failure.cause.is_refusal();
        let (attempts, limit) = (record.attempts(failure.cause, &self.settings.digest), self.settings.upgrade.attempts);
        if same && attempts >= limit {
            let message = failure.message.clone();
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Failed {
                cause: failure.cause,
                message,
                attempts,
                cordoned: record.cordoned,
            }));
        }
        let at = record.since.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
        if same && at > self.now {
            self.wakes(at);
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Retry { message: failure.message.clone(), attempts, limit, at }));
        }
        if let Some(reason) = self.forbidden(subject) {
            return DriveVerdict::Waits(reason);
        }
        DriveVerdict::Candidate(attempts + 1)
    }

    /// What forbids the node's start, limits apart.
    fn forbidden(&mut self, subject: &DrivenNode<'_>) -> Option<Reason> {
        let (node, traits) = (subject.node, self.settings.driver.traits());
        let skipped = node.labels.get(traits.skip_label).is_some_and(|value| value == "true");
        if skipped && !hold::is_held(node, self.settings.driver) {
            return Some(Reason::Skipped { label: traits.skip_label });
        }
        self.forbidden_by_others(subject)
    }

    /// What others forbid of it.
    pub(super) fn forbidden_by_others(&mut self, subject: &DrivenNode<'_>) -> Option<Reason> {
        let node = subject.node;
        if let Some(reason) = self.paused(node) {
            return Some(reason);
        }
        if let Some(reason) = self.others_have_it(node) {
            return Some(reason);
        }
        let asked_for = is_requested(node, self.settings.driver.traits());
        if subject.foreign_cordon() && self.settings.upgrade.foreign_cordon == ForeignCordon::Skip && !asked_for {
            return Some(Reason::Upgrading(UpgradeReason::ForeignCordon));
        }
        if !node.ready {
            return Some(Reason::NodeNotReady { since: node.ready_since });
        }
        // The pod that is there may stay; no other one comes after it.
        subject.tainted.clone()
    }
}

/// `identity`: the DaemonSet that the run is about, where nothing else tells.
pub(super) fn subject<'n>(
    node: &'n ObservedNode,
    left: Option<Arc<Reason>>,
    operands: &DriverOperands<'n>,
    traits: &DriverTraits,
    identity: Option<&str>,
) -> DrivenNode<'n> {
    // What stands there for another DaemonSet is not ours to go on with.
    let found = if is_anothers(node, traits, identity) { NodeRecordState::Nothing } else { read(node, traits) };
    DrivenNode { node, pod: operands.driver_pod(node), wanted: operands.driver_wanted(node), tainted: operands.tainted(node), found, left }
}

/// How it stands with a node.
pub(super) enum DriveVerdict {
    /// It is done, or needs nothing.
    Over,
    /// It waits.
    Waits(Reason),
    /// It waits for what it waits for apart from its upgrade.
    Left,
    /// It may be started; how often it has been before.
    Candidate(u32),
}

fn reason_of(turn: DriveVerdict) -> Reason {
    match turn {
        DriveVerdict::Waits(reason) => reason,
        DriveVerdict::Over | DriveVerdict::Left | DriveVerdict::Candidate(_) => Reason::Upgrading(UpgradeReason::GivingBack),
    }
}

/// Whether the node's driver has to be replaced, or somebody asks for it.
pub(super) fn needs_upgrade(subject: &DrivenNode<'_>, traits: &DriverTraits) -> bool {
    if !subject.wanted {
        return false;
    }
    let Some(pod) = &subject.pod else { return false };
    let outdated = !pod.newest && !pod.pod.deleting;
    outdated || asked_for(subject.node, traits)
}

/// The driver pod waits with loading, or a person asks for an upgrade.
fn asked_for(node: &ObservedNode, traits: &DriverTraits) -> bool {
    let annotation = |key: &str| node.annotations.get(key).map(String::as_str);
    annotation(traits.safe_load).is_some_and(|value| !value.is_empty()) || is_requested(node, traits)
}

/// A person asks for an upgrade of this very node, failed or cordoned as it is.
pub(super) fn is_requested(node: &ObservedNode, traits: &DriverTraits) -> bool {
    node.annotations.get(traits.requested).is_some_and(|value| value == "true")
}

/// Whether the driver's installation is the same in the old pod and in the new template: workloads can stay.
pub(super) fn is_restart_only(subject: &DrivenNode<'_>, traits: &DriverTraits) -> bool {
    let Some(pod) = subject.pod.as_ref().filter(|pod| !pod.newest && !pod.pod.orphaned) else { return false };
    let same = pod.pod.config_digest.is_some() && pod.pod.config_digest == pod.template_digest;
    same && !asked_for(subject.node, traits)
}
