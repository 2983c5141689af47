//! The watches of objects that may block an upgrade.

use std::sync::Arc;

use contract::settings::Settings;
use contract::task::{RightCondition, Task};
use observed::project;
use observed::workload::{AwaitedPod, DeviceClaim, DisruptionBudget, NodeMaintenance, Workloads};

use super::served;
use super::starter::{TableGroup, WatchStarter};
use crate::api_collection::{PODS, ResourceName};
use crate::cache::CacheTable;
use crate::list_watch::ObjectSelection;
use crate::node_pods::FocusedNodes;

const DISRUPTION_BUDGETS: ResourceName<'static> = ("policy/v1", "poddisruptionbudgets");
const NODE_MAINTENANCES: ResourceName<'static> =
    ("maintenance.nvidia.com/v1alpha1", "nodemaintenances");

/// Returns whether the tasks need the NodeMaintenances: before the rollout, or if the hook decides
/// when a node starts.
fn needs_maintenances(settings: &Settings) -> bool {
    [Task::Preflight, Task::Steer, Task::Drive].into_iter().any(|task| settings.has(task))
}

/// Returns whether the tasks need the PodDisruptionBudgets, which may block evictions.
fn needs_budgets(settings: &Settings) -> bool {
    settings.has(Task::Preflight)
        || settings.has(Task::Drive) && RightCondition::Eviction.is_met(settings)
}

/// Returns whether the tasks need the claims by which pods use the device.
pub(super) fn needs_claims(settings: &Settings) -> bool {
    settings.has(Task::Preflight) || settings.has(Task::Drive)
}

/// Returns the label selector of the jobs that a node waits for in mode `drive`.
fn awaited_jobs(settings: &Settings) -> Option<&str> {
    let wait = settings
        .upgrade
        .policy
        .wait_for_completion
        .as_ref()
        .filter(|_| settings.has(Task::Drive))?;
    Some(&wait.pod_selector)
}

pub(super) struct WorkloadWatches {
    pub(super) focus: FocusedNodes,
    jobs: CacheTable<AwaitedPod>,
    budgets: CacheTable<DisruptionBudget>,
    claims: CacheTable<DeviceClaim>,
    maintenances: CacheTable<NodeMaintenance>,
}

impl WorkloadWatches {
    pub(super) fn start(
        watch: &mut WatchStarter,
        settings: &Settings,
        slice_version: Option<&str>,
    ) -> Self {
        watch.in_group(TableGroup::Workloads);
        let all = ObjectSelection::default;
        let selector = awaited_jobs(settings);
        let jobs = ObjectSelection::matching(selector.unwrap_or_default());
        let changed = Arc::clone(&watch.changed);
        let maintenances = (NODE_MAINTENANCES, None);
        Self {
            focus: FocusedNodes::new(
                &watch.client,
                changed,
                Arc::clone(&watch.interner),
                watch.floors.clone(),
            ),
            jobs: watch.table(selector.is_some(), "pods of jobs", (PODS, None), jobs, project::job),
            budgets: watch.table(
                needs_budgets(settings),
                "poddisruptionbudgets",
                (DISRUPTION_BUDGETS, None),
                all(),
                project::budget,
            ),
            claims: match slice_version
                .filter(|_| needs_claims(settings))
                .map(|version| format!("resource.k8s.io/{version}"))
            {
                Some(api) => watch.table(
                    true,
                    "resourceclaims",
                    ((&api, "resourceclaims"), None),
                    all(),
                    project::claim,
                ),
                None => watch.absent(),
            },
            maintenances: watch.table(
                needs_maintenances(settings),
                "nodemaintenances",
                maintenances,
                all(),
                project::maintenance,
            ),
        }
    }

    pub(super) fn observed(&self) -> Workloads {
        Workloads {
            pods: self.focus.pods(),
            listing: self.focus.listing(),
            jobs: self.jobs.values(),
            budgets: self.budgets.values(),
            claims: served(&self.claims, CacheTable::values),
            maintenances: served(&self.maintenances, CacheTable::values),
        }
    }
}
