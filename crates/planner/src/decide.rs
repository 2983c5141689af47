//! The decision: what is observed, the settings, what is remembered and the time → actions, waits, and in the end a verdict.
//! Total and deterministic; the caller performs the actions without deciding anything.
//!
//! It is made in stages, each from the results of the one before: the nodes that it is about ([`run_nodes`]); what each of them needs by itself ([`assess`]);
//! which stale plugins are replaced, which upgrades continue and which start ([`schedule`]); the outcome of each node, the actions, the waits and what is
//! remembered ([`emit`]). What a mode adds is in [`modes`].

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use contract::record::cohort::Cohort;
use contract::record::{NodeOutcome, ReplacedPodKind, Verdict};
use contract::settings::Settings;
use contract::task::Task;

use super::action::{NodePatch, PodDeletion, PodEviction};
use super::device_plugin::DevicePlugins;
use super::dra_plugin::DraPlugins;
use super::memory::RunMemory;
use super::note::DecisionNote;
use super::reason::Wait;
use observed::Observed;
use observed::named::Named;

mod alarm;
mod assess;
mod departed;
mod emit;
mod fleet;
mod inputs;
mod memo;
mod modes;
mod node_draft;
mod node_memory;
mod operands;
mod others;
mod refused_writes;
mod run_nodes;
mod schedule;

use fleet::FleetDraft;
use inputs::FleetInputs;
use memo::Memo;
use run_nodes::{Census, RunNodes};
use schedule::replacements::{self, ReplacementLimits};

pub use modes::assist::WAKE_VALUE;

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
    /// Returns whether it is performed even when the run is over: a patch that starts nothing.
    fn is_last(&self) -> bool {
        matches!(self, Self::PatchNode(patch) if !patch.starts && patch.unschedulable != Some(true))
    }

    /// Returns the node that it is about. Actions of one node are performed in order, and one that fails stops those behind it.
    pub fn node(&self) -> &str {
        match self {
            Self::ReplacePlugin { node, .. } => node,
            Self::PatchNode(patch) => &patch.node,
            Self::Evict(eviction) => &eviction.node,
            Self::DeleteDriver(deletion) => &deletion.node,
        }
    }
}

/// What the planner decided.
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
    /// Nodes were assessed: the operator has acted on the newest spec.
    pub assessed: bool,
    /// The outcome of each node that has one.
    pub outcomes: Named<NodeOutcome>,
    /// Why nodes, or the fleet, have failed or are left as they are.
    pub ended: Vec<Wait>,
    /// What is worth reporting and nothing to wait for.
    pub notes: Vec<DecisionNote>,
    /// Everything is as it should be now, the quiet period aside.
    pub well: bool,
    /// The run is over.
    pub verdict: Option<Verdict>,
    /// When to decide again though nothing was observed to change.
    pub wake_at: Timestamp,
}

/// Decides once.
pub fn decide(
    observed: &Observed,
    settings: &Settings,
    memory: &RunMemory,
    now: Timestamp,
) -> Decision {
    Planner::default().decide(observed, settings, memory, now)
}

/// Decides again and again. What it keeps from one decision to the next changes what a decision costs, and nothing of what it says.
#[derive(Clone, Default)]
pub struct Planner {
    memo: Option<Arc<Memo>>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Planner").finish_non_exhaustive()
    }
}

impl Planner {
    /// Decides. `observed` must come from caches that are all in step with the API server; `memory` is that of the decision before, with what came of
    /// its actions; of a decision that was not carried out nothing need be remembered.
    pub fn decide(
        &mut self,
        observed: &Observed,
        settings: &Settings,
        memory: &RunMemory,
        now: Timestamp,
    ) -> Decision {
        let memo = self.memo.take();
        let (decision, memo) = stages(memo.as_deref(), observed, settings, memory, now);
        self.memo = memo.map(Arc::new);
        decision
    }
}

/// The decision, stage by stage, and what is kept of it for the next one.
fn stages(
    memo: Option<&Memo>,
    observed: &Observed,
    settings: &Settings,
    before: &RunMemory,
    now: Timestamp,
) -> (Decision, Option<Memo>) {
    let mut draft = FleetDraft::new(observed, settings, before.clone(), now);
    begin(&mut draft);
    let (plugins, devices) =
        (DraPlugins::new(observed), DevicePlugins::new(observed, &settings.device_plugin));
    let mut unchanged =
        memo.and_then(|memo| memo.unchanged(observed, settings, &draft.memory, now));
    let mut census = Census::new(observed, settings, &draft.memory, &devices, unchanged.as_ref());
    let drivers = census.drivers;
    if let Err(reason) = draft.settles(drivers) {
        // Nodes are not assessed while the operator has not acted on the newest spec: they would look current.
        let remembered = draft.memory.clone();
        let fleet = FleetInputs::new(observed, settings, &remembered, now, plugins, devices, false);
        draft.waits_for(Some(reason));
        return (emit::of_fleet(draft, &fleet, &census), None);
    }
    let config = draft.configs(&devices);
    let restarts = settings.has(Task::RestartPlugins) && config.is_none();
    if unchanged.as_ref().is_some_and(|unchanged| unchanged.memo.restarts != restarts) {
        unchanged = None;
        census = Census::new(observed, settings, &draft.memory, &devices, None);
    }
    let changed = unchanged.as_ref().map(|unchanged| &unchanged.changed);
    let departed = departed::note(&mut draft.memory, observed, changed, now);
    let closed = replacements::close(&mut draft.memory, observed, &plugins, &devices, now);
    departed.iter().chain(&closed).for_each(|name| census.forget(name));

    let remembered = draft.memory.clone();
    let fleet = FleetInputs::new(observed, settings, &remembered, now, plugins, devices, restarts);
    let limits = ReplacementLimits {
        dra: settings.dra.max_unavailable.resolve(drivers).max(1),
        device: settings.device_plugin.max_unavailable.resolve(census.listed.len()).max(1),
    };
    let mut nodes = RunNodes::assessed(census, &fleet);
    replacements::replace(&mut nodes.listed, &fleet, limits);
    let controller =
        schedule::schedule(&mut nodes, &mut draft.memory, &mut draft.notes, unchanged.as_ref());
    emit::outcome::end_all(&mut nodes);
    emit::of_nodes(draft, nodes, unchanged.as_ref(), controller, |draft: &mut FleetDraft<'_>| {
        draft.required_driver(&fleet.plugins, drivers).or(config)
    })
}

/// Prepares the memory before any node is assessed.
fn begin(draft: &mut FleetDraft<'_>) {
    let (observed, settings) = (draft.observed, draft.settings);
    let memory = &mut draft.memory;
    if memory.cohort.is_none() {
        // Labels come later: whether a node needs the driver is judged each time.
        let uids = observed.nodes.values().map(|node| node.uid.as_str());
        memory.cohort = Some(Cohort::from_uids(uids).into());
    }
    refused_writes::judge(memory, observed, settings, draft.now);
    operands::record_baseline(memory, observed, settings);
    // A patch is over when the node has been seen at another version, or is gone.
    memory.patched.retain(|name, patched| {
        observed.nodes.get(name).is_some_and(|node| node.version == patched.version)
    });
}
