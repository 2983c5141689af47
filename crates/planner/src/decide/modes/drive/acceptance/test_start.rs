//! The driver pod with which the tests after the upgrade begin. If others replace it, the tests
//! begin again, but not without end.

use crate::decide::inputs::FleetInputs;
use crate::decide::modes::drive::DrivenNode;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::node::DriverPod;

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
