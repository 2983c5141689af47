//! The report of a run: counts, story and states of nodes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use contract::record::proof::DriverProof;
use contract::record::{NodeOutcome, Verdict};
use observed::named::Named;
use observed::workload::Workload;
use planner::waits::Waits;

/// The number of violations that ends a run.
const MOST_VIOLATIONS: usize = 10;

/// The result of a simulated run.
#[derive(Clone, Debug, Default)]
pub struct SimulationReport {
    /// The random seed.
    pub seed: u64,
    /// The verdict of the run.
    pub verdict: Option<Verdict>,
    /// The duration of the run, in milliseconds.
    pub duration: u64,
    /// The time at which the last node was released, in milliseconds from the start.
    pub last_node: u64,
    /// The highest number of nodes that the hook had cordoned at the same time.
    pub peak_unavailable: usize,
    /// The highest number of nodes in progress at the same time.
    pub peak_in_progress: usize,
    /// The highest number of nodes of each NVIDIADriver that the operator had in progress at the
    /// same time.
    pub peak_of_pool: BTreeMap<String, usize>,
    /// The number of granted evictions.
    pub pods_evicted: usize,
    /// The evicted pods by UID, with time in milliseconds from the start, and node.
    pub evicted: BTreeMap<String, (u64, String)>,
    /// The number of refused evictions.
    pub refused_evictions: usize,
    /// The number of patches that were refused because the node had changed.
    pub conflicts: usize,
    /// The number of LIST requests for the pods of a node.
    pub lists: usize,
    /// The number of readings of the logs of acceptance tests.
    pub log_reads: usize,
    /// The number of decisions.
    pub decisions: usize,
    /// The number of writes by kind.
    pub writes: BTreeMap<&'static str, usize>,
    /// The number of writes by node, without evictions.
    pub writes_by_node: BTreeMap<String, usize>,
    /// The number of refused writes by node, without evictions that a PodDisruptionBudget blocks.
    pub refused_by_node: BTreeMap<String, usize>,
    /// The outcome of each node.
    pub outcomes: BTreeMap<String, NodeOutcome>,
    /// The waits of the last decision.
    pub waits: Waits,
    /// The lines of the story with their times, if the setup requests it.
    pub story: Vec<(u64, String)>,
    /// The states of each node (`None`: no state), each with its start and whether the node was
    /// cordoned.
    pub states: BTreeMap<String, Vec<(u64, Option<String>, bool)>>,
    /// Whether the rollout had to prove its driver: canaries, ramp, halt.
    pub needs_proof: bool,
    /// The nodes that were canaries.
    pub canaries: BTreeSet<String>,
    /// When each step with its soak ended, in milliseconds from the start, without the last step.
    pub step_ends: Vec<u64>,
    /// When the rollout halted, in milliseconds from the start; `None`: it did not.
    pub halted_at: Option<u64>,
    /// How long each node's last driver took to start, in milliseconds.
    pub driver_times: BTreeMap<String, u64>,
    /// Broken invariants.
    pub violations: Vec<String>,
    /// The number of broken invariants that the hook could not know about.
    pub races: usize,
    /// The number of replacements of the DRA plugin, by node and by the containers that it depends
    /// on.
    pub(super) replaced: BTreeMap<(String, String), usize>,
    hopeless: bool,
}

impl SimulationReport {
    pub(super) fn new(seed: u64) -> Self {
        Self { seed, ..Self::default() }
    }

    pub(super) fn is_hopeless(&self) -> bool {
        self.hopeless || self.violations.len() >= MOST_VIOLATIONS
    }

    pub(super) fn give_up(&mut self) {
        self.hopeless = true;
    }

    pub(super) fn refuses(&mut self, node: &str) {
        *self.refused_by_node.entry(node.to_owned()).or_default() += 1;
    }

    pub(super) fn wrote(&mut self, node: &str, kind: &'static str) {
        *self.writes.entry(kind).or_default() += 1;
        if kind != "eviction" {
            *self.writes_by_node.entry(node.to_owned()).or_default() += 1;
        }
    }

    pub(super) fn evicts(&mut self, pod: &Workload, now: u64) {
        if pod.deleted_at.is_none() {
            self.pods_evicted += 1;
            self.evicted.insert(pod.uid.clone(), (now, pod.node.clone()));
        }
    }

    pub(super) fn enters(&mut self, node: &str, now: u64, state: Option<String>, cordoned: bool) {
        if state.is_none() {
            self.last_node = now;
        }
        let states = self.states.entry(node.to_owned()).or_default();
        if states.last().is_none_or(|(_, last, was)| *last != state || *was != cordoned) {
            states.push((now, state, cordoned));
        }
    }

    /// Notes how far the driver is proven.
    pub(super) fn proves(&mut self, proof: Option<&DriverProof>, now: u64) {
        let Some(proof) = proof else { return };
        self.needs_proof = true;
        if proof.canaries.iter().any(|name| !self.canaries.contains(name)) {
            self.canaries.extend(proof.canaries.iter().cloned());
        }
        self.step_ends.resize(self.step_ends.len().max(proof.ended_steps.len()), now);
        if proof.halt.is_some() {
            self.halted_at.get_or_insert(now);
        }
    }

    pub(super) fn ends(
        &mut self,
        now: u64,
        verdict: Verdict,
        outcomes: &Named<NodeOutcome>,
        waits: &Waits,
    ) {
        self.duration = now;
        self.verdict = Some(verdict);
        self.outcomes =
            outcomes.iter().map(|(node, outcome)| (node.to_string(), *outcome)).collect();
        self.waits = waits.clone();
    }

    /// Returns the story as text, one line for each entry.
    pub fn describe(&self) -> String {
        let line =
            |(at, what): &(u64, String)| format!("{:>8} {what}", SecondsText(*at).to_string());
        let lines: Vec<String> = self.story.iter().map(line).collect();
        lines.join("\n") + "\n"
    }
}

/// Formats milliseconds as seconds with one decimal place.
#[derive(Clone, Copy, Debug)]
pub struct SecondsText(pub u64);

impl fmt::Display for SecondsText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 + 50) / 100;
        write!(out, "{}.{}s", tenths / 10, tenths % 10)
    }
}
