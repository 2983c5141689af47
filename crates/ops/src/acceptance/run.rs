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
use contract::exit::ExitCode;
use contract::record::acceptance::AcceptanceVerdict;
use contract::secret_patterns::redact;
use kube_io::acceptance_tests::{create_pod, delete_pod, read_pod};
use kube_io::call::{CallError, is_of_authorizer};
use kube_io::raw::log;
use observed::acceptance::AcceptancePhase;
use observed::project::{acceptance_phase, failed_container};
use planner::action::AcceptanceCreation;

use super::hand_pod::{creation, hand_pod};
use super::{HandTest, HandTestNode};
use crate::command_error::CommandError;

/// On how many nodes tests run at the same time.
const AT_ONCE: usize = 16;
/// The interval between two reads of a pod.
const POLL: Duration = Duration::from_secs(2);
/// How much later than the kubelet the command ends a test.
const MARGIN: Duration = Duration::from_secs(30);
/// How long a deleted pod may take to be gone, and how long the API server may be away then.
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

impl HandTestOutcome {
    /// Returns the exit code of the command.
    pub fn exit_code(&self) -> ExitCode {
        let is_accepted = || self.results.iter().all(|result| result.verdict.accepts());
        match &self.error {
            Some(error) => error.exit_code(),
            None if self.is_interrupted => ExitCode::Interrupted,
            None if is_accepted() && self.left.is_empty() => ExitCode::Success,
            None => ExitCode::NodesFailed,
        }
    }
}

/// Runs the tests on the nodes. Deletes every pod, also if the user interrupts the command or a
/// call fails. `attempt`: distinguishes calls of the command. `interrupted`: ends when the user
/// interrupts the command. Calls `report` for each step. RBAC: `create`, `get` and `delete` on
/// `pods` in the namespace of acceptance tests; `get` on `pods/log` there is optional.
pub async fn run_tests(
    client: &Client,
    nodes: &[HandTestNode],
    tests: &[HandTest],
    attempt: &str,
    interrupted: impl Future<Output = ()>,
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
        () = interrupted => None,
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

    /// Runs the tests on a node, one after the other, and deletes their pods.
    async fn on_node(&self, node: &HandTestNode, tests: &[HandTest]) -> Result<(), CommandError> {
        for test in tests {
            let creation = creation(node, test, self.attempt);
            let TestEnd { verdict, message, log, seconds } = self.test(test, &creation).await?;
            let details = if message.is_empty() { String::new() } else { format!(": {message}") };
            self.say(&format!("{}: test {} {verdict}{details}", node.name, test.name));
            let (node, test) = (node.name.clone(), test.name.clone());
            let result = HandTestResult { node, test, verdict, message, log, seconds };
            self.results.borrow_mut().push(result);
            self.delete(&creation.pod).await?;
        }
        Ok(())
    }

    /// Runs a test on a node.
    async fn test(
        &self,
        test: &HandTest,
        creation: &AcceptanceCreation,
    ) -> Result<TestEnd, CommandError> {
        let (name, started) = (creation.pod.as_str(), Instant::now());
        // Also if there is no answer: the pod may exist.
        self.created.borrow_mut().insert(name.to_owned());
        match create_pod(self.client, &hand_pod(test, creation)).await {
            Ok(()) => self.say(&format!("{}: test {} is created", creation.node, test.name)),
            Err(error) => {
                let message = refusal(error).map_err(CommandError::in_write(format!(
                    "create pod {ACCEPTANCE_NAMESPACE}/{name}"
                )))?;
                self.created.borrow_mut().remove(name);
                return Ok(TestEnd::of(AcceptanceVerdict::Refused, message));
            }
        }
        let until = started + Duration::from_secs(test.timeout_seconds) + MARGIN;
        let mut end = self.wait(creation, until).await?;
        if end.seconds == 0 {
            end.seconds = started.elapsed().as_secs();
        }
        Ok(end)
    }

    /// Waits until a pod has ended, at most until this time.
    async fn wait(
        &self,
        creation: &AcceptanceCreation,
        until: Instant,
    ) -> Result<TestEnd, CommandError> {
        let AcceptanceCreation { node, test, pod: name, .. } = creation;
        let mut known = AcceptancePhase::Pending;
        loop {
            match read_pod(self.client, name).await {
                Ok(None) => return Ok(TestEnd::deleted()),
                Ok(Some(pod)) => {
                    let found = acceptance_phase(&pod);
                    let end = found.end();
                    let has_passed = end.is_some_and(|(verdict, ..)| verdict.accepts());
                    if pod.metadata.deletion_timestamp.is_some() && !has_passed {
                        // That its containers were told to terminate says nothing about the node.
                        return Ok(TestEnd::deleted());
                    }
                    if found.is_ended_by_kubelet() {
                        return Ok(late(&found));
                    }
                    if let Some((verdict, message, seconds)) = end {
                        let (verdict, message) = explain(verdict, message, &known);
                        let end = TestEnd { seconds, ..TestEnd::of(verdict, message.to_owned()) };
                        let container = failed_container(&pod).filter(|_| !verdict.accepts());
                        let log = match container {
                            Some(container) => self.log(name, container).await,
                            None => String::new(),
                        };
                        return Ok(TestEnd { log, ..end });
                    }
                    if found != known {
                        if let Some(text) = describe(&found) {
                            self.say(&format!("{node}: test {test} {text}"));
                        }
                        known = found;
                    }
                }
                // The pod continues without the command.
                Err(error) if error.is_passing() => {}
                Err(error) => return Err(error.into()),
            }
            if Instant::now() >= until {
                return Ok(late(&known));
            }
            sleep(POLL).await;
        }
    }

    /// Returns the end of a container's log without secrets. Without the right to read it, the log
    /// is left out.
    async fn log(&self, pod: &str, container: &str) -> String {
        let pod = (ACCEPTANCE_NAMESPACE, pod);
        let log = log(self.client, pod, container, false, LOG_LINES).await;
        log.map(|text| redact(&text).0).unwrap_or_default()
    }

    /// Deletes a pod, if it may exist, and waits until it is gone: no two tests are on a node.
    async fn delete(&self, name: &str) -> Result<(), CommandError> {
        if !self.created.borrow().contains(name) {
            return Ok(());
        }
        let until = Instant::now() + GONE;
        let answer = self.delete_until(name, until).await;
        let is_gone = answer
            .map_err(CommandError::in_write(format!("delete pod {ACCEPTANCE_NAMESPACE}/{name}")))?;
        // A pod that takes longer stays in `created`, and is deleted again at the end.
        if is_gone {
            self.created.borrow_mut().remove(name);
        }
        Ok(())
    }

    /// Deletes a pod, and waits until it is gone, at most until this time. Returns whether it is.
    async fn delete_until(&self, name: &str, until: Instant) -> Result<bool, CallError> {
        let mut exists = persist(until, async || delete_pod(self.client, name).await).await?;
        while exists && Instant::now() < until {
            sleep(POLL).await;
            exists = persist(until, async || read_pod(self.client, name).await).await?.is_some();
        }
        Ok(!exists)
    }

    /// Deletes the pods that may still exist. Returns those that could not be deleted.
    async fn delete_all(&self) -> Vec<String> {
        let names = self.created.take();
        let until = Instant::now() + GONE;
        let answers = stream::iter(names).map(async |name| {
            let answer = persist(until, async || delete_pod(self.client, &name).await).await;
            (name, answer)
        });
        let answers: Vec<(String, Result<bool, CallError>)> =
            answers.buffer_unordered(AT_ONCE).collect().await;
        let failed = answers.into_iter().filter(|(_, answer)| answer.is_err());
        failed.map(|(name, _)| name).collect()
    }
}

impl TestEnd {
    fn of(verdict: AcceptanceVerdict, message: String) -> Self {
        Self { verdict, message, log: String::new(), seconds: 0 }
    }

    fn deleted() -> Self {
        Self::of(AcceptanceVerdict::Lost, "the pod was deleted by another client".to_owned())
    }
}

/// Makes a call, again and again while the API server is away, at most until this time.
async fn persist<T>(
    until: Instant,
    call: impl AsyncFn() -> Result<T, CallError>,
) -> Result<T, CallError> {
    loop {
        match call().await {
            Err(error) if error.is_passing() && Instant::now() < until => sleep(POLL).await,
            answer => return answer,
        }
    }
}

/// Returns the message with which the API server refuses a pod.
///
/// # Errors
/// The error, if it says nothing about the pod: the user lacks a right, or there was no answer.
fn refusal(error: CallError) -> Result<String, CallError> {
    match error {
        CallError::Denied { message, .. } => Ok(message),
        // Pod Security and other admission plugins answer as the authorizer does.
        CallError::Forbidden(message) if !is_of_authorizer(&message) => Ok(message),
        CallError::Timeout
        | CallError::Forbidden(_)
        | CallError::NotFound(_)
        | CallError::Conflict(_)
        | CallError::Refused { .. }
        | CallError::Unreachable(_) => Err(error),
    }
}

/// Returns verdict and message of a pod that has ended. `known`: its last phase before. If the
/// kubelet ended the pod at its deadline, what the pod was waiting for says more.
fn explain<'t>(
    verdict: AcceptanceVerdict,
    message: &'t str,
    known: &'t AcceptancePhase,
) -> (AcceptanceVerdict, &'t str) {
    let (waited, trouble) = known.late();
    match trouble.filter(|_| verdict == AcceptanceVerdict::TimedOut) {
        Some(why) => (waited, why),
        None => (verdict, message),
    }
}

/// Returns how a test ends that has not ended in its time.
fn late(known: &AcceptancePhase) -> TestEnd {
    let (verdict, trouble) = known.late();
    let is_pending = *known == AcceptancePhase::Pending;
    let otherwise = if is_pending { "its containers did not start" } else { "" };
    TestEnd::of(verdict, trouble.unwrap_or(otherwise).to_owned())
}

/// Describes a pod that has not ended.
fn describe(phase: &AcceptancePhase) -> Option<String> {
    match phase {
        AcceptancePhase::Running => Some("is running".to_owned()),
        AcceptancePhase::Unschedulable(why) => Some(format!("cannot be scheduled yet: {why}")),
        AcceptancePhase::ImageNotPulled(why) => Some(format!("cannot pull its image yet: {why}")),
        AcceptancePhase::Pending
        | AcceptancePhase::EndedByKubelet(_)
        | AcceptancePhase::Succeeded { .. }
        | AcceptancePhase::Failed { .. } => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_test_says_what_kept_its_pod() {
        for (phase, message) in [
            (AcceptancePhase::Pending, "its containers did not start"),
            (AcceptancePhase::Running, ""),
            (AcceptancePhase::Unschedulable("why".to_owned()), "why"),
        ] {
            assert_eq!(late(&phase).message, message, "{phase:?}");
        }
    }

    #[test]
    fn trouble_of_a_pod_explains_its_deadline() {
        let trouble = AcceptancePhase::ImageNotPulled("why".to_owned());
        let [failed, timed_out] = [AcceptanceVerdict::Failed, AcceptanceVerdict::TimedOut];
        let image = AcceptanceVerdict::ImageNotPulled;
        assert_eq!(explain(timed_out, "deadline", &trouble), (image, "why"));
        assert_eq!(explain(failed, "exit code 3", &trouble), (failed, "exit code 3"));
        let running = AcceptancePhase::Running;
        assert_eq!(explain(timed_out, "deadline", &running), (timed_out, "deadline"));
    }

    #[test]
    fn admission_refuses_a_pod_and_the_authorizer_a_user() {
        let right =
            r#"pods is forbidden: User "ada" cannot create resource "pods" in API group """#;
        let pod = r#"pods "dcgm-1" is forbidden: violates PodSecurity "baseline:latest""#;
        for (error, is_about_pod) in [
            (CallError::Forbidden(pod.to_owned()), true),
            (CallError::Denied { code: 422, message: "invalid".to_owned() }, true),
            (CallError::Forbidden(right.to_owned()), false),
            (CallError::Timeout, false),
        ] {
            let text = error.to_string();
            assert_eq!(refusal(error).is_ok(), is_about_pod, "{text}");
        }
    }
}
