//! One rollout of a cluster with its prediction and what the preflight finds: an entry of `gpu-rollout plan`.

use schemars::JsonSchema;
use serde::Serialize;

use contract::driver::Driver;
use contract::settings::Settings;
use planner::preflight::{PreflightFinding, may_begin};
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;

use super::{PlanAssumptions, PlanInput, ProposedDeployment, RolloutPlan, plan};
use crate::observe::ObserveError;
use crate::preflight::{examine, list_affected};
use crate::session::ClusterSession;
use crate::target::RolloutTarget;

/// What is said of one rollout.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPrediction {
    /// What it is about, for people.
    pub title: String,
    /// What would happen.
    #[serde(flatten)]
    pub plan: RolloutPlan,
    /// Nothing of what was found blocks.
    pub may_begin: bool,
    /// What the preflight found.
    pub findings: Vec<PreflightFinding>,
}

/// Predicts a rollout. `proposed`: what is to be deployed, which reaches only the GPU driver. `simulate` as for [`plan`]. `None`: there is no model of
/// who upgrades this driver.
///
/// # Errors
/// The cluster cannot be read.
pub async fn predict(
    session: &ClusterSession,
    target: &RolloutTarget,
    proposed: Option<&ProposedDeployment>,
    assumed: PlanAssumptions,
    simulate: impl FnOnce(&[SimulationSetup]) -> Vec<SimulationReport>,
) -> Result<Option<RolloutPrediction>, ObserveError> {
    let snapshot = session.observe(target).await?;
    let affected = list_affected(session.client(), &snapshot).await?;
    let proposed = proposed.filter(|_| snapshot.settings.driver == Driver::Gpu);
    let input = PlanInput {
        snapshot: &snapshot,
        proposed,
        pods: &affected.pods,
        gpus: &affected.gpus,
        assumed,
    };
    let Some(plan) = plan(input, simulate) else { return Ok(None) };
    let findings = if let Some(ProposedDeployment { settings, .. }) = proposed {
        // By what will be in force.
        examine(&snapshot, settings, &settings.upgrade.policy, &affected.pods)
    } else {
        let preflight = session.preflight_before(&target.settings).cloned().unwrap_or_default();
        examine(
            &snapshot,
            &Settings { preflight, ..snapshot.settings.clone() },
            &snapshot.policy,
            &affected.pods,
        )
    };
    Ok(Some(RolloutPrediction {
        title: target.title(),
        may_begin: may_begin(&findings),
        plan,
        findings,
    }))
}
