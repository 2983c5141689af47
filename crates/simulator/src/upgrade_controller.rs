//! NVIDIA's upgrade controller in the simulation. Its exact model (crate `nvidia-upgrade`) writes
//! to the cluster. Its evictions and drains run concurrently with its passes, as in the original.

use std::collections::{BTreeSet, HashMap};

use contract::driver::Driver;
use contract::selector::Selector;
use nvidia_upgrade::background_task::{
    EvictionTask, drain_ended, drain_selector, drained, eviction, eviction_ended,
};
use nvidia_upgrade::pass::PassWrite;
use nvidia_upgrade::state::ControllerState;
use nvidia_upgrade::users::{users, uses_gpu};
use observed::workload::{Workload, Workloads};

use super::budgets::EvictionAnswer;
use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::controller_loop::{ControllerLoop, ControllerPass};
use super::event::WorldEvent;
use super::hook_state::HookState;
use super::invariants::InvariantChecker;
use super::nodes::{SimulatedNode, set_or_remove};
use super::objects::SimulatedOperand;
use super::operator_objects;

/// The pause between two attempts of evictions, in milliseconds. The original has no pause.
const RETRY: u64 = 500;

/// An eviction or a drain of one node.
struct ControllerTask {
    number: u64,
    /// UIDs of the pods that were on the node when it started.
    pods: Vec<String>,
    /// UIDs of the pods whose eviction was granted.
    granted: BTreeSet<String>,
    /// UIDs of the pods whose eviction returned an error. The task does not retry them. It waits
    /// for the other pods, and then fails.
    given_up: BTreeSet<String>,
    /// The timeout of the task. `None`: it has no timeout.
    until: Option<u64>,
    drains: bool,
}

/// The evictions and drains of the controller.
#[derive(Default)]
pub(super) struct ControllerTasks {
    by_node: HashMap<String, ControllerTask>,
    /// The number of started tasks.
    started: u64,
}

/// The parts of the world that the controller writes to, and those that check its writes.
pub(super) struct ControllerScope<'w, 'a> {
    pub(super) hook: &'w HookState,
    pub(super) cluster: &'w mut SimulatedCluster,
    pub(super) context: &'w mut SimulationContext<'a>,
}

impl<'a> ControllerScope<'_, 'a> {
    fn check(&mut self) -> InvariantChecker<'_, 'a> {
        InvariantChecker { hook: self.hook, cluster: self.cluster, context: self.context }
    }

    /// Schedules the next pass of the loop.
    fn schedule_pass(&mut self) {
        if let Some(controller) = &mut self.context.watches.controller {
            controller.schedule(&mut self.context.queue);
        }
    }

    /// Checks that the incrementally updated caches equal the cluster.
    fn check_caches(&mut self) {
        let Some(controller) = &self.context.watches.controller else { return };
        if !controller.is_in_step(&self.cluster.list_all(controller.job_selector(), self.context)) {
            self.context.violation("the operator was not notified of a change");
        }
    }

    fn set_state(&mut self, name: &str, state: ControllerState) {
        self.check().controller_starts(name, state);
        let traits = Driver::Gpu.traits();
        let label = (state != ControllerState::Unknown).then(|| state.label());
        if !self.cluster.nodes.update(name, self.context, |node| {
            set_or_remove(&mut node.node.labels, traits.state_label, label);
        }) {
            return;
        }
        self.context.log(|| format!("{name} operator: {state}"));
        let Some(node) = self.cluster.nodes.get(name).map(|node| &node.node) else { return };
        let ours = node.labels.get(self.hook.settings.driver.traits().own_state_label).cloned();
        let shown = (!matches!(state, ControllerState::Unknown | ControllerState::Done))
            .then(|| state.label().to_owned())
            .or(ours);
        self.context.report.enters(name, self.context.queue.now(), shown, node.unschedulable);
        let busy = &self.cluster.nodes.sets.busy;
        let report = &mut self.context.report;
        report.peak_in_progress = report.peak_in_progress.max(busy.len());
        if let Some(pool) = node.driver_owner().filter(|_| !self.context.setup.pools.is_empty()) {
            let is_of_pool = |name: &&String| {
                self.cluster
                    .nodes
                    .get(name)
                    .is_some_and(|node| node.node.driver_owner() == Some(pool))
            };
            let of_pool = busy.iter().filter(is_of_pool).count();
            let peak = report.peak_of_pool.entry(pool.to_owned()).or_default();
            *peak = of_pool.max(*peak);
        }
    }

    fn set_cordon(&mut self, name: &str, cordoned: bool) {
        let was_ours = self.cluster.nodes.get(name).is_some_and(|node| node.is_cordoned_by_hook);
        if !self.cluster.nodes.set_cordon(name, cordoned, Driver::Gpu, self.context) {
            return;
        }
        if was_ours && !cordoned {
            self.check().controller_uncordons(name);
        }
        self.context.log(|| {
            format!("{name} {} by the operator", if cordoned { "cordoned" } else { "uncordoned" })
        });
        let away = self.cluster.nodes.sets.unschedulable.len();
        self.context.report.peak_unavailable = self.context.report.peak_unavailable.max(away);
        if !cordoned {
            self.cluster.workloads.schedule_pods(&self.cluster.nodes, self.context);
        }
    }

    fn delete_driver(&mut self, name: &str, uid: &str) {
        if self
            .cluster
            .operands
            .pod(name, SimulatedOperand::Driver)
            .is_some_and(|pod| pod.uid == uid)
        {
            self.check().controller_deletes(name);
            self.context.log(|| format!("{name} driver pod deleted by the operator"));
            self.cluster.operands.delete(name, SimulatedOperand::Driver, self.context);
        }
    }

    fn pods_on(&self, node: &str) -> Vec<Workload> {
        self.cluster.workloads.pods.on_node(node).cloned().collect()
    }
}

impl ControllerTasks {
    /// Makes a new process of the operator lead. It does not know evictions and drains that were
    /// started before.
    pub(super) fn restart(
        &mut self,
        cluster: &SimulatedCluster,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(selector) = context.watches.controller.as_ref().map(ControllerLoop::job_selector)
        else {
            return;
        };
        let caches = cluster.list_all(selector, context);
        self.by_node.clear();
        if let Some(controller) = &mut context.watches.controller {
            controller.restart(caches, &mut context.queue);
        }
    }

    /// Performs a pass and its writes.
    pub(super) fn run_pass(&mut self, appointment: u64, scope: &mut ControllerScope<'_, '_>) {
        let is_current = scope
            .context
            .watches
            .controller
            .as_ref()
            .is_some_and(|controller| controller.is_current(appointment));
        if !scope.cluster.operator.is_working() || !is_current {
            return;
        }
        if scope.context.setup.thorough {
            scope.check_caches();
        }
        let now = scope.context.now();
        let is_thorough = scope.context.setup.thorough;
        let Some(controller) = &mut scope.context.watches.controller else { return };
        let exact = is_thorough.then(|| controller.exact_pass(now));
        let pass = controller.run(now);
        if let Some(exact) = exact.filter(|exact| *exact != pass) {
            scope.context.violation(&format!(
                "the controller's pass is {pass:?}, on a snapshot of all nodes it is {exact:?}"
            ));
        }
        let ControllerPass { writes, result: done } = pass;
        if let Some(error) = done.error() {
            scope.context.log(|| format!("operator: {error}"));
        }
        for write in writes {
            self.perform(&write, scope);
        }
        for node in done.cleaned {
            scope.set_state(&node, ControllerState::Unknown);
        }
        scope.schedule_pass();
    }

    fn perform(&mut self, write: &PassWrite, scope: &mut ControllerScope<'_, '_>) {
        let node = write.node();
        match write {
            PassWrite::State { state, .. } => scope.set_state(node, *state),
            PassWrite::Annotate { key, value, .. } => {
                let set = |node: &mut SimulatedNode| {
                    set_or_remove(&mut node.node.annotations, key, value.as_deref());
                };
                scope.cluster.nodes.update(node, scope.context, set);
            }
            PassWrite::Cordon { .. } => scope.set_cordon(node, true),
            PassWrite::Uncordon { .. } => scope.set_cordon(node, false),
            PassWrite::DeletePod { uid, .. } => scope.delete_driver(node, uid),
            PassWrite::Evict { .. } => self.evict(node, scope),
            PassWrite::Drain { .. } => self.drain(node, scope),
            // The controller performs these writes only with the maintenance-operator.
            PassWrite::CreateMaintenance { .. }
            | PassWrite::JoinMaintenance { .. }
            | PassWrite::LeaveMaintenance { .. }
            | PassWrite::DeleteMaintenance { .. } => {}
        }
    }

    fn evict(&mut self, node: &str, scope: &mut ControllerScope<'_, '_>) {
        let policy = operator_objects::policy(scope.context.setup);
        let Some(generation) =
            scope.context.watches.controller.as_ref().map(|controller| controller.generation)
        else {
            return;
        };
        let deletion = policy.pod_deletion.clone().unwrap_or_default();
        let workloads = Workloads {
            budgets: scope.cluster.workloads.budgets.snapshot(),
            ..Workloads::default()
        };
        let pods = scope.pods_on(node);
        match eviction(&users(&pods, &workloads, &deletion, generation), &policy) {
            EvictionTask::Ends(state) => Self::end(node, state, scope),
            EvictionTask::Runs => {
                let wanted = pods
                    .into_iter()
                    .filter(|pod| uses_gpu(pod, &workloads, generation))
                    .map(|pod| pod.uid)
                    .collect();
                self.start(node, wanted, deletion.timeout_seconds, false, scope);
            }
        }
    }

    fn drain(&mut self, node: &str, scope: &mut ControllerScope<'_, '_>) {
        scope.set_cordon(node, true);
        let Some(drain) = operator_objects::policy(scope.context.setup).drain else { return };
        let own = scope.hook.own_pod();
        let mut pods = scope.pods_on(node);
        pods.retain(|pod| (pod.namespace.clone(), pod.name.clone()) != own);
        // If the selector cannot be parsed, the drain fails.
        let selector = drain_selector(&drain.pod_selector, Driver::Gpu.traits().drain_skip_label)
            .parse::<Selector>()
            .ok();
        match selector.and_then(|selector| drained(&pods, &drain, &selector)) {
            Some(leaving) => {
                let leaving = leaving.into_iter().map(|pod| pod.uid.clone()).collect();
                self.start(node, leaving, drain.timeout_seconds, true, scope);
            }
            None => Self::end(node, drain_ended(false), scope),
        }
    }

    fn start(
        &mut self,
        node: &str,
        pods: Vec<String>,
        timeout_seconds: u64,
        drains: bool,
        scope: &mut ControllerScope<'_, '_>,
    ) {
        self.started += 1;
        let number = self.started;
        let until = (timeout_seconds > 0).then(|| scope.context.now() + timeout_seconds * 1000);
        let task = ControllerTask {
            number,
            pods,
            granted: BTreeSet::new(),
            given_up: BTreeSet::new(),
            until,
            drains,
        };
        self.by_node.insert(node.to_owned(), task);
        self.run(node, number, scope);
    }

    /// Performs one round of a task: retries refused evictions, and waits for pods whose eviction
    /// was granted.
    pub(super) fn run(&mut self, node: &str, number: u64, scope: &mut ControllerScope<'_, '_>) {
        // A task with another number was started by a new process.
        let Some(task) = self.by_node.get_mut(node).filter(|task| task.number == number) else {
            return;
        };
        let ControllerScope { cluster, context, .. } = scope;
        let workloads = &mut cluster.workloads;
        for uid in &task.pods {
            let is_answered = task.granted.contains(uid) || task.given_up.contains(uid);
            let Some(pod) = workloads.pods.get(uid).filter(|_| !is_answered).cloned() else {
                continue;
            };
            let answer = workloads.budgets.answer_eviction(&pod, context);
            if answer == EvictionAnswer::Granted {
                task.granted.insert(uid.clone());
                context.report.evicts(&pod, context.queue.now());
                context.log(|| {
                    format!("{node} {}/{} evicted by the operator", pod.namespace, pod.name)
                });
                workloads.delete(uid, context);
                continue;
            }
            context.report.refused_evictions += 1;
            if answer == EvictionAnswer::Error {
                task.given_up.insert(uid.clone());
            }
        }
        let is_waiting = task
            .pods
            .iter()
            .any(|uid| workloads.pods.get(uid).is_some() && !task.given_up.contains(uid));
        let is_over = task.until.is_some_and(|until| until <= context.now());
        if is_waiting && !is_over {
            let retry = context
                .watches
                .controller
                .as_ref()
                .map(|controller| controller.generation.features().eviction_retry);
            let pause = retry.map_or(RETRY, |retry| {
                u64::try_from(retry.as_millis()).unwrap_or(RETRY).max(RETRY)
            });
            context.after(pause, WorldEvent::ControllerTask(node.to_owned(), number));
            return;
        }
        let has_succeeded = !is_waiting && task.given_up.is_empty();
        let policy = operator_objects::policy(context.setup);
        let state = if task.drains {
            drain_ended(has_succeeded)
        } else {
            eviction_ended(has_succeeded, &policy)
        };
        self.by_node.remove(node);
        Self::end(node, state, scope);
    }

    fn end(node: &str, state: ControllerState, scope: &mut ControllerScope<'_, '_>) {
        if let Some(controller) = &mut scope.context.watches.controller {
            controller.task_ended(node);
        }
        scope.set_state(node, state);
    }
}
