//! A snapshot of the fleet after the last decision, and its metrics. They use the same functions as
//! `gpu-rollout status`.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::metrics::{self as table, Metric, MetricSamples};
use contract::proof::step_count;
use contract::record::proof::DriverProof;
use contract::record::{NodeOutcome, NodeRecord};
use contract::settings::Settings;
use observed::Observed;
use observed::named::Named;
use observed::pause::{annotated_nodes, pauses_in_force};
use planner::decide::Decision;
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::policies::NodePools;
use planner::progress::{self, DecidedNodes, LimitUse, NodeProgress, NodeStage, RolloutPace};
use planner::waits::Waits;

/// Age from which a snapshot is not reported any more. A hook under the Lease decides at least once
/// a minute.
const STALE: SignedDuration = SignedDuration::from_mins(2);

/// The input and the result of a decision.
pub(crate) struct FleetSnapshot {
    observed: Observed,
    waits: Waits,
    ended: Waits,
    assessed: bool,
    outcomes: Named<NodeOutcome>,
    nodes: Named<NodeRecord>,
    started_at: Timestamp,
    /// When each interruption of the run ended.
    interruptions: Vec<Timestamp>,
    deadline: Timestamp,
    /// How far the driver of the rollout is proven.
    proof: Option<Arc<DriverProof>>,
    /// When the decision was made.
    at: Timestamp,
}

fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes and pods")]
fn number(count: usize) -> f64 {
    count as f64
}

impl FleetSnapshot {
    /// Returns a snapshot of a decision that was made at `at`.
    pub(crate) fn new(observed: Observed, decision: &Decision, at: Timestamp) -> Self {
        Self {
            observed,
            waits: decision.waits.clone(),
            ended: decision.ended.clone(),
            assessed: decision.assessed,
            outcomes: decision.outcomes.clone(),
            nodes: decision.memory.nodes.clone(),
            started_at: decision.memory.started_at,
            interruptions: decision.memory.interruptions.clone(),
            deadline: decision.memory.deadline,
            proof: decision.memory.proof.clone(),
            at,
        }
    }

    /// Whether the snapshot is current: without the Lease the hook makes no decisions.
    pub(super) fn is_current(&self, now: Timestamp) -> bool {
        now.duration_since(self.at) <= STALE
    }

    /// Adds the metrics of the fleet.
    pub(super) fn add_to(&self, samples: &mut MetricSamples, settings: &Settings, now: Timestamp) {
        samples.add(&table::RUN_START, [], seconds(self.started_at));
        samples.add(&table::RUN_DEADLINE, [], seconds(self.deadline));
        let annotated = usize::from(annotated_nodes(&self.observed, now).next().is_some());
        let pauses = pauses_in_force(&self.observed, now).count() + annotated;
        samples.add(&table::PAUSES, [], number(pauses));
        if let Some(proof) = self.proof.as_deref() {
            add_proof(samples, proof, settings);
        }
        let decided = self.decided();
        let nodes = decided.progress(&self.observed, settings.driver);
        for stage in NodeStage::ALL {
            samples.add(
                &table::NODES,
                [stage.name()],
                number(nodes.iter().filter(|progress| progress.stage == stage).count()),
            );
        }
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for wait in nodes.iter().filter_map(|progress| progress.wait.as_ref()) {
            *reasons.entry(wait.reason.name()).or_default() += 1;
        }
        for (reason, count) in reasons {
            samples.add(&table::NODES_WAITING, [reason], number(count));
        }
        let pools = NodePools::in_force(&self.observed, settings);
        limit(
            samples,
            (&table::SLOTS_USED, &table::SLOTS_LIMIT),
            progress::slots(&nodes, settings, &pools),
        );
        limit(
            samples,
            (&table::UNAVAILABLE, &table::UNAVAILABLE_LIMIT),
            progress::unavailable(&nodes, &pools),
        );
        let pace = RolloutPace::from_records(
            self.nodes.values(),
            &self.interruptions,
            settings.per_node_seconds,
        );
        let ends = progress::foresee(&nodes, settings, &pools, pace, now);
        if let Ok(Some(end)) =
            progress::rollout_eta(&nodes, &ends, pace, decided.fleet_waits(), (true, now))
        {
            samples.add(&table::EXPECTED_END, [], seconds(end));
        }
        // A wait that took too long ended the run, so it is in `ended`.
        let fleet = self.waits.iter().chain(self.ended.iter()).filter(|wait| wait.node.is_none());
        let since: BTreeMap<&str, Timestamp> =
            fleet.map(|wait| (wait.reason.name(), wait.since)).collect();
        for (reason, since) in since {
            samples.add(&table::FLEET_SINCE, [reason], seconds(since));
        }
        for progress in nodes.iter().filter(|progress| progress.stage != NodeStage::Done) {
            self.add_node(samples, progress, settings);
        }
    }

    fn decided(&self) -> DecidedNodes<'_> {
        let Self { waits, ended, outcomes, nodes: records, assessed, .. } = self;
        DecidedNodes { waits, ended, outcomes, records, assessed: *assessed }
    }

    fn add_node(
        &self,
        samples: &mut MetricSamples,
        progress: &NodeProgress<'_>,
        settings: &Settings,
    ) {
        let name = progress.node.name.as_str();
        // A wait of the whole fleet has one series instead of one for each node.
        if let Some(wait) = progress.wait.as_ref().filter(|wait| wait.node.is_some()) {
            let resolves_itself = if wait.reason.resolves_itself() { "true" } else { "false" };
            samples.add(
                &table::NODE_SINCE,
                [name, progress.stage.name(), wait.reason.name(), resolves_itself],
                seconds(wait.since),
            );
        }
        let found = read(progress.node, settings.driver.traits());
        let seen = self.nodes.get(name).and_then(|record| record.steps.last());
        if let NodeRecordState::Record(record) = &found {
            samples.add(
                &table::NODE_STATE_SINCE,
                [name, record.state.name()],
                seconds(record.since),
            );
            for (cause, attempts) in
                record.attempts.iter().filter(|_| record.digest == settings.digest)
            {
                samples.add(&table::NODE_ATTEMPTS, [name, cause.name()], f64::from(*attempts));
            }
        } else if let (Some(state), Some(step)) = (&progress.state, seen)
            && *state == step.state
        {
            samples.add(&table::NODE_STATE_SINCE, [name, state], seconds(step.at));
        }
    }
}

/// Adds the metrics of canaries, ramp and halt.
fn add_proof(samples: &mut MetricSamples, proof: &DriverProof, settings: &Settings) {
    if let Some(halt) = &proof.halt {
        samples.add(&table::HALTED, [halt.cause.name()], 1.0);
    }
    let upgrade = &settings.upgrade;
    let steps = step_count(upgrade.canary.as_ref(), &upgrade.ramp);
    samples.add(&table::STEP, [], number((proof.ended_steps.len() + 1).min(steps)));
    samples.add(&table::STEPS, [], number(steps));
    samples.add(&table::CANARIES, [], number(proof.canaries.len()));
}

fn limit(samples: &mut MetricSamples, (used, most): (&Metric, &Metric), limit: LimitUse) {
    samples.add(used, [], number(limit.used));
    if let Some(limit) = limit.limit {
        samples.add(most, [], number(limit));
    }
}

#[cfg(test)]
mod tests {
    use contract::policy::UpgradeSettings;
    use contract::proof::Canary;
    use contract::record::proof::{HaltCause, Halted};

    use super::*;

    #[test]
    fn proof_shows_step_canaries_and_cause_of_a_halt() {
        let ramp = vec!["10%".parse().expect("a share")];
        let upgrade =
            UpgradeSettings { canary: Some(Canary::default()), ramp, ..UpgradeSettings::default() };
        let settings = Settings { upgrade, ..Settings::default() };
        let halt = Halted {
            at: Timestamp::UNIX_EPOCH,
            cause: HaltCause::FailedProofs,
            nodes: vec!["gpu-0".to_owned()],
            labels: Vec::new(),
        };
        let text = |steps: usize, halt| {
            let canaries = vec!["gpu-0".to_owned(), "gpu-1".to_owned()];
            let driver = "driver".to_owned();
            let ended_steps = vec![String::new(); steps];
            let proof = DriverProof { canaries, ended_steps, halt, ..DriverProof::new(driver) };
            let mut samples = MetricSamples::default();
            add_proof(&mut samples, &proof, &settings);
            samples.text()
        };
        let value = |text: &str, name: &str| {
            let line = text.lines().find(|line| line.starts_with(&format!("{name}{{")));
            line.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok())
        };
        let first = text(0, Some(halt));
        assert_eq!(value(&first, "gpu_rollout_step"), Some(1.0), "{first}");
        assert_eq!(value(&first, "gpu_rollout_steps"), Some(3.0), "{first}");
        assert_eq!(value(&first, "gpu_rollout_canaries"), Some(2.0), "{first}");
        assert!(first.contains("cause=\"failed-proofs\""), "{first}");
        let last = text(3, None);
        assert_eq!(value(&last, "gpu_rollout_step"), Some(3.0), "{last}");
        assert_eq!(value(&last, "gpu_rollout_halted"), None, "{last}");
    }
}
