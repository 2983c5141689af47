//! Summarizes the runs of a prediction.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::record::NodeOutcome;
use observed::Observed;
use observed::pause::{annotated_nodes, pauses_in_force};
use observed::workload::Workload;
use planner::progress::is_started;
use simulator::report::SimulationReport;
use simulator::setup::SimulationSetup;

use super::change::{DriverChange, DriverChanges, NodeStep};
use super::steps::{PlannedStep, halt_note, planned_steps};
use super::times::{MeasuredSeconds, PodMeasurements};
use super::{PlanInput, ProposedDeployment};

/// The predicted rollout.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RolloutPlan {
    /// The mode.
    pub mode: &'static str,
    /// Who determines the order of the nodes.
    pub order: PlannedOrder,
    /// The differences that make the operator replace driver pods. Empty: no visible difference;
    /// nodes with an outdated driver are upgraded anyway.
    pub changes: Vec<DriverChange>,
    /// The number of nodes that need the driver.
    pub total: usize,
    /// The nodes: first those that start, in order, then the others.
    pub nodes: Vec<PlannedNode>,
    /// The nodes that are upgraded, grouped into waves.
    pub waves: Vec<PlannedWave>,
    /// The steps of canaries and ramp, in order. Empty: the rollout has no steps, or its driver needs
    /// no proof.
    pub steps: Vec<PlannedStep>,
    /// The pods that leave their nodes, in order.
    pub pods: Vec<PlannedEviction>,
    /// The pods that leave, by namespace.
    pub namespaces: Vec<PlannedNamespace>,
    /// The time until the last node is released, in seconds. `null`: there is nothing to do.
    pub duration: Option<SecondsRange>,
    /// The time budget of the hook, in seconds.
    pub budget_seconds: u64,
    /// The maximum number of nodes that are cordoned at the same time.
    pub unavailable: usize,
    /// The measured start times of driver pods in this cluster; `null`: there is no measurement, or
    /// `--driver-time` was set.
    pub driver_times: Option<MeasuredSeconds>,
    /// The assumed minimum and maximum time for which jobs still run, in seconds.
    pub job_seconds: [u64; 2],
    /// The number of simulated runs.
    pub runs: usize,
    /// Notes for people about what makes the prediction uncertain.
    pub notes: Vec<String>,
}

/// Who determines the order of the nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedOrder {
    /// The hook: the order is as predicted.
    Hook,
    /// NVIDIA's controller: its order is not fixed, and the predicted order is an example.
    Controller,
}

/// A range of durations in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SecondsRange {
    /// The duration of the quickest run.
    pub least_seconds: u64,
    /// The median duration.
    pub likely_seconds: u64,
    /// The duration of the slowest run.
    pub most_seconds: u64,
}

/// The prediction for a node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedNode {
    /// Name of the node.
    pub node: String,
    /// What happens to the node.
    pub step: NodeStep,
    /// When the node's upgrade starts, in seconds from the start of the rollout; `null`: it does not
    /// start.
    pub start_after_seconds: Option<u64>,
    /// When the node is released, in seconds from the start of the rollout.
    pub end_after_seconds: Option<u64>,
    /// The outcome of the node, if the hook determines one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub outcome: Option<NodeOutcome>,
    /// Why the node does not finish, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<String>,
    /// The number of pods that leave the node.
    pub pods: usize,
}

/// Nodes that are upgraded at the same time: none of them starts after another one has ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedWave {
    /// When the first node of the wave starts, in seconds from the start of the rollout.
    pub start_after_seconds: u64,
    /// When the last node of the wave is released, in seconds from the start of the rollout.
    pub end_after_seconds: u64,
    /// The nodes of the wave.
    pub nodes: Vec<String>,
}

/// A pod that leaves its node.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedEviction {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// The node of the pod.
    pub node: String,
    /// `Kind/name` of the pod's controller.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub controller: Option<String>,
    /// Whether the pod is evicted in every run. In other runs it may end before.
    pub certain: bool,
    /// Whether no controller recreates the pod.
    pub lost: bool,
}

/// The pods of a namespace that leave their nodes.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlannedNamespace {
    /// Name of the namespace.
    pub namespace: String,
    /// The number of pods that leave.
    pub pods: usize,
    /// `Kind/name` of their controllers, with the number of pods of each.
    pub controllers: BTreeMap<String, usize>,
    /// The number of pods that no controller recreates.
    pub lost: usize,
}

/// Summarizes the runs. The first two runs are the quickest and the slowest.
pub(super) fn plan(
    input: PlanInput<'_>,
    proposed: &ProposedDeployment,
    changes: DriverChanges,
    measured: &PodMeasurements,
    setup: &SimulationSetup,
    reports: &[SimulationReport],
) -> RolloutPlan {
    let mut by_length: Vec<&SimulationReport> = reports.iter().collect();
    by_length.sort_by_key(|report| report.last_node);
    let middle = by_length[by_length.len() / 2];
    let seconds = |report: &SimulationReport| report.last_node.div_ceil(1000);
    let started = reports.iter().any(|report| {
        report.states.values().flatten().any(|(_, state, _)| is_started(state.as_deref()))
    });
    let duration = started.then(|| SecondsRange {
        least_seconds: by_length.first().map_or(0, |report| report.last_node / 1000),
        likely_seconds: seconds(middle),
        most_seconds: by_length.last().map_or(0, |report| seconds(report)),
    });
    let pods = pods(input.pods, reports, middle);
    let nodes = nodes(&changes, middle, &pods);
    let waves = waves(middle, &nodes);
    let halted = halt_note(input.snapshot, &changes);
    let all_notes = notes(input, reports).into_iter().chain(halted).collect();
    RolloutPlan {
        mode: proposed.settings.mode.name(),
        order: if proposed.settings.mode.decides() {
            PlannedOrder::Hook
        } else {
            PlannedOrder::Controller
        },
        changes: changes.all,
        total: changes.steps.len(),
        steps: planned_steps(&proposed.settings, changes.steps.len(), middle),
        waves,
        namespaces: namespaces(&pods),
        duration,
        budget_seconds: setup.settings.budget_seconds,
        unavailable: reports.iter().map(|report| report.peak_unavailable).max().unwrap_or(0),
        driver_times: measured.driver.filter(|_| input.assumed.driver.is_none()),
        job_seconds: [input.assumed.jobs.least() / 1000, input.assumed.jobs.most() / 1000],
        runs: reports.len(),
        notes: all_notes,
        pods,
        nodes,
    }
}

/// Returns when a node starts and when it is released, in milliseconds.
fn span(report: &SimulationReport, node: &str) -> (Option<u64>, Option<u64>) {
    let states = report.states.get(node).map(Vec::as_slice).unwrap_or_default();
    let begins =
        states.iter().find(|(_, state, _)| is_started(state.as_deref())).map(|(at, ..)| *at);
    let last =
        states.last().filter(|(_, state, _)| !is_started(state.as_deref())).map(|(at, ..)| *at);
    (begins, last.filter(|_| begins.is_some()))
}

fn nodes(
    changes: &DriverChanges,
    report: &SimulationReport,
    pods: &[PlannedEviction],
) -> Vec<PlannedNode> {
    let waiting: BTreeMap<Arc<str>, String> = report
        .waits
        .iter()
        .filter_map(|wait| Some((wait.node?, wait.reason.to_string())))
        .collect();
    let node = |(name, step): (&String, &NodeStep)| {
        let (begins, ends_at) = span(report, name);
        let outcome = report.outcomes.get(name).copied();
        let ends = outcome.is_some_and(|outcome| outcome != NodeOutcome::Done)
            || outcome.is_none() && *step > NodeStep::First;
        PlannedNode {
            node: name.clone(),
            step: *step,
            start_after_seconds: begins.map(|at| at / 1000),
            end_after_seconds: ends_at.map(|at| at.div_ceil(1000)),
            outcome,
            waiting: waiting.get(name.as_str()).filter(|_| ends).cloned(),
            pods: pods.iter().filter(|pod| pod.node == *name).count(),
        }
    };
    let mut nodes: Vec<PlannedNode> = changes.steps.iter().map(node).collect();
    nodes.sort_by_key(|node| {
        (node.start_after_seconds.is_none(), node.start_after_seconds, node.end_after_seconds)
    });
    nodes
}

fn waves(report: &SimulationReport, nodes: &[PlannedNode]) -> Vec<PlannedWave> {
    let mut started: Vec<(u64, u64, &str)> = Vec::new();
    for node in nodes {
        if let (Some(begins), ends) = span(report, &node.node) {
            // A node that is never released keeps its wave open, and no other node waits for it.
            started.push((begins, ends.unwrap_or(begins), &node.node));
        }
    }
    started.sort_unstable();
    let mut waves: Vec<PlannedWave> = Vec::new();
    let mut first_end = 0;
    for (begins, ends, node) in started {
        let first = ends.max(begins + 1);
        if let Some(wave) = waves.last_mut().filter(|_| begins < first_end) {
            wave.nodes.push(node.to_owned());
            wave.end_after_seconds = wave.end_after_seconds.max(ends.div_ceil(1000));
            first_end = first_end.min(first);
        } else {
            first_end = first;
            waves.push(PlannedWave {
                start_after_seconds: begins / 1000,
                end_after_seconds: ends.div_ceil(1000),
                nodes: vec![node.to_owned()],
            });
        }
    }
    waves
}

/// Returns the current pods that leave in at least one run.
fn pods(
    all: &[Workload],
    reports: &[SimulationReport],
    middle: &SimulationReport,
) -> Vec<PlannedEviction> {
    let leave: BTreeSet<&String> =
        reports.iter().flat_map(|report| report.evicted.keys()).collect();
    let mut pods: Vec<(u64, PlannedEviction)> = all
        .iter()
        .filter(|pod| leave.contains(&pod.uid))
        .map(|pod| {
            let at = middle.evicted.get(&pod.uid).map_or(u64::MAX, |(at, _)| *at);
            let controller = pod
                .controller
                .as_ref()
                .map(|controller| format!("{}/{}", controller.kind, controller.name));
            let eviction = PlannedEviction {
                namespace: pod.namespace.clone(),
                name: pod.name.clone(),
                node: pod.node.clone(),
                lost: controller.is_none(),
                controller,
                certain: reports.iter().all(|report| report.evicted.contains_key(&pod.uid)),
            };
            (at, eviction)
        })
        .collect();
    pods.sort_by(|(at, pod), (other_at, other)| {
        (at, &pod.namespace, &pod.name).cmp(&(other_at, &other.namespace, &other.name))
    });
    pods.into_iter().map(|(_, pod)| pod).collect()
}

fn namespaces(pods: &[PlannedEviction]) -> Vec<PlannedNamespace> {
    let mut all: BTreeMap<&str, PlannedNamespace> = BTreeMap::new();
    for pod in pods {
        let of = all.entry(&pod.namespace).or_insert_with(|| PlannedNamespace {
            namespace: pod.namespace.clone(),
            pods: 0,
            controllers: BTreeMap::new(),
            lost: 0,
        });
        of.pods += 1;
        of.lost += usize::from(pod.lost);
        if let Some(controller) = &pod.controller {
            *of.controllers.entry(controller.clone()).or_default() += 1;
        }
    }
    all.into_values().collect()
}

fn notes(input: PlanInput<'_>, reports: &[SimulationReport]) -> Vec<String> {
    let mut notes = input.snapshot.notes.clone();
    notes.extend(pause_note(&input.snapshot.observed, input.snapshot.now));
    let violated = reports.iter().find_map(|report| report.violations.first());
    if let Some(violation) = violated {
        notes.push(format!("the prediction violates an invariant and may be wrong: {violation}"));
    }
    notes
}

/// Returns the note about the pauses, which the prediction ignores.
fn pause_note(observed: &Observed, now: Timestamp) -> Option<String> {
    let annotated = annotated_nodes(observed, now).map(|(_, pause)| pause.until);
    let pauses = pauses_in_force(observed, now).map(|pause| pause.until);
    let ends: Vec<Option<Timestamp>> = pauses.chain(annotated).collect();
    let last = ends.iter().copied().max()?;
    Some(match last.filter(|_| !ends.contains(&None)) {
        Some(until) => format!(
            "the rollout is paused until {until:.0}: this is what happens then, or after `gpu-rollout resume`"
        ),
        None => "the rollout is paused: this is what happens after `gpu-rollout resume`".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use observed::pause::ObservedPause;

    #[test]
    fn note_says_until_when_the_rollout_is_paused() {
        let now: Timestamp = "2027-01-01T00:00:00Z".parse().expect("a valid time");
        let resumed = "the rollout is paused: this is what happens after `gpu-rollout resume`";
        let ended = "the rollout is paused until 2027-01-04T06:00:00Z: this is what happens then, or after `gpu-rollout resume`";
        for (ends, expected) in [
            (&[][..], None),
            (&["2026-12-31T00:00:00Z"][..], None),
            (&["2027-01-04T06:00:00Z", "2027-01-02T00:00:00Z"][..], Some(ended)),
            (&["2027-01-04T06:00:00Z", ""][..], Some(resumed)),
        ] {
            let pause = |end: &&str| {
                let until =
                    if end.is_empty() { String::new() } else { format!(r#","until":"{end}""#) };
                let text = format!(r#"{{"by":"ada","at":"2026-01-01T00:00:00Z"{until}}}"#);
                ObservedPause::read("fleet", &text)
            };
            let pauses = ends.iter().map(pause).collect();
            let observed = Observed { pauses, ..Observed::default() };
            assert_eq!(pause_note(&observed, now).as_deref(), expected, "{ends:?}");
        }
    }
}
