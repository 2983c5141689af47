//! A node in mode `drive` with a refused write.

use std::sync::Arc;

use crate::action::NodePatch;
use crate::decide::assess::UpgradeTurn;
use crate::decide::node_draft::NodeDraft;
use crate::decide::refused_node::{tried_again, write_refused};
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::{NodeRecordState, UpgradeRecord};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::RefusedWrite;

use super::patch::remove;
use super::turn::is_untouched;
use super::{DrivenNode, fail, over};

/// Stops the upgrade of the node. If it still accepts patches, it is treated like any other failed
/// node: with an unchanged old driver it is uncordoned, otherwise it keeps its cordon.
pub(super) fn next(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    refused: &RefusedWrite,
    left: Option<&Arc<Reason>>,
) -> UpgradeTurn {
    let given_up = write_refused(draft, refused);
    if draft.is_patched() {
        return UpgradeTurn::waits(UpgradeReason::Cordoning);
    }
    if let Some(reason) = tried_again(draft) {
        return UpgradeTurn::Waits(reason.into());
    }
    match &driven.found {
        NodeRecordState::Newer(version) => {
            UpgradeTurn::waits(UpgradeReason::NewerRecord { version: *version })
        }
        NodeRecordState::Record(record) if record.state.is_in_progress() && !refused.stays => {
            let cause = cause_of_refusal(draft, driven, record);
            UpgradeTurn::Waits(fail(draft, driven, record, cause, refused.message.clone()).into())
        }
        NodeRecordState::Nothing | NodeRecordState::Broken if withdraws(draft, driven, refused) => {
            UpgradeTurn::waits(UpgradeReason::Releasing)
        }
        // Its driver was replaced by others, or it never needed another one.
        NodeRecordState::Nothing
            if !(driven.needs_upgrade(draft.traits())
                || refused.cordon && driven.node.unschedulable) =>
        {
            over(left)
        }
        NodeRecordState::Nothing | NodeRecordState::Broken | NodeRecordState::Record(_) => {
            UpgradeTurn::Waits(given_up.into())
        }
    }
}

/// Reverts once, if admission changed a patch and no record names the change, the parts that are
/// known to be the hook's.
fn withdraws(draft: &mut NodeDraft<'_>, driven: &DrivenNode<'_>, refused: &RefusedWrite) -> bool {
    let node = driven.node;
    let cordoned = refused.cordon && node.unschedulable;
    if refused.stays || !cordoned && driven.found != NodeRecordState::Broken {
        return false;
    }
    let mut patch = NodePatch::for_node(node);
    remove(&mut patch, draft.traits());
    patch.unschedulable = cordoned.then_some(false);
    if !draft.issue(patch) {
        return false;
    }
    draft
        .change_record(|record| record.refused.iter_mut().for_each(|refused| refused.stays = true));
    true
}

/// Returns the cause, which decides whether the node can be released. A refused deletion has
/// changed nothing.
fn cause_of_refusal(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> FailureCause {
    if is_untouched(draft, driven, record) {
        FailureCause::WriteRefused
    } else {
        FailureCause::WriteRefusedAfterRestart
    }
}
