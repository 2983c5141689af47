//! Failed nodes that users take as proven (`gpu-rollout resume --accept`): the hook releases them,
//! and they count neither as failed proofs nor as failed nodes.

use crate::drive_upgrade::state::UpgradeState;

use super::modes::drive::{DrivenNode, has_failed_proof};
use super::node_draft::NodeDraft;

/// Returns whether a user has taken the node as proven since the checks of its new driver failed. A
/// node without a working driver stays failed: a user cannot prove a driver that does not run.
pub(super) fn is_accepted(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let Some(accepted_at) = draft.fleet.memory.accepted.get(&driven.node.name) else {
        return false;
    };
    let failed = driven.record().filter(|record| record.state == UpgradeState::UpgradeFailed);
    failed.is_some_and(|record| record.since < *accepted_at)
        && has_failed_proof(driven)
        && driven.is_current()
}
