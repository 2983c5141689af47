//! Mode `steer`: NVIDIA's controller performs the upgrade, and the hook decides when each node
//! starts. The skip label holds nodes. The hook releases one by removing the label and cordoning
//! the node in the same patch, with the annotation because of which the controller keeps the
//! cordon: the cordon is the hook's until the node is checked. If the hook is gone, held nodes keep
//! their old driver.

use std::sync::Arc;

use crate::action::NodePatch;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::{NodeFailure, NodeRecordState, UpgradeRecord};
use crate::drive_upgrade::start_limits::ThrottledNode;
use crate::drive_upgrade::state::UpgradeState;
use crate::hold;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::acceptance::AcceptanceTime;
use contract::record::RefusedWrite;
use nvidia_upgrade::state::ControllerState;

use crate::decide::assess::{UpgradeStanding, UpgradeTurn};
use crate::decide::modes::assist;
use crate::decide::modes::drive::acceptance::{self, AcceptanceStep, must_be_tested};
use crate::decide::modes::drive::patch::put;
use crate::decide::modes::drive::{
    DrivenNode, StateResult, after_validation, clear_away, cordon_again, fail, forbidden_by_others,
    group, has_failed_driver, has_failed_proof, is_given_up, is_old, is_otherwise_well,
    is_requested, lacks_pod, not_retried, not_terminated, note_results, release_node, throttled,
    unwanted, validation,
};
use crate::decide::node_draft::NodeDraft;
use crate::decide::{accepted_nodes, refused_node};
use crate::time::after;

/// Why an uncordoned node is not tested again.
const NOT_TESTED_UNCORDONED: &str =
    "the node is uncordoned, and is not tested next to workloads; to have it tested, drain it";

/// Assesses the node's upgrade. `left`: the reason for which it waits apart from its upgrade.
pub(in crate::decide) fn assess(
    draft: &mut NodeDraft<'_>,
    left: Option<&Arc<Reason>>,
) -> UpgradeStanding {
    let cleaned = assist::cleaned(draft, left);
    let Some(driven) = DrivenNode::of(draft.fleet, draft.node) else {
        return UpgradeStanding::with(cleaned.unwrap_or(UpgradeTurn::Left));
    };
    let member = throttled(draft, &driven);
    // A node whose upgrade by the controller failed occupies no slot; with its cordon, it is
    // unavailable. The controller never finishes a node that gets no driver pod any more.
    let active =
        !driven.is_unwanted() && ControllerState::of_node(draft.node, draft.traits()).is_busy();
    // A node that the hook has given up must not keep others from starting, even if the controller
    // waits for its driver without end.
    let in_progress =
        member.in_progress || active && driven.record().is_none_or(|record| is_not_failed(record));
    let member = ThrottledNode { in_progress, unavailable: member.unavailable || active, ..member };
    refused_node::heed_request(draft);
    let refused = draft.refused_write().cloned();
    let waits = left.is_some() || cleaned.is_some();
    let turn = match &refused {
        Some(refused) => refused_turn(draft, &driven, refused, waits),
        None => next(draft, &driven, waits),
    };
    let turn = if turn == UpgradeTurn::Left { cleaned.unwrap_or(turn) } else { turn };
    let ends = turn == UpgradeTurn::Over && draft.is_under_way();
    let given_up = is_given_up(draft, &driven);
    let is_old = !in_progress && is_old(draft, &driven);
    UpgradeStanding {
        throttled: Some(member),
        given_up,
        has_failed_proof: given_up && has_failed_proof(draft, &driven),
        has_failed_driver: has_failed_driver(draft, &driven),
        // NVIDIA's controller does not retry nodes, and replaces the driver before the hook could
        // test the old one.
        has_failed_test: false,
        is_retried: false,
        proves: (in_progress || driven.pod.is_some() || driven.record().is_some())
            && draft.is_member(),
        is_old,
        is_unstarted: is_old || !in_progress && lacks_pod(&driven),
        ends,
        turn,
    }
}

/// Returns the wait apart from its upgrade, if it has one.
fn left_or(waits: bool, otherwise: UpgradeTurn) -> UpgradeTurn {
    if waits { UpgradeTurn::Left } else { otherwise }
}

/// Returns the next step for a node. `waits`: whether it waits for a reason apart from its upgrade.
fn next(draft: &mut NodeDraft<'_>, driven: &DrivenNode<'_>, waits: bool) -> UpgradeTurn {
    match &driven.found {
        NodeRecordState::Newer(version) => {
            UpgradeTurn::waits(UpgradeReason::NewerRecord { version: *version })
        }
        NodeRecordState::Broken => clear_away(draft),
        // NVIDIA's controller does nothing with a node without a driver pod.
        NodeRecordState::Record(record) if driven.is_unwanted() => {
            UpgradeTurn::Waits(unwanted(draft, driven, record).into())
        }
        NodeRecordState::Record(record) if is_tested_again(draft, driven, record) => {
            // It is started like any other node, and keeps its cordon.
            let forbidden = not_tested_uncordoned(driven, record)
                .or_else(|| forbidden_by_others(draft, driven));
            forbidden.map_or(UpgradeTurn::Candidate(1), |reason| UpgradeTurn::Waits(reason.into()))
        }
        NodeRecordState::Record(record)
            if record.state == UpgradeState::UpgradeFailed
                && !record.cordoned
                && (driven.needs_upgrade(draft.traits()) || driven.has_kept_driver(record))
                && (record.digest != draft.settings().digest
                    || is_requested(driven.node, draft.traits())
                    || record
                        .failure
                        .as_ref()
                        .is_some_and(|failure| failure.cause.is_refusal())) =>
        {
            // It failed under an earlier deployment, the policy that refused its writes may have
            // changed, or a user requests it: the hook holds it, and starts it like any other node.
            // A new driver that it already has is not proven, and keeps the record.
            clear_away(draft)
        }
        NodeRecordState::Record(record) => {
            // From now on, the node belongs to the run, whatever happens.
            draft.change_record(|_| {});
            UpgradeTurn::UnderWay(Arc::clone(record))
        }
        NodeRecordState::Nothing => held(draft, driven, waits),
    }
}

/// Returns whether a failed node is started again because of its acceptance tests: another
/// deployment, or a user, has it retried, and it failed one of them, or works and must pass them.
fn is_tested_again(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let Some(failure) = record.failure.as_ref().filter(|_| !is_not_failed(record)) else {
        return false;
    };
    let traits = draft.traits();
    // The policy that refused its writes in an earlier run may have changed since.
    let is_same = record.digest == draft.settings().digest
        && !is_requested(driven.node, traits)
        && !failure.cause.is_refusal();
    if is_same || accepted_nodes::is_accepted(draft, driven) {
        return false;
    }
    let works = driven.is_current()
        && validation(draft).is_none()
        && matches!(
            ControllerState::of_node(driven.node, traits),
            ControllerState::Unknown | ControllerState::Done
        );
    failure.cause == FailureCause::AcceptanceFailed
        || works && must_be_tested(draft, driven, record)
}

/// Returns the reason of a node that others have uncordoned since it failed: workloads may use its
/// GPUs, and NVIDIA's controller evicts none from a node whose driver is current. The test would
/// find no free GPU, and its end would say nothing about the driver.
fn not_tested_uncordoned(driven: &DrivenNode<'_>, record: &UpgradeRecord) -> Option<Reason> {
    if driven.node.unschedulable || !driven.is_current() {
        return None;
    }
    let failure = record.failure.as_ref()?;
    let message = format!("{}; {NOT_TESTED_UNCORDONED}", failure.message);
    let attempts = record.attempts(failure.cause, &record.digest);
    Some(not_retried(failure.cause, message, attempts, false))
}

/// Advances a node that the hook has released; returns its reason. `left`: the reason for which it
/// waits apart from its upgrade.
pub(in crate::decide) fn advance(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    left: Option<&Arc<Reason>>,
) -> Reason {
    let is_left = matches!(
        ControllerState::of_node(draft.node, draft.traits()),
        ControllerState::Unknown | ControllerState::Done
    );
    // If a test takes the driver or the node down, that is the result of the test.
    if is_left
        && is_not_failed(record)
        && acceptance::have_begun(draft.fleet, driven, record)
        && let Err(reason) = accept(draft, driven, record)
    {
        return reason;
    }
    if is_left
        && is_not_failed(record)
        && !draft.node.unschedulable
        && acceptance::are_to_begin(draft, driven, record)
    {
        // Workloads must not come before the tests: no controller would evict them.
        return cordon_again(draft, driven, record);
    }
    if !(is_left && driven.is_current()) || is_not_failed(record) {
        draft.memory.waiting_apart = None;
    }
    if is_left && driven.is_current() {
        return check(draft, driven, record, left.map(|reason| &**reason));
    }
    if let Some(Reason::UpgradeFailed { trouble }) = left.map(|reason| &**reason)
        && is_not_failed(record)
    {
        // Its attempts are used up: it must not keep its slot.
        let touched = driven.pod.as_ref().is_none_or(|driver| driver.newest);
        let cause =
            if touched { FailureCause::DriverFailing } else { FailureCause::EvictionTimeout };
        let message = format!(
            "the upgrade by NVIDIA's controller failed{}",
            trouble.as_ref().map(|text| format!(": {text}")).unwrap_or_default()
        );
        return give_up(draft, driven, record, cause, message);
    }
    if let Some(failure) = record.failure.as_ref().filter(|_| !is_not_failed(record)) {
        return failed_reason(draft, record, failure);
    }
    if record.state == UpgradeState::Lifted && !draft.node.unschedulable {
        return cordon_again(draft, driven, record);
    }
    match left.map(|reason| &**reason) {
        None => Reason::Upgrading(UpgradeReason::Cordoning),
        Some(
            reason @ (Reason::DriverNotReady { .. }
            | Reason::DriverPodUnschedulable { .. }
            | Reason::DriverPodMissing
            | Reason::Upgrading(UpgradeReason::DriverEnding { .. })),
        ) => starts_in_time(draft, driven, record, reason),
        Some(reason) => reason.clone(),
    }
}

fn is_not_failed(record: &UpgradeRecord) -> bool {
    record.state != UpgradeState::UpgradeFailed
}

/// Checks a node with which NVIDIA's controller is done, as mode `drive` does.
fn check(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    left: Option<&Reason>,
) -> Reason {
    if accepted_nodes::is_accepted(draft, driven) {
        return accepted_nodes::release(draft, driven, record);
    }
    let failure = record.failure.as_ref().filter(|_| !is_not_failed(record));
    if let Some(failure) = failure
        && failure.cause == FailureCause::AcceptanceFailed
    {
        return failed_reason(draft, record, failure);
    }
    if let Some(trouble) = validation(draft) {
        if let Some(failure) = failure {
            draft.memory.waiting_apart = None;
            return failed_reason(draft, record, failure);
        }
        let until = draft.fleet.memory.deadline;
        let since = draft.waits(&Reason::Upgrading(UpgradeReason::Validating {
            trouble: trouble.clone(),
            until,
        }));
        let until = after(since, draft.settings().upgrade.validation_seconds);
        if until <= draft.now() {
            return give_up(draft, driven, record, FailureCause::ValidationTimeout, trouble);
        }
        draft.alarm.set(until);
        return Reason::Upgrading(UpgradeReason::Validating { trouble, until });
    }
    if let Some(failure) = failure {
        // Only a retry runs the tests that it must pass.
        return if is_otherwise_well(draft, left) && !must_be_tested(draft, driven, record) {
            release_node(draft, driven, record)
        } else {
            failed_reason(draft, record, failure)
        };
    }
    match after_validation(draft, left) {
        // The checks lead to no other state.
        StateResult::Done | StateResult::To(_) => match accept(draft, driven, record) {
            Ok(next) => release_node(draft, driven, &next),
            Err(reason) => reason,
        },
        StateResult::Fails(cause, message) => give_up(draft, driven, record, cause, message),
        StateResult::Stays(reason) => reason,
    }
}

/// Runs the acceptance tests of a node that would be released otherwise. Returns its record with
/// their results.
///
/// # Errors
/// It is not accepted so far: the reason.
fn accept(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Result<UpgradeRecord, Reason> {
    let mut next = record.clone();
    next.canary |= acceptance::is_canary(draft);
    let (reason, actions) =
        match acceptance::accept(draft, driven, &mut next, AcceptanceTime::After) {
            AcceptanceStep::Accepted => return Ok(next),
            AcceptanceStep::NotAccepted(message) => {
                let cause = acceptance::cause(AcceptanceTime::After);
                return Err(give_up(draft, driven, &next, cause, message));
            }
            AcceptanceStep::Waits(reason, actions) => (reason, actions),
        };
    if next.acceptance != record.acceptance || next.tests_begun != record.tests_begun {
        let mut patch = NodePatch::for_node(driven.node);
        put(&mut patch, &next, draft.traits());
        if !draft.issue(patch) {
            // The later actions depend on it.
            return Err(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        note_results(draft, &next);
    }
    draft.effects.actions.extend(actions);
    Err(reason)
}

/// Returns the reason of a node whose new driver has not started yet, or whose old driver pod has
/// not terminated. NVIDIA's controller waits without end, and the node keeps its slot.
fn starts_in_time(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    reason: &Reason,
) -> Reason {
    let limit = draft.settings().upgrade.start_seconds;
    let since = draft.waits(reason);
    if !draft.alarm.passed(since, limit) {
        return reason.clone();
    }
    if let Some(driver) = driven.pod.as_ref().filter(|driver| driver.pod.deleting) {
        let (cause, what) = not_terminated(driver);
        return give_up(draft, driven, record, cause, format!("{what} within {limit} s"));
    }
    let message = format!("the driver pod did not become ready within {limit} s: {reason}");
    give_up(draft, driven, record, FailureCause::DriverTimeout, message)
}

/// Fails a node that the hook does not start again in this deployment.
fn give_up(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    cause: FailureCause,
    message: String,
) -> Reason {
    let settings = draft.settings();
    let mut last = record.clone();
    last.count_under(&settings.digest);
    // It has no attempts left, so it counts in the failure budget.
    last.attempts.insert(cause, settings.upgrade.attempts.saturating_sub(1));
    fail(draft, driven, &last, cause, message)
}

fn failed_reason(draft: &NodeDraft<'_>, record: &UpgradeRecord, failure: &NodeFailure) -> Reason {
    let attempts = record.attempts(failure.cause, &record.digest);
    let cordoned = record.cordoned && draft.node.unschedulable;
    not_retried(failure.cause, failure.message.clone(), attempts, cordoned)
}

/// Returns the step of a node with a refused write. NVIDIA's controller finishes nodes that it has
/// started.
fn refused_turn(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    refused: &RefusedWrite,
    waits: bool,
) -> UpgradeTurn {
    let node = draft.node;
    if draft.is_patched() {
        return UpgradeTurn::waits(UpgradeReason::Cordoning);
    }
    if let Some(reason) = refused_node::tried_again(draft) {
        return UpgradeTurn::Waits(reason.into());
    }
    if ControllerState::of_node(node, draft.traits()).is_busy() {
        return left_or(waits, UpgradeTurn::waits(UpgradeReason::Cordoning));
    }
    match &driven.found {
        NodeRecordState::Record(record) if record.state.is_in_progress() && !refused.stays => {
            let old = |driver: &DriverPod<'_>| {
                !driver.newest && driver.pod.containers_ready && !driver.pod.deleting
            };
            let untouched = driven.pod.as_ref().is_some_and(old);
            let cause = if untouched {
                FailureCause::WriteRefused
            } else {
                FailureCause::WriteRefusedAfterRestart
            };
            UpgradeTurn::Waits(fail(draft, driven, record, cause, refused.message.clone()).into())
        }
        NodeRecordState::Nothing
            if !driven.needs_upgrade(draft.traits())
                && !hold::is_held(node, draft.settings().driver) =>
        {
            left_or(waits, UpgradeTurn::Over)
        }
        NodeRecordState::Nothing
        | NodeRecordState::Broken
        | NodeRecordState::Newer(_)
        | NodeRecordState::Record(_) => {
            UpgradeTurn::Waits(refused_node::write_refused(draft, refused).into())
        }
    }
}

/// Returns the step of a node that the hook has not released.
fn held(draft: &mut NodeDraft<'_>, driven: &DrivenNode<'_>, waits: bool) -> UpgradeTurn {
    let (node, kind, traits) = (draft.node, draft.settings().driver, draft.traits());
    if !driven.needs_upgrade(traits) {
        let mut patch = hold::released(node, kind);
        if patch.is_empty() {
            return left_or(waits, UpgradeTurn::Over);
        }
        let current = driven.pod.as_ref().is_some_and(|driver| driver.newest);
        if ControllerState::of_node(node, traits) == ControllerState::UpgradeRequired && current {
            // The template was reverted before the node started: the controller would not check
            // whether an upgrade is still needed.
            patch.labels.insert(
                traits.state_label.to_owned(),
                Some(ControllerState::Done.label().to_owned()),
            );
        }
        // It needs no hold.
        draft.issue(patch);
        return UpgradeTurn::waits(UpgradeReason::Releasing);
    }
    if hold::is_held(node, kind) {
        return forbidden_by_others(draft, driven)
            .map_or(UpgradeTurn::Candidate(0), |reason| UpgradeTurn::Waits(reason.into()));
    }
    if hold::can_be_held(node, kind) {
        // The hold was lost: without the hook, the controller upgrades one node at a time, but not
        // by the hook's limits.
        draft.issue(hold::hold(node, kind));
    }
    left_or(waits, UpgradeTurn::waits(UpgradeReason::Cordoning))
}

/// Releases a node: label, cordon and record in one patch.
pub(in crate::decide) fn lift(draft: &mut NodeDraft<'_>) {
    let is_canary = acceptance::is_canary(draft);
    let Some(driven) = DrivenNode::of(draft.fleet, draft.node) else { return };
    let (node, traits, settings, now) = (draft.node, draft.traits(), draft.settings(), draft.now());
    let known = driven.record();
    let record = UpgradeRecord {
        // A node that is tested again still has the hook's cordon.
        cordoned: !node.unschedulable || known.is_some_and(|record| record.cordoned),
        canary: is_canary || known.is_some_and(|record| record.canary),
        group: group(draft, &driven),
        driver_pod: driven.pod.as_ref().map(|driver| driver.pod.uid.clone()),
        driver_changed: known.is_some_and(|record| record.has_changed_driver()),
        ..UpgradeRecord::new(UpgradeState::Lifted, &settings.digest, now)
    };
    let mut patch = hold::released(node, settings.driver);
    put(&mut patch, &record, traits);
    patch.annotations.insert(traits.initially_unschedulable.to_owned(), Some("true".to_owned()));
    patch.unschedulable = (!node.unschedulable).then_some(true);
    if known.is_some() && node.annotations.contains_key(traits.requested) {
        patch.annotations.insert(traits.requested.to_owned(), None);
    }
    if ControllerState::of_node(node, traits) == ControllerState::Failed {
        // Its upgrade by the controller failed before; its label restarts the upgrade.
        patch.labels.insert(
            traits.state_label.to_owned(),
            Some(ControllerState::UpgradeRequired.label().to_owned()),
        );
    }
    draft.issue_start(patch);
}
