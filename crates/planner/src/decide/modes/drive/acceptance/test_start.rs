//! The start of the tests after the upgrade. No workloads may be on the node then. If others
//! replace its driver pod, the tests begin again, but not without end.

use crate::decide::inputs::FleetInputs;
use crate::decide::modes::drive::DrivenNode;
use crate::decide::modes::drive::turn::is_older;
use crate::decide::node_draft::NodeDraft;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::node::DriverPod;
use contract::acceptance::AcceptanceTime;

use super::{heed_canaries, tests_of, workloads_stay};

/// How often the tests of a node begin again because others replaced its driver pod.
const MOST_REPLACEMENTS: u32 = 2;

/// Returns whether the tests with the new driver have begun on the node, under this deployment and
/// with this driver pod.
pub(in crate::decide) fn have_begun(
    fleet: &FleetInputs<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let own = driven.pod.as_ref().filter(|own| own.newest && !own.pod.deleting);
    own.is_some_and(|own| record.tests_begun == Some(begun_with(fleet, own)))
}

/// Returns whether tests with the new driver are to begin on the node.
pub(in crate::decide) fn are_to_begin(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let Some(own) = driven.pod.as_ref().filter(|own| own.newest) else { return false };
    if workloads_stay(record) || have_begun(draft.fleet, driven, record) {
        return false;
    }
    heed_canaries(draft);
    let tests = tests_of(draft.fleet, driven.node, own, record, AcceptanceTime::After);
    tests.current(record).is_some()
}

/// Returns whether workloads may be on a node whose driver is current. A node that is tested again
/// with the driver that it has was not cleared of them, and others may have uncordoned any node
/// since it was.
pub(in crate::decide) fn may_have_workloads(
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    record.recordoned > 0 || driven.pod.as_ref().is_some_and(|own| is_older(own.pod, record))
}

/// Records that the tests begin with this driver pod.
///
/// # Errors
/// They have begun too often with other driver pods: the message.
pub(super) fn begin(
    fleet: &FleetInputs<'_>,
    own: &DriverPod<'_>,
    record: &mut UpgradeRecord,
) -> Result<(), String> {
    let before = record.tests_begun.as_deref().and_then(|begun| begun.split_once('/'));
    let is_again = before.is_some_and(|(digest, _)| digest == fleet.settings.digest);
    let replacements = if is_again { record.driver_replacements.saturating_add(1) } else { 0 };
    record.driver_replacements = replacements;
    record.tests_begun = Some(begun_with(fleet, own));
    if replacements <= MOST_REPLACEMENTS {
        return Ok(());
    }
    Err(format!("the driver pod was replaced {replacements} times while the node was tested"))
}

/// Returns what the record says of tests that have begun with this driver pod.
fn begun_with(fleet: &FleetInputs<'_>, own: &DriverPod<'_>) -> String {
    format!("{}/{}", fleet.settings.digest, own.pod.uid)
}
