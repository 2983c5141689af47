//! The decision: what is observed, the settings and what is remembered, at a moment → actions, waits, and in the end a verdict.
//! Total and deterministic; the caller performs the actions without deciding anything.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::driver::Driver;
use contract::record::cohort::Cohort;
use contract::record::{NodeOutcome, ReplacedPodKind, Verdict};
use contract::settings::{DraRequired, Settings};
use contract::task::Task;

use super::action::{NodePatch, PodDeletion, PodEviction};
use super::device_plugin::DevicePlugins;
use super::memory::RunMemory;
use super::node::DriverOperands;
use super::note::DecisionNote;
use super::operands::OperandSets;
use super::plugin::DraPlugins;
use super::pods::pace::EvictionHistory;
use super::reason::{Reason, Wait};
use super::spec::leadership::ObservationAge;
use super::spec::observed_spec;
use nvidia_upgrade::snapshot::Roll;
use observed::named::Named;
use observed::{Observed, ObservedNode};

mod assist;
mod drive;
mod fleet;
mod judge;
mod nodes;
mod operands;
mod pause;
mod refused;
mod replace;
mod rest;
mod restart;
mod steer;
mod sweep;
mod vendor;

pub use assist::WAKE_VALUE;
pub use rest::Rest;

/// Something to do, so precise that there is nothing left to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete one plugin pod, if it is still the one with this UID; its DaemonSet brings the replacement.
    ReplacePlugin {
        /// What it is part of.
        plugin: ReplacedPodKind,
        /// The node.
        node: String,
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        pod: String,
        /// UID of the pod.
        uid: String,
        /// Why.
        cause: String,
    },
    /// Change a node.
    PatchNode(NodePatch),
    /// Evict a pod.
    Evict(PodEviction),
    /// Delete a driver pod; its DaemonSet brings the new one.
    DeleteDriver(PodDeletion),
}

impl Action {
    /// Whether it is done even when the run is over: a patch that starts nothing.
    fn is_last(&self) -> bool {
        matches!(self, Self::PatchNode(patch) if !patch.starts && patch.unschedulable != Some(true))
    }

    /// The node that it is about. Actions of one node are done in order, and one that fails stops those behind it.
    pub fn node(&self) -> &str {
        match self {
            Self::ReplacePlugin { node, .. } => node,
            Self::PatchNode(patch) => &patch.node,
            Self::Evict(eviction) => &eviction.node,
            Self::DeleteDriver(deletion) => &deletion.node,
        }
    }
}

/// What the engine says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread decision is not acted on"]
pub struct Decision {
    /// What to remember. Changed node records are written before the actions are performed.
    pub memory: RunMemory,
    /// What to do now.
    pub actions: Vec<Action>,
    /// Nodes whose pods have to be seen for the next decision.
    pub focus: BTreeSet<String>,
    /// What is waited for, fleet first, then by node.
    pub waits: Vec<Wait>,
    /// How it stands for each node that is waited for or done with.
    pub outcomes: Named<NodeOutcome>,
    /// Why nodes, or the fleet, have failed or are left as they are.
    pub ended: Vec<Wait>,
    /// What is worth reporting and nothing to wait for.
    pub notes: Vec<DecisionNote>,
    /// Everything is as it should be at this moment, the quiet period aside.
    pub well: bool,
    /// The run is over.
    pub verdict: Option<Verdict>,
    /// When to decide again though nothing was observed to change.
    pub wake_at: Timestamp,
}

/// The state of one decision.
struct Deciding<'a> {
    observed: &'a Observed,
    settings: &'a Settings,
    now: Timestamp,
    memory: RunMemory,
    actions: Vec<Action>,
    focus: BTreeSet<String>,
    /// The time is over, and nodes that were not touched are on their way back.
    handing_back: bool,
    /// A node that the vendor's controller gave up is tried again with this decision: one at a time.
    retried: bool,
    /// Pods that have to go, before it is chosen which are asked for now.
    evictions: Vec<(PodEviction, Option<EvictionHistory>)>,
    waits: Vec<Wait>,
    outcomes: Named<NodeOutcome>,
    failures: Vec<Wait>,
    /// Nodes that are left as they are, for a reason that the policy tolerates.
    deferred: Vec<Wait>,
    notes: Vec<DecisionNote>,
    /// Nodes that ask for a configuration of the device plugin that is missing, each with its key.
    unconfigured: Vec<(String, String)>,
    wake_at: Timestamp,
    /// The same of the node that is being judged.
    moment: Timestamp,
    /// Nodes that have to be judged again whatever changes: what they come to depends on others, or is told anew each time.
    restless: BTreeSet<Arc<str>>,
    /// Nodes whose plugin is away because of us, and those of them that have failed.
    away: usize,
    away_for_good: usize,
    /// What the vendor's controller sees of the nodes, where it was asked for.
    roll: Option<Roll>,
    /// Whether pods of a DaemonSet get past the taints of any node, as far as it was asked.
    gets_somewhere: BTreeMap<String, bool>,
}

/// Decides. `observed` must come from caches that are all in step with the API server.
pub fn decide(observed: &Observed, settings: &Settings, memory: &RunMemory, now: Timestamp) -> Decision {
    let mut deciding = Deciding {
        observed,
        settings,
        now,
        memory: RunMemory { rest: Rest::default(), ..memory.clone() },
        actions: Vec::new(),
        focus: BTreeSet::new(),
        handing_back: false,
        retried: false,
        evictions: Vec::new(),
        waits: Vec::new(),
        outcomes: Named::new(),
        failures: Vec::new(),
        deferred: Vec::new(),
        notes: Vec::new(),
        unconfigured: Vec::new(),
        wake_at: memory.deadline,
        moment: Timestamp::MAX,
        restless: BTreeSet::new(),
        away: 0,
        away_for_good: 0,
        roll: None,
        gets_somewhere: BTreeMap::new(),
    };
    if deciding.memory.cohort.is_none() {
        // Labels come later: whether a node needs the driver is judged each time.
        let uids = observed.nodes.values().map(|node| node.uid.as_str());
        deciding.memory.cohort = Some(Cohort::from_uids(uids).into());
    }
    deciding.judge_refusals();
    let devices = DevicePlugins::new(observed, &settings.device_plugin);
    if settings.has(Task::Settle) {
        deciding.record_baseline();
    }
    let since = memory.rest.since(observed, settings, memory, now);
    let mut sweep = deciding.sweep(&devices, since.as_ref());
    if let Err(reason) = deciding.settles(sweep.drivers) {
        // Nodes are not judged while the operator has not acted on the newest spec: they would look current.
        deciding.hand_all_back(&sweep, &DriverOperands::new(observed, settings.driver));
        deciding.fleet_waits(reason);
        return deciding.finish(&sweep);
    }
    let config = deciding.configs(&devices);
    let fleet = FleetInputs {
        operands: settings.has(Task::Settle).then(|| DriverOperands::new(observed, settings.driver)),
        operand_sets: (settings.has(Task::Settle) && settings.driver == Driver::Gpu).then(|| OperandSets::new(observed, settings)),
        plugins: DraPlugins::new(observed),
        devices,
        restarts: settings.has(Task::RestartPlugins) && config.is_none(),
        replacement_limit: deciding.replacement_limit(sweep.drivers),
        restart_limit: deciding.restart_limit(sweep.listed.len()),
    };
    if since.as_ref().is_some_and(|since| since.last.restarts != fleet.restarts) {
        sweep = deciding.sweep(&fleet.devices, None);
    }
    let standings = deciding.each_node(&mut sweep, &fleet);
    let reason = deciding.required_driver(&fleet.plugins, sweep.drivers).or(config);
    match reason {
        Some(reason) => deciding.fleet_waits(reason),
        None => deciding.memory.fleet_waiting = None,
    }
    let mut decision = deciding.finish(&sweep);
    decision.memory.rest = standings.rest(&decision, memory, (observed, settings, now), fleet.restarts);
    decision
}

/// What the nodes are judged by.
struct FleetInputs<'a> {
    /// `None`: no task settles drivers.
    operands: Option<DriverOperands<'a>>,
    /// What the operator brings beside driver and toolkit.
    operand_sets: Option<OperandSets<'a>>,
    plugins: DraPlugins<'a>,
    devices: DevicePlugins<'a>,
    /// Stale pods of the device plugin are restarted.
    restarts: bool,
    replacement_limit: usize,
    restart_limit: usize,
}

fn after(since: Timestamp, seconds: u64) -> Timestamp {
    since.saturating_add(SignedDuration::from_secs(i64::try_from(seconds).unwrap_or(i64::MAX))).unwrap_or(Timestamp::MAX)
}

impl Deciding<'_> {
    /// Whether `seconds` have passed since then; if not, the decision is made again when they have.
    fn passed(&mut self, since: Timestamp, seconds: u64) -> bool {
        let at = after(since, seconds);
        if at > self.now {
            self.wakes(at);
        }
        at <= self.now
    }

    /// Decides again then, at the latest.
    fn wakes(&mut self, at: Timestamp) {
        self.wake_at = self.wake_at.min(at);
        self.moment = self.moment.min(at);
    }

    /// The node has to be judged again whatever changes.
    fn judge_again(&mut self, node: &ObservedNode) {
        self.restless.insert(node.name.as_str().into());
    }

    /// Whether the operator has observed the live spec, where a task settles drivers.
    fn settles(&mut self, drivers: usize) -> Result<(), Reason> {
        if !self.settings.has(Task::Settle) {
            return Ok(());
        }
        let quiet = self.operator_is_quiet();
        let led = observed_spec(self.observed, self.settings, drivers > 0, ObservationAge { since: self.memory.taken_up, now: self.now });
        if let Some(lease) = &self.observed.operator_lease
            && let Some(renewed) = lease.renewed
        {
            // A leader that falls silent is noticed though nothing changes.
            self.wakes(after(renewed, lease.duration_seconds.saturating_add(1)).max(after(self.now, 1)));
        }
        led.and_then(|()| self.without_nodes(drivers)).and(quiet)
    }

    fn rerolls(&self) -> bool {
        self.settings.has(Task::Reroll)
    }

    fn requires_plugin(&self) -> bool {
        self.rerolls() && self.settings.dra.required == DraRequired::True
    }

    fn wait(&mut self, node: Option<&str>, reason: Reason) -> Timestamp {
        let since = self.memory.waits(node, &reason, self.now);
        self.waits.push(Wait { node: node.map(Arc::from), reason: reason.into(), since });
        since
    }
}
