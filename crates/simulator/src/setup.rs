//! What is simulated: the fleet, durations, workloads and faults.

use std::sync::Arc;

use contract::count::Count;
use contract::settings::Settings;
use observed::Labels;
use observed::workload::DisruptionBudget;

use super::clocks::SimulatedClocks;
use super::fault::ScheduledFault;
use super::found_fleet::FoundFleet;
use super::random::TimeSpread;

/// Everything that determines a run.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug)]
pub struct SimulationSetup {
    /// The hook's settings.
    pub settings: Settings,
    /// How many nodes there are, `gpu-0` and on.
    pub nodes: usize,
    /// How many nodes share a value of the topology label; 0: they do not have the label.
    pub group_size: usize,
    /// Random seed.
    pub seed: u64,
    /// How long things take.
    pub times: SimulationTimes,
    /// The workloads.
    pub workers: Vec<WorkloadSetup>,
    /// GPUs of each node, which limit the pods on it.
    pub gpus: usize,
    /// A fleet that was found in a cluster. `None`: `nodes`, `workers` and `gpus` make one up.
    pub found: Option<Arc<FoundFleet>>,
    /// The faults with their times.
    pub faults: Vec<ScheduledFault>,
    /// The driver's version before.
    pub from: String,
    /// The requested version.
    pub to: String,
    /// Both are installed from the same configuration: a restart of the pod is enough.
    pub same_config: bool,
    /// The node that the hook's own pod runs on.
    pub hook_node: Option<String>,
    /// There is a DRA driver.
    pub dra: bool,
    /// There are also validator, device plugin and exporter, and nodes offer GPUs.
    pub operands: bool,
    /// The operator's version, where its own controller does the upgrades; `None`: its upgrades are off.
    pub operator: Option<String>,
    /// The operator's own upgrade, with which the run starts; `None`: its version does not change.
    pub operator_upgrade: Option<OperatorUpgrade>,
    /// The NVIDIADrivers among which the nodes are divided. Empty: the driver of all nodes is the ClusterPolicy's.
    pub pools: Vec<PoolSetup>,
    /// Whether the report tells the story of the run.
    pub tells: bool,
    /// Whether each decision is compared with one that is made without what the last one found.
    pub thorough: bool,
    /// How far clocks are off.
    pub clocks: SimulatedClocks,
    /// Breaks a rule on purpose, to see that an invariant detects it.
    pub mutation: Option<DecisionMutation>,
}

/// An upgrade of the operator. The old operator renders the new driver first; the new one, when it leads, renders it again otherwise. What comes
/// before the operator's release is done before the run begins, and the hook behind it starts when the new operator's pod is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorUpgrade {
    /// The operator's version before.
    pub from: String,
    /// Milliseconds until the new operator's pod is ready. Until then the old one leads.
    pub ready: u64,
}

/// An NVIDIADriver with limits of its own; the other steps of the policy are the settings'.
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
    /// The pool of the node with this number.
    pub(super) fn pool_at(&self, index: usize) -> Option<&PoolSetup> {
        self.pools.get(index.checked_rem(self.pools.len())?)
    }

    /// Whether there is an operator, with its other operands.
    pub(super) fn has_operator(&self) -> bool {
        self.settings.driver.has_operator()
    }
}

/// Changes what the engine decided: a broken engine, made on purpose.
pub type DecisionMutation = fn(&mut planner::decide::Decision, &observed::Observed);

/// How long things take, in milliseconds.
#[derive(Clone, Debug)]
pub struct SimulationTimes {
    /// Until a deleted operand's pod is gone.
    pub operand_end: TimeSpread,
    /// Until a DaemonSet has brought a new pod.
    pub recreate: TimeSpread,
    /// From a driver pod's creation to its readiness.
    pub driver: TimeSpread,
    /// From the driver's readiness to the toolkit's.
    pub toolkit: TimeSpread,
    /// From the toolkit's readiness to the validator's.
    pub validator: TimeSpread,
    /// From a DRA plugin pod's creation to its readiness.
    pub plugin: TimeSpread,
    /// From its readiness to the published ResourceSlice.
    pub publish: TimeSpread,
    /// Until a workload's lost pod is replaced.
    pub replace: TimeSpread,
    /// Until a placed pod is ready.
    pub pod_start: TimeSpread,
    /// Which share of its grace period a pod takes to end, in percent.
    pub grace_percent: TimeSpread,
    /// How far caches lag behind.
    pub watch: TimeSpread,
    /// One request to the API server.
    pub call: TimeSpread,
    /// Until the disruption controller has looked at pods again.
    pub disruption: TimeSpread,
    /// Until the operator has made its objects from a new spec.
    pub operator: TimeSpread,
    /// From the end of the operator's leader to the lead of the next one: its Lease, and a retry.
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
    /// The same with each time changed.
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
            grace_percent,
        ];
        for time in nodes.into_iter().chain([watch, call, disruption, operator, lease]) {
            *time = change(*time);
        }
        times
    }
}

/// What controls pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Lost pods come back on other nodes.
    ReplicaSet,
    /// The same until they have ended by themselves.
    Job,
    /// Nothing: lost pods are lost.
    Bare,
    /// They come back on the same node, cordoned or not.
    DaemonSet,
}

/// Where pods are at the beginning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodPlacement {
    /// So many on each node.
    Each(usize),
    /// One on each of these nodes.
    On(Vec<String>),
}

/// Pods of one kind.
#[derive(Clone, Debug)]
pub struct WorkloadSetup {
    /// Their name; the namespace is `ml`.
    pub name: String,
    /// What controls them.
    pub kind: WorkloadKind,
    /// Where they are.
    pub placement: PodPlacement,
    /// Their labels, in addition to `app: <name>`.
    pub labels: Labels,
    /// They use a GPU.
    pub gpu: bool,
    /// They use GPUs by their runtime class, without asking for one.
    pub hidden: bool,
    /// They have an emptyDir on disk.
    pub empty_dir: bool,
    /// Their grace period in seconds.
    pub grace_seconds: u64,
    /// How long a finalizer holds them after their end, in milliseconds.
    pub finalizer: u64,
    /// When a job has ended, in milliseconds from its start.
    pub ends: TimeSpread,
    /// Their PodDisruptionBudgets.
    pub budgets: Vec<BudgetProtection>,
}

impl WorkloadSetup {
    /// Pods with a GPU each, of a ReplicaSet.
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

/// What a PodDisruptionBudget asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BudgetProtection {
    /// So many must be ready.
    MinAvailable(Count),
    /// So many may be away.
    MaxUnavailable(Count),
}

impl BudgetProtection {
    /// Parses the protection of a budget; `None`: it cannot be understood.
    pub fn from_budget(budget: &DisruptionBudget) -> Option<Self> {
        let count = |text: &Option<String>| text.as_ref()?.parse().ok();
        let unavailable = count(&budget.max_unavailable).map(Self::MaxUnavailable);
        unavailable.or_else(|| count(&budget.min_available).map(Self::MinAvailable))
    }
}
