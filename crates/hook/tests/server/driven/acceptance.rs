//! Acceptance tests: what is reported of them, and pods that cannot be created or do not start.
//! `stories.rs` has those that run.

use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceTest, AcceptanceTime};
use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::proof::Canary;
use contract::record::acceptance::{AcceptanceResult, AcceptanceVerdict};
use planner::drive_upgrade::record::UpgradeRecord;

use super::Driven;
use super::objects::{acceptance_test, node_of_test};
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;

/// The node whose test does not pass.
const REJECTED: &str = "gpu-1";
/// The answer of a real server.
const QUOTA: &str = "pods \"smi\" is forbidden: exceeded quota: tests, requested: pods=1, used: pods=1, limited: pods=1";

/// Returns a fleet with a test that runs with the new driver.
fn fleet() -> Driven {
    Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.attempts = 1;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
        settings.upgrade.acceptance = vec![acceptance_test("smi", &[AcceptanceTime::After])];
    })
}

/// Returns the results in the run record of a node.
fn results(fleet: &Driven, node: &str) -> Vec<AcceptanceResult> {
    fleet.world.recorded_nodes().remove(node).map(|record| record.acceptance).unwrap_or_default()
}

fn verdicts(fleet: &Driven, node: &str) -> Vec<AcceptanceVerdict> {
    results(fleet, node).into_iter().map(|result| result.verdict).collect()
}

/// Returns how often the hook requested a pod of a test on the node.
fn creations(fleet: &Driven, node: &str) -> usize {
    let log = fleet.world.log();
    let created = log.iter().filter(|entry| entry.request.is("create", "pods"));
    created.filter(|entry| node_of_test(&entry.request.body) == node).count()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn passed_test_is_recorded_reported_and_deleted() {
    let fleet = fleet().begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    fleet.world.pass(10).await;
    assert_eq!(fleet.end().tested, [""; 0]);
    let results = results(&fleet, "gpu-0");
    let [result] = results.as_slice() else { panic!("one result: {results:?}") };
    assert_eq!((&*result.test, result.time), ("smi", AcceptanceTime::After));
    assert_eq!(result.verdict, AcceptanceVerdict::Passed);
    let events = fleet.world.recorded_events().into_iter();
    let of_node = events.filter(|event| event.node.as_deref() == Some("gpu-0"));
    let reasons = of_node.map(|event| event.reason);
    let reasons: Vec<String> =
        reasons.filter(|reason| reason.starts_with("AcceptanceTest")).collect();
    assert_eq!(reasons, ["AcceptanceTestStarted", "AcceptanceTestPassed"]);
    assert_eq!(creations(&fleet, "gpu-0"), 1);
}

/// Regression: all nodes failed their test with the old driver, and the run succeeded without
/// upgrading a node. The driver then counted as proven, and the next run had no canaries.
#[tokio::test(flavor = "local", start_paused = true)]
async fn driver_that_reached_no_node_is_not_proven() {
    // With more nodes, the rollout halts.
    let fleet = Driven::sized(1, &[Driver::Gpu], |settings| {
        settings.upgrade.acceptance = vec![acceptance_test("smi", &[AcceptanceTime::Before])];
        settings.upgrade.canary = Some(Canary::default());
    });
    let fleet = fleet.with(|script| script.rejected = ["gpu-0"].into()).begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert!(ended.message.contains("1 deferred"), "{}", ended.message);
    let run = fleet.world.recorded().expect("a record");
    assert_eq!(run.proven_driver, None);
    assert!(run.proof.is_some(), "the next run continues the proof");
}

/// A quota refuses the pod: the node fails with the server's message, and the others continue.
#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_test_pod_fails_its_node_and_no_other() {
    let fleet = fleet();
    let is_refused =
        |request: &Request| request.is("create", "pods") && node_of_test(&request.body) == REJECTED;
    let answer = Effect::Answer(403, QUOTA);
    fleet.world.server.state().faults.push(Fault::new(is_refused, 0, usize::MAX, answer));
    let fleet = fleet.begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NodesFailed, "{}", ended.message);
    assert!(ended.message.contains("exceeded quota"), "{}", ended.message);
    fleet.assert_safe("a quota");
    assert_eq!(verdicts(&fleet, REJECTED), [AcceptanceVerdict::Refused]);
    assert_eq!(creations(&fleet, REJECTED), 1, "the refusal is final");
    assert_eq!(fleet.left(REJECTED), "upgrade-failed acceptance-failed 1 cordoned");
    for node in ["gpu-0", "gpu-2"] {
        assert_eq!(fleet.left(node), "", "{node}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn test_without_a_template_is_refused() {
    let fleet = fleet();
    fleet.world.remove("podtemplates", ACCEPTANCE_NAMESPACE, "smi");
    let fleet = fleet.begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NodesFailed, "{}", ended.message);
    assert!(ended.message.contains("deploy the hook release again"), "{}", ended.message);
    assert_eq!(verdicts(&fleet, "gpu-0"), [AcceptanceVerdict::Refused]);
    assert_eq!(creations(&fleet, "gpu-0"), 0);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn missing_image_is_the_verdict_when_the_time_is_over() {
    let fleet = fleet().with(|script| script.imageless = [REJECTED].into()).begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NodesFailed, "{}", ended.message);
    assert_eq!(verdicts(&fleet, REJECTED), [AcceptanceVerdict::ImageNotPulled]);
    fleet.world.pass(10).await;
    assert_eq!(fleet.end().tested, [""; 0], "no pod of a test outlives the run");
}

/// Returns a fleet with a test that asks for lines of its log, and fails on one node.
fn fleet_with_log() -> Driven {
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.attempts = 1;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
        let test = acceptance_test("smi", &[AcceptanceTime::After]);
        settings.upgrade.acceptance = vec![AcceptanceTest { log_lines: 2, ..test }];
    });
    fleet.with(|script| script.rejected = [REJECTED].into())
}

fn reads_log(request: &Request) -> bool {
    request.is("get", "pods/log")
}

/// Returns how often the hook read a log.
fn readings(fleet: &Driven) -> usize {
    fleet.world.log().iter().filter(|entry| reads_log(&entry.request)).count()
}

/// Returns the log lines in the record of the node itself.
fn own_log(fleet: &Driven, node: &str) -> Vec<String> {
    let node = fleet.world.get("nodes", "", node);
    let text = node["metadata"]["annotations"][Driver::Gpu.traits().own_record].as_str().unwrap();
    let record: UpgradeRecord = serde_json::from_str(text).unwrap();
    record.acceptance.into_iter().flat_map(|result| result.log).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn log_lines_are_only_on_their_node() {
    let fleet = fleet_with_log().begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NodesFailed, "{}", ended.message);
    fleet.assert_safe("a log");
    assert_eq!(readings(&fleet), 1, "only the log of the failed test");
    let lines = own_log(&fleet, REJECTED);
    let [first, second] = lines.as_slice() else { panic!("two lines: {lines:?}") };
    assert!(first.starts_with("login with password=") && !first.contains("hunter2"), "{first}");
    assert_eq!(second, "7 of 8 GPUs are fast enough");
    let recorded = results(&fleet, REJECTED);
    assert_eq!(recorded.len(), 1);
    assert!(recorded[0].log.is_empty(), "the run record has no room for them");
    let events = fleet.world.recorded_events();
    let shows_line = events.iter().find(|event| event.note.contains("of 8 GPUs"));
    assert!(shows_line.is_none() && !ended.message.contains("of 8 GPUs"), "{}", ended.message);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unreadable_log_does_not_block_the_result() {
    for (status, expected) in [(403, 1), (404, 1), (500, 3)] {
        let fleet = fleet_with_log();
        let fault = Fault::new(reads_log, 0, usize::MAX, Effect::Status(status));
        fleet.world.server.state().faults.push(fault);
        let fleet = fleet.begin();
        let ended = fleet.run("pod-a").await;
        assert_eq!(ended.code, ExitCode::NodesFailed, "{status}: {}", ended.message);
        fleet.assert_safe("an unreadable log");
        assert_eq!(verdicts(&fleet, REJECTED), [AcceptanceVerdict::Failed], "{status}");
        assert_eq!(own_log(&fleet, REJECTED), [""; 0], "{status}");
        assert_eq!(readings(&fleet), expected, "{status}");
    }
}
