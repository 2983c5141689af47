//! The watch of the pods of acceptance tests.

use contract::acceptance::{ACCEPTANCE_NAMESPACE, TEST_LABEL};
use contract::settings::Settings;
use contract::task::{RightCondition, Task};
use observed::acceptance::AcceptancePod;
use observed::project;

use super::starter::{TableGroup, WatchStarter};
use crate::api_collection::PODS;
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;

/// Returns whether the tasks run acceptance tests.
fn runs_tests(settings: &Settings) -> bool {
    let releases_nodes = settings.has(Task::Drive) || settings.has(Task::Steer);
    releases_nodes && RightCondition::Acceptance.is_met(settings)
}

/// Starts the watch if the tasks need it.
pub(super) fn start(watch: &mut WatchStarter, settings: &Settings) -> CacheTable<AcceptancePod> {
    watch.in_group(TableGroup::Workloads).table(
        runs_tests(settings),
        "pods of acceptance tests",
        (PODS, Some(ACCEPTANCE_NAMESPACE)),
        ObjectSelection::labeled((TEST_LABEL, None)),
        project::acceptance_pod,
    )
}
