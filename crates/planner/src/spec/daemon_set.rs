//! Checks a driver's DaemonSet without an operator: its controller must have observed the newest
//! template.

use crate::reason::Reason;
use contract::driver::Driver;
use contract::settings::Settings;
use observed::{Observed, ObservedDaemonSet};

use super::newest_observed;

/// The update strategy with which the DaemonSet controller does not replace pods itself.
const ON_DELETE: &str = "OnDelete";

pub(super) fn observed_spec(observed: &Observed, settings: &Settings) -> Result<(), Reason> {
    let name = settings.daemon_set.clone().unwrap_or_default();
    let kind = Driver::DaemonSet.traits().policy_kind;
    let found = daemon_sets(observed).next().ok_or(Reason::PolicyMissing { kind, name })?;
    if !found.on_delete {
        return Err(Reason::precondition(
            kind,
            &found.name,
            "spec.updateStrategy.type",
            ON_DELETE,
            Some("RollingUpdate"),
            None,
        ));
    }
    newest_observed(found)
}

/// Returns the DaemonSet that the settings name: it is the only one that is watched.
pub(super) fn daemon_sets(observed: &Observed) -> impl Iterator<Item = &ObservedDaemonSet> {
    observed.daemon_sets.iter().filter(|daemon_set| !daemon_set.deleting)
}
