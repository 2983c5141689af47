//! One rollout of a cluster with its prediction and the preflight findings: an entry of
//! `gpu-rollout plan`.

use schemars::JsonSchema;
use serde::Serialize;

use contract::driver::Driver;
use contract::settings::Settings;
use planner::preflight::{PreflightFinding, can_start};
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;

use super::{PlanAssumptions, PlanInput, ProposedDeployment, RolloutPlan, plan};
use crate::observe::ObserveError;
use crate::preflight::{examine, list_affected};
use crate::session::ClusterSession;
use crate::target::RolloutTarget;

/// The prediction of one rollout, with its preflight findings.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPrediction {
    /// The title of the rollout, for people.
    pub title: String,
    /// The predicted rollout.
    #[serde(flatten)]
    pub plan: RolloutPlan,
    /// Whether no finding blocks the rollout.
    pub can_start: bool,
    /// The preflight findings.
    pub findings: Vec<PreflightFinding>,
}

/// Predicts a rollout. `proposed`: the deployment to predict, which changes only the GPU driver.
/// `simulate`: as for [`plan`]. Returns `None` if there is no model of the controller that upgrades
/// this driver.
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
        // With the settings and the policy that will be in force.
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
        can_start: can_start(&findings),
        plan,
        findings,
    }))
}
