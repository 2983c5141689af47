//! Everything that is in the world, the events that are to come, and how they are told to the hook.

use std::collections::{BTreeMap, BTreeSet};

use contract::names;
use contract::record::NodeOutcome;
use observed::ObservedNode;
use observed::pause::ObservedPause;
use observed::workload::Workload;

use super::budgets::BudgetGuard;
use super::fault::Fault;
use super::found_fleet::FoundNode;
use super::hook::SimulatedHook;
use super::objects::{self, OperatorObjects, SimulatedOperand, timestamp};
use super::operand_pods::{NodeOperandPods, OperandEvent};
use super::random::{SeededRandom, TimeSpread};
use super::refusals::WriteAdmission;
use super::report::SimulationReport;
use super::setup::{PodPlacement, SimulationSetup};
use super::simulated_node::SimulatedNode;
use super::upgrade_controller::VendorController;
use super::view::WorldChange;
use super::workers::ELSEWHERE;
use super::workload_pods::WorkloadPods;

/// Virtual time after which a run without a verdict is given up: 60 days.
const HORIZON: u64 = 60 * 24 * 3_600_000;

/// What is to happen.
#[derive(Clone, Debug)]
pub(super) enum WorldEvent {
    /// A pod of an operand is gone.
    OperandGone(String, SimulatedOperand, String),
    /// Its DaemonSet brings a new one.
    OperandComes(String, SimulatedOperand),
    /// Its containers are ready.
    OperandReady(String, SimulatedOperand, String),
    /// Its container fails.
    OperandCrashes(String, SimulatedOperand, String),
    /// What happens to an operand beside them on a node.
    OperandStep(String, OperandEvent),
    /// The plugin has published.
    Published(String, String),
    /// A pod of these workers is made anew.
    PodComes(usize),
    /// Pods that wait for a place look for one.
    Place,
    PodReady(String),
    PodEnds(String),
    PodGone(String),
    /// The disruption controller looks at its budgets.
    Budgets,
    /// Something from outside.
    Fault(Fault),
    /// A node's kubelet is back.
    Recovers(String),
    /// A plugin pod that never became ready is deleted by hand.
    PluginRepaired(String),
    BudgetYields(usize),
    OperatorUp,
    /// The pod of the operator's new version is ready.
    OperatorReplaced,
    /// The Lease of its predecessor has expired: this pod of the operator leads.
    OperatorLeads(u32),
    TemplateMade,
    MaintenanceOver(String),
    /// A pause ends, by its key.
    PauseOver(String),
    /// A watch tells the hook of a change: process, version.
    Told(u32, u64, Box<WorldChange>),
    /// A LIST of a node's pods is answered.
    Listed(u32, String),
    /// The vendor's controller makes a pass: which of its appointments.
    VendorRuns(u64),
    /// Its eviction or drain of a node goes on: the node, the task's number.
    VendorTask(String, u64),
    /// The hook decides: process, and which of its appointments.
    Decide(u32, u64),
    /// A call of the hook reaches the server: process, number of the action.
    Call(u32, usize),
    HookStarts(u32),
}

/// The watches of the hook: each one tells in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum HookWatch {
    Nodes,
    Operands,
    Slices,
    Pods,
    Budgets,
    Operator,
    Pauses,
}

pub(super) struct World<'a> {
    pub(super) setup: &'a SimulationSetup,
    pub(super) now: u64,
    queue: BTreeMap<(u64, u64), WorldEvent>,
    sequence: u64,
    pub(super) versions: u64,
    pub(super) hosts: BTreeMap<String, SimulatedNode>,
    pub(super) fixed: OperatorObjects,
    pub(super) pods: BTreeMap<String, Workload>,
    /// UIDs of pods by node.
    pub(super) placed: BTreeMap<String, BTreeSet<String>>,
    pub(super) crews: Vec<WorkloadPods>,
    /// To which crew each pod belongs, by its UID.
    pub(super) members: BTreeMap<String, usize>,
    pub(super) guards: Vec<BudgetGuard>,
    /// Nodes that others have in maintenance.
    pub(super) maintenances: BTreeSet<String>,
    /// What people have paused.
    pub(super) pauses: Vec<ObservedPause>,
    /// What admission has against writes of nodes.
    pub(super) admissions: BTreeMap<String, WriteAdmission>,
    pub(super) hook: SimulatedHook,
    pub(super) vendor: Option<VendorController>,
    pub(super) report: SimulationReport,
    told_until: BTreeMap<HookWatch, u64>,
    drawn: BTreeMap<(&'static str, String), u64>,
}

impl<'a> World<'a> {
    pub(super) fn new(setup: &'a SimulationSetup) -> Self {
        let fixed = OperatorObjects {
            operator_up: true,
            operator_pod: 0,
            operator_leader: 0,
            operator_version: setup.operator_upgrade.as_ref().map(|upgrade| upgrade.from.clone()).or_else(|| setup.operator.clone()),
            asked: setup.to.clone(),
            // What was found may have the new driver in part.
            template: if setup.found.is_some() { setup.to.clone() } else { setup.from.clone() },
            desired: i32::try_from(setup.nodes).unwrap_or(i32::MAX),
            desired_of: BTreeMap::new(),
            operand_revisions: BTreeMap::new(),
            revisions: if setup.found.is_some() { vec![setup.from.clone(), setup.to.clone()] } else { vec![setup.from.clone()] },
        };
        let mut world = Self {
            setup,
            vendor: VendorController::new(setup, &fixed),
            now: 0,
            queue: BTreeMap::new(),
            sequence: 0,
            versions: 0,
            hosts: BTreeMap::new(),
            fixed,
            pods: BTreeMap::new(),
            placed: BTreeMap::new(),
            crews: Vec::new(),
            members: BTreeMap::new(),
            guards: Vec::new(),
            pauses: Vec::new(),
            admissions: BTreeMap::new(),
            maintenances: BTreeSet::new(),
            hook: SimulatedHook::new(setup),
            report: SimulationReport::new(setup.seed),
            told_until: BTreeMap::new(),
            drawn: BTreeMap::new(),
        };
        if let Some(found) = &setup.found {
            for node in &found.nodes {
                world.host_found(node);
            }
            world.crews_found(found);
        } else {
            for index in 0..setup.nodes {
                world.host_at_rest(&format!("gpu-{index}"), index);
            }
            for workers in &setup.workers {
                world.crew(workers);
            }
        }
        world.fixed.desired_of = objects::count_pools(setup, world.hosts.values().map(|host| &host.node));
        world.publish(HookWatch::Operator, None);
        world.hook_pod();
        world.look_at_budgets();
        world.hold_nodes();
        world.vendor_starts();
        world.after(setup.times.operator.draw(&mut SeededRandom::stream(setup.seed, "operator", 0)), WorldEvent::TemplateMade);
        for scheduled in &setup.faults {
            world.queue_at(scheduled.at, WorldEvent::Fault(scheduled.fault.clone()));
        }
        if let Some(upgrade) = &setup.operator_upgrade {
            world.queue_at(upgrade.ready, WorldEvent::OperatorReplaced);
        }
        world.queue_at(world.hook_begins(), WorldEvent::HookStarts(0));
        world
    }

    /// A node as it is before the rollout.
    fn host_at_rest(&mut self, name: &str, index: usize) {
        let uid = self.uid();
        let topology = self.setup.settings.upgrade.topology.as_ref();
        let group = (self.setup.group_size > 0).then(|| topology.map(|topology| topology.label.clone())).flatten();
        let group = group.map(|label| (label, format!("group-{}", index / self.setup.group_size.max(1))));
        let day = jiff::SignedDuration::from_hours(24);
        let created = timestamp(0).saturating_sub(day).unwrap_or(timestamp(0));
        let mut node = objects::node(name, uid, created, group, self.setup.has_operator());
        if let Some(pool) = self.setup.pool_at(index) {
            node.labels.insert(names::DRIVER_OWNER_LABEL.to_owned(), pool.name.clone());
        }
        self.host(node, self.setup.gpus, &self.setup.from);
    }

    /// A node as it was found.
    fn host_found(&mut self, found: &FoundNode) {
        let setup = self.setup;
        self.host(found.node.clone(), found.gpus, if found.outdated { &setup.from } else { &setup.to });
        let host = self.hosts.get_mut(&found.node.name);
        if let Some(pod) = host.and_then(|host| host.operands[SimulatedOperand::Driver.index()].as_mut())
            && found.same_config
        {
            pod.config_digest = Some(objects::config_digest(setup, &setup.to));
        }
    }

    /// A node on which everything runs, with the driver of this version.
    fn host(&mut self, node: ObservedNode, gpus: usize, version: &str) {
        let name = node.name.clone();
        let name = name.as_str();
        let mut host = SimulatedNode {
            node,
            gpus,
            ours: false,
            operands: [None, None, None, None],
            slice: None,
            frozen: Vec::new(),
            driver_fails: Some(0),
            plugin_fails: false,
            extras: NodeOperandPods::default(),
            meddled: false,
        };
        for operand in SimulatedOperand::ALL {
            let alone = !self.setup.has_operator() && operand != SimulatedOperand::Driver;
            if alone || operand == SimulatedOperand::Plugin && !self.setup.dra {
                continue;
            }
            let revision = if operand == SimulatedOperand::Driver { version } else { "only" };
            let mut pod = objects::operand(operand, name, self.uid(), revision, 0, self.setup);
            objects::joins_pool(&mut pod, operand, &host.node, self.setup);
            objects::is_ready(&mut pod, timestamp(0));
            // One after the other, long ago: the plugin is not stale.
            let age = jiff::SignedDuration::from_secs(3600 - 60 * i64::try_from(operand.index()).unwrap_or(0));
            let since = timestamp(0).saturating_sub(age).unwrap_or(timestamp(0));
            (pod.created, pod.ready_since) = (since, Some(since));
            for container in &mut pod.containers {
                container.started = Some(since);
            }
            host.operands[operand.index()] = Some(pod);
        }
        host.slice = (self.setup.dra && self.setup.has_operator()).then(|| objects::slice(name, version));
        self.hosts.insert(name.to_owned(), host);
        self.extras_at_rest(name);
        self.touch(name);
    }

    /// The hook's own pod, where the setup says so.
    fn hook_pod(&mut self) {
        let Some(node) = self.setup.hook_node.clone().filter(|node| self.hosts.contains_key(node)) else { return };
        let uid = self.uid();
        let (namespace, name) = self.hook.own_pod();
        let pod = Workload {
            namespace,
            name,
            uid,
            node,
            phase: observed::workload::PodPhase::Running,
            ready: true,
            created: timestamp(0),
            grace_seconds: 30,
            controller: Some(super::workload_pods::controller("batch/v1", "Job", "gpu-rollout")),
            ..Workload::default()
        };
        self.put_pod(pod);
    }

    pub(super) fn uid(&mut self) -> String {
        self.sequence += 1;
        format!("u{}", self.sequence)
    }

    /// A time drawn for a node, whatever is drawn for others.
    pub(super) fn draw(&mut self, spread: TimeSpread, what: &'static str, name: &str) -> u64 {
        let count = self.drawn.entry((what, name.to_owned())).or_default();
        *count += 1;
        spread.draw(&mut SeededRandom::stream(self.setup.seed, &format!("{what}/{name}"), *count))
    }

    pub(super) fn queue_at(&mut self, at: u64, event: WorldEvent) {
        self.sequence += 1;
        self.queue.insert((at, self.sequence), event);
    }

    pub(super) fn after(&mut self, milliseconds: u64, event: WorldEvent) {
        self.queue_at(self.now.saturating_add(milliseconds), event);
    }

    /// Whether anything is to come that is not the hook's own.
    pub(super) fn log(&mut self, what: impl FnOnce() -> String) {
        if self.setup.tells {
            self.report.story.push((self.now, what()));
        }
    }

    /// Runs until there is a verdict.
    pub(super) fn run(mut self) -> SimulationReport {
        while let Some(((at, _), event)) = self.queue.pop_first() {
            if at > HORIZON {
                self.report.violation(self.now, "no verdict within 60 days");
                break;
            }
            self.now = at;
            self.happen(event);
            if self.report.verdict.is_some() || self.report.is_hopeless() {
                break;
            }
        }
        self.finish();
        self.report
    }

    pub(super) fn happen(&mut self, event: WorldEvent) {
        match event {
            WorldEvent::OperandGone(node, operand, uid) => self.operand_gone(&node, operand, &uid),
            WorldEvent::OperandComes(node, operand) => self.operand_comes(&node, operand),
            WorldEvent::OperandReady(node, operand, uid) => self.operand_ready(&node, operand, &uid),
            WorldEvent::OperandCrashes(node, operand, uid) => self.operand_crashes(&node, operand, &uid),
            WorldEvent::OperandStep(node, step) => self.operand_step(&node, step),
            WorldEvent::Published(node, uid) => self.published(&node, &uid),
            WorldEvent::PodComes(crew) => self.pod_comes(crew),
            WorldEvent::Place => self.place(),
            WorldEvent::PodReady(uid) => self.pod_ready(&uid),
            WorldEvent::PodEnds(uid) => self.pod_ends(&uid),
            WorldEvent::PodGone(uid) => self.pod_gone(&uid),
            WorldEvent::Budgets => self.look_at_budgets(),
            WorldEvent::Fault(fault) => self.fault(fault),
            WorldEvent::Recovers(node) => self.recovers(&node),
            WorldEvent::PluginRepaired(node) => self.plugin_repaired(&node),
            WorldEvent::BudgetYields(crew) => self.budget_yields(crew),
            WorldEvent::OperatorUp => self.operator_up(),
            WorldEvent::OperatorReplaced => self.operator_replaced(),
            WorldEvent::OperatorLeads(pod) => self.operator_leads(pod),
            WorldEvent::TemplateMade => self.template_made(),
            WorldEvent::PauseOver(key) => self.pause_over(&key),
            WorldEvent::MaintenanceOver(node) => {
                self.maintenances.remove(&node);
                self.log(|| format!("{node} maintenance is over"));
                self.publish(HookWatch::Operator, None);
            }
            WorldEvent::Told(process, version, change) => self.notify(process, version, *change),
            WorldEvent::Listed(process, node) => self.listed(process, &node),
            WorldEvent::VendorRuns(appointment) => self.vendor_runs(appointment),
            WorldEvent::VendorTask(node, number) => self.vendor_task(&node, number),
            WorldEvent::Decide(process, appointment) => self.decide(process, appointment),
            WorldEvent::Call(process, index) => self.call(process, index),
            WorldEvent::HookStarts(process) => self.hook_starts(process),
        }
    }

    /// The newest driver revision that there is.
    pub(super) fn newest(&self) -> &str {
        self.fixed.revisions.last().map_or("", String::as_str)
    }

    /// The operator sees a change at once, the hook's watch tells of it after a while, in order. `None`: the operator's own objects, as they are now.
    pub(super) fn publish(&mut self, watch: HookWatch, change: Option<WorldChange>) {
        self.versions += 1;
        let change = change.unwrap_or_else(|| WorldChange::Fixed(Box::new(self.fixed.clone()), self.maintenances.clone()));
        self.vendor_sees(&change);
        if !self.hook.is_alive() {
            return;
        }
        let lag = self.draw(self.setup.times.watch, "watch", "");
        let until = self.told_until.entry(watch).or_default();
        *until = (*until).max(self.now + lag);
        let (at, process, version) = (*until, self.hook.process, self.versions);
        self.queue_at(at, WorldEvent::Told(process, version, Box::new(change)));
    }

    /// The node has changed.
    pub(super) fn touch(&mut self, name: &str) {
        let version = (self.versions + 1).to_string();
        let Some(host) = self.hosts.get_mut(name) else { return };
        host.node.version = version;
        let node = host.node.clone();
        let before = self.vendor_knows(name);
        self.publish(HookWatch::Nodes, Some(WorldChange::Node(name.to_owned(), Some(Box::new(node)))));
        self.vendor_hears_of(name, before.as_ref());
    }

    /// The DaemonSet wants as many driver pods as there are nodes.
    pub(super) fn count_nodes(&mut self) {
        if self.vendor.is_some() {
            self.fixed.desired = i32::try_from(self.hosts.len()).unwrap_or(i32::MAX);
            self.fixed.desired_of = objects::count_pools(self.setup, self.hosts.values().map(|host| &host.node));
            self.publish(HookWatch::Operator, None);
        }
    }

    pub(super) fn touch_operand(&mut self, name: &str, operand: SimulatedOperand) {
        let pod = self.hosts.get(name).and_then(|host| host.operand(operand)).cloned().map(Box::new);
        self.publish(HookWatch::Operands, Some(WorldChange::Operand(name.to_owned(), operand, pod)));
    }

    pub(super) fn touch_slice(&mut self, name: &str) {
        let slice = self.hosts.get(name).and_then(|host| host.slice.clone());
        self.publish(HookWatch::Slices, Some(WorldChange::Slice(name.to_owned(), slice)));
    }

    /// What a kubelet is to do is done now, or when it is back. `false`: not now.
    pub(super) fn kubelet_does(&mut self, node: &str, event: WorldEvent) -> bool {
        match self.hosts.get_mut(node) {
            Some(host) if host.node.ready => true,
            Some(host) => {
                host.frozen.push(event);
                false
            }
            None => node == ELSEWHERE,
        }
    }

    pub(super) fn add_host(&mut self, name: &str) {
        if self.hosts.contains_key(name) {
            return;
        }
        let index = self.hosts.len();
        self.host_at_rest(name, index);
        let now = self.now;
        if let Some(host) = self.hosts.get_mut(name) {
            host.operands = [None, None, None, None];
            host.slice = None;
            (host.node.created, host.node.ready_since) = (objects::second(now), Some(objects::second(now)));
        }
        self.extras_go(name);
        self.touch(name);
        self.count_nodes();
        for operand in SimulatedOperand::ALL {
            self.touch_operand(name, operand);
        }
        self.touch_slice(name);
        self.after(500, WorldEvent::OperandComes(name.to_owned(), SimulatedOperand::Driver));
        let daemons: Vec<usize> = (0..self.crews.len()).filter(|index| self.crews[*index].is_daemon_set()).collect();
        for crew in daemons {
            self.daemon_on(crew, name);
        }
        self.after(500, WorldEvent::Place);
    }

    /// All nodes on which the setup's placement puts pods.
    pub(super) fn places(&self, placement: &PodPlacement) -> Vec<String> {
        match placement {
            PodPlacement::Each(count) => self.hosts.keys().flat_map(|name| std::iter::repeat_n(name.clone(), *count)).collect(),
            PodPlacement::On(nodes) => nodes.iter().filter(|node| self.hosts.contains_key(*node)).cloned().collect(),
        }
    }

    /// How a node ended, as the hook says.
    pub(super) fn outcome(&self, node: &str) -> Option<NodeOutcome> {
        self.report.outcomes.get(node).copied()
    }
}
