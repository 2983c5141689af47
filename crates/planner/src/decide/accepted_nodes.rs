//! Failed nodes that users take as proven (`gpu-rollout resume --accept`): the hook releases them,
//! and they count neither as failed proofs nor as failed nodes.

use crate::drive_upgrade::failed_proof::failed_proof;

use super::modes::drive::DrivenNode;
use super::node_draft::NodeDraft;

/// Returns whether a user has taken the node as proven despite its failure. A node without a working
/// driver stays failed: a user cannot prove a driver that does not run.
pub(super) fn is_accepted(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let accepted = &draft.fleet.memory.accepted;
    if accepted.is_empty() {
        return false;
    }
    let record = driven.record().map(|record| &**record);
    failed_proof(record, driven.pod.as_ref())
        .is_ok_and(|(record, _)| accepted.contains(&(driven.node.name.clone(), record.since)))
}
