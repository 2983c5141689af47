//! The acceptance tests of a node in progress: the pod that must exist now, and the results.
//!
//! Everything follows from the node's record, its driver pod and the observed pods of tests. A node
//! has one such pod at a time. The result of a test is written to the node; the pod is deleted when
//! that has been observed (`decide/emit/test_pods.rs`).

use jiff::Timestamp;

use crate::acceptance::{NodeTests, canaries, requested_gpus};
use crate::action::{AcceptanceCreation, RequestedGpus};
use crate::decide::Action;
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::{NodeDraft, REPEAT_SECONDS};
use crate::drive_upgrade::cause::FailureCause;
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::state::UpgradeState;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::time::after;
use crate::write_refusals::WriteRefusals;
use contract::acceptance::{AcceptanceNodes, AcceptanceTest, AcceptanceTime};
use contract::record::WriteKind;
use contract::record::acceptance::{AcceptanceResult, AcceptanceVerdict};
use contract::task::Task;
use observed::ObservedNode;
use observed::acceptance::{AcceptancePhase, AcceptancePod};

use super::DrivenNode;
use super::cordon::{MOST_CORDONS, contested, cordon_again};
use super::turn::is_untouched;

mod log_lines;
mod test_start;

pub(in crate::decide) use test_start::{are_to_begin, have_begun, may_have_workloads};

use log_lines::{LOG_SECONDS, LogProgress, ending, test_log};

/// Seconds within which the pod of another test or attempt must have terminated.
const ENDING_SECONDS: u64 = 300;
/// Seconds after the end of a test's time after which the kubelet ends its pod. The hook knows
/// better what the pod was waiting for, so its own verdict comes first.
const KUBELET_MARGIN_SECONDS: u64 = 30;
/// Maximum number of characters of a result's message: the annotation of a node is small.
const MOST_CHARACTERS: usize = 400;

/// Why tests are not run if only the driver pod is replaced.
const WORKLOADS_STAY: &str = "workloads stay on the node";
/// Why tests are not run before NVIDIA's controller replaces the driver.
const STEERED: &str =
    "in mode `steer`, NVIDIA's controller replaces the driver as soon as the node is free";
/// Why tests are not run before the hook replaces the driver.
const NO_OLD_DRIVER: &str = "the old driver did not run, or the hook did not replace it";

/// The progress of a node's tests.
pub(in crate::decide) enum AcceptanceStep {
    /// No test is left, and none has failed.
    Accepted,
    /// The node waits for this reason; the actions after its patch.
    Waits(Reason, Vec<Action>),
    /// A test did not pass, or cannot be run: the message.
    NotAccepted(String),
}

/// The test that runs now, or is about to.
struct CurrentTest<'a> {
    tests: NodeTests<'a>,
    test: &'a AcceptanceTest,
    /// The name of its pod.
    name: String,
    /// The pod, if it exists.
    pod: Option<&'a AcceptancePod>,
    /// Whether the node's own record says that the tests have begun.
    is_noted: bool,
}

/// The end of a test.
struct TestEnd {
    verdict: AcceptanceVerdict,
    message: String,
    /// Seconds from the creation of the pod to its end.
    seconds: u64,
}

/// Returns the cause for which a node fails if a test of this time does not pass.
pub(in crate::decide) fn cause(time: AcceptanceTime) -> FailureCause {
    match time {
        AcceptanceTime::Before => FailureCause::AcceptanceFailedBefore,
        AcceptanceTime::After => FailureCause::AcceptanceFailed,
    }
}

/// Returns the tests of a node at a time, with its driver pod.
pub(in crate::decide) fn tests_of<'t>(
    fleet: &'t FleetInputs<'_>,
    node: &'t ObservedNode,
    driver: &DriverPod<'t>,
    record: &UpgradeRecord,
    time: AcceptanceTime,
) -> NodeTests<'t> {
    let (driver_pod, canaries) = (driver.pod.uid.as_str(), canaries(fleet.memory));
    let was_canary = record.canary;
    NodeTests { settings: fleet.settings, node, driver_pod, canaries, was_canary, time }
}

/// Returns whether the node is a canary of the driver now, if a test depends on that.
pub(in crate::decide) fn is_canary(draft: &mut NodeDraft<'_>) -> bool {
    heed_canaries(draft);
    let mut tests = draft.settings().upgrade.acceptance.iter();
    tests.any(|test| test.nodes != AcceptanceNodes::All)
        && canaries(draft.fleet.memory).contains(&draft.node.name)
}

/// Has a node assessed in each decision if its tests depend on the choice of canaries: they are
/// chosen after the steps of the nodes.
fn heed_canaries(draft: &mut NodeDraft<'_>) {
    let tests = &draft.settings().upgrade.acceptance;
    draft.effects.depends_on_others |= tests.iter().any(|test| test.nodes != AcceptanceNodes::All);
}

/// Returns whether a failed node that works must pass tests before it takes workloads. On a node
/// that others have uncordoned since, workloads may use the device: they take it as repaired.
pub(in crate::decide) fn must_be_tested(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let cause = record.failure.as_ref().map(|failure| failure.cause);
    let is_contested = cause == Some(FailureCause::CordonContested);
    let can_be_tested = driven.node.unschedulable || is_contested;
    let Some(own) = driven.pod.as_ref().filter(|_| can_be_tested) else { return false };
    heed_canaries(draft);
    let tests = tests_of(draft.fleet, driven.node, own, record, AcceptanceTime::After);
    !workloads_stay(record) && tests.all().next().is_some()
}

/// Returns whether the node has passed the tests that it must pass with its driver.
pub(in crate::decide) fn has_passed(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
) -> bool {
    let Some(own) = driven.pod.as_ref() else { return false };
    let tests = tests_of(draft.fleet, driven.node, own, record, AcceptanceTime::After);
    tests.current(record).is_none() && tests.results(record).all(|result| result.verdict.accepts())
}

/// Runs the tests of a time, one after the other, and adds their results to the record.
pub(in crate::decide) fn accept(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &mut UpgradeRecord,
    time: AcceptanceTime,
) -> AcceptanceStep {
    let Some(own) = &driven.pod else { return AcceptanceStep::Accepted };
    let (fleet, node, now) = (draft.fleet, driven.node, draft.now());
    heed_canaries(draft);
    let tests = tests_of(fleet, node, own, record, time);
    if time == AcceptanceTime::After {
        note_tests_that_do_not_run(record, tests, now);
    }
    if let Some(result) = tests.results(record).find(|result| !result.verdict.accepts()) {
        return AcceptanceStep::NotAccepted(describe(result));
    }
    let mut pods = fleet.observed.acceptance.on(&node.name);
    let current = tests.current(record).map(|test| (test, tests.pod(test, record)));
    let current = current.map(|(test, name)| {
        let pod = pods.clone().find(|pod| pod.name == name);
        CurrentTest { tests, test, name, pod, is_noted: false }
    });
    // A test that has started is finished, also if the old driver has stopped.
    let is_run = |current: &CurrentTest<'_>| {
        let starts = || !workloads_stay(record) && is_untouched(draft, driven, record);
        time == AcceptanceTime::After || current.pod.is_some() || starts()
    };
    let Some(current) = current.filter(is_run) else {
        // The driver must not be replaced while the pod of another attempt uses it.
        let running = pods.find(|pod| time == AcceptanceTime::Before && !pod.phase.is_over());
        return match running.map(|pod| await_end(draft, pod)) {
            None => AcceptanceStep::Accepted,
            Some(Ok(reason)) => AcceptanceStep::Waits(reason, Vec::new()),
            Some(Err(message)) => AcceptanceStep::NotAccepted(message),
        };
    };
    if !node.unschedulable && current.pod.is_none_or(|pod| end_of(pod).is_none()) {
        return current.cordon_again(draft, driven, record);
    }
    if current.pod.is_none()
        && let Some(other) = pods.next()
    {
        return match await_end(draft, other) {
            Ok(reason) => AcceptanceStep::Waits(reason, Vec::new()),
            Err(message) => {
                let end = TestEnd { verdict: AcceptanceVerdict::Lost, message, seconds: 0 };
                current.ends(draft, record, end)
            }
        };
    }
    let is_noted = time == AcceptanceTime::Before || have_begun(fleet, driven, record);
    let current = CurrentTest { is_noted, ..current };
    if !is_noted && let Err(message) = test_start::begin(fleet, own, record) {
        let end = TestEnd { verdict: AcceptanceVerdict::Lost, message, seconds: 0 };
        return current.ends(draft, record, end);
    }
    run(draft, driven, record, &current)
}

/// Runs the current test.
fn run(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &mut UpgradeRecord,
    current: &CurrentTest<'_>,
) -> AcceptanceStep {
    let (fleet, node, now) = (draft.fleet, driven.node, draft.now());
    if let Some((pod, end)) = current.pod.and_then(|pod| Some((pod, end_of(pod)?))) {
        return match test_log(draft, current.test, pod, end.verdict, None) {
            LogProgress::Known(log) => current.ends_with_log(draft, record, end, log),
            LogProgress::Awaited(actions) => AcceptanceStep::Waits(ending(&pod.name), actions),
        };
    }
    let object = (node.name.clone(), current.name.clone());
    let refusal = fleet.memory.refusals.get(&object);
    let refusal = refusal
        .filter(|refusal| refusal.write == WriteKind::AcceptancePod && current.pod.is_none());
    if let Some(refusal) = refusal.filter(|refusal| refusal.is_final()) {
        let (verdict, message) = (AcceptanceVerdict::Refused, refusal.message.clone());
        return current.ends(draft, record, TestEnd { verdict, message, seconds: 0 });
    }
    let gpus = requested_gpus(current.test.gpus, node, fleet.observed);
    let is_driver_lost = current.tests.time == AcceptanceTime::After && !driven.is_current();
    let (verdict, trouble) = if !node.ready {
        (AcceptanceVerdict::Lost, Some("the node is NotReady".to_owned()))
    } else if is_driver_lost {
        (AcceptanceVerdict::Lost, Some("the driver pod is not ready".to_owned()))
    } else {
        obstacle(current.pod, gpus.is_some(), refusal, fleet.is_over())
    };
    let running = draft.memory.tests(&current.name, now);
    let observed = running.since;
    if verdict == AcceptanceVerdict::EndedByKubelet {
        running.ended_by_kubelet.clone_from(&trouble);
    } else if current.pod.is_some_and(|pod| pod.phase == AcceptancePhase::Running) {
        running.ended_by_kubelet = None;
    }
    // A pod that was refused is created again: that it is pending then explains nothing.
    let (verdict, trouble) = match (&running.ended_by_kubelet, trouble) {
        (Some(why), None) => (AcceptanceVerdict::EndedByKubelet, Some(why.clone())),
        (Some(_) | None, trouble) => (verdict, trouble),
    };
    let deadline = fleet.memory.deadline;
    let accepting = |until| {
        let (test, time) = (current.test.name.clone(), current.tests.time);
        let trouble = trouble.clone();
        Reason::Upgrading(UpgradeReason::Accepting { test, time, trouble, until })
    };
    // A command does not know when the hook first observed it: not before the pod was created, and
    // the hook took over.
    let since = current
        .pod
        .filter(|_| draft.memory.is_followed())
        .map_or(observed, |pod| pod.created.max(fleet.memory.taken_over_at).min(observed));
    let until = after(since, current.test.timeout_seconds);
    if until <= now {
        let seconds = u64::try_from(now.duration_since(since).as_secs()).unwrap_or_default();
        let running = current.pod.filter(|pod| pod.phase == AcceptancePhase::Running);
        let log = running.map_or(LogProgress::Known(Vec::new()), |pod| {
            test_log(draft, current.test, pod, verdict, Some(until))
        });
        let log = match log {
            LogProgress::Known(log) => log,
            LogProgress::Awaited(actions) => {
                let until = after(until, LOG_SECONDS).min(deadline);
                return AcceptanceStep::Waits(accepting(until), actions);
            }
        };
        let absent = || if current.pod.is_none() { "its pod does not exist" } else { "" };
        let message = trouble.unwrap_or_else(|| absent().to_owned());
        let end = TestEnd { verdict, message, seconds };
        return current.ends_with_log(draft, record, end, log);
    }
    draft.alarm.set(until);
    let gpus = gpus.filter(|_| node.ready && !is_driver_lost && current.is_noted);
    let actions = create(draft, current, gpus, refusal);
    AcceptanceStep::Waits(accepting(until.min(deadline)), actions)
}

/// Creates the pod of the current test, if it can be created now. The last seconds of a run create
/// none: its end could not delete a pod that it has not observed.
fn create(
    draft: &mut NodeDraft<'_>,
    current: &CurrentTest<'_>,
    gpus: Option<RequestedGpus>,
    refusal: Option<&WriteRefusals>,
) -> Vec<Action> {
    let (now, node) = (draft.now(), current.tests.node);
    if let Some(due) = refusal.map(WriteRefusals::due).filter(|due| *due > now) {
        draft.alarm.set(due);
        return Vec::new();
    }
    let has_time = after(now, REPEAT_SECONDS) < draft.fleet.memory.deadline;
    let Some(gpus) = gpus.filter(|_| current.pod.is_none() && has_time) else {
        return Vec::new();
    };
    if draft.is_just_requested(&current.name) {
        return Vec::new();
    }
    vec![Action::CreateAcceptancePod(AcceptanceCreation {
        node: node.name.clone(),
        test: current.test.name.clone(),
        pod: current.name.clone(),
        time: Some(current.tests.time),
        deadline_seconds: current.test.timeout_seconds.saturating_add(KUBELET_MARGIN_SECONDS),
        gpus,
    })]
}

impl CurrentTest<'_> {
    /// Restores the cordon of a node that others uncordoned before the test has ended.
    fn cordon_again(
        &self,
        draft: &mut NodeDraft<'_>,
        driven: &DrivenNode<'_>,
        record: &mut UpgradeRecord,
    ) -> AcceptanceStep {
        if self.tests.time == AcceptanceTime::After && record.recordoned >= MOST_CORDONS {
            // Workloads may use the GPUs: a node that is not proven must not end as done.
            let message = contested(record);
            let end = TestEnd { verdict: AcceptanceVerdict::Lost, message, seconds: 0 };
            return self.ends(draft, record, end);
        }
        AcceptanceStep::Waits(cordon_again(draft, driven, record), Vec::new())
    }

    /// Adds the result of the test to the record. Returns what follows from it.
    fn ends(
        &self,
        draft: &mut NodeDraft<'_>,
        record: &mut UpgradeRecord,
        end: TestEnd,
    ) -> AcceptanceStep {
        self.ends_with_log(draft, record, end, Vec::new())
    }

    /// Adds the result of the test with lines of its log to the record. Returns what follows from
    /// it.
    fn ends_with_log(
        &self,
        draft: &mut NodeDraft<'_>,
        record: &mut UpgradeRecord,
        end: TestEnd,
        log: Vec<String>,
    ) -> AcceptanceStep {
        let TestEnd { verdict, message, seconds } = end;
        let (tests, now) = (self.tests, draft.now());
        if verdict == AcceptanceVerdict::Lost && draft.fleet.is_over() {
            // The hook itself deletes the pods now: the next run tests the node again.
            let (test, until) = (self.test.name.clone(), draft.fleet.memory.deadline);
            let reason = UpgradeReason::Accepting { test, time: tests.time, trouble: None, until };
            return AcceptanceStep::Waits(Reason::Upgrading(reason), Vec::new());
        }
        draft.memory.testing = None;
        let result = AcceptanceResult {
            test: self.test.name.clone(),
            time: tests.time,
            driver_pod: tests.driver_pod.to_owned(),
            verdict,
            message: message.chars().take(MOST_CHARACTERS).collect(),
            at: now,
            seconds,
            log,
        };
        let refusal = (!verdict.accepts()).then(|| describe(&result));
        record.add_result(result, &tests.settings.digest);
        if let Some(message) = refusal {
            return AcceptanceStep::NotAccepted(message);
        }
        if tests.time == AcceptanceTime::Before {
            // The time of the driver's replacement starts after the tests.
            record.since = now;
        }
        if tests.current(record).is_none() {
            return AcceptanceStep::Accepted;
        }
        let pod = self.name.clone();
        let reason = Reason::Upgrading(UpgradeReason::AcceptanceEnding { pod });
        AcceptanceStep::Waits(reason, Vec::new())
    }
}

/// Returns the end of a pod, if it is the end of its test. A pod that others delete may show any
/// end but success.
fn end_of(pod: &AcceptancePod) -> Option<TestEnd> {
    let (verdict, message, seconds) = pod.phase.end()?;
    let counts = !pod.deleting || verdict.accepts();
    counts.then(|| TestEnd { verdict, message: message.to_owned(), seconds })
}

/// Returns the verdict about a test if its time is over now, and what keeps it from its end, if
/// something is wrong. `is_over`: whether the time of the run is over, so that the hook itself
/// deletes the pods.
fn obstacle(
    pod: Option<&AcceptancePod>,
    is_offered: bool,
    refusal: Option<&WriteRefusals>,
    is_over: bool,
) -> (AcceptanceVerdict, Option<String>) {
    let text = |text: &str| Some(text.to_owned());
    match pod {
        None if !is_offered => (AcceptanceVerdict::Unschedulable, text("the node offers no GPU")),
        None => match refusal {
            Some(refusal) => (AcceptanceVerdict::Refused, text(&refusal.message)),
            None => (AcceptanceVerdict::Lost, None),
        },
        Some(pod) if pod.deleting && !pod.phase.is_ended_by_kubelet() => {
            let deleted = "another user or controller deleted its pod";
            (AcceptanceVerdict::Lost, (!is_over).then(|| deleted.to_owned()))
        }
        Some(pod) => {
            let (verdict, trouble) = pod.phase.late();
            (verdict, trouble.map(str::to_owned))
        }
    }
}

/// Waits until a pod that is not the one of the current test has terminated.
///
/// # Errors
/// It did not terminate in time.
fn await_end(draft: &mut NodeDraft<'_>, pod: &AcceptancePod) -> Result<Reason, String> {
    let reason = Reason::Upgrading(UpgradeReason::AcceptanceEnding { pod: pod.name.clone() });
    // Other waits of the node must not start this one again.
    let now = draft.now();
    let since = draft.memory.tests(&pod.name, now).since;
    if draft.alarm.passed(since, ENDING_SECONDS) {
        let name = &pod.name;
        return Err(format!("test pod {name} did not terminate within {ENDING_SECONDS} s"));
    }
    Ok(reason)
}

/// Records the tests that are not run on the node, for reasons that are not the node's. `after`: the
/// tests with the new driver.
fn note_tests_that_do_not_run(record: &mut UpgradeRecord, after: NodeTests<'_>, now: Timestamp) {
    let stay = workloads_stay(record);
    let old_pod = record.driver_pod.clone().unwrap_or_default();
    let why = if stay {
        WORKLOADS_STAY
    } else if after.settings.has(Task::Steer) {
        STEERED
    } else {
        NO_OLD_DRIVER
    };
    let before = NodeTests { driver_pod: &old_pod, time: AcceptanceTime::Before, ..after };
    skip(record, before, why, now);
    if stay {
        skip(record, after, why, now);
    }
}

/// Adds a result for each test without one.
fn skip(record: &mut UpgradeRecord, tests: NodeTests<'_>, why: &str, now: Timestamp) {
    while let Some(test) = tests.current(record) {
        let result = AcceptanceResult {
            test: test.name.clone(),
            time: tests.time,
            driver_pod: tests.driver_pod.to_owned(),
            verdict: AcceptanceVerdict::NotRun,
            message: why.to_owned(),
            at: now,
            seconds: 0,
            log: Vec::new(),
        };
        record.add_result(result, &tests.settings.digest);
    }
}

/// Returns whether workloads have stayed on the node: only its driver pod is replaced.
fn workloads_stay(record: &UpgradeRecord) -> bool {
    let evicts = [UpgradeState::PodDeletionRequired, UpgradeState::DrainRequired];
    record.restart_only && evicts.iter().all(|state| !record.steps.contains_key(state))
}

/// Describes a test that did not pass.
fn describe(result: &AcceptanceResult) -> String {
    let AcceptanceResult { test, time, verdict, message, .. } = result;
    let driver = match time {
        AcceptanceTime::Before => " with the old driver",
        AcceptanceTime::After => "",
    };
    let colon = if message.is_empty() { "" } else { ": " };
    format!("acceptance test `{test}` {verdict}{driver}{colon}{message}")
}

#[cfg(test)]
mod tests;
