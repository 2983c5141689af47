//! Advances one node in progress as far as possible now. States that are left at once need no write
//! of their own.

use std::sync::Arc;

use crate::action::{NodePatch, PodDeletion};
use crate::decide::Action;
use crate::decide::node_draft::NodeDraft;
use crate::decide::paused_nodes;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::time::after;
use contract::acceptance::AcceptanceTime;
use contract::policy::Policy;
use observed::{ObservedNode, ObservedPod};

use super::acceptance::{self, AcceptanceStep};
use super::clear::{self, PodClearing};
use super::cordon::cordon_again;
use super::patch::put;
use super::release_unchanged::release_unchanged;
use super::validation::{after_validation, validation, validator_failed_before};
use super::{DrivenNode, fail, note_results, release_node};

/// Number of restarts of a container that is not ready above which its driver counts as failing
/// (k8s-operator-libs: more than 10).
const MOST_RESTARTS: i32 = 10;

/// The problem of a node that is not Ready.
const NOT_READY: &str = "the node is NotReady";

/// Seconds for which no DaemonSet must need a pod on a node before the hook accepts that: another
/// holder of kube-controller-manager's Lease needs 15 s, and pods of removed nodes are collected
/// after 40 s.
const UNWANTED_SECONDS: u64 = 60;

/// The result of a state.
pub(in crate::decide) enum StateResult {
    /// The node stays in it.
    Stays(Reason),
    /// The node moves to another state.
    To(UpgradeState),
    /// The node failed.
    Fails(FailureCause, String),
    /// The node is done.
    Done,
}

/// The next step of a node in progress.
pub(in crate::decide) struct DriveTurn<'t, 'a> {
    draft: &'t mut NodeDraft<'a>,
    driven: &'t DrivenNode<'a>,
    record: &'t UpgradeRecord,
    /// The reason for which it waits apart from its upgrade.
    left: Option<Arc<Reason>>,
    /// Actions after its patch.
    actions: Vec<Action>,
}

impl<'t, 'a> DriveTurn<'t, 'a> {
    pub(in crate::decide) fn new(
        draft: &'t mut NodeDraft<'a>,
        driven: &'t DrivenNode<'a>,
        record: &'t UpgradeRecord,
        left: Option<Arc<Reason>>,
    ) -> Self {
        Self { draft, driven, record, left, actions: Vec::new() }
    }

    /// Advances the node as far as possible now. Returns the reason for which it waits.
    pub(in crate::decide) fn advance(mut self) -> Reason {
        if self.draft.fleet.is_over() && is_untouched(self.draft, self.driven, self.record) {
            return release_unchanged(self.draft, self.record);
        }
        if self.draft.is_patched() {
            keeps_focus(self.draft);
            return Reason::Upgrading(UpgradeReason::Cordoning);
        }
        if self.driven.is_unwanted() {
            return unwanted(self.draft, self.driven, self.record);
        }
        if is_untouched(self.draft, self.driven, self.record)
            && let Some(reason) = paused_nodes::paused(self.draft.fleet, self.driven.node)
        {
            paused_nodes::stop_clock(self.draft, self.record);
            return reason;
        }
        let resumed = paused_nodes::resumed(self.draft, self.record);
        if !self.driven.node.unschedulable
            && (self.record.state <= UpgradeState::PodRestartRequired
                || acceptance::are_to_begin(self.draft, self.driven, self.record))
        {
            // The cordon was removed by others: nothing is evicted, deleted or tested on a node
            // that accepts new pods.
            return cordon_again(self.draft, self.driven, resumed.as_ref().unwrap_or(self.record));
        }
        if let Some(resumed) = &resumed {
            paused_nodes::restart_clock(self.draft, resumed);
            return Reason::Upgrading(UpgradeReason::Cordoning);
        }
        let mut next = self.record.clone();
        next.canary |= acceptance::is_canary(self.draft);
        if next.state.is_before_restart()
            && !next.requested
            && self.driven.is_current()
            && !acceptance::are_to_begin(self.draft, self.driven, &next)
        {
            // The request was withdrawn, others have replaced the driver pod, or an earlier
            // deployment did, and the node failed its checks: there is no reason to evict pods,
            // unless the node is tested, but the checks are those of an upgrade.
            next.enter(UpgradeState::ValidationRequired, self.draft.now());
        }
        loop {
            match self.step(&mut next) {
                StateResult::Stays(reason) => return self.stays(&next, reason),
                StateResult::To(state) => next.enter(state, self.draft.now()),
                StateResult::Fails(cause, message) => {
                    return fail(self.draft, self.driven, &next, cause, message);
                }
                StateResult::Done => return release_node(self.draft, self.driven, &next),
            }
        }
    }

    /// Writes the state of the node, and performs the actions after it.
    fn stays(self, next: &UpgradeRecord, reason: Reason) -> Reason {
        let traits = self.draft.traits();
        let mut patch = NodePatch::for_node(self.driven.node);
        let label = self.driven.node.labels.text(traits.own_state_label);
        // A state that follows from the driver pod alone is not written. A label that others
        // removed or changed is written again: the record counts.
        let told =
            next.state == self.record.state || next.state == UpgradeState::ValidationRequired;
        let tests_begin = next.tests_begun != self.record.tests_begun;
        if !told || tests_begin || label != Some(self.record.state.name()) {
            put(&mut patch, next, traits);
        } else if next.acceptance != self.record.acceptance {
            put(&mut patch, &self.record.with_results_of(next), traits);
        }
        if next.state >= UpgradeState::PodRestartRequired && self.unblocks() {
            patch.annotations.insert(traits.safe_load.to_owned(), None);
        }
        if !patch.is_empty() {
            if !self.draft.issue(patch) {
                // The later actions depend on it.
                return Reason::Upgrading(UpgradeReason::Cordoning);
            }
            note_results(self.draft, next);
        }
        self.draft.effects.actions.extend(self.actions);
        reason
    }

    fn policy(&self) -> &'a Policy {
        &self.draft.settings().upgrade.policy
    }

    fn step(&mut self, record: &mut UpgradeRecord) -> StateResult {
        let policy = self.policy();
        match record.state {
            // The policy no longer has the step that it had when the node entered the state: the
            // current policy applies.
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
            // NVIDIA's controller is off now, and left the node in its state.
            UpgradeState::Lifted => StateResult::To(after_jobs(policy)),
            // Failed nodes are handled elsewhere.
            UpgradeState::UpgradeFailed => StateResult::Done,
        }
    }

    fn wait_for_jobs(&mut self, record: &UpgradeRecord) -> StateResult {
        let (draft, node) = (&mut *self.draft, self.driven.node);
        let policy = &draft.settings().upgrade.policy;
        let next = after_jobs(policy);
        let Some(wait) = &policy.wait_for_completion else { return StateResult::To(next) };
        draft.effects.depends_on_others = true;
        let jobs = clear::jobs_on(draft.fleet.observed, node);
        let limit = wait.timeout_seconds;
        if jobs.is_empty() || limit > 0 && draft.alarm.passed(record.since, limit) {
            // A node without pods that must leave needs no state, and no write, for that.
            if next != UpgradeState::PodRestartRequired
                && !draft.fleet.observed.workloads.pods.contains_key(&node.name)
            {
                draft.effects.focus = true;
                if let Ok(reason) = clear::unlisted(draft) {
                    return StateResult::Stays(Reason::Upgrading(reason));
                }
                // The wait took too long: the next state reports it.
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

    /// Replaces the driver pod. A current pod is not replaced.
    fn restart(&mut self, record: &mut UpgradeRecord) -> StateResult {
        let limit = self.draft.settings().upgrade.start_seconds;
        // Time without a running process does not count.
        let late =
            self.draft.alarm.passed(record.since.max(self.draft.fleet.memory.taken_over_at), limit);
        let Some(driver) = &self.driven.pod else {
            let coming = Reason::Upgrading(UpgradeReason::DriverComing);
            return if late {
                not_in_time(FailureCause::DriverTimeout, "no driver pod appeared", limit)
            } else {
                StateResult::Stays(coming)
            };
        };
        let pod = driver.pod;
        let ending = Reason::Upgrading(UpgradeReason::DriverEnding {
            pod: pod.name.clone(),
            trouble: (!self.driven.node.ready).then(|| NOT_READY.to_owned()),
        });
        if pod.deleting {
            return if late {
                let (cause, what) = not_terminated(driver);
                not_in_time(cause, what, limit)
            } else {
                StateResult::Stays(ending)
            };
        }
        // A driver that failed gets a new pod with each attempt.
        let again = record.has_failed() && is_older(pod, record) && !pod.containers_ready;
        if !driver.newest || again {
            if let Some(step) = clear::protect(self.draft, self.driven, record)
                .or_else(|| self.accept(record, AcceptanceTime::Before))
            {
                return step;
            }
            self.delete_driver(pod);
            return StateResult::Stays(ending);
        }
        if pod.running && pod.containers_ready {
            return StateResult::To(UpgradeState::ValidationRequired);
        }
        // A driver that cannot be unloaded reports that only in its log, and not which pod uses it.
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
            let message =
                format!("the driver pod did not become ready within {limit} s: {}", trouble());
            return StateResult::Fails(FailureCause::DriverTimeout, message);
        }
        let restarts = pod.containers.iter().map(|container| container.restarts).sum();
        let state = Some(record.state.name().to_owned());
        StateResult::Stays(Reason::DriverNotReady {
            state,
            trouble: self.trouble_of(pod).map(with_holders),
            restarts,
        })
    }

    /// Returns the problem of a driver pod that is not ready, if one is known.
    fn trouble_of(&self, pod: &ObservedPod) -> Option<String> {
        let node = self.driven.node;
        match &pod.trouble {
            Some(trouble) => Some(with_readiness(node, trouble.clone())),
            None => (!node.ready).then(|| NOT_READY.to_owned()),
        }
    }

    fn delete_driver(&mut self, pod: &ObservedPod) {
        if !self.draft.is_just_requested(&pod.uid) {
            self.actions.push(Action::DeleteDriver(PodDeletion {
                node: self.driven.node.name.clone(),
                namespace: pod.namespace.clone(),
                pod: pod.name.clone(),
                uid: pod.uid.clone(),
            }));
        }
    }

    /// Validates what depends on the driver: validator, toolkit, plugins.
    fn validate(&mut self, record: &mut UpgradeRecord) -> StateResult {
        // If a test takes the driver or the node down, that is the result of the test.
        if acceptance::have_begun(self.draft.fleet, self.driven, record)
            && let Some(step) = self.accept(record, AcceptanceTime::After)
        {
            return step;
        }
        if !self.driven.is_current() {
            // The driver stopped working, or a newer one was requested in the meantime.
            return StateResult::To(UpgradeState::PodRestartRequired);
        }
        let (draft, node) = (&mut *self.draft, self.driven.node);
        if let Some(trouble) = validation(draft) {
            // Its time starts when the driver was first observed ready: the pod's own times are
            // from another clock.
            let until = draft.fleet.memory.deadline;
            let validating =
                Reason::Upgrading(UpgradeReason::Validating { trouble: trouble.clone(), until });
            let observed = draft.waits(&validating).min(record.since);
            // A command does not know when the hook first observed it: not before the pod was ready,
            // the attempt started and the hook took over.
            let followed = self.driven.pod.as_ref().filter(|_| draft.memory.is_followed());
            let not_before = self.record.since.max(draft.fleet.memory.taken_over_at);
            let since = followed
                .and_then(|driver| driver.pod.ready_since)
                .map_or(observed, |ready| ready.max(not_before).min(observed));
            // Acceptance tests that have run do not count.
            let tested = record.acceptance.iter().map(|result| result.at).max();
            let since = tested.map_or(since, |at| since.max(at));
            let until = after(since, draft.settings().upgrade.validation_seconds);
            if draft.now() < until {
                draft.alarm.set(until);
                return StateResult::Stays(Reason::Upgrading(UpgradeReason::Validating {
                    trouble: with_readiness(node, trouble),
                    until: until.min(draft.fleet.memory.deadline),
                }));
            }
            // A validator that failed before the run has had its time with the new driver: the node
            // is reported and released.
            if !validator_failed_before(draft, self.left.as_deref()) {
                return StateResult::Fails(FailureCause::ValidationTimeout, trouble);
            }
        }
        match after_validation(draft, self.left.as_deref()) {
            StateResult::Done => self.prove(record),
            other @ (StateResult::Stays(_) | StateResult::To(_) | StateResult::Fails(..)) => other,
        }
    }

    /// Runs the acceptance tests of a node whose checks have succeeded. Before the first one, the
    /// pods that the policy evicts must have left.
    fn prove(&mut self, record: &mut UpgradeRecord) -> StateResult {
        if acceptance::may_have_workloads(self.driven, record)
            && acceptance::are_to_begin(self.draft, self.driven, record)
            && let Some(step) = clear::protect(self.draft, self.driven, record)
        {
            return step;
        }
        self.accept(record, AcceptanceTime::After).unwrap_or(StateResult::Done)
    }

    /// Runs the acceptance tests of this time. Returns what they lead to; `None`: the node is
    /// accepted.
    fn accept(&mut self, record: &mut UpgradeRecord, time: AcceptanceTime) -> Option<StateResult> {
        match acceptance::accept(self.draft, self.driven, record, time) {
            AcceptanceStep::Accepted => None,
            AcceptanceStep::Waits(reason, actions) => {
                self.actions.extend(actions);
                Some(StateResult::Stays(reason))
            }
            AcceptanceStep::NotAccepted(message) => {
                // A node whose driver was replaced before is not released: that driver is not
                // proven.
                let is_old = is_untouched(self.draft, self.driven, record);
                let time = if is_old { time } else { AcceptanceTime::After };
                Some(StateResult::Fails(acceptance::cause(time), message))
            }
        }
    }

    /// Returns whether the driver pod may load its driver: it waits for the removal of the
    /// safe-load annotation, and is the newest one.
    fn unblocks(&self) -> bool {
        let node = self.driven.node;
        let waits = node
            .annotations
            .get(self.draft.traits().safe_load)
            .is_some_and(|value| !value.is_empty());
        waits && node.unschedulable && self.driven.pod.as_ref().is_some_and(|driver| driver.newest)
    }
}

/// Keeps the node among those whose pods are watched.
pub(super) fn keeps_focus(draft: &mut NodeDraft<'_>) {
    let workloads = &draft.fleet.observed.workloads;
    let name = &draft.node.name;
    draft.keeps_focus |= workloads.pods.contains_key(name) || workloads.listing.contains(name);
}

/// Handles a node on which no driver DaemonSet needs a pod: there may be nothing left to upgrade.
/// While another node leaves, a template changes or labels are rewritten, this may be temporary,
/// and a pod that the hook deleted must still come back.
pub(in crate::decide) fn unwanted(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    let reason = Reason::Upgrading(UpgradeReason::Unwanted);
    let since = draft.waits(&reason);
    if draft.alarm.passed(since, UNWANTED_SECONDS) {
        // A patch that is not accepted must not restart the minute: the node keeps waiting for the
        // same reason.
        drop(release_node(draft, driven, record));
    }
    reason
}

/// Returns whether the node's driver is unchanged so far: the pod that existed when the node was
/// started is running, and is not about to be deleted.
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
    before && !record.has_changed_driver() && driven.pod.as_ref().is_some_and(runs)
}

/// Returns the first state in which pods are evicted.
pub(super) fn after_jobs(policy: &Policy) -> UpgradeState {
    if policy.pod_deletion.is_some() {
        UpgradeState::PodDeletionRequired
    } else if policy.drain.is_some() {
        UpgradeState::DrainRequired
    } else {
        UpgradeState::PodRestartRequired
    }
}

/// Returns whether the driver pod is the one that existed when the node was started. A record of
/// version 0.1.0 contains only the time.
pub(super) fn is_older(pod: &ObservedPod, record: &UpgradeRecord) -> bool {
    record.driver_pod.as_ref().map_or(pod.created <= record.started, |uid| *uid == pod.uid)
}

/// Returns the problem of a pod, after that of its node: a kubelet that is away reports nothing new.
fn with_readiness(node: &ObservedNode, trouble: String) -> String {
    if node.ready { trouble } else { format!("{NOT_READY}; {trouble}") }
}

/// Returns why a node fails whose driver pod does not terminate in time. A pod of the new driver
/// shows that this driver was tried.
pub(in crate::decide) fn not_terminated(driver: &DriverPod<'_>) -> (FailureCause, &'static str) {
    if driver.newest {
        (FailureCause::DriverTimeout, "the driver pod did not terminate")
    } else {
        (FailureCause::TerminationTimeout, "the old driver pod did not terminate")
    }
}

fn not_in_time(cause: FailureCause, what: &str, limit: u64) -> StateResult {
    StateResult::Fails(cause, format!("{what} within {limit} s"))
}
