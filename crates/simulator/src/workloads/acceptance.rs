//! The pods of acceptance tests: the scheduler binds each to its node, and the kubelet runs it.

use std::collections::BTreeSet;
use std::sync::Arc;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, RUN_LABEL, TEST_LABEL};
use jiff::Timestamp;
use observed::acceptance::{AcceptancePhase, AcceptancePod};
use observed::workload::{PodPhase, Workload};
use planner::action::{AcceptanceCreation, RequestedGpus};

use super::SimulatedWorkloads;
use crate::acceptance::AcceptanceEffect;
use crate::caches::WorldChange;
use crate::context::SimulationContext;
use crate::event::WorldEvent;
use crate::nodes::SimulatedNodes;
use crate::setup::SimulationSetup;
use crate::test_pods::{TestPod, TestPodStep};

/// Milliseconds until the scheduler handles a new pod.
const SCHEDULES: u64 = 100;
/// Milliseconds until the scheduler tries again.
const TRIES_AGAIN: u64 = 10_000;
/// Milliseconds until the kubelet removes a pod that has ended.
const REMOVES: u64 = 1_000;
/// Milliseconds that a pod tolerates on a node that is NotReady: the API server adds this
/// toleration to every pod.
const TOLERATES_NOT_READY: u64 = 300_000;
/// The grace period of a pod in seconds.
const GRACE_SECONDS: u64 = 30;

/// A pod to create.
pub(crate) struct NewTestPod<'c> {
    pub(crate) creation: &'c AcceptanceCreation,
    /// The trigger digest of the run.
    pub(crate) digest: &'c str,
    /// UID of the node's driver pod.
    pub(crate) driver_pod: Option<String>,
    /// What will happen to the pod.
    pub(crate) effect: Option<AcceptanceEffect>,
}

/// Returns the number of GPUs of a request, on a node that has this number.
fn count_gpus(requested: &RequestedGpus, has: usize) -> usize {
    match requested {
        RequestedGpus::Nothing => 0,
        RequestedGpus::Resources(resources) => {
            resources.values().filter_map(|count| count.parse::<usize>().ok()).sum()
        }
        RequestedGpus::Claim => has,
    }
}

/// Returns what the scheduler says about a pod that it cannot place.
fn no_node(nodes: &SimulatedNodes, why: &str) -> String {
    format!("0/{} nodes are available: {why}", nodes.len())
}

impl SimulatedWorkloads {
    /// Creates the pod of a test. Returns `false` if a pod of this name exists.
    pub(crate) fn create_test(
        &mut self,
        new: NewTestPod<'_>,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) -> bool {
        let NewTestPod { creation, digest, driver_pod, effect } = new;
        if self.tests.iter().any(|(_, pod)| pod.name == creation.pod) {
            return false;
        }
        let has = nodes.get(&creation.node).map_or(0, |node| node.gpus);
        let (resources, claims) = match &creation.gpus {
            RequestedGpus::Nothing => (BTreeSet::new(), Vec::new()),
            RequestedGpus::Resources(resources) => {
                (resources.keys().cloned().collect(), Vec::new())
            }
            RequestedGpus::Claim => (BTreeSet::new(), vec![Some(format!("{}-gpus", creation.pod))]),
        };
        let test = TestPod {
            test: creation.test.clone(),
            time: creation.time,
            driver_pod,
            deadline_seconds: creation.deadline_seconds,
            effect,
            ..TestPod::new(&creation.pod, &creation.node, digest, context.now())
        };
        let labels = [
            (TEST_LABEL.to_owned(), creation.test.clone()),
            (RUN_LABEL.to_owned(), test.digest.clone()),
        ];
        let pod = Workload {
            namespace: ACCEPTANCE_NAMESPACE.to_owned(),
            name: creation.pod.clone(),
            uid: context.queue.next_uid(),
            labels: labels.into(),
            created: context.setup.clocks.of_server(context.now()),
            grace_seconds: GRACE_SECONDS,
            resources,
            claims,
            ..Workload::default()
        };
        let uid = pod.uid.clone();
        self.tests.insert(uid.clone(), test);
        self.pods.insert(pod, None, count_gpus(&creation.gpus, has));
        self.publish(&uid, context);
        self.queue_test(&uid, SCHEDULES, context);
        true
    }

    /// Publishes the pod of a test as the hook observes it. Publishes nothing for other pods.
    pub(super) fn publish_test(&self, uid: &str, context: &mut SimulationContext<'_>) {
        let Some(test) = self.tests.get(uid) else { return };
        let pod = self.pods.get(uid).map(|pod| Arc::new(test.observed(pod)));
        context.publish(WorldChange::TestPod(test.node.clone(), test.name.clone(), pod));
    }

    /// Returns all pods of tests as a client lists them.
    pub(crate) fn list_tests(&self) -> impl Iterator<Item = AcceptancePod> {
        self.tests.iter().filter_map(|(uid, test)| Some(test.observed(self.pods.get(uid)?)))
    }

    /// Returns how many milliseconds a deleted pod of a test needs to end. `None`: as long as other
    /// pods.
    pub(super) fn end_of_test(&self, uid: &str) -> Option<u64> {
        let test = self.tests.get(uid)?;
        let is_bound = self.pods.get(uid).is_some_and(|pod| !pod.node.is_empty());
        if is_bound { test.phase.is_over().then_some(REMOVES) } else { Some(0) }
    }

    /// Forgets a removed pod. Returns whether it was the pod of a test.
    pub(super) fn forget_test(&mut self, uid: &str, context: &mut SimulationContext<'_>) -> bool {
        let Some(test) = self.tests.get(uid) else { return false };
        context.log(|| format!("{} test {}: pod gone", test.node, test.test));
        self.tests.remove(uid);
        true
    }

    /// Deletes the pods of tests on a node on behalf of others.
    pub(crate) fn delete_tests(&mut self, node: &str, context: &mut SimulationContext<'_>) {
        let uids: Vec<String> = self.tests.of_node(node).map(|(uid, _)| uid.clone()).collect();
        for uid in uids {
            self.delete(&uid, context);
        }
    }

    /// Schedules the eviction of the pods of tests from a node that is NotReady since this time, as
    /// kube-controller-manager does.
    pub(crate) fn schedule_taint_eviction(
        &self,
        node: &str,
        since: Option<Timestamp>,
        context: &mut SimulationContext<'_>,
    ) {
        if self.tests.of_node(node).next().is_some() {
            context.after(TOLERATES_NOT_READY, WorldEvent::TaintEviction(node.to_owned(), since));
        }
    }

    /// Schedules the next attempt of the scheduler, unless one is scheduled.
    fn queue_test(&mut self, uid: &str, milliseconds: u64, context: &mut SimulationContext<'_>) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        if !std::mem::replace(&mut test.is_queued, true) {
            context.after(milliseconds, WorldEvent::TestPod(uid.to_owned(), TestPodStep::Schedule));
        }
    }

    /// Returns why the scheduler cannot place the pod of a test. `None`: it can.
    fn obstacle(
        &self,
        uid: &str,
        nodes: &SimulatedNodes,
        setup: &SimulationSetup,
    ) -> Option<String> {
        let test = self.tests.get(uid)?;
        if test.effect == Some(AcceptanceEffect::Unschedulable) {
            return Some(no_node(nodes, "1 Insufficient nvidia.com/gpu"));
        }
        let Some(node) = nodes.get(&test.node) else {
            return Some(no_node(nodes, "none matches the pod's node affinity"));
        };
        if !node.node.ready {
            return Some(no_node(
                nodes,
                "1 has the untolerated taint node.kubernetes.io/not-ready",
            ));
        }
        let pod = self.pods.get(uid)?;
        if !pod.claims.is_empty() && !setup.dra {
            return Some(no_node(nodes, "1 cannot allocate all claims"));
        }
        // The kubelet offers only what the device plugin advertises.
        let offers = if setup.operands && !pod.resources.is_empty() {
            let counts = pod.resources.iter().map(|name| node.node.gpus_allocatable.text(name));
            counts.flatten().filter_map(|count| count.parse::<usize>().ok()).sum()
        } else {
            node.gpus
        };
        let wanted = self.pods.gpus(uid);
        let free = offers.saturating_sub(self.pods.gpus_in_use(&test.node));
        (wanted > free).then(|| no_node(nodes, "1 Insufficient nvidia.com/gpu"))
    }

    /// Binds the pod of a test to its node, or marks it as unschedulable.
    pub(super) fn schedule_test(
        &mut self,
        uid: &str,
        nodes: &SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        if self.pods.get(uid).is_none_or(|pod| pod.deleted_at.is_some() || !pod.node.is_empty()) {
            return;
        }
        let obstacle = self.obstacle(uid, nodes, context.setup);
        let Some(test) = self.tests.get_mut(uid) else { return };
        let Some(obstacle) = obstacle else { return self.bind_test(uid, context) };
        let phase = AcceptancePhase::Unschedulable(obstacle);
        if test.phase != phase {
            context.log(|| format!("{} test {} cannot be scheduled", test.node, test.test));
            test.phase = phase;
            self.publish(uid, context);
        }
        self.queue_test(uid, TRIES_AGAIN, context);
    }

    fn bind_test(&mut self, uid: &str, context: &mut SimulationContext<'_>) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        (test.phase, test.bound_at) = (AcceptancePhase::Pending, context.now());
        let (node, deadline) = (test.node.clone(), test.deadline_seconds.saturating_mul(1000));
        self.pods.bind(uid, &node);
        self.publish(uid, context);
        let pull = context.draw(context.setup.times.pull, "pull", &node);
        context.after(pull, WorldEvent::TestPod(uid.to_owned(), TestPodStep::Start));
        context.after(deadline, WorldEvent::TestPod(uid.to_owned(), TestPodStep::Deadline));
    }

    /// Performs a step of scheduler or kubelet. A stopped kubelet performs it when it runs again.
    pub(crate) fn test_step(
        &mut self,
        uid: &str,
        step: TestPodStep,
        nodes: &mut SimulatedNodes,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        if step == TestPodStep::Schedule {
            test.is_queued = false;
            return self.schedule_test(uid, nodes, context);
        }
        let node = test.node.clone();
        if test.phase.is_over()
            || !nodes.kubelet_acts(&node, || WorldEvent::TestPod(uid.to_owned(), step))
            || self.pods.get(uid).is_none_or(|pod| pod.deleted_at.is_some())
        {
            return;
        }
        match step {
            TestPodStep::Schedule => {}
            TestPodStep::Start => self.start_test(uid, context),
            TestPodStep::End => self.end_test(uid, context),
            TestPodStep::Deadline => self.fail_test(
                uid,
                "DeadlineExceeded: the pod was active for longer than its deadline".to_owned(),
                true,
                context,
            ),
        }
    }

    /// Starts the container of a pod, if its image can be pulled.
    fn start_test(&mut self, uid: &str, context: &mut SimulationContext<'_>) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        let (node, name, effect) = (test.node.clone(), test.test.clone(), test.effect);
        if effect == Some(AcceptanceEffect::EndedByKubelet) {
            context.log(|| format!("{node} test {name} is refused by the kubelet"));
            test.phase = AcceptancePhase::EndedByKubelet(
                "UnexpectedAdmissionError: Allocate failed".to_owned(),
            );
            self.pods.mark_finished(uid, PodPhase::Failed);
            return self.publish(uid, context);
        }
        let pulled_at = match effect {
            Some(AcceptanceEffect::ImageNotPulled { milliseconds }) => {
                milliseconds.map(|time| test.bound_at.saturating_add(time))
            }
            Some(
                AcceptanceEffect::Fails { .. }
                | AcceptanceEffect::Hangs
                | AcceptanceEffect::EndedByKubelet
                | AcceptanceEffect::Refused
                | AcceptanceEffect::Unschedulable
                | AcceptanceEffect::Slow { .. },
            )
            | None => Some(context.now()),
        };
        if pulled_at.is_none_or(|at| at > context.now()) {
            test.phase = AcceptancePhase::ImageNotPulled(
                "ErrImagePull: the registry does not have the image".to_owned(),
            );
            self.publish(uid, context);
            context.log(|| format!("{node} test {name}: the image cannot be pulled"));
            if let Some(at) = pulled_at {
                let next = WorldEvent::TestPod(uid.to_owned(), TestPodStep::Start);
                context.queue.schedule_at(at, next);
            }
            return;
        }
        (test.phase, test.has_log) = (AcceptancePhase::Running, true);
        if let Some(pod) = self.pods.get_mut(uid) {
            (pod.phase, pod.ready) = (PodPhase::Running, true);
        }
        self.publish(uid, context);
        let runs = context.draw(context.setup.times.acceptance, "acceptance", &node);
        let longer = match effect {
            Some(AcceptanceEffect::Hangs) => return,
            Some(AcceptanceEffect::Slow { milliseconds }) => milliseconds,
            Some(
                AcceptanceEffect::Fails { .. }
                | AcceptanceEffect::ImageNotPulled { .. }
                | AcceptanceEffect::EndedByKubelet
                | AcceptanceEffect::Refused
                | AcceptanceEffect::Unschedulable,
            )
            | None => 0,
        };
        let ends = runs.saturating_add(longer);
        context.after(ends, WorldEvent::TestPod(uid.to_owned(), TestPodStep::End));
    }

    /// Ends the container of a pod.
    fn end_test(&mut self, uid: &str, context: &mut SimulationContext<'_>) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        if let Some(AcceptanceEffect::Fails { exit_code }) = test.effect {
            return self.fail_test(uid, format!("exit code {exit_code}: Error"), false, context);
        }
        let seconds = test.seconds(context.now());
        test.phase = AcceptancePhase::Succeeded { seconds };
        context.log(|| format!("{} test {} succeeds", test.node, test.test));
        self.finish_test(uid, true, context);
    }

    fn fail_test(
        &mut self,
        uid: &str,
        message: String,
        timed_out: bool,
        context: &mut SimulationContext<'_>,
    ) {
        let Some(test) = self.tests.get_mut(uid) else { return };
        let seconds = test.seconds(context.now());
        context.log(|| format!("{} test {} fails: {message}", test.node, test.test));
        test.phase = AcceptancePhase::Failed { message, timed_out, seconds };
        self.finish_test(uid, false, context);
    }

    fn finish_test(&mut self, uid: &str, passed: bool, context: &mut SimulationContext<'_>) {
        self.tests.note_result(uid, passed);
        let phase = if passed { PodPhase::Succeeded } else { PodPhase::Failed };
        self.pods.mark_finished(uid, phase);
        self.publish(uid, context);
    }
}

#[cfg(test)]
mod tests;
