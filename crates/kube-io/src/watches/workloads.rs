//! The watches of what may be in the way of an upgrade.

use contract::settings::Settings;
use contract::task::Task;
use observed::workload::{AwaitedPod, DeviceClaim, DisruptionBudget, NodeMaintenance, Workloads};

use super::{copies, served};
use crate::cache::{CacheTable, WatchHealth};
use crate::node_pods::FocusedNodes;

/// Whether it looks at what others do with nodes: before the rollout, or when it decides when a node goes.
pub(super) fn sees_maintenances(settings: &Settings) -> bool {
    [Task::Preflight, Task::Steer, Task::Drive].into_iter().any(|task| settings.has(task))
}

/// Whether it looks at what may stand against evictions.
pub(super) fn sees_budgets(settings: &Settings) -> bool {
    settings.has(Task::Preflight) || settings.has(Task::Drive)
}

/// Whether it moves workloads off nodes itself.
fn moves_workloads(settings: &Settings) -> bool {
    settings.has(Task::Drive)
}

/// The label selector of the jobs that are waited for.
pub(super) fn job_selector(settings: &Settings) -> Option<&str> {
    let wait = settings.upgrade.policy.wait_for_completion.as_ref().filter(|_| moves_workloads(settings))?;
    Some(&wait.pod_selector)
}

pub(super) struct WorkloadWatches {
    pub(super) focus: FocusedNodes,
    pub(super) jobs: CacheTable<AwaitedPod>,
    pub(super) budgets: CacheTable<DisruptionBudget>,
    pub(super) claims: CacheTable<DeviceClaim>,
    pub(super) maintenances: CacheTable<NodeMaintenance>,
}

impl WorkloadWatches {
    /// The nodes in focus have no say: what is not known of one concerns that one alone.
    pub(super) fn healths(&self) -> [(&'static str, WatchHealth); 4] {
        [
            ("pods that are waited for", self.jobs.health()),
            ("poddisruptionbudgets", self.budgets.health()),
            ("resourceclaims", self.claims.health()),
            ("nodemaintenances", self.maintenances.health()),
        ]
    }

    pub(super) fn observed(&self) -> Workloads {
        Workloads {
            pods: self.focus.pods(),
            listing: self.focus.listing(),
            jobs: self.jobs.values(),
            budgets: self.budgets.values(),
            claims: served(&self.claims, copies),
            maintenances: served(&self.maintenances, copies),
        }
    }
}
