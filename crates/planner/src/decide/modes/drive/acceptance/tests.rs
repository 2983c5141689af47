use jiff::SignedDuration;

use contract::acceptance::AcceptanceGpus;
use contract::settings::Settings;
use observed::acceptance::AcceptancePhase;
use observed::{Labels, Observed, ObservedPod};

use super::*;
use crate::action::TestLogReading;
use crate::device_plugin::DevicePlugins;
use crate::dra_plugin::DraPlugins;
use crate::drive_upgrade::record::NodeRecordState;
use crate::memory::{PodRequest, RunMemory};
use crate::write_refusals::RefusalKind;

mod others;

use AcceptanceTime::{After, Before};

const TIMEOUT: u64 = 600;
const TIMED_OUT: AcceptanceVerdict = AcceptanceVerdict::TimedOut;

fn at(second: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(second)
}

fn test(name: &str, when: &[AcceptanceTime]) -> AcceptanceTest {
    AcceptanceTest {
        name: name.to_owned(),
        timeout_seconds: TIMEOUT,
        when: when.to_vec(),
        nodes: AcceptanceNodes::All,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    }
}

/// Returns a test that asks for lines of its log.
fn logged_test(when: &[AcceptanceTime]) -> AcceptanceTest {
    AcceptanceTest { log_lines: 20, ..test("a", when) }
}

/// A cordoned node whose driver works, and that is otherwise ready for its tests.
struct Scene {
    observed: Observed,
    settings: Settings,
    memory: RunMemory,
    node: ObservedNode,
    driver: ObservedPod,
    record: UpgradeRecord,
}

impl Scene {
    fn new(tests: Vec<AcceptanceTest>) -> Self {
        let mut settings = Settings { digest: "digest".into(), ..Settings::default() };
        settings.upgrade.acceptance = tests;
        let node = ObservedNode {
            name: "gpu-0".into(),
            uid: "uid-0".into(),
            ready: true,
            unschedulable: true,
            gpus_allocatable: [("nvidia.com/gpu".to_owned(), "8".to_owned())].into_iter().collect(),
            ..ObservedNode::default()
        };
        let driver =
            ObservedPod { uid: "driver".into(), containers_ready: true, ..ObservedPod::default() };
        let mut record = UpgradeRecord::new(UpgradeState::PodRestartRequired, "digest", at(0));
        record.driver_pod = Some("driver".into());
        record.tests_begun = Some("digest/driver".into());
        Self {
            observed: Observed::default(),
            settings,
            memory: RunMemory::new(at(0), at(100_000)),
            node,
            driver,
            record,
        }
    }

    /// Decides about the tests of a time.
    fn step(&mut self, time: AcceptanceTime, second: i64) -> AcceptanceStep {
        let memory = self.memory.clone();
        let (observed, settings) = (&self.observed, &self.settings);
        let plugins = DraPlugins::new(observed);
        let devices = DevicePlugins::new(observed, &settings.device_plugin);
        let fleet =
            FleetInputs::new(observed, settings, &memory, at(second), plugins, devices, false);
        let mut draft = NodeDraft::new(&fleet, &self.node);
        let pod = DriverPod { pod: &self.driver, newest: time == After, template_digest: None };
        let driven = DrivenNode {
            node: &self.node,
            pod: Some(pod),
            wanted: true,
            tainted: None,
            found: NodeRecordState::Nothing,
        };
        let step = accept(&mut draft, &driven, &mut self.record, time);
        if let AcceptanceStep::Waits(reason, _) = &step {
            // The end of the decision does this too.
            draft.waits(reason);
        }
        let (before, after, effects, _) = draft.into_parts();
        after.put(&before, &mut self.memory, &self.node);
        for pod in effects.issued {
            let request = PodRequest { node: "gpu-0".into(), at: at(second) };
            self.memory.issued.insert(pod.as_str(), request);
        }
        step
    }

    /// Returns the pod that is created now.
    fn creation(&mut self, time: AcceptanceTime, second: i64) -> Option<AcceptanceCreation> {
        match self.step(time, second) {
            AcceptanceStep::Waits(_, actions) => actions.into_iter().find_map(|action| {
                if let Action::CreateAcceptancePod(creation) = action {
                    Some(creation)
                } else {
                    None
                }
            }),
            AcceptanceStep::Accepted | AcceptanceStep::NotAccepted(_) => None,
        }
    }

    /// Replaces the pods of tests.
    fn observe(&mut self, pods: &[(&str, AcceptancePhase)]) {
        let pods = pods.iter().map(|(name, phase)| AcceptancePod {
            name: (*name).to_owned(),
            uid: format!("uid of {name}"),
            node: "gpu-0".into(),
            phase: phase.clone(),
            log_container: Some("main".to_owned()),
            ..AcceptancePod::default()
        });
        self.observed.acceptance = pods.collect();
    }

    /// Decides about the tests with the new driver. Returns the reason, and whether the log is read
    /// now.
    fn reads_log(&mut self, second: i64) -> (&'static str, bool) {
        let step = self.step(After, second);
        let is_reading = |action: &Action| matches!(action, Action::ReadTestLog(_));
        let reads =
            matches!(&step, AcceptanceStep::Waits(_, actions) if actions.iter().any(is_reading));
        (reason(&step), reads)
    }

    /// Notes the answer to the reading of the log of the pod with this name.
    fn answer(&mut self, pod: &str, lines: Vec<String>, second: i64) {
        let (node, uid) = ("gpu-0".to_owned(), format!("uid of {pod}"));
        let reading = TestLogReading { node, uid, ..TestLogReading::default() };
        self.memory.note_test_log(&reading, lines, at(second));
    }

    /// Returns the log lines of the only result.
    fn log(&self) -> &[String] {
        let [result] = &self.record.acceptance[..] else { panic!("one result") };
        &result.log
    }

    fn results(&self) -> Vec<(&str, AcceptanceVerdict)> {
        self.record.acceptance.iter().map(|one| (one.test.as_str(), one.verdict)).collect()
    }
}

fn reason(step: &AcceptanceStep) -> &'static str {
    match step {
        AcceptanceStep::Accepted => "accepted",
        AcceptanceStep::Waits(reason, _) => reason.name(),
        AcceptanceStep::NotAccepted(_) => "not accepted",
    }
}

const PASSED: AcceptancePhase = AcceptancePhase::Succeeded { seconds: 7 };

fn failed() -> AcceptancePhase {
    AcceptancePhase::Failed { message: "exit code 1".to_owned(), timed_out: false, seconds: 3 }
}

#[test]
fn tests_run_one_after_the_other() {
    let mut scene = Scene::new(vec![test("a", &[After]), test("b", &[After])]);
    let first = scene.creation(After, 1).expect("the first test");
    let eight = [("nvidia.com/gpu".to_owned(), "8".to_owned())].into();
    assert_eq!((first.test.as_str(), first.time), ("a", Some(After)));
    assert_eq!(first.gpus, RequestedGpus::Resources(eight));
    assert_eq!(scene.creation(After, 2), None, "it was just requested");
    assert!(scene.creation(After, 60).is_some(), "the request was lost");
    scene.observe(&[(first.pod.as_str(), AcceptancePhase::Running)]);
    assert_eq!(reason(&scene.step(After, 61)), "Accepting");
    scene.observe(&[(first.pod.as_str(), PASSED)]);
    assert_eq!(reason(&scene.step(After, 70)), "AcceptanceEnding");
    assert_eq!(reason(&scene.step(After, 71)), "AcceptanceEnding", "one pod at a time");
    scene.observe(&[]);
    let second = scene.creation(After, 72).expect("the second test");
    assert_eq!(second.test, "b");
    scene.observe(&[(second.pod.as_str(), AcceptancePhase::Running)]);
    assert_eq!(reason(&scene.step(After, 71 + 600)), "Accepting", "it has its own time");
    scene.observe(&[(second.pod.as_str(), PASSED)]);
    assert_eq!(reason(&scene.step(After, 72 + 600)), "accepted");
    let passed = AcceptanceVerdict::Passed;
    assert_eq!(scene.results(), [("a", passed), ("b", passed)]);
}

#[test]
fn failed_test_refuses_the_node() {
    for (timed_out, verdict) in
        [(false, AcceptanceVerdict::Failed), (true, AcceptanceVerdict::TimedOut)]
    {
        let mut scene = Scene::new(vec![test("a", &[Before]), test("b", &[Before])]);
        let pod = scene.creation(Before, 1).expect("the first test").pod;
        let message = "exit code 1".to_owned();
        scene
            .observe(&[(pod.as_str(), AcceptancePhase::Failed { message, timed_out, seconds: 3 })]);
        assert_eq!(reason(&scene.step(Before, 5)), "not accepted");
        assert_eq!(scene.results(), [("a", verdict)]);
        assert_eq!(reason(&scene.step(Before, 6)), "not accepted", "the result stays");
    }
}

#[test]
fn end_of_the_time_is_the_verdict_about_what_the_pod_waits_for() {
    let text = || "why".to_owned();
    for (phase, verdict) in [
        (Some(AcceptancePhase::Pending), AcceptanceVerdict::TimedOut),
        (Some(AcceptancePhase::Running), AcceptanceVerdict::TimedOut),
        (Some(AcceptancePhase::Unschedulable(text())), AcceptanceVerdict::Unschedulable),
        (Some(AcceptancePhase::ImageNotPulled(text())), AcceptanceVerdict::ImageNotPulled),
        (None, AcceptanceVerdict::Lost),
    ] {
        let mut scene = Scene::new(vec![test("a", &[After])]);
        let pod = scene.creation(After, 1).expect("the test").pod;
        let pods: Vec<_> = phase.iter().map(|phase| (pod.as_str(), phase.clone())).collect();
        scene.observe(&pods);
        assert_eq!(reason(&scene.step(After, 600)), "Accepting", "{verdict:?}");
        assert_eq!(reason(&scene.step(After, 601)), "not accepted", "{verdict:?}");
        assert_eq!(scene.results(), [("a", verdict)]);
    }
}

#[test]
fn no_pod_is_created_where_it_could_not_run() {
    let scene = || Scene::new(vec![test("a", &[After])]);
    let mut without_gpus = scene();
    without_gpus.node.gpus_allocatable = Labels::new();
    assert_eq!(without_gpus.creation(After, 1), None);
    assert_eq!(reason(&without_gpus.step(After, 601)), "not accepted");
    assert_eq!(without_gpus.results(), [("a", AcceptanceVerdict::Unschedulable)]);
    let mut uncordoned = scene();
    uncordoned.node.unschedulable = false;
    assert_eq!(uncordoned.creation(After, 1), None);
    let mut late = scene();
    late.memory.deadline = at(10);
    assert_eq!(late.creation(After, 1), None, "the end of the run could not delete it");
}

#[test]
fn only_final_refusal_is_a_result() {
    for (kind, expected) in
        [(RefusalKind::WebhookFailed, "Accepting"), (RefusalKind::Denied, "not accepted")]
    {
        let mut scene = Scene::new(vec![test("a", &[After])]);
        let creation = scene.creation(After, 1).expect("the test");
        let action = Action::CreateAcceptancePod(creation);
        scene.memory.note_refusal(&action, kind, "exceeded quota", at(2));
        assert_eq!(reason(&scene.step(After, 3)), expected);
        let retried = scene.creation(After, 20).is_some();
        assert_eq!(retried, kind == RefusalKind::WebhookFailed);
    }
}

#[test]
fn pod_of_another_attempt_comes_first() {
    for time in [Before, After] {
        let mut scene = Scene::new(vec![test("a", &[Before, After])]);
        scene.observe(&[("earlier", AcceptancePhase::Running)]);
        assert_eq!(reason(&scene.step(time, 1)), "AcceptanceEnding");
        assert_eq!(reason(&scene.step(time, 301)), "not accepted", "it does not terminate");
    }
}

/// The driver must not be replaced while a pod uses it.
#[test]
fn running_pod_keeps_the_old_driver_although_no_test_is_left() {
    let mut scene = Scene::new(Vec::new());
    assert_eq!(reason(&scene.step(Before, 1)), "accepted");
    scene.observe(&[("earlier", AcceptancePhase::Running)]);
    assert_eq!(reason(&scene.step(Before, 2)), "AcceptanceEnding");
    scene.observe(&[("earlier", PASSED)]);
    assert_eq!(reason(&scene.step(Before, 3)), "accepted");
}

#[test]
fn tests_do_not_run_next_to_workloads() {
    let mut scene = Scene::new(vec![test("a", &[Before, After])]);
    scene.record.restart_only = true;
    assert_eq!(reason(&scene.step(Before, 1)), "accepted");
    assert_eq!(reason(&scene.step(After, 2)), "accepted");
    let not_run = AcceptanceVerdict::NotRun;
    assert_eq!(scene.results(), [("a", not_run), ("a", not_run)]);
    let why: Vec<&str> = scene.record.acceptance.iter().map(|one| &*one.message).collect();
    assert_eq!(why, [WORKLOADS_STAY, WORKLOADS_STAY]);
}

#[test]
fn old_driver_that_does_not_run_is_not_tested() {
    let mut scene = Scene::new(vec![test("a", &[Before])]);
    scene.driver.containers_ready = false;
    assert_eq!(reason(&scene.step(Before, 1)), "accepted");
    scene.driver = ObservedPod { uid: "new".into(), ..scene.driver };
    assert_eq!(reason(&scene.step(After, 2)), "accepted");
    assert_eq!(scene.results(), [("a", AcceptanceVerdict::NotRun)]);
}

/// The time of the driver's replacement starts after the tests.
#[test]
fn tests_with_the_old_driver_do_not_use_up_the_time_of_its_replacement() {
    let mut scene = Scene::new(vec![test("a", &[Before])]);
    let pod = scene.creation(Before, 1).expect("the test").pod;
    scene.observe(&[(pod.as_str(), PASSED)]);
    assert_eq!(reason(&scene.step(Before, 500)), "accepted");
    assert_eq!(scene.record.since, at(500));
    assert_eq!(reason(&scene.step(After, 501)), "accepted", "it has run before");
    assert_eq!(scene.results(), [("a", AcceptanceVerdict::Passed)]);
}

#[test]
fn result_has_the_lines_of_the_log() {
    let mut scene = Scene::new(vec![logged_test(&[After])]);
    let pod = scene.creation(After, 1).expect("the test").pod;
    scene.observe(&[(pod.as_str(), failed())]);
    assert_eq!(scene.reads_log(5), ("AcceptanceEnding", true));
    assert_eq!(scene.reads_log(6), ("AcceptanceEnding", false), "it was just requested");
    assert!(scene.results().is_empty(), "the pod must stay until its log is read");
    let lines = vec!["2 of 8 GPUs".to_owned()];
    scene.answer(&pod, lines.clone(), 7);
    assert_eq!(scene.reads_log(7), ("not accepted", false));
    assert_eq!(scene.log(), lines);
    assert!(!scene.record.acceptance[0].message.contains("GPUs"), "messages are read more widely");
}

#[test]
fn unreadable_log_does_not_block_the_result() {
    for is_answered in [false, true] {
        let mut scene = Scene::new(vec![logged_test(&[After])]);
        let pod = scene.creation(After, 1).expect("the test").pod;
        scene.observe(&[(pod.as_str(), failed())]);
        assert_eq!(scene.reads_log(5), ("AcceptanceEnding", true));
        let second = if is_answered {
            scene.answer(&pod, Vec::new(), 6);
            6
        } else {
            for again in [15, 25] {
                assert_eq!(scene.reads_log(again), ("AcceptanceEnding", true));
            }
            35
        };
        assert_eq!(scene.reads_log(second), ("not accepted", false));
        assert!(scene.log().is_empty());
        assert_eq!(scene.results(), [("a", AcceptanceVerdict::Failed)]);
    }
}

#[test]
fn log_of_running_pod_is_read_when_time_is_over() {
    let mut scene = Scene::new(vec![logged_test(&[After])]);
    let pod = scene.creation(After, 1).expect("the test").pod;
    scene.observe(&[(pod.as_str(), AcceptancePhase::Running)]);
    assert_eq!(scene.reads_log(600), ("Accepting", false));
    assert_eq!(scene.reads_log(601), ("Accepting", true));
    assert_eq!(scene.reads_log(612), ("Accepting", true), "its time does not start again");
    scene.answer(&pod, vec!["step 3".to_owned()], 613);
    assert_eq!(scene.reads_log(613), ("not accepted", false));
    assert_eq!((scene.log(), scene.results()[0].1), (&["step 3".to_owned()][..], TIMED_OUT));
    let mut scene = Scene::new(vec![logged_test(&[After])]);
    let pod = scene.creation(After, 1).expect("the test").pod;
    scene.observe(&[(pod.as_str(), AcceptancePhase::Running)]);
    assert_eq!(scene.reads_log(601), ("Accepting", true));
    assert_eq!(scene.reads_log(631), ("not accepted", false), "there is no answer");
}

#[test]
fn log_is_read_only_where_it_can_help() {
    let scene = |phase: AcceptancePhase, change: fn(&mut Scene)| {
        let mut scene = Scene::new(vec![logged_test(&[After])]);
        let pod = scene.creation(After, 1).expect("the test").pod;
        scene.observe(&[(pod.as_str(), phase)]);
        change(&mut scene);
        scene.reads_log(700)
    };
    let text = || "why".to_owned();
    assert_eq!(scene(PASSED, |_| {}), ("accepted", false));
    assert_eq!(scene(AcceptancePhase::ImageNotPulled(text()), |_| {}), ("not accepted", false));
    assert_eq!(scene(failed(), |_| {}), ("AcceptanceEnding", true));
    let without: [fn(&mut Scene); 4] = [
        |scene| scene.settings.upgrade.acceptance[0].log_lines = 0,
        |scene| scene.node.ready = false,
        |scene| scene.memory.deadline = at(705),
        |scene| {
            let pods = scene.observed.acceptance.iter().cloned();
            let pods = pods.map(|pod| AcceptancePod { log_container: None, ..pod });
            scene.observed.acceptance = pods.collect();
        },
    ];
    for change in without {
        assert_eq!(scene(failed(), change), ("not accepted", false));
    }
}

/// Regression: on a node that also waited for a tolerated operand, the time of its test started
/// again at each decision.
#[test]
fn other_waits_of_the_node_do_not_prolong_its_test() {
    let mut scene = Scene::new(vec![test("a", &[After])]);
    let pod = scene.creation(After, 0).expect("the test").pod;
    scene.observe(&[(pod.as_str(), AcceptancePhase::Running)]);
    for second in (10..600).step_by(10) {
        assert_eq!(reason(&scene.step(After, second)), "Accepting");
        scene.memory.waiting.insert("gpu-0", ("OperandNotReady", at(second)));
    }
    assert_eq!(reason(&scene.step(After, 600)), "not accepted");
    assert_eq!(scene.results(), [("a", AcceptanceVerdict::TimedOut)]);
}

/// Regression: a pod that others deleted showed the end of its containers for a moment, and its node
/// failed.
#[test]
fn end_of_a_deleted_pod_counts_only_as_success() {
    for (phase, expected) in [(failed(), "Accepting"), (PASSED, "accepted")] {
        let mut scene = Scene::new(vec![test("a", &[After])]);
        let pod = scene.creation(After, 0).expect("the test").pod;
        scene.observe(&[(pod.as_str(), phase)]);
        let mut deleted = scene.observed.acceptance.on("gpu-0").next().expect("it exists").clone();
        deleted.deleting = true;
        scene.observed.acceptance = vec![deleted].into();
        assert_eq!(reason(&scene.step(After, 10)), expected);
    }
}

/// The kubelet refuses the first pod, and the second one does not end: the second one counts.
#[test]
fn refusal_by_the_kubelet_is_forgotten_when_the_next_pod_runs() {
    let mut scene = Scene::new(vec![test("a", &[After])]);
    let pod = scene.creation(After, 0).expect("the test").pod;
    let refused = AcceptancePhase::EndedByKubelet("UnexpectedAdmissionError".to_owned());
    scene.observe(&[(pod.as_str(), refused)]);
    assert_eq!(reason(&scene.step(After, 10)), "Accepting");
    scene.observe(&[]);
    assert_eq!(scene.creation(After, 20).expect("it is created again").pod, pod);
    scene.observe(&[(pod.as_str(), AcceptancePhase::Running)]);
    assert_eq!(reason(&scene.step(After, 599)), "Accepting");
    assert_eq!(reason(&scene.step(After, 600)), "not accepted");
    assert_eq!(scene.results(), [("a", AcceptanceVerdict::TimedOut)]);
}

/// Regression: while others kept replacing the driver pod of a node, its tests began again and
/// again, without end.
#[test]
fn tests_begin_only_a_few_times_in_one_deployment() {
    for (digest, expected) in [("digest", "not accepted"), ("another", "Accepting")] {
        let mut scene = Scene::new(vec![test("a", &[After])]);
        let begin = |scene: &mut Scene, driver: &str, second| {
            scene.driver.uid = driver.into();
            reason(&scene.step(After, second))
        };
        for (second, driver) in [(1, "driver"), (10, "second"), (20, "second"), (30, "third")] {
            assert_eq!(begin(&mut scene, driver, second), "Accepting", "{driver}");
        }
        scene.settings.digest = digest.into();
        assert_eq!(begin(&mut scene, "fourth", 40), expected);
        if expected == "not accepted" {
            assert_eq!(scene.results(), [("a", AcceptanceVerdict::Lost)]);
            let why = "the driver pod was replaced 3 times while the node was tested";
            assert_eq!(scene.record.acceptance[0].message, why);
        }
    }
}
