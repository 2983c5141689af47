//! Runs acceptance tests by hand: on each node one after the other, on several nodes at once.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt, stream};
use kube::Client;
use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::{Instant, sleep};

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::record::acceptance::AcceptanceVerdict;
use kube_io::acceptance_tests::{create_pod, delete_pod, failed_container, phase, read_pod};
use kube_io::call::CallError;
use kube_io::raw::log;
use observed::acceptance::AcceptancePhase;

use super::hand_pod::{creation, hand_pod};
use super::{HandTest, HandTestNode};
use crate::command_error::CommandError;

/// On how many nodes tests run at the same time.
const AT_ONCE: usize = 16;
/// The interval between two reads of a pod.
const POLL: Duration = Duration::from_secs(2);
/// How much later than the kubelet the command ends a test.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a deleted pod may take to be gone.
const GONE: Duration = Duration::from_mins(1);
/// How many lines of a failed test's log are shown.
const LOG_LINES: u32 = 20;

/// The result of one test on one node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HandTestResult {
    /// The node.
    pub node: String,
    /// The name of the test.
    pub test: String,
    /// What came out.
    pub verdict: AcceptanceVerdict,
    /// Details: an exit code, the message of the kubelet or of the API server.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// The last lines of the log of a failed test, with timestamps.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub log: String,
    /// Seconds from the creation of the pod to its end.
    pub seconds: u64,
}

/// The outcome of all tests.
#[derive(Debug)]
pub struct HandTestOutcome {
    /// The results, by node, in the order of the tests.
    pub results: Vec<HandTestResult>,
    /// Whether the user interrupted the command.
    pub is_interrupted: bool,
    /// The names of pods that could not be deleted.
    pub left: Vec<String>,
    /// The error that ended the tests.
    pub error: Option<CommandError>,
}

/// Runs the tests on the nodes. Deletes every pod, also if the user interrupts the command or a call
/// fails. Calls `report` for each step. `attempt`: distinguishes calls of the command. RBAC:
/// `create`, `get` and `delete` on `pods` in the namespace of acceptance tests; `get` on `pods/log`
/// there is optional.
pub async fn run_tests(
    client: &Client,
    nodes: &[HandTestNode],
    tests: &[HandTest],
    attempt: &str,
    report: impl FnMut(&str),
) -> HandTestOutcome {
    let runner = HandTestRunner {
        client,
        attempt,
        report: RefCell::new(report),
        created: RefCell::default(),
        results: RefCell::default(),
    };
    let all = stream::iter(nodes).map(|node| runner.on_node(node, tests));
    let ended = tokio::select! {
        ended = all.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>() => Some(ended.map(drop)),
        // If signals cannot be handled, Ctrl-C ends the process, and the kubelet ends the pods.
        Ok(()) = tokio::signal::ctrl_c() => None,
    };
    let is_interrupted = ended.is_none();
    if is_interrupted {
        runner.say("interrupted: deleting the pods");
    }
    let left = runner.delete_all().await;
    let mut results = runner.results.into_inner();
    let place = |result: &HandTestResult| {
        let of_test = tests.iter().position(|test| test.name == result.test);
        (nodes.iter().position(|node| node.name == result.node), of_test)
    };
    results.sort_by_key(place);
    HandTestOutcome { results, is_interrupted, left, error: ended.and_then(Result::err) }
}

struct HandTestRunner<'a, R> {
    client: &'a Client,
    attempt: &'a str,
    report: RefCell<R>,
    /// The pods that may exist.
    created: RefCell<BTreeSet<String>>,
    results: RefCell<Vec<HandTestResult>>,
}

/// How a test ended.
struct TestEnd {
    verdict: AcceptanceVerdict,
    message: String,
    log: String,
    seconds: u64,
}

impl<R: FnMut(&str)> HandTestRunner<'_, R> {
    fn say(&self, text: &str) {
        (*self.report.borrow_mut())(text);
    }

    /// Runs the tests on a node, one after the other.
    async fn on_node(&self, node: &HandTestNode, tests: &[HandTest]) -> Result<(), CommandError> {
        for test in tests {
            let TestEnd { verdict, message, log, seconds } = self.test(node, test).await?;
            let details = if message.is_empty() { String::new() } else { format!(": {message}") };
            self.say(&format!("{}: test {} {verdict}{details}", node.name, test.name));
            let (node, test) = (node.name.clone(), test.name.clone());
            let result = HandTestResult { node, test, verdict, message, log, seconds };
            self.results.borrow_mut().push(result);
        }
        Ok(())
    }

    /// Runs a test on a node, and deletes its pod.
    async fn test(&self, node: &HandTestNode, test: &HandTest) -> Result<TestEnd, CommandError> {
        let creation = creation(node, test, self.attempt);
        let (name, started) = (creation.pod.as_str(), Instant::now());
        let refused = |message: String| {
            let verdict = AcceptanceVerdict::Refused;
            TestEnd { verdict, message, log: String::new(), seconds: 0 }
        };
        let pod = match hand_pod(test, &creation) {
            Ok(pod) => pod,
            Err(error) => return Ok(refused(error.to_string())),
        };
        // Also if there is no answer: the pod may exist.
        self.created.borrow_mut().insert(name.to_owned());
        match create_pod(self.client, &pod).await {
            Ok(()) => self.say(&format!("{}: test {} is created", node.name, test.name)),
            Err(CallError::Denied { message, .. }) => {
                self.created.borrow_mut().remove(name);
                return Ok(refused(message));
            }
            Err(error) => {
                let action = format!("create pod {ACCEPTANCE_NAMESPACE}/{name}");
                return Err(CommandError::in_write(action)(error));
            }
        }
        let until = started + Duration::from_secs(test.timeout_seconds) + MARGIN;
        let mut end = self.wait((node, test), name, until).await?;
        if end.seconds == 0 {
            end.seconds = started.elapsed().as_secs();
        }
        self.delete(name).await?;
        Ok(end)
    }

    /// Waits until a pod has ended, at most until this time.
    async fn wait(
        &self,
        (node, test): (&HandTestNode, &HandTest),
        name: &str,
        until: Instant,
    ) -> Result<TestEnd, CommandError> {
        let mut known = AcceptancePhase::Pending;
        loop {
            match read_pod(self.client, name).await {
                Ok(None) => {
                    let message = "the pod was deleted by another client".to_owned();
                    return Ok(TestEnd::of(AcceptanceVerdict::Lost, message, 0));
                }
                Ok(Some(pod)) => {
                    let found = phase(&pod);
                    if let Some(end) = ended(&found) {
                        let container = failed_container(&pod);
                        let log = match container.filter(|_| !end.verdict.accepts()) {
                            Some(container) => self.log(name, container).await,
                            None => String::new(),
                        };
                        return Ok(TestEnd { log, ..end });
                    }
                    if found != known {
                        if let Some(text) = describe(&found) {
                            self.say(&format!("{}: test {} {text}", node.name, test.name));
                        }
                        known = found;
                    }
                }
                // The pod continues without the command.
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= until {
                return Ok(late(known));
            }
            sleep(POLL).await;
        }
    }

    /// Returns the end of a container's log. Without the right to read it, the log is left out.
    async fn log(&self, pod: &str, container: &str) -> String {
        let pod = (ACCEPTANCE_NAMESPACE, pod);
        log(self.client, pod, container, false, LOG_LINES).await.unwrap_or_default()
    }

    /// Deletes a pod, and waits until it is gone: no two tests are on a node.
    async fn delete(&self, name: &str) -> Result<(), CommandError> {
        let action = || CommandError::in_write(format!("delete pod {ACCEPTANCE_NAMESPACE}/{name}"));
        delete_pod(self.client, name).await.map_err(action())?;
        let until = Instant::now() + GONE;
        while read_pod(self.client, name).await.map_err(action())?.is_some() {
            if Instant::now() >= until {
                // It stays in `created`, and is named at the end.
                return Ok(());
            }
            sleep(POLL).await;
        }
        self.created.borrow_mut().remove(name);
        Ok(())
    }

    /// Deletes the pods that may still exist. Returns those that could not be deleted.
    async fn delete_all(&self) -> Vec<String> {
        let names = self.created.take();
        let answers = stream::iter(names).map(async |name| {
            let answer = delete_pod(self.client, &name).await;
            (name, answer)
        });
        let answers: Vec<(String, Result<(), CallError>)> =
            answers.buffer_unordered(AT_ONCE).collect().await;
        let failed = answers.into_iter().filter(|(_, answer)| answer.is_err());
        failed.map(|(name, _)| name).collect()
    }
}

impl TestEnd {
    fn of(verdict: AcceptanceVerdict, message: String, seconds: u64) -> Self {
        Self { verdict, message, log: String::new(), seconds }
    }
}

/// Returns how a test ended. `None`: it has not.
fn ended(phase: &AcceptancePhase) -> Option<TestEnd> {
    match phase {
        AcceptancePhase::Succeeded { seconds } => {
            Some(TestEnd::of(AcceptanceVerdict::Passed, String::new(), *seconds))
        }
        AcceptancePhase::Failed { message, timed_out, seconds } => {
            let verdict =
                if *timed_out { AcceptanceVerdict::TimedOut } else { AcceptanceVerdict::Failed };
            Some(TestEnd::of(verdict, message.clone(), *seconds))
        }
        AcceptancePhase::Pending
        | AcceptancePhase::Running
        | AcceptancePhase::Unschedulable(_)
        | AcceptancePhase::ImageNotPulled(_) => None,
    }
}

/// Returns how a test ends that has not ended in its time.
fn late(known: AcceptancePhase) -> TestEnd {
    let (verdict, message) = match known {
        AcceptancePhase::Unschedulable(message) => (AcceptanceVerdict::Unschedulable, message),
        AcceptancePhase::ImageNotPulled(message) => (AcceptanceVerdict::ImageNotPulled, message),
        AcceptancePhase::Pending => {
            (AcceptanceVerdict::TimedOut, "its containers did not start".to_owned())
        }
        AcceptancePhase::Running
        | AcceptancePhase::Succeeded { .. }
        | AcceptancePhase::Failed { .. } => (AcceptanceVerdict::TimedOut, String::new()),
    };
    TestEnd::of(verdict, message, 0)
}

/// Describes a pod that has not ended.
fn describe(phase: &AcceptancePhase) -> Option<String> {
    match phase {
        AcceptancePhase::Running => Some("is running".to_owned()),
        AcceptancePhase::Unschedulable(why) => Some(format!("cannot be scheduled yet: {why}")),
        AcceptancePhase::ImageNotPulled(why) => Some(format!("cannot pull its image yet: {why}")),
        AcceptancePhase::Pending
        | AcceptancePhase::Succeeded { .. }
        | AcceptancePhase::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_test_has_the_verdict_of_its_last_trouble() {
        let why = || "why".to_owned();
        for (phase, verdict) in [
            (AcceptancePhase::Pending, AcceptanceVerdict::TimedOut),
            (AcceptancePhase::Running, AcceptanceVerdict::TimedOut),
            (AcceptancePhase::Unschedulable(why()), AcceptanceVerdict::Unschedulable),
            (AcceptancePhase::ImageNotPulled(why()), AcceptanceVerdict::ImageNotPulled),
        ] {
            assert!(ended(&phase).is_none(), "{phase:?}");
            assert_eq!(late(phase).verdict, verdict);
        }
    }

    #[test]
    fn end_of_a_pod_is_the_end_of_its_test() {
        let failed = |timed_out| AcceptancePhase::Failed {
            message: "container test exited with code 1".to_owned(),
            timed_out,
            seconds: 9,
        };
        for (phase, verdict) in [
            (AcceptancePhase::Succeeded { seconds: 9 }, AcceptanceVerdict::Passed),
            (failed(false), AcceptanceVerdict::Failed),
            (failed(true), AcceptanceVerdict::TimedOut),
        ] {
            let end = ended(&phase).map(|end| (end.verdict, end.seconds));
            assert_eq!(end, Some((verdict, 9)), "{phase:?}");
        }
    }
}
