//! The decision: takes the observed state, the settings, the memory and the time; returns actions,
//! waits, and at the end a verdict. It is total and deterministic; the caller performs the actions
//! without deciding anything.
//!
//! The decision has stages, each of which uses the results of the previous one: the nodes of the
//! run ([`run_nodes`]); what each of them needs ([`assess`]); which stale plugins are replaced,
//! which upgrades continue and which start ([`schedule`]); the outcome of each node, the actions,
//! the waits and the memory ([`emit`]). The parts of each mode are in [`modes`].

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use contract::record::cohort::Cohort;
use contract::record::{NodeOutcome, ReplacedPodKind, Verdict};
use contract::settings::Settings;
use contract::task::Task;

use super::action::{AcceptanceCreation, NodePatch, PodDeletion, PodEviction, TestLogReading};
use super::device_plugin::DevicePlugins;
use super::dra_plugin::DraPlugins;
use super::memory::RunMemory;
use super::note::DecisionNote;
use super::waits::Waits;
use observed::Observed;
use observed::named::Named;

mod accepted_nodes;
mod alarm;
mod assess;
mod departed;
mod emit;
mod fleet;
mod inputs;
mod kept_nodes;
mod memo;
mod modes;
mod node_draft;
mod node_memory;
mod operands;
mod other_actors;
mod paused_nodes;
mod refused_node;
mod run_nodes;
mod schedule;

use fleet::FleetDraft;
use inputs::FleetInputs;
use memo::{LastDecision, Memo, Unchanged};
use modes::observe::ControllerForecast;
use run_nodes::{Census, RunNodes};
use schedule::replacements::{self, ReplacementLimits};

pub use modes::assist::WAKE_VALUE;
pub use schedule::is_proof_complete;

/// One action, so precise that the code that performs it has nothing to decide.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Delete one plugin pod, if the pod still has this UID; its DaemonSet creates the replacement.
    ReplacePlugin {
        /// The component of the pod.
        plugin: ReplacedPodKind,
        /// The node.
        node: String,
        /// Namespace of the pod.
        namespace: String,
        /// Name of the pod.
        pod: String,
        /// UID of the pod.
        uid: String,
        /// The reason for the replacement.
        cause: String,
    },
    /// Change a node.
    PatchNode(NodePatch),
    /// Evict a pod.
    Evict(PodEviction),
    /// Delete a driver pod; its DaemonSet creates the new one.
    DeleteDriver(PodDeletion),
    /// Create the pod of an acceptance test.
    CreateAcceptancePod(AcceptanceCreation),
    /// Delete the pod of an acceptance test, if the pod still has this UID.
    DeleteAcceptancePod(PodDeletion),
    /// Read the end of the log of an acceptance test's pod. The answer goes into
    /// [`RunMemory::test_logs`].
    ReadTestLog(TestLogReading),
}

impl Action {
    /// Returns whether the action is performed even when the run is over: only a patch that starts
    /// nothing, and the deletion of a pod of an acceptance test, which must not outlive the run.
    fn is_last(&self) -> bool {
        match self {
            Self::PatchNode(patch) => !patch.starts && patch.unschedulable != Some(true),
            Self::DeleteAcceptancePod(_) => true,
            Self::ReplacePlugin { .. }
            | Self::Evict(_)
            | Self::DeleteDriver(_)
            | Self::CreateAcceptancePod(_)
            | Self::ReadTestLog(_) => false,
        }
    }

    /// Returns the node of the action. Actions of one node are performed in order; if one fails,
    /// the later ones are not performed.
    pub fn node(&self) -> &str {
        match self {
            Self::ReplacePlugin { node, .. } => node,
            Self::PatchNode(patch) => &patch.node,
            Self::Evict(eviction) => &eviction.node,
            Self::CreateAcceptancePod(creation) => &creation.node,
            Self::ReadTestLog(reading) => &reading.node,
            Self::DeleteDriver(deletion) | Self::DeleteAcceptancePod(deletion) => &deletion.node,
        }
    }
}

/// The result of one decision.
#[derive(Clone, Debug, PartialEq, Eq)]
#[must_use = "an unread decision is not acted on"]
pub struct Decision {
    /// The memory for the next decision. Changed node records are written before the actions are
    /// performed.
    pub memory: RunMemory,
    /// Actions to perform now.
    pub actions: Vec<Action>,
    /// Nodes whose pods the next decision needs.
    pub focus: BTreeSet<String>,
    /// All waits.
    pub waits: Waits,
    /// Whether nodes were assessed. They are not while the operator has not acted on the newest
    /// spec.
    pub assessed: bool,
    /// The outcome of each node that has one.
    pub outcomes: Named<NodeOutcome>,
    /// Reasons for which nodes, or the fleet, failed or were deferred.
    pub ended: Waits,
    /// Notes: reported, but not waited for.
    pub notes: Vec<DecisionNote>,
    /// Whether all conditions are met, apart from the quiet period.
    pub well: bool,
    /// The verdict, if the run is over.
    pub verdict: Option<Verdict>,
    /// When to decide again if no observed object changes.
    pub wake_at: Timestamp,
    /// The same if the operator's leader, which has been observed, goes on to renew its Lease: its
    /// end is not one of the times. Simulations make no decision because of a renewal.
    pub wake_at_if_led: Timestamp,
}

/// Makes one decision.
pub fn decide(
    observed: &Observed,
    settings: &Settings,
    memory: &RunMemory,
    now: Timestamp,
) -> Decision {
    Planner::default().decide(observed, settings, memory, now)
}

/// Makes successive decisions. The state that it keeps between decisions changes the cost of a
/// decision, and never its result.
#[derive(Clone, Default)]
pub struct Planner {
    /// Shared by clones. The allocation is used again for the next decision.
    memo: Arc<Option<Memo>>,
}

impl fmt::Debug for Planner {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Planner").finish_non_exhaustive()
    }
}

impl Planner {
    /// Makes one decision. `observed` must come from caches that are all in step with the API
    /// server. `memory` is that of the previous decision, updated with the results of its actions.
    /// A decision whose actions were not performed need not be remembered.
    pub fn decide(
        &mut self,
        observed: &Observed,
        settings: &Settings,
        memory: &RunMemory,
        now: Timestamp,
    ) -> Decision {
        let memo = Arc::make_mut(&mut self.memo);
        let decision;
        (decision, *memo) = stages(memo.take(), observed, settings, memory, now);
        decision
    }
}

/// Performs the stages of the decision, and keeps the state for the next one.
fn stages(
    memo: Option<Memo>,
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
    let all =
        |draft: &FleetDraft<'_>| Census::new(observed, settings, &draft.memory, &devices, now);
    let mut census = match &mut unchanged {
        Some(Unchanged { memo, changed }) => Census::incremental(
            observed,
            settings,
            &draft.memory,
            &devices,
            now,
            std::mem::take(&mut memo.kept),
            changed,
        ),
        None => all(&draft),
    };
    let drivers = census.drivers;
    if let Err(reason) = draft.settles(drivers, unchanged.is_some()) {
        // Nodes are not assessed while the operator has not acted on the newest spec: they would
        // seem current.
        draft.memory.assessed.end();
        let remembered = draft.memory.clone();
        let fleet = FleetInputs::new(observed, settings, &remembered, now, plugins, devices, false);
        draft.waits_for(Some(reason));
        return (emit::of_fleet(draft, &fleet, &census), None);
    }
    let config = draft.configs(&devices);
    let restarts = settings.has(Task::RestartPlugins) && config.is_none();
    if unchanged.as_ref().is_some_and(|unchanged| unchanged.memo.restarts != restarts) {
        unchanged = None;
        census = all(&draft);
    }
    let changed = unchanged.as_ref().map(|unchanged| &unchanged.changed);
    departed::note(&mut draft.memory, observed, changed, now);
    replacements::close(&mut draft.memory, changed, &plugins, &devices, now);

    let remembered = draft.memory.clone();
    let fleet = FleetInputs::new(observed, settings, &remembered, now, plugins, devices, restarts);
    let limits = ReplacementLimits {
        dra: settings.dra.max_unavailable.resolve(drivers).max(1),
        device: settings.device_plugin.max_unavailable.resolve(census.len()).max(1),
    };
    let (last, memo) = match unchanged {
        Some(Unchanged { memo, changed }) => {
            let Memo { settings, observed, queue, controller, .. } = memo;
            (Some(LastDecision { settings, observed, changed }), (queue, controller))
        }
        None => (None, (None, None)),
    };
    let (queue, controller) = memo;
    let forecast = ControllerForecast::new(&fleet, &mut draft.memory, last.as_ref(), controller);
    if let Some(forecast) = &forecast {
        census.examine(forecast.concerned().iter().map(String::as_str));
        let others = forecast.describe_common_wait(&mut census.kept, &census.listed);
        census.examine(others.iter().map(|name| &**name));
    }
    let mut nodes = RunNodes::assessed(census, &fleet);
    replacements::replace(&mut nodes, limits);
    let queue = schedule::schedule(
        &mut nodes,
        &mut draft.memory,
        &mut draft.notes,
        forecast.as_ref(),
        queue,
    );
    emit::outcome::end_all(&mut nodes);
    draft.memory.assesses_nodes(now);
    let controller = forecast.map(ControllerForecast::into_memo);
    emit::of_nodes(draft, nodes, last, (queue, controller), |draft: &mut FleetDraft<'_>| {
        draft.required_driver(&fleet.plugins, drivers).or(config)
    })
}

/// Prepares the memory before any node is assessed.
fn begin(draft: &mut FleetDraft<'_>) {
    let (observed, settings) = (draft.observed, draft.settings);
    let memory = &mut draft.memory;
    if memory.cohort.is_none() {
        // Labels may be added later, so each decision checks whether a node needs the driver.
        let uids = observed.nodes.values().map(|node| node.uid.as_str());
        memory.cohort = Some(Cohort::from_uids(uids).into());
    }
    if settings.upgrade.halts().is_none() {
        // An earlier deployment had steps, or another mode.
        memory.proof = None;
    }
    refused_node::judge(memory, observed, settings, draft.now);
    operands::record_baseline(memory, observed, settings);
    // A patch is complete when the node has been observed in another version, or is gone.
    memory.patched.retain(|name, patched| {
        observed.nodes.get(name).is_some_and(|node| node.version == patched.version)
    });
}
