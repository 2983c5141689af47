//! The setup of a simulation: fleet, durations, workloads and faults.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use contract::count::Count;
use contract::settings::Settings;
use contract::window::{self, WindowState};
use observed::Labels;
use observed::workload::DisruptionBudget;

use super::acceptance::AcceptanceFaults;
use super::clocks::SimulatedClocks;
use super::fault::ScheduledFault;
use super::found_fleet::FoundFleet;
use super::objects::timestamp;
use super::random::TimeSpread;

/// Everything that determines a run.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Clone, Debug)]
pub struct SimulationSetup {
    /// The hook's settings.
    pub settings: Settings,
    /// The number of nodes. Their names are `gpu-0`, `gpu-1` and so on.
    pub nodes: usize,
    /// The number of nodes that share a value of the topology label. 0: nodes do not have the
    /// label.
    pub group_size: usize,
    /// Random seed.
    pub seed: u64,
    /// The durations.
    pub times: SimulationTimes,
    /// The workloads.
    pub workers: Vec<WorkloadSetup>,
    /// The number of GPUs of each node, which limits the pods on it.
    pub gpus: usize,
    /// A fleet found in a real cluster. `None`: the fleet is generated from `nodes`, `workers` and
    /// `gpus`.
    pub found: Option<Arc<FoundFleet>>,
    /// Labels of generated nodes, by name, in addition to those of the operator.
    pub labels: BTreeMap<String, Labels>,
    /// The faults with their times.
    pub faults: Vec<ScheduledFault>,
    /// The faults of acceptance tests, from the start of the run.
    pub acceptance: AcceptanceFaults,
    /// The driver version before the rollout.
    pub from: String,
    /// The requested driver version.
    pub to: String,
    /// Whether both versions are installed from the same configuration, so that a restart of the
    /// pod is enough.
    pub same_config: bool,
    /// The node that the hook's own pod runs on.
    pub hook_node: Option<String>,
    /// Whether there is a DRA driver.
    pub dra: bool,
    /// Whether there are also validator, device plugin and exporter, and nodes offer GPUs.
    pub operands: bool,
    /// The operator's version, if its own controller performs the upgrades. `None`: its upgrades
    /// are off.
    pub operator: Option<String>,
    /// The upgrade of the operator itself at the start of the run. `None`: its version does not
    /// change.
    pub operator_upgrade: Option<OperatorUpgrade>,
    /// The NVIDIADrivers that the nodes are divided among. Empty: the ClusterPolicy governs the
    /// driver of all nodes.
    pub pools: Vec<PoolSetup>,
    /// Whether the report contains the story of the run.
    pub tells: bool,
    /// Whether each incremental decision is compared with a decision from scratch.
    pub thorough: bool,
    /// The errors of the clocks.
    pub clocks: SimulatedClocks,
    /// Breaks a rule on purpose, to check that an invariant detects it.
    pub mutation: Option<DecisionMutation>,
}

/// An upgrade of the operator. The old operator renders the new driver first. When the new operator
/// leads, it renders a different template. The releases before the operator's are finished before
/// the run starts. The hook after the operator's release starts when the new operator's pod is
/// ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorUpgrade {
    /// The old version of the operator.
    pub from: String,
    /// Milliseconds until the new operator's pod is ready. Until then, the old one leads.
    pub ready: u64,
}

/// An NVIDIADriver with limits of its own. The other parts of its policy are those of the settings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolSetup {
    /// Its name.
    pub name: String,
    /// `maxParallelUpgrades`
    pub max_parallel_upgrades: u32,
    /// `maxUnavailable`
    pub max_unavailable: Option<Count>,
}

impl SimulationSetup {
    /// Returns a setup of an idle fleet of generated nodes, without workloads, faults, DRA driver
    /// and operator, for an upgrade from driver 0.1 to 0.2.
    pub fn new(settings: Settings, nodes: usize, seed: u64) -> Self {
        Self {
            settings,
            nodes,
            group_size: 0,
            seed,
            times: SimulationTimes::default(),
            workers: Vec::new(),
            gpus: 8,
            found: None,
            labels: BTreeMap::new(),
            faults: Vec::new(),
            acceptance: AcceptanceFaults::default(),
            from: "0.1".to_owned(),
            to: "0.2".to_owned(),
            same_config: false,
            hook_node: None,
            dra: false,
            operands: false,
            operator: None,
            operator_upgrade: None,
            pools: Vec::new(),
            tells: false,
            thorough: false,
            clocks: SimulatedClocks::default(),
            mutation: None,
        }
    }

    /// Moves the maintenance windows so that the start of the simulation stands for this time.
    #[must_use]
    pub fn deployed_at(mut self, time: Timestamp) -> Self {
        let windows = &mut self.settings.upgrade.windows;
        *windows = window::moved(windows, time, timestamp(0));
        self
    }

    /// Moves the maintenance windows so that the simulation starts when one opens.
    #[must_use]
    pub fn deployed_in_window(self) -> Self {
        let windows = &self.settings.upgrade.windows;
        let mut opens = window::opening(windows, timestamp(0));
        // A window that is open has opened before.
        if let Some(WindowState::Open(closes)) = window::state(windows, timestamp(0)) {
            opens = window::opening(windows, closes);
        }
        self.deployed_at(opens)
    }

    /// Returns the pool of the node with this number.
    pub(super) fn pool_at(&self, index: usize) -> Option<&PoolSetup> {
        self.pools.get(index.checked_rem(self.pools.len())?)
    }

    /// Whether there is an operator, with its other operands.
    pub(super) fn has_operator(&self) -> bool {
        self.settings.driver.has_operator()
    }
}

/// Changes a decision of the engine, to simulate a broken engine.
pub type DecisionMutation = fn(&mut planner::decide::Decision, &observed::Observed);

/// The durations of a simulation, in milliseconds.
#[derive(Clone, Debug)]
pub struct SimulationTimes {
    /// Until a deleted operand's pod is gone.
    pub operand_end: TimeSpread,
    /// Until a DaemonSet has created a new pod.
    pub recreate: TimeSpread,
    /// From a driver pod's creation to its readiness.
    pub driver: TimeSpread,
    /// From the driver's readiness to the toolkit's.
    pub toolkit: TimeSpread,
    /// From the toolkit's readiness to the validator's.
    pub validator: TimeSpread,
    /// From a DRA plugin pod's creation to its readiness.
    pub plugin: TimeSpread,
    /// From the DRA plugin's readiness to the published ResourceSlice.
    pub publish: TimeSpread,
    /// Until a workload's lost pod is replaced.
    pub replace: TimeSpread,
    /// Until a placed pod is ready.
    pub pod_start: TimeSpread,
    /// From the binding of an acceptance test's pod to the start of its container.
    pub pull: TimeSpread,
    /// How long the container of an acceptance test's pod runs.
    pub acceptance: TimeSpread,
    /// The part of its grace period that a pod needs to end, in percent.
    pub grace_percent: TimeSpread,
    /// The lag of the caches.
    pub watch: TimeSpread,
    /// One request to the API server.
    pub call: TimeSpread,
    /// Until the disruption controller has counted the pods again.
    pub disruption: TimeSpread,
    /// Until the operator has rendered a new spec.
    pub operator: TimeSpread,
    /// From the end of the operator's leader to the next leader: the rest of the Lease and a retry.
    pub lease: TimeSpread,
}

impl Default for SimulationTimes {
    fn default() -> Self {
        Self {
            operand_end: TimeSpread::Uniform(2_000, 8_000),
            recreate: TimeSpread::Uniform(100, 500),
            driver: TimeSpread::Uniform(90_000, 180_000),
            toolkit: TimeSpread::Uniform(3_000, 8_000),
            validator: TimeSpread::Uniform(5_000, 15_000),
            plugin: TimeSpread::Uniform(2_000, 5_000),
            publish: TimeSpread::Uniform(200, 1_000),
            replace: TimeSpread::Uniform(100, 1_000),
            pod_start: TimeSpread::Uniform(2_000, 30_000),
            pull: TimeSpread::Uniform(2_000, 20_000),
            acceptance: TimeSpread::Uniform(20_000, 60_000),
            grace_percent: TimeSpread::Uniform(5, 90),
            watch: TimeSpread::Uniform(20, 120),
            call: TimeSpread::Constant(10),
            disruption: TimeSpread::Uniform(20, 200),
            operator: TimeSpread::Constant(1_000),
            lease: TimeSpread::Uniform(15_000, 20_500),
        }
    }
}

impl SimulationTimes {
    /// Returns the durations with each of them changed.
    #[must_use]
    pub fn each(&self, change: impl Fn(TimeSpread) -> TimeSpread) -> Self {
        let mut times = self.clone();
        let Self {
            operand_end,
            recreate,
            driver,
            toolkit,
            validator,
            plugin,
            publish,
            replace,
            pod_start,
            pull,
            acceptance,
            grace_percent,
            watch,
            call,
            disruption,
            operator,
            lease,
        } = &mut times;
        let nodes = [
            operand_end,
            recreate,
            driver,
            toolkit,
            validator,
            plugin,
            publish,
            replace,
            pod_start,
            pull,
            acceptance,
            grace_percent,
        ];
        for time in nodes.into_iter().chain([watch, call, disruption, operator, lease]) {
            *time = change(*time);
        }
        times
    }
}

/// The controller of pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// The controller recreates lost pods on any node.
    ReplicaSet,
    /// As `ReplicaSet`, until the pods have completed.
    Job,
    /// No controller: lost pods are not recreated.
    Bare,
    /// The controller recreates lost pods on the same node, even if it is cordoned.
    DaemonSet,
}

/// The placement of pods at the start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPlacement {
    /// This number of pods on each node.
    Each(usize),
    /// One pod on each of these nodes.
    On(Vec<String>),
}

/// Pods of one kind.
#[derive(Clone, Debug)]
pub struct WorkloadSetup {
    /// The name of the workload. The namespace is `ml`.
    pub name: String,
    /// What controls them.
    pub kind: WorkloadKind,
    /// The placement of the pods.
    pub placement: PodPlacement,
    /// Their labels, in addition to `app: <name>`.
    pub labels: Labels,
    /// Whether each pod requests a GPU.
    pub gpu: bool,
    /// Whether the pods use GPUs through their runtime class, without requesting one.
    pub hidden: bool,
    /// Whether the pods have an emptyDir on disk.
    pub empty_dir: bool,
    /// The grace period of the pods, in seconds.
    pub grace_seconds: u64,
    /// How long a finalizer delays the removal of the pods after their end, in milliseconds.
    pub finalizer: u64,
    /// The duration of a job, in milliseconds from its start.
    pub ends: TimeSpread,
    /// The PodDisruptionBudgets of the pods.
    pub budgets: Vec<BudgetProtection>,
}

impl WorkloadSetup {
    /// Returns a ReplicaSet with one GPU for each pod.
    pub fn new(name: &str, placement: PodPlacement) -> Self {
        Self {
            name: name.to_owned(),
            kind: WorkloadKind::ReplicaSet,
            placement,
            labels: Labels::new(),
            gpu: true,
            hidden: false,
            empty_dir: false,
            grace_seconds: 30,
            finalizer: 0,
            ends: TimeSpread::Constant(600_000),
            budgets: Vec::new(),
        }
    }
}

/// The limit of a PodDisruptionBudget.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetProtection {
    /// At least this number of pods must be ready.
    MinAvailable(Count),
    /// At most this number of pods may be unavailable.
    MaxUnavailable(Count),
}

impl BudgetProtection {
    /// Parses the limit of a budget. `None`: it cannot be parsed.
    pub fn from_budget(budget: &DisruptionBudget) -> Option<Self> {
        let count = |text: &Option<String>| text.as_ref()?.parse().ok();
        let unavailable = count(&budget.max_unavailable).map(Self::MaxUnavailable);
        unavailable.or_else(|| count(&budget.min_available).map(Self::MinAvailable))
    }
}
