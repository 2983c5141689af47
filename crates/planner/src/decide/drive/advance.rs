//! One node in progress, as far as it can go now. States that are passed through at once need no write of their own.

use crate::action::NodePatch;
use crate::action::{NodeNews, PodDeletion};
use crate::node::DriverPod;
use crate::pods::{listed, verdict_reasons};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::FailureCause;
use crate::upgrade::record::UpgradeRecord;
use crate::upgrade::state::UpgradeState;
use contract::exit::ExitCode;
use contract::names;
use contract::operand::Operand;
use contract::record::{NodeOutcome, VerdictReason};
use observed::{ObservedNode, ObservedPod};

use super::super::{Action, Deciding, after};
use super::clear::PodClearing;
use super::patch::{REPEAT_SECONDS, put, remove, take_note};
use super::{DriveVerdict, DrivenNode};

/// Restarts of a container that is not ready, above which its driver counts as failing (k8s-operator-libs: more than 10).
const MOST_RESTARTS: i32 = 10;

/// How often a cordon that somebody took away is put back.
const MOST_CORDONS: u32 = 2;

/// Seconds for which no DaemonSet must want a pod on a node until that is believed: another holder of kube-controller-manager's Lease needs 15 s,
/// and pods of nodes that left are collected after 40 s.
const UNWANTED_SECONDS: u64 = 60;

/// What a state has come to.
pub(super) enum StateResult {
    /// The node stays in it.
    Stays(Reason),
    /// It goes on with another one.
    To(UpgradeState),
    /// It failed.
    Fails(FailureCause, String),
    /// It is done.
    Done,
}

impl Deciding<'_> {
    /// The node's turn.
    pub(super) fn advance(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> DriveVerdict {
        if self.now >= self.memory.deadline && self.is_untouched(subject, record) {
            return self.hand_back(subject, record);
        }
        if self.is_patched(subject.node) {
            self.keeps_focus(subject.node);
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        if is_unwanted(subject) {
            return self.unwanted(subject, record);
        }
        let traits = self.settings.driver.traits();
        if self.is_untouched(subject, record)
            && let Some(reason) = self.paused(subject.node)
        {
            self.freeze(subject.node, record, traits);
            return DriveVerdict::Waits(reason);
        }
        if self.thaw(subject.node, record, traits) {
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        let mut next = record.clone();
        if !subject.node.unschedulable && record.state <= UpgradeState::PodRestartRequired {
            // Somebody took the cordon away: nothing is evicted or deleted on a node that takes new pods.
            return self.cordon_again(subject, next);
        }
        if record.state.is_before_restart() && !record.requested && is_current(subject) {
            // What was asked for was taken back, or was never so: there is nothing to evict anybody for.
            return self.give_back(subject, record);
        }
        let mut actions = Vec::new();
        let reason = loop {
            match self.step(subject, &next, &mut actions) {
                StateResult::Stays(reason) => break reason,
                StateResult::To(state) => next.enter(state, self.now),
                StateResult::Fails(cause, message) => return self.fail(subject, &next, cause, message),
                StateResult::Done => return self.give_back(subject, &next),
            }
        };
        let mut patch = NodePatch::for_node(subject.node);
        let label = subject.node.labels.get(traits.own_state_label).map(String::as_str);
        // What follows from the driver pod alone is not written; a label that somebody took away or changed is: the record counts.
        let told = next.state == record.state || next.state == UpgradeState::ValidationRequired;
        if !told || label != Some(record.state.name()) {
            put(&mut patch, &next, traits);
        }
        if next.state >= UpgradeState::PodRestartRequired && self.unblocks(subject) {
            patch.annotations.insert(traits.safe_load.to_owned(), None);
        }
        if !patch.is_empty() && !self.issue(patch, false) {
            // What is behind it rests on it.
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        self.actions.extend(actions);
        DriveVerdict::Waits(reason)
    }

    /// The node keeps its place among those whose pods are followed.
    pub(super) fn keeps_focus(&mut self, node: &ObservedNode) {
        let workloads = &self.observed.workloads;
        if workloads.pods.contains_key(&node.name) || workloads.listing.contains(&node.name) {
            self.focus.insert(node.name.clone());
        }
    }

    /// No driver DaemonSet wants a pod on the node: there is nothing left to upgrade, if that is what it is. While another node leaves, a template
    /// changes or labels are written anew it may look so for a moment, and what we have deleted still has to come back.
    pub(super) fn unwanted(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> DriveVerdict {
        let reason = Reason::Upgrading(UpgradeReason::Unwanted);
        let since = self.memory.waits(Some(&subject.node.name), &reason, self.now);
        if self.passed(since, UNWANTED_SECONDS) {
            // A patch that is not taken must not begin the minute anew: it goes on waiting for the same.
            drop(self.give_back(subject, record));
        }
        DriveVerdict::Waits(reason)
    }

    /// Whether nothing has been done to the node's driver so far: the pod that was there when the node was started runs, and is not about to go.
    pub(super) fn is_untouched(&self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> bool {
        let runs = |driver: &DriverPod<'_>| {
            let pod = driver.pod;
            pod.containers_ready && !pod.deleting && is_older(pod, record) && !self.memory.issued.contains_key(&pod.uid)
        };
        let before = record.state.is_before_restart() || record.state == UpgradeState::PodRestartRequired;
        before && record.attempts.keys().all(|cause| cause.is_before_restart()) && subject.pod.as_ref().is_some_and(runs)
    }

    /// The time is over before the node's driver was touched: it is given back as it was, and the next run begins anew with it.
    pub(super) fn hand_back(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> DriveVerdict {
        self.handing_back = true;
        self.memory.handed_back.insert(subject.node.name.clone());
        let traits = self.settings.driver.traits();
        let mut patch = NodePatch::for_node(subject.node);
        remove(&mut patch, traits);
        patch.unschedulable = (record.cordoned && subject.node.unschedulable).then_some(false);
        take_note(&mut patch, subject.node, record, traits);
        if record.requested && !subject.node.annotations.contains_key(traits.requested) {
            // It was taken off when the node was started: whoever asked for it still waits.
            patch.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
        }
        patch.news = Some(NodeNews::HandedBack(format!("the run's time is over; {}", record.describe_steps(self.now))));
        self.issue(patch, false);
        let (deadline, per_node) = (self.memory.deadline, self.settings.per_node_seconds);
        DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::NoTime { deadline, per_node, held: None }))
    }

    /// What became of the nodes that were to be given back at the end.
    pub(in super::super) fn told_handed_back(&self) -> (String, Vec<VerdictReason>) {
        let record = self.settings.driver.traits().own_record;
        let has_ours = |name: &String| self.observed.nodes.get(name).is_some_and(|node| node.annotations.contains_key(record));
        let there = self.memory.handed_back.iter().filter(|name| self.observed.nodes.contains_key(name)).cloned();
        let (not, back): (Vec<String>, Vec<String>) = there.partition(has_ours);
        let told = [
            ("GivenBack", "given back untouched", back),
            ("NotGivenBack", "not given back in time (the next deployment goes on with them)", not),
        ];
        let told = told.iter().filter(|(_, _, names)| !names.is_empty());
        told.map(|(reason, what, names)| (format!("; {what}: {}", listed(names)), verdict_reasons(names, reason)))
            .fold((String::new(), Vec::new()), |(texts, reasons), (text, more)| (texts + &text, [reasons, more].concat()))
    }

    /// Somebody uncordoned a node in the middle of its upgrade: a few times that is taken for a mistake.
    pub(super) fn cordon_again(&mut self, subject: &DrivenNode<'_>, mut record: UpgradeRecord) -> DriveVerdict {
        if record.recordoned >= MOST_CORDONS {
            let message = format!("somebody uncordoned the node {} times", record.recordoned + 1);
            return self.fail(subject, &record, FailureCause::CordonContested, message);
        }
        // The cordon may have been somebody else's, who does not need it any more: from now on it is ours.
        record.recordoned += u32::from(record.cordoned);
        record.cordoned = true;
        let mut patch = NodePatch::for_node(subject.node);
        put(&mut patch, &record, self.settings.driver.traits());
        patch.unschedulable = Some(true);
        self.issue(patch, false);
        DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning))
    }

    fn step(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord, actions: &mut Vec<Action>) -> StateResult {
        let policy = &self.settings.upgrade.policy;
        match record.state {
            // A step that the policy had when the node came to it, and has no more: it goes on by what counts now.
            UpgradeState::PodDeletionRequired if policy.pod_deletion.is_none() => StateResult::To(self.after_jobs()),
            UpgradeState::DrainRequired if policy.drain.is_none() => StateResult::To(self.after_jobs()),
            UpgradeState::WaitForJobsRequired => self.wait_for_jobs(subject.node, record),
            UpgradeState::PodDeletionRequired => self.pod_deletion(subject, record),
            UpgradeState::DrainRequired => self.drain(subject, record),
            UpgradeState::PodRestartRequired => self.restart(subject, record, actions),
            UpgradeState::ValidationRequired => self.validate(subject, record),
            // The vendor's controller is off now, and left it where it was.
            UpgradeState::Lifted => StateResult::To(self.after_jobs()),
            // A failed node has its own road.
            UpgradeState::UpgradeFailed => StateResult::Done,
        }
    }

    fn wait_for_jobs(&mut self, node: &ObservedNode, record: &UpgradeRecord) -> StateResult {
        let next = self.after_jobs();
        let Some(wait) = &self.settings.upgrade.policy.wait_for_completion else { return StateResult::To(next) };
        let jobs = self.jobs_on(node);
        let limit = wait.timeout_seconds;
        if jobs.is_empty() || limit > 0 && self.passed(record.since, limit) {
            // A node without pods that have to go needs no state, and no write, of its own for that.
            if next != UpgradeState::PodRestartRequired && !self.observed.workloads.pods.contains_key(&node.name) {
                self.focus.insert(node.name.clone());
                if let Ok(reason) = self.unlisted(node) {
                    return StateResult::Stays(Reason::Upgrading(reason));
                }
                // It has been too long: the next state has a name for that.
            }
            return StateResult::To(next);
        }
        let until = (limit > 0).then(|| after(record.since, limit));
        StateResult::Stays(Reason::Upgrading(UpgradeReason::Jobs { jobs, until }))
    }

    /// The first state in which pods go.
    pub(super) fn after_jobs(&self) -> UpgradeState {
        let policy = &self.settings.upgrade.policy;
        if policy.pod_deletion.is_some() {
            UpgradeState::PodDeletionRequired
        } else if policy.drain.is_some() {
            UpgradeState::DrainRequired
        } else {
            UpgradeState::PodRestartRequired
        }
    }

    fn pod_deletion(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> StateResult {
        let drains = self.settings.upgrade.policy.drain.is_some();
        let failed =
            |cause, message| if drains { StateResult::To(UpgradeState::DrainRequired) } else { StateResult::Fails(cause, message) };
        match self.clear(subject.node, record) {
            PodClearing::Over => StateResult::To(UpgradeState::PodRestartRequired),
            PodClearing::Waits(reason) => StateResult::Stays(Reason::Upgrading(reason)),
            PodClearing::Blocked(message) => failed(FailureCause::PodsNotEvictable, message),
            PodClearing::TimedOut(message) => failed(FailureCause::EvictionTimeout, message),
        }
    }

    fn drain(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> StateResult {
        match self.clear(subject.node, record) {
            PodClearing::Over => StateResult::To(UpgradeState::PodRestartRequired),
            PodClearing::Waits(reason) => StateResult::Stays(Reason::Upgrading(reason)),
            PodClearing::Blocked(message) => StateResult::Fails(FailureCause::DrainBlocked, message),
            PodClearing::TimedOut(message) => StateResult::Fails(FailureCause::DrainTimeout, message),
        }
    }

    /// The driver pod. A pod that is in sync is not replaced.
    fn restart(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord, actions: &mut Vec<Action>) -> StateResult {
        let limit = self.settings.upgrade.start_seconds;
        // Nobody looked while there was no process.
        let late = self.passed(record.since.max(self.memory.taken_up), limit);
        let Some(driver) = &subject.pod else {
            let coming = Reason::Upgrading(UpgradeReason::DriverComing);
            return if late { not_in_time("no driver pod came", limit) } else { StateResult::Stays(coming) };
        };
        let pod = driver.pod;
        let ending = Reason::Upgrading(UpgradeReason::DriverEnding { pod: pod.name.clone() });
        if pod.deleting {
            return if late { not_in_time("the old driver pod does not end", limit) } else { StateResult::Stays(ending) };
        }
        // A driver that failed gets a new pod with each attempt.
        let again = !record.attempts.is_empty() && is_older(pod, record) && !pod.containers_ready;
        if !driver.newest || again {
            if let Some(step) = self.protect(subject, record) {
                return step;
            }
            self.delete_driver(subject, actions);
            return StateResult::Stays(ending);
        }
        if pod.running && pod.containers_ready {
            return StateResult::To(UpgradeState::ValidationRequired);
        }
        // A driver that cannot be unloaded says so only in its log, and not by whom it is held.
        let held = if pod.unready_restarts > 0 { self.still_holding(subject.node) } else { None };
        let with_holders = |trouble: String| held.iter().fold(trouble, |trouble, held| format!("{trouble}; {held}"));
        let trouble = || {
            let own = pod.trouble.clone().or_else(|| pod.unschedulable.clone());
            with_holders(own.unwrap_or_else(|| "it is not ready".to_owned()))
        };
        if pod.unready_restarts > MOST_RESTARTS {
            let message = format!("{} restarts: {}", pod.unready_restarts, trouble());
            return StateResult::Fails(FailureCause::DriverFailing, message);
        }
        if late {
            let message = format!("not ready within {limit} s: {}", trouble());
            return StateResult::Fails(FailureCause::DriverTimeout, message);
        }
        let restarts = pod.containers.iter().map(|container| container.restarts).sum();
        let state = Some(record.state.name().to_owned());
        StateResult::Stays(Reason::DriverNotReady { state, trouble: pod.trouble.clone().map(with_holders), restarts })
    }

    fn delete_driver(&mut self, subject: &DrivenNode<'_>, actions: &mut Vec<Action>) {
        let Some(driver) = &subject.pod else { return };
        let pod = driver.pod;
        match self.memory.issued.get(&pod.uid).copied() {
            Some(issued) if !self.passed(issued, REPEAT_SECONDS) => {}
            Some(_) | None => {
                self.memory.issued.insert(pod.uid.clone(), self.now);
                self.passed(self.now, REPEAT_SECONDS);
                actions.push(Action::DeleteDriver(PodDeletion {
                    node: subject.node.name.clone(),
                    namespace: pod.namespace.clone(),
                    pod: pod.name.clone(),
                    uid: pod.uid.clone(),
                }));
            }
        }
    }

    /// What stands on the driver: validator, toolkit, plugins.
    fn validate(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> StateResult {
        if !is_current(subject) {
            // The driver fell back, or a newer one was asked for meanwhile.
            return StateResult::To(UpgradeState::PodRestartRequired);
        }
        if let Some(trouble) = self.validation(subject, record) {
            // Its time began when the driver was first seen to be ready: the pod's own times are of another clock.
            let validating = Reason::Upgrading(UpgradeReason::Validating { trouble: trouble.clone(), until: self.memory.deadline });
            let since = self.memory.waits(Some(&subject.node.name), &validating, self.now).min(record.since);
            let until = after(since, self.settings.upgrade.validation_seconds);
            if self.now < until {
                self.wakes(until);
                return StateResult::Stays(Reason::Upgrading(UpgradeReason::Validating { trouble, until }));
            }
            // A validator that failed before the run has had its time on the new driver: the node is reported and given back.
            if !self.validator_failed_before(subject) {
                return StateResult::Fails(FailureCause::ValidationTimeout, trouble);
            }
        }
        let not_ready = (!subject.node.ready).then_some(Reason::NodeNotReady { since: subject.node.ready_since });
        match not_ready.as_ref().or(subject.left.as_deref()) {
            None => StateResult::Done,
            Some(reason) if self.tolerates(reason) => StateResult::Done,
            Some(reason) => match self.operands_came_to(subject.node, reason) {
                Some(NodeOutcome::Failed) => StateResult::Fails(FailureCause::ValidationTimeout, reason.to_string()),
                Some(NodeOutcome::Done | NodeOutcome::Deferred | NodeOutcome::Gone) => StateResult::Done,
                None => self.unfinished(subject.node, reason),
            },
        }
    }

    /// Whether the validator was failing on the node before the run, and has not worked since.
    pub(super) fn validator_failed_before(&self, subject: &DrivenNode<'_>) -> bool {
        let is_validator = |reason: &&Reason| reason.operand().is_some_and(|operand| operand.known == Some(Operand::Validator));
        subject.left.as_deref().filter(is_validator).is_some_and(|reason| self.failed_before(subject.node, reason))
    }

    /// What has become of a node that waits for its operands; `None`: it still waits, or for something else.
    fn operands_came_to(&mut self, node: &ObservedNode, reason: &Reason) -> Option<NodeOutcome> {
        if !reason.follows_operand_rule() {
            return None;
        }
        let since = self.memory.waits(Some(&node.name), reason, self.now);
        self.outcome_of_operands(node, reason, since)
    }

    /// Whether what a node waits for of its operands is no fault of its upgrade.
    pub(super) fn is_excused(&mut self, node: &ObservedNode, reason: &Reason) -> bool {
        matches!(self.operands_came_to(node, reason), Some(NodeOutcome::Done | NodeOutcome::Deferred))
    }

    /// What does not come up on the driver (a plugin, the toolkit, the node itself) must not hold a slot for ever.
    fn unfinished(&mut self, node: &ObservedNode, reason: &Reason) -> StateResult {
        let code = reason.exit_code();
        let (cause, limit) = if code == ExitCode::DraNotServing {
            (FailureCause::PluginNotServing, self.settings.dra.replacement_seconds)
        } else if code == ExitCode::PluginsNotServing {
            (FailureCause::PluginNotServing, self.settings.device_plugin.replacement_seconds)
        } else if reason.is_about_operands() {
            (FailureCause::ValidationTimeout, self.settings.upgrade.validation_seconds)
        } else {
            (FailureCause::DriverTimeout, self.settings.upgrade.start_seconds)
        };
        let since = self.memory.waits(Some(&node.name), reason, self.now);
        // The operands' rule has decided nothing so far, even where nothing comes back by itself.
        let over = !reason.resolves_itself() && !reason.follows_operand_rule() || self.passed(since, limit);
        if over { StateResult::Fails(cause, reason.to_string()) } else { StateResult::Stays(reason.clone()) }
    }

    /// What is wrong with the validator; `None`: it succeeded, or the driver has none.
    pub(in super::super) fn validation(&self, subject: &DrivenNode<'_>, _: &UpgradeRecord) -> Option<String> {
        self.settings.driver.traits().validator?;
        // The operator brings a validator only to nodes with this label; the driver manager pauses it meanwhile.
        let label = subject.node.labels.get(names::DEPLOY_VALIDATOR_LABEL).map(String::as_str).unwrap_or_default();
        if matches!(label, "" | "false") {
            return None;
        }
        let mut found = false;
        for pod in self.observed.validators.on(&subject.node.name) {
            if pod.deleting {
                continue;
            }
            found = true;
            if !(pod.running && pod.containers_ready) {
                return Some(pod.trouble.clone().unwrap_or_else(|| format!("{} is not ready", pod.name)));
            }
        }
        (!found).then(|| "there is no validator pod".to_owned())
    }

    /// Whether the driver pod may load its driver: it waits for the safe-load annotation to go, and is the right one.
    fn unblocks(&self, subject: &DrivenNode<'_>) -> bool {
        let traits = self.settings.driver.traits();
        let waits = subject.node.annotations.get(traits.safe_load).is_some_and(|value| !value.is_empty());
        waits && subject.node.unschedulable && subject.pod.as_ref().is_some_and(|driver| driver.newest)
    }
}

/// Whether the driver pod is the one that was there when the node was started. A record of version 0.1.0 only tells when that was.
fn is_older(pod: &ObservedPod, record: &UpgradeRecord) -> bool {
    record.driver_pod.as_ref().map_or(pod.created <= record.started, |uid| *uid == pod.uid)
}

/// No driver DaemonSet is to have a pod on the node, and none is there. While a node is not ready its taints may keep pods away.
pub(super) fn is_unwanted(subject: &DrivenNode<'_>) -> bool {
    !subject.wanted && subject.pod.is_none() && subject.node.ready
}

/// The node's driver pod is the newest one, and works.
fn is_current(subject: &DrivenNode<'_>) -> bool {
    subject.pod.as_ref().is_some_and(|driver| driver.newest && !driver.pod.deleting && driver.pod.containers_ready)
}

fn not_in_time(what: &str, limit: u64) -> StateResult {
    StateResult::Fails(FailureCause::DriverTimeout, format!("{what} within {limit} s"))
}
