//! One node in progress, as far as it can go now. States that are passed through at once need no write of their own.

use std::sync::Arc;

use crate::action::{NodePatch, PodDeletion};
use crate::decide::Action;
use crate::decide::node_draft::NodeDraft;
use crate::decide::others;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::time::after;
use contract::policy::Policy;
use contract::record::NodeOutcome;
use observed::ObservedPod;

use super::clear::{self, PodClearing};
use super::hand_back::hand_back;
use super::patch::put;
use super::validation::{operands_came_to, unfinished, validation, validator_failed_before};
use super::{DrivenNode, fail, give_back};

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

/// The turn of a node in progress.
pub(in crate::decide) struct DriveTurn<'t, 'a> {
    draft: &'t mut NodeDraft<'a>,
    driven: &'t DrivenNode<'a>,
    record: &'t UpgradeRecord,
    /// What it waits for apart from its upgrade.
    left: Option<Arc<Reason>>,
    /// What is done behind its patch.
    actions: Vec<Action>,
}

impl<'t, 'a> DriveTurn<'t, 'a> {
    pub(in crate::decide) fn new(
        draft: &'t mut NodeDraft<'a>,
        driven: &'t DrivenNode<'a>,
        record: &'t UpgradeRecord,
        left: Option<Arc<Reason>>,
    ) -> Self {
        // It reads its pods, and what was asked of them.
        draft.effects.depends_on_others = true;
        Self { draft, driven, record, left, actions: Vec::new() }
    }

    /// Takes the node as far as it can go now. The answer: what it waits for.
    pub(in crate::decide) fn advance(mut self) -> Reason {
        if self.draft.fleet.is_over() && is_untouched(self.draft, self.driven, self.record) {
            return hand_back(self.draft, self.record);
        }
        if self.draft.is_patched() {
            keeps_focus(self.draft);
            return Reason::Upgrading(UpgradeReason::Cordoning);
        }
        if self.driven.is_unwanted() {
            return unwanted(self.draft, self.driven, self.record);
        }
        if is_untouched(self.draft, self.driven, self.record)
            && let Some(reason) = others::paused(self.draft.fleet.observed, self.driven.node)
        {
            others::freeze(self.draft, self.record);
            return reason;
        }
        if others::thaw(self.draft, self.record) {
            return Reason::Upgrading(UpgradeReason::Cordoning);
        }
        if !self.driven.node.unschedulable && self.record.state <= UpgradeState::PodRestartRequired
        {
            // Somebody took the cordon away: nothing is evicted or deleted on a node that takes new pods.
            return cordon_again(self.draft, self.driven, self.record);
        }
        if self.record.state.is_before_restart()
            && !self.record.requested
            && self.driven.is_current()
        {
            // What was asked for was taken back, or was never so: there is nothing to evict anybody for.
            return give_back(self.draft, self.driven, self.record);
        }
        let mut next = self.record.clone();
        loop {
            match self.step(&next) {
                StateResult::Stays(reason) => return self.stays(&next, reason),
                StateResult::To(state) => next.enter(state, self.draft.now()),
                StateResult::Fails(cause, message) => {
                    return fail(self.draft, self.driven, &next, cause, message);
                }
                StateResult::Done => return give_back(self.draft, self.driven, &next),
            }
        }
    }

    /// Writes how far the node is, and does what is behind that.
    fn stays(self, next: &UpgradeRecord, reason: Reason) -> Reason {
        let traits = self.draft.traits();
        let mut patch = NodePatch::for_node(self.driven.node);
        let label = self.driven.node.labels.text(traits.own_state_label);
        // What follows from the driver pod alone is not written; a label that somebody took away or changed is: the record counts.
        let told =
            next.state == self.record.state || next.state == UpgradeState::ValidationRequired;
        if !told || label != Some(self.record.state.name()) {
            put(&mut patch, next, traits);
        }
        if next.state >= UpgradeState::PodRestartRequired && self.unblocks() {
            patch.annotations.insert(traits.safe_load.to_owned(), None);
        }
        if !patch.is_empty() && !self.draft.issue(patch) {
            // What is behind it rests on it.
            return Reason::Upgrading(UpgradeReason::Cordoning);
        }
        self.draft.effects.actions.extend(self.actions);
        reason
    }

    fn policy(&self) -> &'a Policy {
        &self.draft.settings().upgrade.policy
    }

    fn step(&mut self, record: &UpgradeRecord) -> StateResult {
        let policy = self.policy();
        match record.state {
            // A step that the policy had when the node came to it, and has no more: it goes on by what counts now.
            UpgradeState::PodDeletionRequired if policy.pod_deletion.is_none() => {
                StateResult::To(after_jobs(policy))
            }
            UpgradeState::DrainRequired if policy.drain.is_none() => {
                StateResult::To(after_jobs(policy))
            }
            UpgradeState::WaitForJobsRequired => self.wait_for_jobs(record),
            UpgradeState::PodDeletionRequired => self.pod_deletion(record),
            UpgradeState::DrainRequired => self.drain(record),
            UpgradeState::PodRestartRequired => self.restart(record),
            UpgradeState::ValidationRequired => self.validate(record),
            // NVIDIA's controller is off now, and left it where it was.
            UpgradeState::Lifted => StateResult::To(after_jobs(policy)),
            // A failed node has its own road.
            UpgradeState::UpgradeFailed => StateResult::Done,
        }
    }

    fn wait_for_jobs(&mut self, record: &UpgradeRecord) -> StateResult {
        let (draft, node) = (&mut *self.draft, self.driven.node);
        let policy = &draft.settings().upgrade.policy;
        let next = after_jobs(policy);
        let Some(wait) = &policy.wait_for_completion else { return StateResult::To(next) };
        let jobs = clear::jobs_on(draft.fleet.observed, node);
        let limit = wait.timeout_seconds;
        if jobs.is_empty() || limit > 0 && draft.alarm.passed(record.since, limit) {
            // A node without pods that have to go needs no state, and no write, of its own for that.
            if next != UpgradeState::PodRestartRequired
                && !draft.fleet.observed.workloads.pods.contains_key(&node.name)
            {
                draft.effects.focus = true;
                if let Ok(reason) = clear::unlisted(draft) {
                    return StateResult::Stays(Reason::Upgrading(reason));
                }
                // It has been too long: the next state has a name for that.
            }
            return StateResult::To(next);
        }
        let until = (limit > 0).then(|| after(record.since, limit));
        StateResult::Stays(Reason::Upgrading(UpgradeReason::Jobs { jobs, until }))
    }

    fn pod_deletion(&mut self, record: &UpgradeRecord) -> StateResult {
        let drains = self.policy().drain.is_some();
        let failed = |cause, message| {
            if drains {
                StateResult::To(UpgradeState::DrainRequired)
            } else {
                StateResult::Fails(cause, message)
            }
        };
        match clear::clear(self.draft, record) {
            PodClearing::Over => StateResult::To(UpgradeState::PodRestartRequired),
            PodClearing::Waits(reason) => StateResult::Stays(Reason::Upgrading(reason)),
            PodClearing::Blocked(message) => failed(FailureCause::PodsNotEvictable, message),
            PodClearing::TimedOut(message) => failed(FailureCause::EvictionTimeout, message),
        }
    }

    fn drain(&mut self, record: &UpgradeRecord) -> StateResult {
        match clear::clear(self.draft, record) {
            PodClearing::Over => StateResult::To(UpgradeState::PodRestartRequired),
            PodClearing::Waits(reason) => StateResult::Stays(Reason::Upgrading(reason)),
            PodClearing::Blocked(message) => {
                StateResult::Fails(FailureCause::DrainBlocked, message)
            }
            PodClearing::TimedOut(message) => {
                StateResult::Fails(FailureCause::DrainTimeout, message)
            }
        }
    }

    /// The driver pod. A pod that is in sync is not replaced.
    fn restart(&mut self, record: &UpgradeRecord) -> StateResult {
        let limit = self.draft.settings().upgrade.start_seconds;
        // Without a process no time counts.
        let late =
            self.draft.alarm.passed(record.since.max(self.draft.fleet.memory.taken_up), limit);
        let Some(driver) = &self.driven.pod else {
            let coming = Reason::Upgrading(UpgradeReason::DriverComing);
            return if late {
                not_in_time("no driver pod appeared", limit)
            } else {
                StateResult::Stays(coming)
            };
        };
        let pod = driver.pod;
        let ending = Reason::Upgrading(UpgradeReason::DriverEnding { pod: pod.name.clone() });
        if pod.deleting {
            return if late {
                not_in_time("the old driver pod did not terminate", limit)
            } else {
                StateResult::Stays(ending)
            };
        }
        // A driver that failed gets a new pod with each attempt.
        let again = !record.attempts.is_empty() && is_older(pod, record) && !pod.containers_ready;
        if !driver.newest || again {
            if let Some(step) = clear::protect(self.draft, self.driven, record) {
                return step;
            }
            self.delete_driver(pod);
            return StateResult::Stays(ending);
        }
        if pod.running && pod.containers_ready {
            return StateResult::To(UpgradeState::ValidationRequired);
        }
        // A driver that cannot be unloaded says so only in its log, and not by whom it is held.
        let held = if pod.unready_restarts > 0 { clear::still_holding(self.draft) } else { None };
        let with_holders = |trouble: String| {
            held.iter().fold(trouble, |trouble, held| format!("{trouble}; {held}"))
        };
        let trouble = || {
            let own = pod.trouble.clone().or_else(|| pod.unschedulable.clone());
            with_holders(own.unwrap_or_else(|| "the pod is not ready".to_owned()))
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
        StateResult::Stays(Reason::DriverNotReady {
            state,
            trouble: pod.trouble.clone().map(with_holders),
            restarts,
        })
    }

    fn delete_driver(&mut self, pod: &ObservedPod) {
        if !self.draft.is_being_deleted(&pod.uid) {
            self.actions.push(Action::DeleteDriver(PodDeletion {
                node: self.driven.node.name.clone(),
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
            }));
        }
    }

    /// Validates what depends on the driver: validator, toolkit, plugins.
    fn validate(&mut self, record: &UpgradeRecord) -> StateResult {
        if !self.driven.is_current() {
            // The driver fell back, or a newer one was asked for meanwhile.
            return StateResult::To(UpgradeState::PodRestartRequired);
        }
        let (draft, node) = (&mut *self.draft, self.driven.node);
        if let Some(trouble) = validation(draft) {
            // Its time began when the driver was first seen to be ready: the pod's own times are of another clock.
            let until = draft.fleet.memory.deadline;
            let validating =
                Reason::Upgrading(UpgradeReason::Validating { trouble: trouble.clone(), until });
            let since = draft.waits(&validating).min(record.since);
            let until = after(since, draft.settings().upgrade.validation_seconds);
            if draft.now() < until {
                draft.alarm.set(until);
                return StateResult::Stays(Reason::Upgrading(UpgradeReason::Validating {
                    trouble,
                    until,
                }));
            }
            // A validator that failed before the run has had its time on the new driver: the node is reported and given back.
            if !validator_failed_before(draft, self.left.as_deref()) {
                return StateResult::Fails(FailureCause::ValidationTimeout, trouble);
            }
        }
        let not_ready = (!node.ready).then_some(Reason::NodeNotReady { since: node.ready_since });
        match not_ready.as_ref().or(self.left.as_deref()) {
            None => StateResult::Done,
            Some(reason) if draft.fleet.tolerates(reason) => StateResult::Done,
            Some(reason) => match operands_came_to(draft, reason) {
                Some(NodeOutcome::Failed) => {
                    StateResult::Fails(FailureCause::ValidationTimeout, reason.to_string())
                }
                Some(NodeOutcome::Done | NodeOutcome::Deferred | NodeOutcome::Gone) => {
                    StateResult::Done
                }
                None => unfinished(draft, reason),
            },
        }
    }

    /// Whether the driver pod may load its driver: it waits for the safe-load annotation to go, and is the right one.
    fn unblocks(&self) -> bool {
        let node = self.driven.node;
        let waits = node
            .annotations
            .get(self.draft.traits().safe_load)
            .is_some_and(|value| !value.is_empty());
        waits && node.unschedulable && self.driven.pod.as_ref().is_some_and(|driver| driver.newest)
    }
}

/// The node keeps its place among those whose pods are followed.
pub(super) fn keeps_focus(draft: &mut NodeDraft<'_>) {
    let workloads = &draft.fleet.observed.workloads;
    let name = &draft.node.name;
    draft.effects.focus |= workloads.pods.contains_key(name) || workloads.listing.contains(name);
}

/// No driver DaemonSet wants a pod on the node: there is nothing left to upgrade, if that is what it is. While another node leaves, a template
/// changes or labels are written again it may seem so for a short time, and what we have deleted still has to come back.
pub(super) fn unwanted(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    let reason = Reason::Upgrading(UpgradeReason::Unwanted);
    let since = draft.waits(&reason);
    if draft.alarm.passed(since, UNWANTED_SECONDS) {
        // A patch that is not taken must not restart the minute: it goes on waiting for the same.
        drop(give_back(draft, driven, record));
    }
    reason
}

/// Whether nothing has been done to the node's driver so far: the pod that was there when the node was started runs, and is not about to go.
pub(super) fn is_untouched(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let runs = |driver: &DriverPod<'_>| {
        let pod = driver.pod;
        pod.containers_ready
            && !pod.deleting
            && is_older(pod, record)
            && !draft.fleet.memory.issued.contains_key(&pod.uid)
    };
    let before =
        record.state.is_before_restart() || record.state == UpgradeState::PodRestartRequired;
    before
        && record.attempts.keys().all(|cause| cause.is_before_restart())
        && driven.pod.as_ref().is_some_and(runs)
}

/// Somebody uncordoned a node in the middle of its upgrade: a few times that is taken for a mistake.
pub(in crate::decide) fn cordon_again(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    if record.recordoned >= MOST_CORDONS {
        let message = format!(
            "another user or controller uncordoned the node {} times",
            record.recordoned + 1
        );
        return fail(draft, driven, record, FailureCause::CordonContested, message);
    }
    // The cordon may have been somebody else's, who does not need it any more: from now on it is ours.
    let recordoned = record.recordoned + u32::from(record.cordoned);
    let mut patch = NodePatch::for_node(driven.node);
    put(
        &mut patch,
        &UpgradeRecord { recordoned, cordoned: true, ..record.clone() },
        draft.traits(),
    );
    patch.unschedulable = Some(true);
    draft.issue(patch);
    Reason::Upgrading(UpgradeReason::Cordoning)
}

/// The first state in which pods go.
pub(super) fn after_jobs(policy: &Policy) -> UpgradeState {
    if policy.pod_deletion.is_some() {
        UpgradeState::PodDeletionRequired
    } else if policy.drain.is_some() {
        UpgradeState::DrainRequired
    } else {
        UpgradeState::PodRestartRequired
    }
}

/// Whether the driver pod is the one that was there when the node was started. A record of version 0.1.0 only tells when that was.
fn is_older(pod: &ObservedPod, record: &UpgradeRecord) -> bool {
    record.driver_pod.as_ref().map_or(pod.created <= record.started, |uid| *uid == pod.uid)
}

fn not_in_time(what: &str, limit: u64) -> StateResult {
    StateResult::Fails(FailureCause::DriverTimeout, format!("{what} within {limit} s"))
}
