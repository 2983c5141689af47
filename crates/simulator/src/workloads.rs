//! Workloads: their controllers, the scheduler, and the actions of kubelets on their pods.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::selector::Selector;
use observed::ObservedNode;
use observed::workload::{DisruptionBudget, PodPhase, Workload};

use super::budgets::DisruptionBudgets;
use super::caches::WorldChange;
use super::context::SimulationContext;
use super::event::WorldEvent;
use super::found_fleet::FoundFleet;
use super::nodes::{ELSEWHERE, SimulatedNodes};
use super::pods::SimulatedPods;
use super::setup::{BudgetProtection, PodPlacement, WorkloadKind, WorkloadSetup};
use super::test_pods::TestPods;
use super::workload::{NAMESPACE, SimulatedWorkload};

mod acceptance;

pub(super) use acceptance::NewTestPod;

/// All workloads with their pods and PodDisruptionBudgets.
#[derive(Debug, Default)]
pub(super) struct SimulatedWorkloads {
    workloads: Vec<SimulatedWorkload>,
    /// All pods, with those of acceptance tests.
    pub(super) pods: SimulatedPods,
    pub(super) tests: TestPods,
    pub(super) budgets: DisruptionBudgets,
}

/// Returns the nodes of a placement, once for each pod.
fn placed_on(placement: &PodPlacement, nodes: &SimulatedNodes) -> Vec<String> {
    match placement {
        PodPlacement::Each(count) => {
            let pods = |node: &ObservedNode| std::iter::repeat_n(node.name.clone(), *count);
            nodes.observed().flat_map(pods).collect()
        }
        PodPlacement::On(names) => {
            names.iter().filter(|name| nodes.contains(name)).cloned().collect()
        }
    }
}

impl SimulatedWorkloads {
    /// Adds a workload with running pods.
    pub(super) fn add_running(
        &mut self,
        setup: &WorkloadSetup,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let places = placed_on(&setup.placement, nodes);
        let selector: Option<Selector> = format!("app={}", setup.name).parse().ok();
        self.workloads
            .push(SimulatedWorkload { wanted: places.len(), ..SimulatedWorkload::new(setup) });
        let workload = self.workloads.len() - 1;
        for (index, protection) in setup.budgets.iter().enumerate() {
            let budget = DisruptionBudget {
                namespace: NAMESPACE.to_owned(),
                name: if index == 0 {
                    setup.name.clone()
                } else {
                    format!("{}-{index}", setup.name)
                },
                selector: selector.clone(),
                min_available: if let BudgetProtection::MinAvailable(count) = protection {
                    Some(count.to_string())
                } else {
                    None
                },
                max_unavailable: if let BudgetProtection::MaxUnavailable(count) = protection {
                    Some(count.to_string())
                } else {
                    None
                },
                observed: true,
                ..DisruptionBudget::default()
            };
            self.budgets.add(budget, *protection, workload);
        }
        for node in places {
            let pod = Workload {
                node,
                phase: PodPhase::Running,
                ready: true,
                ..self.new_pod(workload, context)
            };
            let uid = pod.uid.clone();
            self.insert(pod, Some(workload), context);
            self.schedule_end(workload, &uid, context);
        }
    }

    /// Adds the pods and PodDisruptionBudgets of a found fleet. The pods of one controller become
    /// one workload.
    pub(super) fn add_found(&mut self, found: &FoundFleet, context: &mut SimulationContext<'_>) {
        let mut known: BTreeMap<String, usize> = BTreeMap::new();
        for pod in &found.pods {
            let owner = pod
                .workload
                .controller
                .as_ref()
                .map_or(&pod.workload.uid, |controller| &controller.uid);
            let workload = *known.entry(owner.clone()).or_insert_with(|| {
                let name = pod
                    .workload
                    .controller
                    .as_ref()
                    .map_or(&pod.workload.name, |controller| &controller.name);
                self.workloads.push(SimulatedWorkload::from_found(
                    name,
                    &pod.workload,
                    pod.gpus,
                    found.job_time,
                ));
                self.workloads.len() - 1
            });
            self.workloads[workload].wanted += usize::from(!pod.workload.phase.is_finished());
            self.insert(pod.workload.clone(), Some(workload), context);
            if pod.workload.phase == PodPhase::Running {
                self.schedule_end(workload, &pod.workload.uid, context);
            }
        }
        for budget in &found.budgets {
            self.budgets.adopt(budget, &self.pods, &self.workloads);
        }
    }

    /// Schedules the end of a job's pod.
    fn schedule_end(&self, workload: usize, uid: &str, context: &mut SimulationContext<'_>) {
        let SimulatedWorkload { kind, ends, name, created, .. } = &self.workloads[workload];
        if *kind == WorkloadKind::Job {
            // Pods of a found fleet keep their names.
            let name = if *created == 0 { uid.to_owned() } else { format!("{name}-{created}") };
            let time = context.draw(*ends, "job", &name);
            context.after(time, WorldEvent::PodSucceeded(uid.to_owned()));
        }
    }

    /// Returns a new pod without a node.
    fn new_pod(&mut self, workload: usize, context: &mut SimulationContext<'_>) -> Workload {
        let SimulatedWorkload { name, template, created, .. } = &mut self.workloads[workload];
        *created += 1;
        Workload {
            name: format!("{name}-{created}"),
            uid: context.queue.next_uid(),
            node: String::new(),
            phase: PodPhase::Pending,
            ready: false,
            created: context.setup.clocks.of_server(context.now()),
            deleted_at: None,
            ..template.clone()
        }
    }

    pub(super) fn insert(
        &mut self,
        pod: Workload,
        workload: Option<usize>,
        context: &mut SimulationContext<'_>,
    ) {
        let uid = pod.uid.clone();
        let gpus = workload.map_or(0, |number| self.workloads[number].gpus);
        self.pods.insert(pod, workload, gpus);
        self.publish(&uid, context);
    }

    fn publish(&self, uid: &str, context: &mut SimulationContext<'_>) {
        let pod = self.pods.get(uid).cloned().map(Arc::new);
        context.publish(WorldChange::Pod(uid.to_owned(), pod));
        self.publish_test(uid, context);
        if !self.budgets.is_empty() {
            let lag = context.draw(context.setup.times.disruption, "disruption", "");
            context.after(lag, WorldEvent::RecountBudgets);
        }
    }

    pub(super) fn recount_budgets(&mut self, context: &mut SimulationContext<'_>) {
        self.budgets.recount(&self.pods, &self.workloads, context);
    }

    /// Makes the budgets of a workload permit no eviction for a time.
    pub(super) fn hold_budgets(
        &mut self,
        name: &str,
        milliseconds: Option<u64>,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(workload) = self.workloads.iter().position(|workload| workload.name == name)
        else {
            return;
        };
        self.budgets.hold(workload, true);
        self.recount_budgets(context);
        if let Some(milliseconds) = milliseconds {
            context.after(milliseconds, WorldEvent::BudgetReleased(workload));
        }
    }

    pub(super) fn release_budgets(&mut self, workload: usize, context: &mut SimulationContext<'_>) {
        context.log(|| "a budget permits evictions again".to_owned());
        self.budgets.hold(workload, false);
        self.recount_budgets(context);
    }

    /// Updates the readiness of the node's pods after its kubelet stopped or restarted.
    pub(super) fn follow_kubelet(
        &mut self,
        node: &str,
        is_back: bool,
        context: &mut SimulationContext<'_>,
    ) {
        for uid in self.pods.uids_on(node) {
            if let Some(pod) = self.pods.get_mut(&uid) {
                pod.ready = is_back && pod.phase == PodPhase::Running && pod.deleted_at.is_none();
                self.publish(&uid, context);
            }
        }
    }

    /// Deletes a pod with its own grace period.
    pub(super) fn delete(&mut self, uid: &str, context: &mut SimulationContext<'_>) {
        let setup = context.setup;
        let Some(pod) = self.pods.get(uid).filter(|pod| pod.deleted_at.is_none()) else {
            return;
        };
        let grace = pod.grace_seconds;
        self.pods.mark_deleted(uid, setup.clocks.of_server(context.now() + grace * 1000));
        self.publish(uid, context);
        let finalizer =
            self.pods.workload(uid).map_or(0, |workload| self.workloads[workload].finalizer);
        // A pod needs a part of its grace period to end.
        let percent = context.draw(setup.times.grace_percent, "grace", uid);
        let ending = grace.saturating_mul(10).saturating_mul(percent) + finalizer;
        let ending = self.end_of_test(uid).unwrap_or(ending);
        context.after(ending, WorldEvent::PodRemoved(uid.to_owned()));
    }

    /// Removes a pod after the kubelet has removed it, or after its node has left the cluster.
    pub(super) fn remove(
        &mut self,
        uid: &str,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if nodes.contains(&node)
            && !nodes.kubelet_acts(&node, || WorldEvent::PodRemoved(uid.to_owned()))
        {
            return;
        }
        let Some((pod, workload)) = self.pods.remove(uid) else { return };
        self.publish(uid, context);
        if self.forget_test(uid, context) {
            return;
        }
        context.log(|| format!("{} {}/{} gone", pod.node, pod.namespace, pod.name));
        let Some(workload) = workload.filter(|_| !pod.phase.is_finished()) else { return };
        let replace = context.draw(context.setup.times.replace, "replace", &pod.name);
        match self.workloads[workload].kind {
            WorkloadKind::ReplicaSet | WorkloadKind::Job => {
                context.after(replace, WorldEvent::ReplacePod(workload));
            }
            WorkloadKind::DaemonSet => self.create_on(workload, &node, nodes, context),
            WorkloadKind::Bare => {}
        }
    }

    /// Makes the controller of a workload create a pod, if one is missing.
    pub(super) fn replace(
        &mut self,
        workload: usize,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        if self.pods.staying(workload) < self.workloads[workload].wanted {
            let pod = self.new_pod(workload, context);
            self.insert(pod, Some(workload), context);
            self.schedule_pods(nodes, context);
        }
    }

    /// Creates a pod on this node, bypassing the scheduler.
    fn create_on(
        &mut self,
        workload: usize,
        node: &str,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        if nodes.contains(node) {
            let pod = Workload { node: node.to_owned(), ..self.new_pod(workload, context) };
            let (uid, name) = (pod.uid.clone(), pod.name.clone());
            self.insert(pod, Some(workload), context);
            Self::schedule_start(uid, &name, context);
        }
    }

    fn schedule_start(uid: String, name: &str, context: &mut SimulationContext<'_>) {
        let start = context.draw(context.setup.times.pod_start, "start", name);
        context.after(start, WorldEvent::PodReady(uid));
    }

    /// Makes the DaemonSets create their pods on a node that has joined.
    pub(super) fn create_daemon_pods(
        &mut self,
        node: &str,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        for workload in 0..self.workloads.len() {
            if self.workloads[workload].kind == WorkloadKind::DaemonSet {
                self.create_on(workload, node, nodes, context);
            }
        }
    }

    /// Creates a pod of this workload on a node, bypassing the scheduler.
    pub(super) fn bind_new_pod(
        &mut self,
        name: &str,
        node: &str,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(workload) = self.workloads.iter().position(|workload| workload.name == name)
        else {
            return;
        };
        self.workloads[workload].wanted += 1;
        self.create_on(workload, node, nodes, context);
    }

    /// Binds pods without a node to nodes with free GPUs, the emptiest first, as the scheduler
    /// does.
    pub(super) fn schedule_pods(
        &mut self,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let waiting: Vec<(String, String)> =
            self.pods.unbound().map(|pod| (pod.uid.clone(), pod.name.clone())).collect();
        for (uid, name) in waiting {
            if self.tests.get(&uid).is_some() {
                self.schedule_test(&uid, nodes, context);
            } else if let Some(node) = self.choose_node(&uid, nodes) {
                self.pods.bind(&uid, &node);
                self.publish(&uid, context);
                Self::schedule_start(uid, &name, context);
            }
        }
    }

    fn choose_node(&self, uid: &str, nodes: &SimulatedNodes) -> Option<String> {
        if self.pods.workload(uid).is_some_and(|workload| self.workloads[workload].elsewhere) {
            return Some(ELSEWHERE.to_owned());
        }
        let gpus = self.pods.gpus(uid);
        let has_room = |(used, name): &(usize, &str)| {
            nodes.get(name).is_some_and(|node| {
                let is_open = node.node.ready && !node.node.unschedulable;
                is_open && *used < node.gpus && used + gpus <= node.gpus
            })
        };
        self.pods
            .by_gpus_in_use()
            .take_while(|(used, _)| *used < nodes.most_gpus)
            .find(has_room)
            .map(|(_, name)| name.to_owned())
    }

    pub(super) fn pod_ready(
        &mut self,
        uid: &str,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !nodes.kubelet_acts(&node, || WorldEvent::PodReady(uid.to_owned())) {
            return;
        }
        let Some(pod) = self
            .pods
            .get_mut(uid)
            .filter(|pod| pod.deleted_at.is_none() && pod.phase == PodPhase::Pending)
        else {
            return;
        };
        (pod.phase, pod.ready) = (PodPhase::Running, true);
        self.publish(uid, context);
        if let Some(workload) = self.pods.workload(uid) {
            self.schedule_end(workload, uid, context);
        }
    }

    /// Handles a pod of a job that succeeds.
    pub(super) fn pod_succeeded(
        &mut self,
        uid: &str,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(node) = self.pods.get(uid).map(|pod| pod.node.clone()) else { return };
        if !nodes.kubelet_acts(&node, || WorldEvent::PodSucceeded(uid.to_owned())) {
            return;
        }
        let Some(pod) = self.pods.get(uid).filter(|pod| pod.deleted_at.is_none()) else {
            return;
        };
        let (name, namespace) = (pod.name.clone(), pod.namespace.clone());
        self.pods.mark_finished(uid, PodPhase::Succeeded);
        if let Some(workload) = self.pods.workload(uid) {
            self.workloads[workload].wanted = self.workloads[workload].wanted.saturating_sub(1);
        }
        self.publish(uid, context);
        context.log(|| format!("{node} {namespace}/{name} has ended"));
        context.after(0, WorldEvent::SchedulePods);
    }
}
