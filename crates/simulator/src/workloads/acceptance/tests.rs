//! The pod of one test, step by step.

use std::collections::BTreeMap;

use contract::acceptance::AcceptanceTime;
use observed::ObservedNode;

use super::*;
use crate::nodes::SimulatedNode;
use crate::random::TimeSpread;

/// A fleet with one node with eight GPUs, and a pod of a test.
struct OneTest<'a> {
    workloads: SimulatedWorkloads,
    nodes: SimulatedNodes,
    context: SimulationContext<'a>,
}

fn setup() -> SimulationSetup {
    let mut setup = crate::fixture::setup(1);
    setup.times.pull = TimeSpread::Constant(5_000);
    setup.times.acceptance = TimeSpread::Constant(30_000);
    setup
}

impl<'a> OneTest<'a> {
    fn new(setup: &'a SimulationSetup, effect: Option<AcceptanceEffect>, held: usize) -> Self {
        let mut nodes = SimulatedNodes::default();
        let node =
            ObservedNode { name: "gpu-0".to_owned(), ready: true, ..ObservedNode::default() };
        nodes.insert(SimulatedNode::new(node, 8));
        let mut workloads = SimulatedWorkloads::default();
        workloads.pods.add_node("gpu-0");
        let user = Workload {
            uid: "user".to_owned(),
            node: "gpu-0".to_owned(),
            phase: PodPhase::Running,
            ..Workload::default()
        };
        workloads.pods.insert(user, None, held);
        let all = BTreeMap::from([("nvidia.com/gpu".to_owned(), "8".to_owned())]);
        let creation = AcceptanceCreation {
            node: "gpu-0".to_owned(),
            test: "dcgm".to_owned(),
            pod: "dcgm-1".to_owned(),
            time: Some(AcceptanceTime::After),
            deadline_seconds: 60,
            gpus: RequestedGpus::Resources(all),
        };
        let mut context = SimulationContext::new(setup);
        let new = || NewTestPod {
            creation: &creation,
            digest: "0123456789abcdef",
            driver_pod: Some("driver".to_owned()),
            effect,
        };
        assert!(workloads.create_test(new(), &nodes, &mut context));
        assert!(!workloads.create_test(new(), &nodes, &mut context), "it exists");
        Self { workloads, nodes, context }
    }

    /// Handles the events until this second.
    fn run(&mut self, second: u64) {
        while self.context.queue.next_at().is_some_and(|at| at <= second * 1000) {
            match self.context.queue.pop() {
                Some(WorldEvent::TestPod(uid, step)) => {
                    self.workloads.test_step(&uid, step, &mut self.nodes, &mut self.context);
                }
                Some(WorldEvent::PodRemoved(uid)) => {
                    self.workloads.remove(&uid, &mut self.nodes, &mut self.context);
                }
                event => panic!("{event:?} has nothing to do with a test"),
            }
        }
    }

    fn phase(&self) -> Option<AcceptancePhase> {
        self.workloads.list_tests().next().map(|pod| pod.phase)
    }

    fn result(&self) -> Option<bool> {
        self.workloads.tests.result("gpu-0", "dcgm", AcceptanceTime::After, "driver")
    }
}

#[test]
fn pod_is_bound_pulls_runs_and_succeeds() {
    let setup = setup();
    let mut one = OneTest::new(&setup, None, 0);
    one.run(5);
    assert_eq!(one.phase(), Some(AcceptancePhase::Pending));
    assert_eq!(one.workloads.pods.gpus_in_use("gpu-0"), 8);
    one.run(6);
    assert_eq!(one.phase(), Some(AcceptancePhase::Running));
    one.run(36);
    assert_eq!(one.phase(), Some(AcceptancePhase::Succeeded { seconds: 35 }));
    assert_eq!((one.workloads.pods.gpus_in_use("gpu-0"), one.result()), (0, Some(true)));
    one.workloads.delete_tests("gpu-0", &mut one.context);
    one.run(38);
    assert_eq!(one.phase(), None);
}

#[test]
fn pod_that_does_not_end_fails_at_its_deadline() {
    let setup = setup();
    for effect in [AcceptanceEffect::Hangs, AcceptanceEffect::ImageNotPulled { milliseconds: None }]
    {
        let mut one = OneTest::new(&setup, Some(effect), 0);
        one.run(60);
        assert_eq!(one.result(), None);
        one.run(61);
        let phase = one.phase();
        assert!(
            matches!(phase, Some(AcceptancePhase::Failed { timed_out: true, seconds: 60, .. })),
            "{phase:?}"
        );
        assert_eq!(one.result(), Some(false));
    }
}

#[test]
fn pod_waits_for_gpus_that_others_use() {
    let setup = setup();
    let mut one = OneTest::new(&setup, None, 1);
    one.run(10);
    assert!(matches!(one.phase(), Some(AcceptancePhase::Unschedulable(_))), "{:?}", one.phase());
    one.workloads.pods.mark_finished("user", PodPhase::Succeeded);
    one.run(20);
    assert_eq!(one.phase(), Some(AcceptancePhase::Running));
}

#[test]
fn image_that_is_pulled_late_is_started() {
    let setup = setup();
    let effect = AcceptanceEffect::ImageNotPulled { milliseconds: Some(20_000) };
    let mut one = OneTest::new(&setup, Some(effect), 0);
    one.run(10);
    assert!(matches!(one.phase(), Some(AcceptancePhase::ImageNotPulled(_))));
    one.run(21);
    assert_eq!(one.phase(), Some(AcceptancePhase::Running));
}

#[test]
fn stopped_kubelet_changes_nothing() {
    let setup = setup();
    let mut one = OneTest::new(&setup, None, 0);
    one.run(10);
    assert!(one.nodes.set_ready("gpu-0", false, &mut one.context));
    one.run(100);
    assert_eq!(one.phase(), Some(AcceptancePhase::Running));
    assert!(one.nodes.set_ready("gpu-0", true, &mut one.context));
    one.nodes.resume_kubelet("gpu-0", &mut one.context);
    one.run(200);
    assert!(matches!(one.phase(), Some(AcceptancePhase::Succeeded { .. })));
}
