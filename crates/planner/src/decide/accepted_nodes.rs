//! Failed nodes that users take as proven (`gpu-rollout resume --accept`): the hook releases them,
//! and they count neither as failed proofs nor as failed nodes.

use std::sync::Arc;

use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::failed_proof::failed_proof;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::reason::Reason;
use crate::spec::driver_identity;
use contract::operand::Operand;
use contract::record::proof::is_part_of;

use super::modes::drive::{DrivenNode, release_node, validation};
use super::node_draft::NodeDraft;

/// Returns whether a user has taken the node as proven despite its failure, with the driver of the
/// fleet. A node without a working driver stays failed: a user cannot prove a driver that does not
/// run.
pub(super) fn is_accepted(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let accepted = &draft.fleet.memory.accepted;
    if accepted.is_empty() {
        return false;
    }
    let record = driven.record().map(|record| &**record);
    let Ok((record, _)) = failed_proof(record, driven.pod.as_ref()) else { return false };
    let current = driver_identity(draft.fleet.observed, draft.settings().driver);
    accepted.iter().any(|known| {
        known.node == driven.node.name
            && known.failed_at == record.since
            && is_part_of(&current, &known.driver)
    })
}

/// Releases a node that a user takes as proven.
pub(super) fn release(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    excuse_validator(draft, record);
    release_node(draft, driven, record)
}

/// Excuses the validator that the user has overruled, as one that was failing before the run: the
/// run reports it, and does not wait for it. This run and the following ones would otherwise wait
/// for it until their time is over.
fn excuse_validator(draft: &mut NodeDraft<'_>, record: &UpgradeRecord) {
    let cause = record.failure.as_ref().map(|failure| failure.cause);
    if cause != Some(FailureCause::ValidationTimeout) || validation(draft).is_none() {
        return;
    }
    let mut entry = draft.memory.baseline.as_deref().cloned().unwrap_or_default();
    if entry.failing.insert(Operand::Validator.traits().daemon_set.to_owned()) {
        draft.memory.baseline = Some(Arc::new(entry));
    }
}
