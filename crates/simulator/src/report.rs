//! The report of a run: numbers, story, timeline.

use std::collections::BTreeMap;
use std::fmt;

use contract::record::{NodeOutcome, Verdict};
use observed::named::Named;
use observed::workload::Workload;
use planner::reason::Wait;

/// A run ends after so many violations.
const MOST_VIOLATIONS: usize = 10;

/// How a run went.
#[derive(Clone, Debug, Default)]
pub struct SimulationReport {
    /// The random seed.
    pub seed: u64,
    /// How it ended.
    pub verdict: Option<Verdict>,
    /// When, in milliseconds from its start.
    pub duration: u64,
    /// When the last node was released.
    pub last_node: u64,
    /// How many nodes were cordoned by us at once.
    pub peak_unavailable: usize,
    /// How many were in progress at once.
    pub peak_in_progress: usize,
    /// How many nodes of each NVIDIADriver the operator had in progress at once.
    pub peak_of_pool: BTreeMap<String, usize>,
    /// Evictions that were granted.
    pub pods_evicted: usize,
    /// The evicted pods by UID: when, in milliseconds from the start, and from which node.
    pub evicted: BTreeMap<String, (u64, String)>,
    /// Evictions that were not.
    pub refused_evictions: usize,
    /// Patches that were refused because the node had changed.
    pub conflicts: usize,
    /// LISTs of a node's pods.
    pub lists: usize,
    /// The number of decisions.
    pub decisions: usize,
    /// Writes by kind.
    pub writes: BTreeMap<&'static str, usize>,
    /// Writes by node, evictions apart.
    pub writes_by_node: BTreeMap<String, usize>,
    /// Refused writes by node, evictions that a budget forbids apart.
    pub refused_by_node: BTreeMap<String, usize>,
    /// How it ended for each node.
    pub outcomes: BTreeMap<String, NodeOutcome>,
    /// The last waits.
    pub waits: Vec<Wait>,
    /// What happened, with its time, if the setup asks for it.
    pub story: Vec<(u64, String)>,
    /// When each node entered which state (`None`: none), and whether it was cordoned then.
    pub states: BTreeMap<String, Vec<(u64, Option<String>, bool)>>,
    /// How long each node's last driver took to start, in milliseconds.
    pub driver_times: BTreeMap<String, u64>,
    /// Broken invariants.
    pub violations: Vec<String>,
    /// The number of broken invariants of which the hook could not know.
    pub races: usize,
    /// How often the DRA plugin was replaced, by node and by the containers that it depends on.
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

    pub(super) fn ends(
        &mut self,
        now: u64,
        verdict: Verdict,
        outcomes: &Named<NodeOutcome>,
        waits: &[Wait],
    ) {
        self.duration = now;
        self.verdict = Some(verdict);
        self.outcomes =
            outcomes.iter().map(|(node, outcome)| (node.to_string(), *outcome)).collect();
        self.waits = waits.to_vec();
    }

    /// The story as lines.
    pub fn describe(&self) -> String {
        let line =
            |(at, what): &(u64, String)| format!("{:>8} {what}", SecondsText(*at).to_string());
        let lines: Vec<String> = self.story.iter().map(line).collect();
        lines.join("\n") + "\n"
    }
}

/// Milliseconds as seconds with one digit behind the point.
#[derive(Clone, Copy, Debug)]
pub struct SecondsText(pub u64);

impl fmt::Display for SecondsText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tenths = (self.0 + 50) / 100;
        write!(out, "{}.{}s", tenths / 10, tenths % 10)
    }
}
