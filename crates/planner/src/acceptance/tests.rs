use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};

use contract::record::acceptance::AcceptanceVerdict;
use contract::record::proof::DriverProof;
use observed::{ObservedSlice, OptionalApi};

use super::*;
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::state::UpgradeState;

const AT: Timestamp = Timestamp::UNIX_EPOCH;

fn test(name: &str, when: &[AcceptanceTime], nodes: AcceptanceNodes) -> AcceptanceTest {
    AcceptanceTest {
        name: name.to_owned(),
        timeout_seconds: 600,
        when: when.to_vec(),
        nodes,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    }
}

fn settings(digest: &str, tests: Vec<AcceptanceTest>) -> Settings {
    let mut settings = Settings { digest: digest.to_owned(), ..Settings::default() };
    settings.upgrade.acceptance = tests;
    settings
}

fn node() -> ObservedNode {
    ObservedNode { name: "gpu-0".into(), uid: "uid-0".into(), ..ObservedNode::default() }
}

fn record() -> UpgradeRecord {
    UpgradeRecord::new(UpgradeState::PodRestartRequired, "d", AT)
}

fn result(test: &str, time: AcceptanceTime, driver_pod: &str) -> AcceptanceResult {
    AcceptanceResult {
        test: test.to_owned(),
        time,
        driver_pod: driver_pod.to_owned(),
        verdict: AcceptanceVerdict::Passed,
        message: String::new(),
        at: AT,
        seconds: 5,
        log: Vec::new(),
    }
}

#[test]
fn test_applies_to_canaries_all_or_a_share() {
    let canaries = ["gpu-0".to_owned()];
    let is_on = |nodes: &str, node: &str| {
        let nodes = nodes.parse().expect("a choice of nodes");
        applies(&test("t", &[AcceptanceTime::After], nodes), node, &canaries)
    };
    assert!(is_on("all", "gpu-1"));
    assert!(is_on("canaries", "gpu-0") && !is_on("canaries", "gpu-1"));
    assert!(is_on("1%", "gpu-0"), "a share contains the canaries");
    assert!(is_on("100%", "gpu-1"));
}

#[test]
fn share_is_about_as_large_as_it_says_and_larger_ones_contain_it() {
    let share = |percent: &str| -> Vec<String> {
        let share = percent.parse().expect("a share");
        let names = (0..1000).map(|number| format!("node-{number}.example.com"));
        names.filter(|name| is_in_share(name, share)).collect()
    };
    let (small, large) = (share("10%"), share("50%"));
    assert!((70..=130).contains(&small.len()), "{}", small.len());
    assert!((430..=570).contains(&large.len()), "{}", large.len());
    assert!(small.iter().all(|name| large.contains(name)));
    assert_eq!(share("100%").len(), 1000);
}

#[test]
fn canaries_are_those_of_the_proof() {
    let mut memory = RunMemory::default();
    assert!(canaries(&memory).is_empty());
    let proof = DriverProof { canaries: vec!["gpu-1".to_owned()], ..DriverProof::default() };
    memory.proof = Some(proof.into());
    assert_eq!(canaries(&memory), ["gpu-1"]);
}

#[test]
fn first_test_without_result_is_current() {
    use AcceptanceTime::{After, Before};
    let tests = vec![
        test("a", &[Before, After], AcceptanceNodes::All),
        test("b", &[Before], AcceptanceNodes::All),
        test("c", &[After], AcceptanceNodes::Canaries),
        test("d", &[After], AcceptanceNodes::All),
    ];
    let (node, settings) = (node(), settings("d", tests));
    let tests = NodeTests {
        settings: &settings,
        node: &node,
        driver_pod: "new",
        was_canary: false,
        canaries: &[],
        time: After,
    };
    let mut record = record();
    let current = |record: &UpgradeRecord| tests.current(record).map(|test| test.name.as_str());
    assert_eq!(current(&record), Some("a"));
    record.add_result(result("a", Before, "new"), "d");
    record.add_result(result("a", After, "old"), "d");
    assert_eq!(current(&record), Some("a"), "another time, and another driver pod");
    record.add_result(result("a", After, "new"), "d");
    assert_eq!(current(&record), Some("d"), "the node is not a canary");
    record.add_result(result("d", After, "new"), "d");
    assert_eq!(current(&record), None);
}

#[test]
fn only_newest_result_has_log_lines() {
    let mut record = record();
    for driver_pod in ["first", "second"] {
        let log = vec!["2 of 8 GPUs".to_owned()];
        let result = result("a", AcceptanceTime::After, driver_pod);
        record.add_result(AcceptanceResult { log, ..result }, "d");
    }
    let lines: Vec<usize> = record.acceptance.iter().map(|result| result.log.len()).collect();
    assert_eq!(lines, [0, 1]);
}

/// A deployment may change what a test does under the same name.
#[test]
fn results_of_another_deployment_do_not_count() {
    let mut record = record();
    record.attempts.insert(FailureCause::DriverTimeout, 2);
    record.add_result(result("a", AcceptanceTime::After, "new"), "d");
    assert_eq!((record.results("d").len(), record.results("other").len()), (1, 0));
    record.add_result(result("b", AcceptanceTime::After, "new"), "other");
    assert_eq!((record.results("d").len(), record.results("other").len()), (0, 1));
    assert_eq!(record.attempts(FailureCause::DriverTimeout, "other"), 0);
    assert!(record.has_changed_driver(), "the driver has failed before");
}

/// Records of earlier versions have only the causes of failures, some without an attempt.
#[test]
fn record_shows_whether_driver_was_changed() {
    let changed = UpgradeRecord { driver_changed: true, ..record() };
    let with_cause =
        |cause: FailureCause| UpgradeRecord { attempts: [(cause, 0)].into(), ..record() };
    for (record, is_changed) in [
        (record(), false),
        (with_cause(FailureCause::DrainTimeout), false),
        (with_cause(FailureCause::DriverTimeout), true),
        (with_cause(FailureCause::WriteRefusedAfterRestart), true),
        (changed, true),
    ] {
        let text = record.text();
        let stored: UpgradeRecord = serde_json::from_str(&text).expect("a record");
        assert_eq!(stored.has_changed_driver(), is_changed, "{text}");
    }
}

#[test]
fn each_attempt_has_a_pod_of_its_own() {
    let (node, other) = (node(), ObservedNode { uid: "uid-1".into(), ..node() });
    let one = test("a", &[AcceptanceTime::After], AcceptanceNodes::All);
    let (now, next) = (settings("d", vec![one.clone()]), settings("e", vec![one.clone()]));
    let tests = NodeTests {
        settings: &now,
        node: &node,
        driver_pod: "new",
        was_canary: false,
        canaries: &[],
        time: AcceptanceTime::After,
    };
    let record = record();
    let again = UpgradeRecord { started: AT + SignedDuration::from_secs(9), ..record.clone() };
    let names = [
        tests.pod(&one, &record),
        tests.pod(&one, &again),
        NodeTests { settings: &next, ..tests }.pod(&one, &record),
        NodeTests { node: &other, ..tests }.pod(&one, &record),
        NodeTests { driver_pod: "old", ..tests }.pod(&one, &record),
        NodeTests { time: AcceptanceTime::Before, ..tests }.pod(&one, &record),
    ];
    let different: BTreeSet<&String> = names.iter().collect();
    assert_eq!(different.len(), names.len(), "{names:?}");
    assert_eq!(tests.pod(&one, &record), names[0], "the same attempt has the same name");
}

#[test]
fn pod_requests_what_the_node_offers() {
    let offers = |gpus: &[(&str, &str)]| {
        let gpus = gpus.iter().map(|(name, count)| ((*name).to_owned(), (*count).to_owned()));
        ObservedNode { gpus_allocatable: gpus.collect(), ..node() }
    };
    let resources = |gpus: &[(&str, &str)]| {
        let gpus = gpus.iter().map(|(name, count)| ((*name).to_owned(), (*count).to_owned()));
        Some(RequestedGpus::Resources(gpus.collect()))
    };
    let published = |driver: &str, devices| {
        let slice = ObservedSlice {
            driver: driver.into(),
            node: "gpu-0".into(),
            devices,
            ..ObservedSlice::default()
        };
        let mut observed = Observed::default();
        observed.dra.slices = OptionalApi::Served(vec![slice].into());
        observed
    };
    let (nothing, dra) = (Observed::default(), published("gpu.nvidia.com", 8));
    let all = |node: &ObservedNode, observed: &Observed| {
        requested_gpus(AcceptanceGpus::All, node, observed)
    };
    let none = [("nvidia.com/gpu", "0")];
    let mig = [("nvidia.com/gpu", "0"), ("nvidia.com/mig-1g.10gb", "7")];
    assert_eq!(
        all(&offers(&[("nvidia.com/gpu", "8")]), &dra),
        resources(&[("nvidia.com/gpu", "8")])
    );
    assert_eq!(all(&offers(&mig), &nothing), resources(&mig[1..]));
    let shared = ObservedNode {
        labels: [("nvidia.com/gpu.sharing-strategy".to_owned(), "mps".to_owned())].into(),
        ..offers(&[("nvidia.com/gpu.shared", "32")])
    };
    assert_eq!(all(&shared, &nothing), resources(&[("nvidia.com/gpu.shared", "1")]));
    assert_eq!(all(&offers(&none), &dra), Some(RequestedGpus::Claim));
    assert_eq!(all(&offers(&none), &nothing), None);
    assert_eq!(all(&offers(&none), &published("gpu.nvidia.com", 0)), None);
    assert_eq!(all(&offers(&none), &published("compute-domain.nvidia.com", 1)), None);
    assert_eq!(
        requested_gpus(AcceptanceGpus::Template, &offers(&none), &nothing),
        Some(RequestedGpus::Nothing)
    );
}
