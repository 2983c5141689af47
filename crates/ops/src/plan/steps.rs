//! The steps of a predicted rollout: the canaries, the shares of the ramp, and the other nodes.

use schemars::JsonSchema;
use serde::Serialize;

use contract::proof::RampShare;
use contract::settings::Settings;
use planner::reason::upgrade::UpgradeReason;
use simulator::report::SimulationReport;

use super::change::{DRIVER, DriverChanges};
use crate::observe::RolloutSnapshot;
use crate::proven_nodes::open_halt;

/// A step of a rollout with canaries or a ramp.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedStep {
    /// The step, for people.
    pub step: String,
    /// The number of nodes that it starts.
    pub nodes: usize,
    /// The names of the canaries, in the step of the canaries.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub canaries: Vec<String>,
    /// When the step has ended, with its soak, in seconds from the start of the rollout; `null`: it
    /// does not end.
    pub end_after_seconds: Option<u64>,
}

/// Returns the steps of a simulated run. `total`: the number of nodes that need the driver.
pub(super) fn planned_steps(
    settings: &Settings,
    total: usize,
    report: &SimulationReport,
) -> Vec<PlannedStep> {
    let upgrade = &settings.upgrade;
    let has_steps = upgrade.canary.is_some() || !upgrade.ramp.is_empty();
    if !settings.mode.decides() || !has_steps || !report.needs_proof {
        return Vec::new();
    }
    let canaries = upgrade.canary.as_ref().map(|_| {
        let names: Vec<String> = report.canaries.iter().cloned().collect();
        ("canaries".to_owned(), names.len(), names)
    });
    let shares = upgrade
        .ramp
        .iter()
        .filter(|share| **share < RampShare::ALL)
        .map(|share| (format!("{share} of the nodes"), share.resolve(total), Vec::new()));
    let rest = ("all other nodes".to_owned(), total, Vec::new());
    let mut started = 0;
    let steps = canaries.into_iter().chain(shares).chain([rest]).enumerate();
    let planned = steps.map(|(place, (step, end, canaries))| {
        let nodes = end.saturating_sub(started);
        started = started.max(end);
        // The end of the last step is that of the rollout.
        let is_last = started >= total && place >= report.step_ends.len();
        let ended = report.step_ends.get(place).copied();
        let ended =
            ended.or_else(|| (is_last && report.halted_at.is_none()).then_some(report.last_node));
        let end_after_seconds = ended.map(|at| at.div_ceil(1000));
        PlannedStep { step, nodes, canaries, end_after_seconds }
    });
    planned.collect()
}

/// Returns the note about a halt that a deployment without another driver does not end.
pub(super) fn halt_note(snapshot: &RolloutSnapshot, changes: &DriverChanges) -> Option<String> {
    let halt = open_halt(snapshot)?;
    let is_other_driver = changes.all.iter().any(|change| change.of == DRIVER);
    (!is_other_driver).then(|| {
        format!("{}: this is what happens after `gpu-rollout resume`", UpgradeReason::from(halt))
    })
}

#[cfg(test)]
mod tests {
    use contract::policy::UpgradeSettings;
    use contract::proof::Canary;
    use contract::settings::Mode;

    use super::*;

    fn steps(
        mode: Mode,
        shares: &[&str],
        change: impl FnOnce(&mut SimulationReport),
    ) -> Vec<(String, usize, Option<u64>)> {
        let upgrade = UpgradeSettings {
            canary: Some(Canary::default()),
            ramp: shares.iter().map(|share| share.parse().expect("a share")).collect(),
            ..UpgradeSettings::default()
        };
        let settings = Settings { mode, upgrade, ..Settings::default() };
        let mut report = SimulationReport::default();
        report.needs_proof = true;
        report.canaries.insert("gpu-4".to_owned());
        (report.step_ends, report.last_node) = (vec![60_000, 90_000], 200_000);
        change(&mut report);
        let steps = planned_steps(&settings, 20, &report).into_iter();
        steps.map(|step| (step.step, step.nodes, step.end_after_seconds)).collect()
    }

    #[test]
    fn steps_have_their_sizes_and_ends() {
        let step = |name: &str, nodes, end| (name.to_owned(), nodes, end);
        assert_eq!(
            steps(Mode::Drive, &["10%", "100%"], |_| {}),
            [
                step("canaries", 1, Some(60)),
                step("10% of the nodes", 1, Some(90)),
                step("all other nodes", 18, Some(200)),
            ]
        );
        let halted = |report: &mut SimulationReport| {
            report.step_ends.clear();
            report.halted_at = Some(70_000);
        };
        let ends: Vec<Option<u64>> =
            steps(Mode::Steer, &["10%"], halted).into_iter().map(|(.., end)| end).collect();
        assert_eq!(ends, [None, None, None]);
    }

    #[test]
    fn rollout_without_proof_has_no_steps() {
        assert_eq!(steps(Mode::Assist, &[], |_| {}), []);
        assert_eq!(steps(Mode::Drive, &[], |report| report.needs_proof = false), []);
    }
}
