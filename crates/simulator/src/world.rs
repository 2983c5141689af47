//! Composes the parts of the simulation: processes the events in order, and dispatches each to its
//! part.

use observed::ObservedNode;
use observed::workload::{PodPhase, Workload};

use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::fault::Fault;
use super::hook::SimulatedHook;
use super::invariants::InvariantChecker;
use super::moment::{MomentObserver, SimulatedMoment};
use super::objects::{SimulatedOperand, timestamp};
use super::operands::{OperandScope, SimulatedOperands};
use super::random::SeededRandom;
use super::report::SimulationReport;
use super::setup::SimulationSetup;
use super::upgrade_controller::{ControllerScope, ControllerTasks};
use super::workload::controller;

/// Virtual time after which a run without a verdict is aborted: 60 days.
const HORIZON: u64 = 60 * 24 * 3_600_000;

/// The cluster, with the hook and NVIDIA's controller that act on it.
pub(super) struct World<'a> {
    context: SimulationContext<'a>,
    cluster: SimulatedCluster,
    hook: SimulatedHook,
    controller: ControllerTasks,
}

impl<'a> World<'a> {
    /// Returns the world before the rollout.
    pub(super) fn new(setup: &'a SimulationSetup) -> Self {
        let mut context = SimulationContext::new(setup);
        let cluster = SimulatedCluster::new(&mut context);
        let hook = SimulatedHook::new(setup);
        let mut world = Self { context, cluster, hook, controller: ControllerTasks::default() };
        world.add_hook_pod();
        let Self { context, cluster, hook, controller } = &mut world;
        cluster.workloads.recount_budgets(context);
        hook.hold_nodes(cluster, context);
        controller.restart(cluster, context);
        let rendered =
            setup.times.operator.draw(&mut SeededRandom::stream(setup.seed, "operator", 0));
        context.after(rendered, WorldEvent::TemplateRendered);
        for scheduled in &setup.faults {
            context.queue.schedule_at(scheduled.at, WorldEvent::Fault(scheduled.fault.clone()));
        }
        if let Some(upgrade) = &setup.operator_upgrade {
            context.queue.schedule_at(upgrade.ready, WorldEvent::OperatorReplaced);
        }
        hook.schedule_start(0, context);
        world
    }

    /// Adds the hook's own pod, if the setup places it on a node.
    fn add_hook_pod(&mut self) {
        let Some(node) =
            self.context.setup.hook_node.clone().filter(|node| self.cluster.nodes.contains(node))
        else {
            return;
        };
        let (namespace, name) = self.hook.state.own_pod();
        let pod = Workload {
            namespace,
            name,
            uid: self.context.queue.next_uid(),
            node,
            phase: PodPhase::Running,
            ready: true,
            created: timestamp(0),
            grace_seconds: 30,
            controller: Some(controller("batch/v1", "Job", "gpu-rollout")),
            ..Workload::default()
        };
        self.cluster.workloads.insert(pod, None, &mut self.context);
    }

    /// Runs until the hook has a verdict. `observer` is called after each decision.
    pub(super) fn run(mut self, mut observer: Option<MomentObserver<'_>>) -> SimulationReport {
        while let Some(at) = self.context.queue.next_at() {
            if at > HORIZON {
                self.context.violation("no verdict within 60 days");
                break;
            }
            if let Some(event) = self.context.queue.pop() {
                let decisions = self.context.report.decisions;
                self.dispatch(event);
                if let Some(observer) = &mut observer
                    && self.context.report.decisions > decisions
                {
                    observer(&self.moment());
                }
            }
            if self.context.report.verdict.is_some() || self.context.report.is_hopeless() {
                break;
            }
        }
        let Self { context, cluster, hook, .. } = &mut self;
        if (InvariantChecker { hook: &hook.state, cluster, context }).end() {
            hook.run_again(cluster, context);
        }
        self.context.report
    }

    /// Returns what a client sees now.
    fn moment(&self) -> SimulatedMoment<'_> {
        let Self { context, cluster, hook, .. } = self;
        let newest = cluster.operator.objects.newest();
        let is_upgraded = |node: &&ObservedNode| {
            cluster.operands.pod(&node.name, SimulatedOperand::Driver).is_some_and(|pod| {
                pod.ready && !pod.deleting && pod.revision.as_deref() == Some(newest)
            })
        };
        SimulatedMoment {
            observed: cluster.list_all(None, context).observed,
            settings: &hook.state.settings,
            memory: &hook.state.memory,
            verdict: context.report.verdict.as_ref(),
            process: hook.process(),
            upgraded: cluster
                .nodes
                .observed()
                .filter(is_upgraded)
                .map(|node| node.name.clone())
                .collect(),
            now: timestamp(context.now()),
        }
    }

    fn dispatch(&mut self, event: WorldEvent) {
        let Self { context, cluster, hook, .. } = self;
        let SimulatedCluster { nodes, workloads, operator, operands, .. } = cluster;
        match event {
            WorldEvent::OperandRemoved(node, operand, uid) => {
                self.with_operands(|operands, scope| operands.removed(&node, operand, &uid, scope));
            }
            WorldEvent::CreateOperand(node, operand) => {
                self.with_operands(|operands, scope| operands.create(&node, operand, scope));
            }
            WorldEvent::OperandReady(node, operand, uid) => {
                self.with_operands(|operands, scope| operands.ready(&node, operand, &uid, scope));
            }
            WorldEvent::OperandFailed(node, operand, uid) => {
                self.with_operands(|operands, scope| operands.failed(&node, operand, &uid, scope));
            }
            WorldEvent::OperandPod(node, event) => {
                self.with_operands(|operands, scope| operands.operand_event(&node, event, scope));
            }
            WorldEvent::PublishSlice(node, uid) => {
                self.with_operands(|operands, scope| operands.refresh_slice(&node, &uid, scope));
            }
            WorldEvent::PluginRepaired(node) => operands.repair_plugin(&node, context),
            WorldEvent::ReplacePod(workload) => workloads.replace(workload, nodes, context),
            WorldEvent::SchedulePods => workloads.schedule_pods(nodes, context),
            WorldEvent::PodReady(uid) => workloads.pod_ready(&uid, nodes, context),
            WorldEvent::PodSucceeded(uid) => workloads.pod_succeeded(&uid, nodes, context),
            WorldEvent::PodRemoved(uid) => workloads.remove(&uid, nodes, context),
            WorldEvent::TestPod(uid, step) => workloads.test_step(&uid, step, nodes, context),
            WorldEvent::TaintEviction(node, since) => cluster.evict_tests(&node, since, context),
            WorldEvent::RecountBudgets => workloads.recount_budgets(context),
            WorldEvent::BudgetReleased(workload) => workloads.release_budgets(workload, context),
            WorldEvent::NodeRecovers(node) => cluster.recover_node(&node, context),
            WorldEvent::OperatorAvailable => operator.become_available(context),
            WorldEvent::OperatorReplaced => operator.replace(context),
            WorldEvent::OperatorLeads(pod) => self.operator_leads(pod),
            WorldEvent::TemplateRendered => operator.render_template(context),
            WorldEvent::MaintenanceEnds(node) => operator.end_maintenance(&node, context),
            WorldEvent::PauseEnds(key) => cluster.pauses.end(&key, nodes, context),
            WorldEvent::ControllerPass(appointment) => {
                self.with_controller(|tasks, scope| tasks.run_pass(appointment, scope));
            }
            WorldEvent::ControllerTask(node, number) => {
                self.with_controller(|tasks, scope| tasks.run(&node, number, scope));
            }
            WorldEvent::Notify(process, version, change) => {
                hook.notify(process, version, &change, context);
            }
            WorldEvent::PodsListed(process, node) => {
                hook.pods_listed(process, &node, cluster, context);
            }
            WorldEvent::Decide(process, appointment) => {
                hook.decide(process, appointment, cluster, context);
            }
            WorldEvent::Call(process, index) => hook.call(process, index, cluster, context),
            WorldEvent::HookStarts(process) => hook.start(process, cluster, context),
            WorldEvent::Fault(fault) => self.inject(fault),
        }
    }

    /// Makes a pod of the operator the leader. The controller of a new leader starts again.
    fn operator_leads(&mut self, pod: u32) {
        if self.cluster.operator.lead(pod, &mut self.context) {
            self.controller.restart(&self.cluster, &mut self.context);
        }
    }

    /// Calls `act` with the operands and their scope.
    fn with_operands(
        &mut self,
        act: impl FnOnce(&mut SimulatedOperands, &mut OperandScope<'_, 'a>),
    ) {
        self.cluster.with_operands(&mut self.context, act);
    }

    /// Calls `act` with the tasks of the upgrade controller and their scope.
    fn with_controller(
        &mut self,
        act: impl FnOnce(&mut ControllerTasks, &mut ControllerScope<'_, 'a>),
    ) {
        let mut scope = ControllerScope {
            hook: &self.hook.state,
            cluster: &mut self.cluster,
            context: &mut self.context,
        };
        act(&mut self.controller, &mut scope);
    }

    /// Removes a node, with the hook if it runs there.
    fn remove_node(&mut self, node: &String) {
        self.cluster.remove_node(node, &mut self.context);
        if self.context.setup.hook_node.as_ref() == Some(node) {
            self.hook.kill(30_000, &mut self.context);
        }
    }

    fn inject(&mut self, fault: Fault) {
        let Self { context, cluster, hook, .. } = self;
        let driver = context.setup.settings.driver;
        context.log(|| format!("* {fault}"));
        match fault {
            Fault::NotReady(node, milliseconds) => cluster.stop_node(&node, milliseconds, context),
            Fault::NodeGone(node) => self.remove_node(&node),
            Fault::NodeJoins(node) => cluster.join_node(&node, context),
            Fault::Cordon(node) => drop(cluster.nodes.set_cordon(&node, true, driver, context)),
            Fault::Uncordon(node) => {
                if cluster.nodes.set_cordon(&node, false, driver, context) {
                    context.after(10, WorldEvent::SchedulePods);
                }
            }
            Fault::Label(node, key, value) => {
                cluster.nodes.update(&node, context, |node| {
                    node.edit_label(&key, value.as_deref());
                });
            }
            Fault::Annotate(node, key, value) => {
                cluster.nodes.update(&node, context, |node| {
                    node.edit_annotation(&key, value.as_deref(), driver);
                });
            }
            Fault::DriverFails(node, failures) => {
                cluster.operands.set_driver_failures(&node, failures);
            }
            Fault::DriverCrashes(node, milliseconds) => {
                cluster.operands.crash_driver(&node, milliseconds, context);
            }
            Fault::DeleteDriver(node) => {
                cluster.operands.delete(&node, SimulatedOperand::Driver, context);
            }
            Fault::PluginFails(node, milliseconds) => {
                cluster.operands.break_plugin(&node, milliseconds, context);
            }
            Fault::Operand(fault) => {
                cluster.operator.revise_operand(&fault, context);
                cluster
                    .with_operands(context, |operands, scope| operands.apply_fault(&fault, scope));
            }
            Fault::HoldBudget(workload, milliseconds) => {
                cluster.workloads.hold_budgets(&workload, milliseconds, context);
            }
            Fault::KillHook(milliseconds) | Fault::LoseLease(milliseconds) => {
                hook.kill(milliseconds, context);
            }
            Fault::OperatorDown(milliseconds) => cluster.operator.fail(milliseconds, context),
            Fault::Template(version) => cluster.operator.request_driver(version, context),
            Fault::Deploy(limit) => hook.deploy(limit, cluster, context),
            Fault::Resume(nodes) => hook.resume(&nodes, cluster, context),
            Fault::Maintenance(node, milliseconds) => {
                cluster.operator.start_maintenance(node, milliseconds, context);
            }
            Fault::PodComes(workload, node) => {
                cluster.workloads.bind_new_pod(&workload, &node, &cluster.nodes, context);
            }
            Fault::Acceptance(Some(fault)) => cluster.acceptance.faults.insert(0, fault),
            Fault::Acceptance(None) => cluster.acceptance.faults.clear(),
            Fault::DeleteTestPods(node) => cluster.workloads.delete_tests(&node, context),
            Fault::Admission(node, admission) => cluster.admissions.set(node, admission),
            Fault::Pause(milliseconds) => {
                cluster.pauses.start(milliseconds, &mut cluster.nodes, context);
            }
            Fault::Freeze(milliseconds) => {
                cluster.pauses.freeze(milliseconds, &mut cluster.nodes, context);
            }
        }
    }
}
