//! The cordon of a node in progress that others remove.

use crate::action::NodePatch;
use crate::decide::node_draft::NodeDraft;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;

use super::patch::put;
use super::{DrivenNode, fail};

/// How often the hook restores a cordon that others removed.
pub(super) const MOST_CORDONS: u32 = 2;

/// Restores the cordon of a node that others uncordoned during its upgrade: the first few times,
/// this counts as a mistake.
pub(in crate::decide) fn cordon_again(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> Reason {
    if record.recordoned >= MOST_CORDONS {
        let message = contested(record);
        return fail(draft, driven, record, FailureCause::CordonContested, message);
    }
    // The cordon may have been a foreign one that is no longer needed: from now on, it is the
    // hook's.
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

/// Describes that others have removed the cordon again.
pub(super) fn contested(record: &UpgradeRecord) -> String {
    let times = record.recordoned + 1;
    format!("another user or controller uncordoned the node {times} times")
}
