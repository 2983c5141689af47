//! NVIDIA's upgrade controller in the world, where it does the upgrades: the exact model of it (crate `nvidia-upgrade`), with its sleep of two minutes
//! and what wakes it from that. Its evictions and drains run beside it, as they do in the original.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use contract::driver::Driver;
use contract::policy::Policy;
use contract::selector::Selector;
use nvidia_upgrade::controller::UpgradeController;
use nvidia_upgrade::generation::ControllerGeneration;
use nvidia_upgrade::operator::work;
use nvidia_upgrade::pass::PassWrite;
use nvidia_upgrade::state::ControllerState;
use nvidia_upgrade::task::{EvictionTask, drain_ended, drain_selector, drained, eviction, eviction_ended};
use nvidia_upgrade::users::{users, uses_gpu};
use observed::workload::{Workload, Workloads};
use observed::{Observed, ObservedNode};

use super::budgets::GuardAnswer;
use super::objects::{self, OperatorObjects, SimulatedOperand, milliseconds, timestamp};
use super::setup::SimulationSetup;
use super::view::{HookCaches, WorldChange};
use super::world::{World, WorldEvent};

/// Milliseconds from a change to the pass that it makes the controller begin.
const NOTICE: u64 = 20;
/// What a write of the controller takes, one after another: the operators' client makes 20 requests a second, and a write is two, the patch and the
/// event. It is what the traces show (`tests/data/traces`).
pub const WRITE: Duration = Duration::from_millis(100);
/// Pause between two tries of evictions, in milliseconds, where the original has none.
const RETRY: u64 = 500;

/// The controller, and what it sees.
pub(super) struct VendorController {
    controller: UpgradeController,
    generation: ControllerGeneration,
    /// Counts its appointments.
    appointment: u64,
    runs_at: Option<u64>,
    /// Until when its last pass takes.
    busy_until: u64,
    /// What it last heard of the operator's own objects.
    fixed: OperatorObjects,
    /// Everything as it is: its caches have no lag.
    view: HookCaches,
    /// Pods that are waited for.
    jobs: Option<Selector>,
    tasks: BTreeMap<String, ControllerTask>,
    /// Counts the tasks.
    begun: u64,
}

/// An eviction or a drain of one node.
struct ControllerTask {
    number: u64,
    /// UIDs of the pods that were there when it began.
    pods: Vec<String>,
    /// Those whose eviction was granted.
    granted: BTreeSet<String>,
    /// Those whose eviction is an error: they are not asked again, the others are waited for, and then the task has failed.
    given_up: BTreeSet<String>,
    /// When it is given up. `None`: never.
    until: Option<u64>,
    drains: bool,
}

impl VendorController {
    /// The one of the setup's operator, if it does the upgrades.
    pub(super) fn new(setup: &SimulationSetup, fixed: &OperatorObjects) -> Option<Self> {
        let generation = ControllerGeneration::from_version(Driver::Gpu, setup.operator.as_deref())?;
        let jobs = objects::policy(setup).wait_for_completion.and_then(|wait| wait.pod_selector.parse().ok());
        Some(Self {
            controller: UpgradeController::new(Driver::Gpu, generation, None, timestamp(0)),
            generation,
            appointment: 0,
            runs_at: None,
            busy_until: 0,
            fixed: fixed.clone(),
            view: HookCaches::default(),
            jobs,
            tasks: BTreeMap::new(),
            begun: 0,
        })
    }
}

/// What is seen of one node.
fn observe_node(name: &str, node: Option<&ObservedNode>) -> Observed {
    let mut observed = Observed::default();
    if let Some(node) = node {
        observed.nodes.insert(name.to_owned(), node.clone());
    }
    observed
}

impl World<'_> {
    /// The policy of the ClusterPolicy.
    fn vendor_policy(&self) -> Policy {
        objects::policy(self.setup)
    }

    /// Takes a change into what the controller sees. That alone does not wake it.
    pub(super) fn vendor_sees(&mut self, change: &WorldChange) {
        let Some(vendor) = &mut self.vendor else { return };
        vendor.view.apply(change.clone(), self.versions, vendor.jobs.as_ref(), self.setup);
    }

    /// A node as the controller sees it.
    pub(super) fn vendor_knows(&self, name: &str) -> Option<ObservedNode> {
        self.vendor.as_ref().and_then(|vendor| vendor.view.observed.nodes.get(name)).cloned()
    }

    /// A node, which was like that before, has changed, came or went.
    pub(super) fn vendor_hears_of(&mut self, name: &str, before: Option<&ObservedNode>) {
        let Some(vendor) = &mut self.vendor else { return };
        let (before, after) = (observe_node(name, before), observe_node(name, vendor.view.observed.nodes.get(name)));
        vendor.controller.notice(&before, &after, timestamp(self.now + NOTICE));
        self.vendor_due();
    }

    /// Something has changed that concerns the cluster as a whole.
    pub(super) fn vendor_hears(&mut self) {
        let Some(vendor) = &mut self.vendor else { return };
        let (mut before, mut after) = (Observed::default(), Observed::default());
        objects::fixed(&mut before, &vendor.fixed, self.setup);
        objects::fixed(&mut after, &self.fixed, self.setup);
        vendor.fixed = self.fixed.clone();
        vendor.controller.notice(&before, &after, timestamp(self.now + NOTICE));
        self.vendor_due();
    }

    /// The operator's process is new: it knows nothing of evictions and drains that were begun.
    pub(super) fn vendor_starts(&mut self) {
        let Some(view) = self.vendor_lists() else { return };
        let now = self.now;
        if let Some(vendor) = &mut self.vendor {
            vendor.view = view;
            vendor.controller = UpgradeController::new(Driver::Gpu, vendor.generation, None, timestamp(now));
            vendor.tasks.clear();
            vendor.runs_at = None;
            vendor.busy_until = now;
        }
        self.vendor_due();
    }

    /// What a controller sees that begins now. `None`: there is none.
    fn vendor_lists(&self) -> Option<HookCaches> {
        self.vendor.as_ref().map(|vendor| self.truth(vendor.jobs.as_ref()))
    }

    /// What was kept in step is what there is.
    fn check_vendor_sees(&mut self) {
        let (Some(vendor), Some(truth)) = (&self.vendor, self.vendor_lists()) else { return };
        let [kept, anew] = [&vendor.view, &truth].map(|view| work(&view.observed, Driver::Gpu, vendor.generation, None));
        if kept != anew {
            self.report.violation(self.now, "a change was not told to the operator");
        }
    }

    fn vendor_due(&mut self) {
        let Some(vendor) = &mut self.vendor else { return };
        let Some(due) = vendor.controller.due().map(|due| milliseconds(due).max(self.now).max(vendor.busy_until)) else { return };
        if vendor.runs_at.is_none_or(|known| known > due) {
            vendor.appointment += 1;
            vendor.runs_at = Some(due);
            let appointment = vendor.appointment;
            self.queue_at(due, WorldEvent::VendorRuns(appointment));
        }
    }

    pub(super) fn vendor_runs(&mut self, appointment: u64) {
        if !self.operator_works() || self.vendor.as_ref().is_none_or(|vendor| vendor.appointment != appointment) {
            return;
        }
        if self.setup.thorough {
            self.check_vendor_sees();
        }
        let (start, now) = (self.now, timestamp(self.now));
        let Some(vendor) = &mut self.vendor else { return };
        vendor.runs_at = None;
        let mut writes = Vec::new();
        let done = vendor.controller.run(&vendor.view.observed, now, &mut |write| {
            writes.push(write.clone());
            true
        });
        // All that it writes is there at once; what takes its time is the pass.
        let pass = WRITE * u32::try_from(writes.len()).unwrap_or(u32::MAX);
        vendor.busy_until = start + u64::try_from(pass.as_millis()).unwrap_or(u64::MAX);
        if let Some(error) = done.error() {
            let error = error.to_string();
            self.log(|| format!("operator: {error}"));
        }
        for write in writes {
            self.vendor_writes(&write);
        }
        for node in done.cleaned {
            self.vendor_labels(&node, ControllerState::Unknown);
        }
        self.vendor_due();
    }

    fn vendor_writes(&mut self, write: &PassWrite) {
        let node = write.node().to_owned();
        match write {
            PassWrite::State { state, .. } => self.vendor_labels(&node, *state),
            PassWrite::Annotate { key, value, .. } => {
                let Some(host) = self.hosts.get_mut(&node) else { return };
                match value {
                    Some(value) => drop(host.node.annotations.insert((*key).to_owned(), value.clone())),
                    None => drop(host.node.annotations.remove(key)),
                }
                self.touch(&node);
            }
            PassWrite::Cordon { .. } => self.vendor_cordons(&node, true),
            PassWrite::Uncordon { .. } => self.vendor_cordons(&node, false),
            PassWrite::DeletePod { uid, .. } => {
                let there =
                    self.hosts.get(&node).and_then(|host| host.operand(SimulatedOperand::Driver)).is_some_and(|pod| pod.uid == *uid);
                if there {
                    self.check_vendor_deletes(&node);
                    self.log(|| format!("{node} driver pod deleted by the operator"));
                    self.delete_operand(&node, SimulatedOperand::Driver);
                }
            }
            PassWrite::Evict { .. } => self.vendor_evicts(&node),
            PassWrite::Drain { .. } => self.vendor_drains(&node),
            // Without the maintenance-operator there are none of these.
            PassWrite::CreateMaintenance { .. }
            | PassWrite::JoinMaintenance { .. }
            | PassWrite::LeaveMaintenance { .. }
            | PassWrite::DeleteMaintenance { .. } => {}
        }
    }

    fn vendor_labels(&mut self, node: &str, state: ControllerState) {
        let key = Driver::Gpu.traits().state_label;
        self.check_vendor_starts(node, state);
        let Some(host) = self.hosts.get_mut(node) else { return };
        if state == ControllerState::Unknown {
            host.node.labels.remove(key);
        } else {
            host.node.labels.insert(key.to_owned(), state.label().to_owned());
        }
        let cordoned = host.node.unschedulable;
        let ours = host.node.labels.get(self.setup.settings.driver.traits().own_state_label).cloned();
        self.touch(node);
        self.log(|| format!("{node} operator: {state}"));
        let shown = (!matches!(state, ControllerState::Unknown | ControllerState::Done)).then(|| state.label().to_owned()).or(ours);
        self.report.enters(node, self.now, shown, cordoned);
        let traits = Driver::Gpu.traits();
        let is_busy = |node: &ObservedNode| ControllerState::of_node(node, traits).is_busy();
        let busy = self.hosts.values().filter(|host| is_busy(&host.node)).count();
        self.report.peak_in_progress = self.report.peak_in_progress.max(busy);
        let pool =
            self.hosts.get(node).and_then(|host| host.node.driver_owner()).filter(|_| !self.setup.pools.is_empty()).map(str::to_owned);
        if let Some(pool) = pool {
            let in_pool = |node: &ObservedNode| node.driver_owner() == Some(pool.as_str());
            let nodes = || self.hosts.values().map(|host| &host.node).filter(|node| in_pool(node));
            let of_pool = nodes().filter(|node| is_busy(node)).count();
            let peak = self.report.peak_of_pool.entry(pool).or_default();
            *peak = of_pool.max(*peak);
        }
    }

    fn vendor_cordons(&mut self, node: &str, cordoned: bool) {
        let Some(host) = self.hosts.get_mut(node).filter(|host| host.node.unschedulable != cordoned) else { return };
        let ours = host.ours;
        // A cordon that our record claims, and that our note makes the controller leave, is ours to take away.
        (host.node.unschedulable, host.ours) = (cordoned, cordoned && host.claims_cordon(Driver::Gpu));
        if ours && !cordoned {
            self.check_vendor_uncordons(node);
        }
        self.touch(node);
        self.log(|| format!("{node} {} by the operator", if cordoned { "cordoned" } else { "uncordoned" }));
        let away = self.hosts.values().filter(|host| host.node.unschedulable).count();
        self.report.peak_unavailable = self.report.peak_unavailable.max(away);
        if !cordoned {
            self.place();
        }
    }

    fn pods_of(&self, node: &str) -> Vec<Workload> {
        self.placed.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid)).cloned().collect()
    }

    fn vendor_evicts(&mut self, node: &str) {
        let (policy, Some(generation)) = (self.vendor_policy(), self.vendor.as_ref().map(|vendor| vendor.generation)) else { return };
        let deletion = policy.pod_deletion.clone().unwrap_or_default();
        let workloads = Workloads { budgets: self.budgets(), ..Workloads::default() };
        let here = self.pods_of(node);
        match eviction(&users(&here, &workloads, &deletion, generation), &policy) {
            EvictionTask::Ends(state) => self.vendor_task_ends(node, state),
            EvictionTask::Runs => {
                let wanted = here.into_iter().filter(|pod| uses_gpu(pod, &workloads, generation)).map(|pod| pod.uid).collect();
                self.vendor_begins(node, wanted, deletion.timeout_seconds, false);
            }
        }
    }

    fn vendor_drains(&mut self, node: &str) {
        self.vendor_cordons(node, true);
        let Some(drain) = self.vendor_policy().drain else { return };
        // A selector that cannot be read is an error of the drain.
        let Ok(selector) = drain_selector(&drain.pod_selector, Driver::Gpu.traits().drain_skip_label).parse::<Selector>() else {
            self.vendor_task_ends(node, drain_ended(false));
            return;
        };
        let own = self.hook.own_pod();
        let mut here = self.pods_of(node);
        here.retain(|pod| (pod.namespace.clone(), pod.name.clone()) != own);
        let Some(going) = drained(&here, &drain, &selector) else {
            self.vendor_task_ends(node, drain_ended(false));
            return;
        };
        let going = going.into_iter().map(|pod| pod.uid.clone()).collect();
        self.vendor_begins(node, going, drain.timeout_seconds, true);
    }

    fn vendor_begins(&mut self, node: &str, pods: Vec<String>, timeout_seconds: u64, drains: bool) {
        let now = self.now;
        let Some(vendor) = &mut self.vendor else { return };
        vendor.begun += 1;
        let number = vendor.begun;
        let until = (timeout_seconds > 0).then(|| now + timeout_seconds * 1000);
        vendor
            .tasks
            .insert(node.to_owned(), ControllerTask { number, pods, granted: BTreeSet::new(), given_up: BTreeSet::new(), until, drains });
        self.vendor_task(node, number);
    }

    /// One round of a task: evictions that were refused are tried again, those that were granted are waited for.
    pub(super) fn vendor_task(&mut self, node: &str, number: u64) {
        let Some(mut task) = self.vendor.as_mut().and_then(|vendor| vendor.tasks.remove(node)) else { return };
        if task.number != number {
            // Another one has begun since then, of a new process.
            if let Some(vendor) = &mut self.vendor {
                vendor.tasks.insert(node.to_owned(), task);
            }
            return;
        }
        let policy = self.vendor_policy();
        for uid in &task.pods {
            let asked = task.granted.contains(uid) || task.given_up.contains(uid);
            let Some(pod) = self.pods.get(uid).filter(|_| !asked).cloned() else { continue };
            match self.ask_budgets(&pod) {
                GuardAnswer::Granted => {
                    task.granted.insert(uid.clone());
                    self.report.evicts(&pod, self.now);
                    self.log(|| format!("{node} {}/{} evicted by the operator", pod.namespace, pod.name));
                    self.delete_pod(uid);
                }
                GuardAnswer::Blocked => self.report.refused_evictions += 1,
                GuardAnswer::Error => {
                    self.report.refused_evictions += 1;
                    task.given_up.insert(uid.clone());
                }
            }
        }
        let left = task.pods.iter().any(|uid| self.pods.contains_key(uid) && !task.given_up.contains(uid));
        let over = task.until.is_some_and(|until| until <= self.now);
        if left && !over {
            let pause = self
                .vendor
                .as_ref()
                .map_or(RETRY, |vendor| u64::try_from(vendor.generation.features().eviction_retry.as_millis()).unwrap_or(RETRY).max(RETRY));
            if let Some(vendor) = &mut self.vendor {
                vendor.tasks.insert(node.to_owned(), task);
            }
            self.after(pause, WorldEvent::VendorTask(node.to_owned(), number));
            return;
        }
        let well = !left && task.given_up.is_empty();
        self.vendor_task_ends(node, if task.drains { drain_ended(well) } else { eviction_ended(well, &policy) });
    }

    fn vendor_task_ends(&mut self, node: &str, state: ControllerState) {
        if let Some(vendor) = &mut self.vendor {
            vendor.controller.ended(node);
        }
        self.vendor_labels(node, state);
    }
}
