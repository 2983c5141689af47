//! Checks of acceptance tests: where and when their pods run, and what their results allow.

use std::sync::Arc;

use contract::acceptance::{
    ACCEPTANCE_NAMESPACE, AcceptanceNodes, AcceptanceTest, AcceptanceTime, MOST_LOG_CHARACTERS,
};
use contract::driver::Driver;
use contract::record::acceptance::AcceptanceResult;
use contract::task::Task;
use observed::ObservedNode;
use observed::acceptance::AcceptancePhase;
use planner::action::{AcceptanceCreation, PodDeletion, TestLogReading};
use planner::decide::Action;
use planner::drive_upgrade::record::UpgradeRecord;

use super::InvariantChecker;
use crate::objects::SimulatedOperand;
use crate::test_pods::{SECRET_OF_LOG, TestPod};

impl<'w> InvariantChecker<'w, '_> {
    /// Returns the tests that must run on a node at this time. A test that runs on a share of the
    /// nodes is only known to run on canaries.
    fn tests(&self, node: &str, time: AcceptanceTime) -> Vec<&'w AcceptanceTest> {
        let settings = &self.hook.settings;
        if settings.driver != Driver::Gpu || !settings.mode.decides() {
            return Vec::new();
        }
        let proof = self.hook.memory.proof.as_ref();
        let is_canary = proof.is_some_and(|proof| proof.canaries.iter().any(|name| name == node));
        let applies = |test: &&AcceptanceTest| {
            test.runs(time) && (is_canary || test.nodes == AcceptanceNodes::All)
        };
        settings.upgrade.acceptance.iter().filter(applies).collect()
    }

    /// Checks a pod that a decision creates, against the state that the hook observes.
    pub(super) fn test_decided(&mut self, creation: &AcceptanceCreation, actions: &[Action]) {
        let (name, view) = (&creation.node, &self.hook.caches.observed);
        let is_upgraded =
            |record: Arc<UpgradeRecord>| record.state.is_in_progress() && !record.restart_only;
        let is_prepared =
            |node: &ObservedNode| node.unschedulable && self.record(node).is_some_and(is_upgraded);
        let has_other =
            view.acceptance.on(name).any(|pod| pod.name != creation.pod || pod.deleting);
        let is_of_node = |action: &&Action| matches!(action, Action::CreateAcceptancePod(other) if other.node == *name);
        let is_wanted = |test: &AcceptanceTest| {
            test.name == creation.test && creation.time.is_some_and(|time| test.runs(time))
        };
        let problem = if !view.nodes.get(name).is_some_and(is_prepared) {
            Some("starts on a node that is not cordoned and in progress")
        } else if has_other {
            Some("starts while the node has another pod of a test")
        } else if actions.iter().filter(is_of_node).count() > 1 {
            Some("starts together with another one")
        } else if !self.hook.settings.upgrade.acceptance.iter().any(is_wanted) {
            Some("is not a test of the settings")
        } else if creation.deadline_seconds == 0 {
            Some("has no deadline")
        } else {
            None
        };
        if let Some(problem) = problem {
            self.context.violation(&format!("{name}: test {} {problem}", creation.test));
        }
    }

    /// Checks a pod that the API server is about to create.
    pub(crate) fn test_created(&mut self, creation: &AcceptanceCreation) {
        let (name, test) = (&creation.node, &creation.test);
        if self.is_open(name) {
            let is_known = self.knows_node(name);
            let problem = format!("{name}: test {test} starts on a node that accepts new pods");
            self.violates_if_known(is_known, &problem);
        }
        if creation.time == Some(AcceptanceTime::Before) {
            self.pause(name, &format!("test {test} starts"));
        }
        let mut others = self.cluster.workloads.tests.of_node(name);
        let other = others.find(|(_, pod)| pod.name != creation.pod);
        if let Some((uid, pod)) = other {
            let is_known = self.hook.knows_test_pod(name, uid);
            let problem = format!("{name}: test {test} starts next to {}", pod.name);
            self.violates_if_known(is_known, &problem);
        }
    }

    /// Checks a pod that the hook deletes.
    pub(crate) fn test_deleted(&mut self, deletion: &PodDeletion) {
        if deletion.namespace != ACCEPTANCE_NAMESPACE {
            let text = format!("{}: {} is not the pod of a test", deletion.node, deletion.pod);
            self.context.violation(&text);
        }
    }

    /// Checks a driver pod that the hook deletes: no test runs, and the tests with the old driver
    /// have passed, if the driver is unchanged since the node was started.
    pub(super) fn tested_before(&mut self, deletion: &PodDeletion, record: Option<&UpgradeRecord>) {
        let (name, cluster) = (&deletion.node, self.cluster);
        let runs = |(_, pod): &(&String, &TestPod)| !pod.phase.is_over();
        if let Some((uid, pod)) = cluster.workloads.tests.of_node(name).find(runs) {
            let is_known = self.hook.knows_test_pod(name, uid);
            let text = format!("{name}: its driver is deleted while {} runs", pod.name);
            self.violates_if_known(is_known, &text);
        }
        let driver = cluster.operands.pod(name, SimulatedOperand::Driver);
        let is_untouched = |record: &UpgradeRecord| {
            record.driver_pod.as_ref() == Some(&deletion.uid)
                && !record.has_failed()
                && !record.restart_only
        };
        if !self.hook.settings.has(Task::Drive)
            || self.untampered(name).is_none()
            || !record.is_some_and(is_untouched)
            || !driver.is_some_and(|pod| pod.containers_ready)
        {
            return;
        }
        let is_known = self.hook.knows_driver(name, &deletion.uid);
        self.passed(name, AcceptanceTime::Before, &deletion.uid, is_known, "its driver is deleted");
    }

    /// Checks a node that the hook uncordons: with a changed driver, all tests have passed, or a
    /// user takes it as proven.
    pub(super) fn made_available(&mut self, name: &str) {
        let cluster = self.cluster;
        let Some(node) = self.untampered(name) else { return };
        let Some(record) = self.record(&node.node) else { return };
        let Some(driver) = cluster.operands.pod(name, SimulatedOperand::Driver) else { return };
        let is_unchanged = record.driver_pod.as_ref().is_none_or(|uid| *uid == driver.uid);
        if is_unchanged
            || record.restart_only
            || record.state.is_before_restart()
            || self.hook.accepts(name, record.since)
        {
            return;
        }
        let is_known = self.knows_node(name) && self.hook.knows_driver(name, &driver.uid);
        self.passed(name, AcceptanceTime::After, &driver.uid, is_known, "it is uncordoned");
    }

    /// Checks that all tests of a node at this time have passed with this driver pod.
    fn passed(
        &mut self,
        name: &str,
        time: AcceptanceTime,
        driver_pod: &str,
        is_known: bool,
        what: &str,
    ) {
        for test in self.tests(name, time) {
            let result = self.cluster.workloads.tests.result(name, &test.name, time, driver_pod);
            let problem = match result {
                Some(true) => continue,
                Some(false) => "has failed",
                None => "has not ended",
            };
            let text =
                format!("{name}: {what}, but test {} ({}) {problem}", test.name, time.name());
            self.violates_if_known(is_known, &text);
        }
    }

    /// Checks a reading of a log that a decision requests: the test asks for it, and has not passed.
    pub(super) fn log_decided(&mut self, reading: &TestLogReading) {
        let tests = &self.hook.settings.upgrade.acceptance;
        let is_asked_for = |test: &AcceptanceTest| {
            test.name == reading.test && test.log_lines > 0 && test.log_lines == reading.lines
        };
        let mut pods = self.hook.caches.observed.acceptance.on(&reading.node);
        let pod = pods.find(|pod| pod.uid == reading.uid);
        let problem = match pod.map(|pod| &pod.phase) {
            None => "the log of an unknown pod is read",
            Some(AcceptancePhase::Succeeded { .. }) => "the log of a passed test is read",
            Some(_) if !tests.iter().any(is_asked_for) => "a log is read that no test asks for",
            Some(_) => return,
        };
        self.context.violation(&format!("{}: {problem}", reading.node));
    }

    /// Checks the log lines in the node's own record, and that the run record has none.
    pub(crate) fn logs(&mut self, name: &str) {
        let node = self.cluster.nodes.get(name).map(|node| &node.node);
        let own = node.and_then(|node| self.record(node));
        let tests = &self.hook.settings.upgrade.acceptance;
        let is_wrong = |result: &AcceptanceResult| {
            let characters: usize = result.log.iter().map(|line| line.chars().count()).sum();
            let most = tests.iter().filter(|test| test.name == result.test);
            let most = most.map(|test| test.log_lines).max().unwrap_or_default();
            result.log.len() > usize::try_from(most).unwrap_or_default()
                || characters > MOST_LOG_CHARACTERS
                || result.verdict.accepts() && !result.log.is_empty()
                || result.log.iter().any(|line| line.contains(SECRET_OF_LOG))
        };
        let is_wrong = own.iter().flat_map(|record| &record.acceptance).any(is_wrong);
        let recorded = self.hook.memory.nodes.get(name);
        let mut in_run = recorded.iter().flat_map(|record| &record.acceptance);
        let is_in_run = in_run.any(|result| !result.log.is_empty());
        if is_wrong {
            self.context.violation(&format!("{name}: its record has log lines that must not be"));
        }
        if is_in_run {
            self.context.violation(&format!("{name}: the run record has log lines"));
        }
    }

    /// Checks that no pod of a test outlives the run.
    pub(super) fn no_test_left(&mut self) {
        for pod in self.cluster.workloads.list_tests().filter(|pod| !pod.deleting) {
            let is_known = self.hook.knows_test_pod(&pod.node, &pod.uid);
            let text = format!("{}: {} outlives the run", pod.node, pod.name);
            self.violates_if_known(is_known, &text);
        }
    }
}
