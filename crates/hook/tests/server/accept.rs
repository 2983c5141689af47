//! `gpu-rollout accept`: acceptance tests that a user runs by hand. However they end, no pod stays.

use std::collections::BTreeSet;
use std::future::pending;
use std::slice::from_ref;
use std::time::Duration;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceTime};
use contract::exit::ExitCode;
use contract::record::acceptance::AcceptanceVerdict;
use kube_io::list::list_workloads;
use ops::acceptance::{
    HandTest, HandTestNode, HandTestOutcome, UnknownTest, UntestableNode, find_tests, run_tests,
    select_tests, testable,
};
use ops::observe::RolloutSnapshot;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::driven::objects::{JOBS, acceptance_test, node_of_test, pod_template, workload};
use crate::driven::play::acceptance::{ended, pulling};
use crate::fake::Server;
use crate::fake::fault::{Effect, Fault};
use crate::fake::store::{Key, text};
use crate::person::{PERSON, Person};
use crate::world::objects::running;
use crate::world::{World, edit};

const RIGHTS: &[(&str, &str, &str)] = &[
    ("list", "", "podtemplates"),
    ("create", "", "pods"),
    ("get", "", "pods"),
    ("get", "", "pods/log"),
    ("delete", "", "pods"),
];

/// The seconds that a test takes.
const TEST_SECONDS: u64 = 20;

/// Answers of a real server.
const POD_SECURITY: &str = r#"pods "dcgm-0123456789" is forbidden: violates PodSecurity "baseline:latest": host namespaces (hostPID=true)"#;
const INVALID: &str =
    r#"Pod "dcgm-0123456789" is invalid: spec.containers[0].image: Required value"#;
const NO_RIGHT: &str = r#"pods is forbidden: User "ada" cannot create resource "pods" in API group "" in the namespace "gpu-rollout-acceptance""#;

/// What happens to the pods of tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// They succeed.
    Passes,
    /// Their container fails.
    Fails,
    /// Their image cannot be pulled, and the kubelet ends them at their deadline.
    Imageless,
    /// They run until they are deleted. The kubelet does not end them.
    Hangs,
}

/// A cluster with deployed tests, and a user who may run them.
struct Bench {
    world: World,
    person: Person,
    snapshot: RolloutSnapshot,
    _kubelets: JoinSet<()>,
}

impl Bench {
    async fn new(tests: &[&str], fate: Fate) -> Self {
        let mut world = World::at_rest(2);
        let after = |name: &&str| acceptance_test(name, &[AcceptanceTime::After]);
        world.settings.upgrade.acceptance = tests.iter().map(after).collect();
        for name in tests {
            world.put("podtemplates", ACCEPTANCE_NAMESPACE, name, pod_template());
        }
        let mut person = Box::pin(Person::with_rights(&world, RIGHTS)).await;
        let snapshot = Box::pin(person.observe(&world)).await;
        let mut kubelets = JoinSet::new();
        kubelets.spawn(play_kubelets(world.server.clone(), fate));
        Self { world, person, snapshot, _kubelets: kubelets }
    }

    async fn tests(&self) -> Vec<HandTest> {
        find_tests(&self.person.client, from_ref(&self.snapshot)).await.unwrap()
    }

    async fn node(&self, name: &str) -> Result<HandTestNode, UntestableNode> {
        let wanted = BTreeSet::from([name.to_owned()]);
        let pods = list_workloads(&self.person.client, &wanted, Some).await.unwrap();
        testable(from_ref(&self.snapshot), name, &pods)
    }

    /// Runs all tests on nodes. Afterwards, no pod of a test exists.
    async fn run(&self, nodes: &[&str], interrupted: impl Future<Output = ()>) -> HandTestOutcome {
        let tests = self.tests().await;
        let mut chosen = Vec::new();
        for name in nodes {
            chosen.push(self.node(name).await.unwrap());
        }
        let client = &self.person.client;
        let outcome = run_tests(client, &chosen, &tests, "hand-1", interrupted, |_step| {}).await;
        self.world.pass(5).await;
        let left = test_pods(&self.world.server);
        assert!(left.is_empty(), "{left:?}");
        assert_eq!(outcome.left, [""; 0]);
        outcome
    }

    fn fault(&self, verb: &'static str, times: usize, effect: Effect) {
        let fault = Fault::new(move |request| request.is(verb, "pods"), 0, times, effect);
        self.world.server.state().faults.push(fault);
    }

    /// Returns the highest number of pods of tests at the same time.
    fn most_at_once(&self) -> usize {
        let state = self.world.server.state();
        let (mut pods, mut most) = (BTreeSet::new(), 0_usize);
        for change in state.store.history.iter().filter(|change| is_of_test(&change.key)) {
            if change.kind == "DELETED" {
                pods.remove(&change.key);
            } else {
                pods.insert(&change.key);
            }
            most = most.max(pods.len());
        }
        most
    }
}

fn verdicts(outcome: &HandTestOutcome) -> Vec<(&str, &str, AcceptanceVerdict)> {
    let results = outcome.results.iter();
    results.map(|one| (one.node.as_str(), one.test.as_str(), one.verdict)).collect()
}

fn is_of_test(key: &Key) -> bool {
    key.resource == "pods" && key.namespace == ACCEPTANCE_NAMESPACE
}

fn test_pods(server: &Server) -> Vec<(Key, Value)> {
    let state = server.state();
    let pods = state.store.objects.iter().filter(|(key, _)| is_of_test(key));
    pods.map(|(key, pod)| (key.clone(), pod.clone())).collect()
}

/// Plays the scheduler and the kubelets of the pods of tests.
async fn play_kubelets(server: Server, fate: Fate) {
    let mut changed = server.changes();
    let (mut started, mut ending) = (BTreeSet::new(), BTreeSet::new());
    let mut under_way = JoinSet::new();
    loop {
        for (key, pod) in test_pods(&server) {
            if pod["metadata"]["deletionTimestamp"].is_string() {
                if ending.insert(key.clone()) {
                    under_way.spawn(remove(server.clone(), key));
                }
            } else if pod["spec"]["nodeName"].is_null() && started.insert(key.clone()) {
                under_way.spawn(play_pod(server.clone(), key, fate));
            }
        }
        if changed.changed().await.is_err() {
            return;
        }
    }
}

/// Removes a pod that is being deleted.
async fn remove(server: Server, key: Key) {
    sleep(Duration::from_secs(1)).await;
    server.change(|state| state.store.remove(&key));
}

/// Starts and ends a pod.
async fn play_pod(server: Server, key: Key, fate: Fate) {
    sleep(Duration::from_secs(1)).await;
    let now = server.clock.now();
    let mut deadline = 0;
    edit(&server, &key, |pod| {
        deadline = pod["spec"]["activeDeadlineSeconds"].as_u64().unwrap();
        pod["spec"]["nodeName"] = json!(node_of_test(pod));
        pod["status"] = if fate == Fate::Imageless { pulling() } else { running(pod, now) };
    });
    let lines: Vec<String> = (1..=30).map(|line| format!("line {line}")).collect();
    server.state().logs.insert(key.clone(), lines.join("\n"));
    let seconds = match fate {
        Fate::Passes | Fate::Fails => TEST_SECONDS,
        Fate::Imageless => deadline,
        Fate::Hangs => return,
    };
    sleep(Duration::from_secs(seconds)).await;
    edit(&server, &key, |pod| {
        pod["status"] = match fate {
            Fate::Passes => ended(pod, "Succeeded", 0),
            Fate::Fails => ended(pod, "Failed", 3),
            Fate::Imageless | Fate::Hangs => {
                json!({"phase": "Failed", "reason": "DeadlineExceeded"})
            }
        };
    });
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn passed_tests_run_one_after_the_other() {
    let bench = Bench::new(&["nccl", "dcgm"], Fate::Passes).await;
    let outcome = bench.run(&["gpu-0"], pending()).await;
    let passed = AcceptanceVerdict::Passed;
    assert_eq!(verdicts(&outcome), [("gpu-0", "nccl", passed), ("gpu-0", "dcgm", passed)]);
    assert_eq!(outcome.exit_code(), ExitCode::Success);
    assert_eq!(bench.most_at_once(), 1);
    assert!(outcome.results.iter().all(|result| result.seconds >= TEST_SECONDS), "{outcome:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nodes_are_tested_at_the_same_time() {
    let bench = Bench::new(&["dcgm"], Fate::Passes).await;
    let outcome = bench.run(&["gpu-0", "gpu-1"], pending()).await;
    let passed = AcceptanceVerdict::Passed;
    assert_eq!(verdicts(&outcome), [("gpu-0", "dcgm", passed), ("gpu-1", "dcgm", passed)]);
    assert_eq!(outcome.exit_code(), ExitCode::Success);
    assert_eq!(bench.most_at_once(), 2);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failed_test_has_exit_code_and_last_lines_of_its_log() {
    for may_read_log in [true, false] {
        let bench = Bench::new(&["dcgm"], Fate::Fails).await;
        if !may_read_log {
            bench.world.server.change(|state| state.denied.insert("get pods/log".to_owned()));
        }
        let outcome = bench.run(&["gpu-0"], pending()).await;
        let [result] = outcome.results.as_slice() else { panic!("one result: {outcome:?}") };
        assert_eq!(result.verdict, AcceptanceVerdict::Failed);
        assert_eq!(result.message, "test: exit code 3");
        let lines: Vec<&str> = result.log.lines().collect();
        if may_read_log {
            assert_eq!(lines.len(), 20, "{lines:?}");
            assert_eq!((lines[0], lines[19]), ("line 11", "line 30"));
        } else {
            assert_eq!(lines, [""; 0]);
        }
        assert_eq!(outcome.exit_code(), ExitCode::NodesFailed);
    }
}

/// The kubelet says of a pod that it ends only that its deadline has passed.
#[tokio::test(flavor = "local", start_paused = true)]
async fn late_test_says_what_its_pod_was_waiting_for() {
    let image = "test: ImagePullBackOff: no such image";
    for (fate, verdict, message) in [
        (Fate::Imageless, AcceptanceVerdict::ImageNotPulled, image),
        (Fate::Hangs, AcceptanceVerdict::TimedOut, ""),
    ] {
        let bench = Bench::new(&["dcgm"], fate).await;
        let outcome = bench.run(&["gpu-0"], pending()).await;
        let [result] = outcome.results.as_slice() else { panic!("one result: {outcome:?}") };
        assert_eq!((result.verdict, result.message.as_str()), (verdict, message), "{fate:?}");
        assert!((300..340).contains(&result.seconds), "{fate:?}: {} s", result.seconds);
        assert_eq!(outcome.exit_code(), ExitCode::NodesFailed);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_pod_fails_its_test_and_no_other() {
    for (code, answer) in [(403, POD_SECURITY), (422, INVALID)] {
        let bench = Bench::new(&["dcgm", "nccl"], Fate::Passes).await;
        bench.fault("create", 1, Effect::Answer(code, answer));
        let outcome = bench.run(&["gpu-0"], pending()).await;
        let [refused, passed] = [AcceptanceVerdict::Refused, AcceptanceVerdict::Passed];
        assert_eq!(verdicts(&outcome), [("gpu-0", "dcgm", refused), ("gpu-0", "nccl", passed)]);
        assert_eq!(outcome.results[0].message, answer);
        assert_eq!(outcome.exit_code(), ExitCode::NodesFailed);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn missing_right_or_answer_ends_the_command() {
    for (effect, code) in [
        (Effect::Answer(403, NO_RIGHT), ExitCode::Rights),
        (Effect::Status(503), ExitCode::ApiUnreachable),
        (Effect::LoseAnswer, ExitCode::ApiUnreachable),
    ] {
        let bench = Bench::new(&["dcgm"], Fate::Hangs).await;
        bench.fault("create", 1, effect);
        let outcome = bench.run(&["gpu-0"], pending()).await;
        assert!(outcome.results.is_empty(), "{effect:?}: {outcome:?}");
        assert_eq!(outcome.exit_code(), code, "{effect:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_in_use_or_unknown_is_refused() {
    let bench = Bench::new(&["dcgm"], Fate::Passes).await;
    for (namespace, name, node, holds_gpu) in
        [(JOBS, "train-0", "gpu-0", true), (ACCEPTANCE_NAMESPACE, "dcgm-1", "gpu-1", false)]
    {
        let mut pod = workload(("Job", "one"), holds_gpu);
        pod["spec"]["nodeName"] = json!(node);
        bench.world.put("pods", namespace, name, pod);
    }
    let used = UntestableNode::InUse(vec![format!("{JOBS}/train-0")]);
    assert_eq!(bench.node("gpu-0").await, Err(used));
    assert_eq!(bench.node("gpu-1").await, Err(UntestableNode::Tested("dcgm-1".to_owned())));
    assert_eq!(bench.node("gpu-9").await, Err(UntestableNode::Unknown));
    assert!(bench.world.writes(PERSON).is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unknown_test_is_refused_with_the_deployed_ones() {
    let bench = Bench::new(&["nccl", "dcgm"], Fate::Passes).await;
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    for (wanted, expected) in [
        (&[][..], Ok(vec!["nccl", "dcgm"])),
        (&["dcgm", "nccl"], Ok(vec!["nccl", "dcgm"])),
        (&["dcgm"], Ok(vec!["dcgm"])),
        (&["dcgm", "dcmg"], Err("dcmg")),
    ] {
        let selected = select_tests(bench.tests().await, &names(wanted));
        let selected =
            selected.map(|tests| tests.into_iter().map(|test| test.name).collect::<Vec<_>>());
        let expected = expected.map(|expected| names(&expected)).map_err(|name| UnknownTest {
            name: name.to_owned(),
            deployed: names(&["nccl", "dcgm"]),
        });
        assert_eq!(selected, expected, "{wanted:?}");
    }
    let nothing = Bench::new(&[], Fate::Passes).await;
    assert!(nothing.tests().await.is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn interruption_ends_the_tests_and_deletes_their_pods() {
    let bench = Bench::new(&["dcgm"], Fate::Hangs).await;
    let outcome = bench.run(&["gpu-0", "gpu-1"], sleep(Duration::from_mins(1))).await;
    assert!(outcome.is_interrupted);
    assert!(outcome.results.is_empty(), "{outcome:?}");
    assert_eq!(outcome.exit_code(), ExitCode::Interrupted);
    assert_eq!(bench.most_at_once(), 2);
}

/// Deletes the pod of a test, as another client does.
type Deletion = fn(&Server, &Key);

fn delete_at_once(server: &Server, key: &Key) {
    server.change(|state| state.store.remove(key));
}

fn terminate(server: &Server, key: &Key) {
    let now = server.clock.now();
    edit(server, key, |pod| {
        pod["metadata"]["deletionTimestamp"] = json!(text(now));
        pod["status"] = ended(pod, "Failed", 143);
    });
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn test_whose_pod_others_delete_is_lost_and_not_failed() {
    for delete in [delete_at_once as Deletion, terminate] {
        let bench = Bench::new(&["dcgm"], Fate::Hangs).await;
        let deletion = async {
            bench.world.pass(10).await;
            let (key, _) = test_pods(&bench.world.server).remove(0);
            delete(&bench.world.server, &key);
        };
        let (outcome, ()) = tokio::join!(bench.run(&["gpu-0"], pending()), deletion);
        assert_eq!(verdicts(&outcome), [("gpu-0", "dcgm", AcceptanceVerdict::Lost)]);
        assert_eq!(outcome.exit_code(), ExitCode::NodesFailed);
    }
}

/// The server is away while the pod ends, and again when it is to be deleted.
#[tokio::test(flavor = "local", start_paused = true)]
async fn test_passes_although_the_server_was_away() {
    for effect in [Effect::Status(503), Effect::Hang, Effect::LoseAnswer] {
        let bench = Bench::new(&["dcgm"], Fate::Passes).await;
        bench.fault("delete", 3, effect);
        let absence = async {
            bench.world.pass(5).await;
            bench.world.server.goes_away(TEST_SECONDS + 10);
        };
        let (outcome, ()) = tokio::join!(bench.run(&["gpu-0"], pending()), absence);
        let passed = AcceptanceVerdict::Passed;
        assert_eq!(verdicts(&outcome), [("gpu-0", "dcgm", passed)], "{effect:?}");
        assert_eq!(outcome.exit_code(), ExitCode::Success, "{effect:?}");
    }
}
