//! The watches of what may be in the way of an upgrade.

use crate::contract::duty::Duty;
use crate::contract::settings::Settings;
use crate::rollout::observed::workload::{Budget, Claim, Job, Maintenance, Workloads};

use super::{copies, served};
use crate::cluster::cache::{Health, Table};
use crate::cluster::focus::Focus;

/// Whether it looks at what others do with nodes: before the rollout, or when it decides when a node goes.
pub(super) fn sees_maintenances(settings: &Settings) -> bool {
    [Duty::Preflight, Duty::Steer, Duty::Drive].into_iter().any(|duty| settings.has(duty))
}

/// Whether it looks at what may stand against evictions.
pub(super) fn sees_budgets(settings: &Settings) -> bool {
    settings.has(Duty::Preflight) || settings.has(Duty::Drive)
}

/// Whether it moves workloads off nodes itself.
fn moves_workloads(settings: &Settings) -> bool {
    settings.has(Duty::Drive)
}

/// The label selector of the jobs that are waited for.
pub(super) fn job_selector(settings: &Settings) -> Option<&str> {
    let wait = settings.upgrade.policy.wait_for_completion.as_ref().filter(|_| moves_workloads(settings))?;
    Some(&wait.pod_selector)
}

pub(super) struct WorkloadWatches {
    pub(super) focus: Focus,
    pub(super) jobs: Table<Job>,
    pub(super) budgets: Table<Budget>,
    pub(super) claims: Table<Claim>,
    pub(super) maintenances: Table<Maintenance>,
}

impl WorkloadWatches {
    /// The nodes in focus have no say: what is not known of one concerns that one alone.
    pub(super) fn healths(&self) -> [(&'static str, Health); 4] {
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
