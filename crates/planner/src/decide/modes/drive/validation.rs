//! The checks of a node after its driver runs: the validator, the operands, the plugins.

use crate::decide::node_draft::NodeDraft;
use crate::decide::operands;
use crate::drive_upgrade::cause::FailureCause;
use crate::reason::Reason;
use contract::exit::ExitCode;
use contract::names;
use contract::operand::Operand;
use contract::record::NodeOutcome;

use super::turn::StateResult;

/// Returns whether the validator was failing on the node before the run, and has not worked since.
/// `left`: the reason for which the node waits apart from its upgrade.
pub(super) fn validator_failed_before(draft: &NodeDraft<'_>, left: Option<&Reason>) -> bool {
    let is_validator = |reason: &&Reason| {
        reason.operand().is_some_and(|operand| operand.known == Some(Operand::Validator))
    };
    left.filter(is_validator).is_some_and(|reason| operands::failed_before(draft, reason))
}

/// Returns the result for a node whose driver works, and whose validator has succeeded. `left`: the
/// reason for which it waits apart from its upgrade.
pub(in crate::decide) fn after_validation(
    draft: &mut NodeDraft<'_>,
    left: Option<&Reason>,
) -> StateResult {
    let node = draft.node;
    let not_ready = (!node.ready).then_some(Reason::NodeNotReady { since: node.ready_since });
    match not_ready.as_ref().or(left) {
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

/// Returns the outcome of a node that waits for its operands; `None` if it still waits, or waits
/// for another reason.
fn operands_came_to(draft: &mut NodeDraft<'_>, reason: &Reason) -> Option<NodeOutcome> {
    if !reason.follows_operand_rule() {
        return None;
    }
    let since = draft.waits(reason);
    operands::outcome(draft, reason, since)
}

/// Returns whether nothing but the recorded failure keeps a failed node from being done: it meets the
/// conditions of [`after_validation`]. Their times count apart, because its own wait is the failure.
pub(in crate::decide) fn is_otherwise_well(
    draft: &mut NodeDraft<'_>,
    left: Option<&Reason>,
) -> bool {
    if !left.is_some_and(Reason::follows_operand_rule) {
        draft.memory.waiting_apart = None;
    }
    draft.node.ready
        && left.is_none_or(|reason| draft.fleet.tolerates(reason) || is_excused(draft, reason))
}

/// Returns whether the operand that a failed node waits for is unrelated to its upgrade.
pub(super) fn is_excused(draft: &mut NodeDraft<'_>, reason: &Reason) -> bool {
    if !reason.follows_operand_rule() {
        return false;
    }
    let now = draft.now();
    let since = draft.memory.waits_apart(reason, now);
    matches!(
        operands::outcome(draft, reason, since),
        Some(NodeOutcome::Done | NodeOutcome::Deferred)
    )
}

/// Returns the result for a component that does not start with the driver (a plugin, the toolkit,
/// the node itself): it must not occupy a slot indefinitely.
fn unfinished(draft: &mut NodeDraft<'_>, reason: &Reason) -> StateResult {
    let (code, settings) = (reason.exit_code(), draft.settings());
    let (cause, limit) = if code == ExitCode::DraNotServing {
        (FailureCause::PluginNotServing, settings.dra.replacement_seconds)
    } else if code == ExitCode::PluginsNotServing {
        (FailureCause::PluginNotServing, settings.device_plugin.replacement_seconds)
    } else if reason.is_about_operands() {
        (FailureCause::ValidationTimeout, settings.upgrade.validation_seconds)
    } else {
        (FailureCause::DriverTimeout, settings.upgrade.start_seconds)
    };
    let since = draft.waits(reason);
    // The rule for operands has decided nothing so far, even if nothing resolves itself.
    let over =
        !reason.gets_time() && !reason.follows_operand_rule() || draft.alarm.passed(since, limit);
    if over {
        StateResult::Fails(cause, reason.to_string())
    } else {
        StateResult::Stays(reason.clone())
    }
}

/// Returns the problem of the validator; `None` if it succeeded, or if the driver has none.
pub(in crate::decide) fn validation(draft: &NodeDraft<'_>) -> Option<String> {
    let node = draft.node;
    draft.traits().validator?;
    // The operator deploys a validator only to nodes with this label; the driver manager pauses it
    // during the upgrade.
    let label = node.labels.text(names::DEPLOY_VALIDATOR_LABEL).unwrap_or_default();
    if matches!(label, "" | "false") {
        return None;
    }
    let mut found = false;
    for pod in draft.fleet.observed.validators.on(&node.name) {
        if pod.deleting {
            continue;
        }
        found = true;
        if !(pod.running && pod.containers_ready) {
            return Some(
                pod.trouble.clone().unwrap_or_else(|| format!("{} is not ready", pod.name)),
            );
        }
    }
    (!found).then(|| "there is no validator pod".to_owned())
}
