//! The pods of acceptance tests, apart from what they have in common with all pods, and how they
//! ended.

use std::collections::BTreeMap;

use contract::acceptance::AcceptanceTime;
use observed::acceptance::{AcceptancePhase, AcceptancePod};
use observed::workload::Workload;

use super::acceptance::AcceptanceEffect;

/// The number of characters of the trigger digest in the label of a pod.
const DIGEST_CHARACTERS: usize = 12;

/// The name of the container of every pod.
const CONTAINER: &str = "test";
/// The secret in the log of every pod.
pub(super) const SECRET_OF_LOG: &str = "hunter2hunter2";
/// The log of every pod.
const LOG: &str = "step 1 of 3: login with password=hunter2hunter2\nstep 2 of 3: 8 GPUs\n\u{1b}[31mstep 3 of 3: 7 of 8 GPUs are fast enough\u{1b}[0m\n";

/// What the kubelet or the scheduler does with the pod of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestPodStep {
    /// The scheduler tries again to find a place for it.
    Schedule,
    /// Its image is pulled, or the next attempt to pull it is due.
    Start,
    /// Its container ends.
    End,
    /// Its deadline passes.
    Deadline,
}

/// The pod of a test.
#[derive(Clone, Debug)]
pub(super) struct TestPod {
    /// Its name.
    pub(super) name: String,
    /// The node that it tests.
    pub(super) node: String,
    /// The name of its test.
    pub(super) test: String,
    /// When it runs.
    pub(super) time: Option<AcceptanceTime>,
    /// The first characters of the trigger digest.
    pub(super) digest: String,
    /// UID of the driver pod with which it runs.
    pub(super) driver_pod: Option<String>,
    /// Seconds after which the kubelet ends it, from the time at which it is bound.
    pub(super) deadline_seconds: u64,
    /// What happens to it.
    pub(super) effect: Option<AcceptanceEffect>,
    /// When it was created, in milliseconds.
    pub(super) created_at: u64,
    /// When it was bound, in milliseconds.
    pub(super) bound_at: u64,
    /// How far it is.
    pub(super) phase: AcceptancePhase,
    /// Whether its container has started, so that it has a log.
    pub(super) has_log: bool,
    /// Whether the scheduler will try again.
    pub(super) is_queued: bool,
}

impl TestPod {
    /// Returns a pod that is created now, in milliseconds, by a run with this trigger digest.
    pub(super) fn new(name: &str, node: &str, digest: &str, now: u64) -> Self {
        Self {
            name: name.to_owned(),
            node: node.to_owned(),
            test: String::new(),
            time: None,
            digest: digest.chars().take(DIGEST_CHARACTERS).collect(),
            driver_pod: None,
            deadline_seconds: 0,
            effect: None,
            created_at: now,
            bound_at: now,
            phase: AcceptancePhase::Pending,
            has_log: false,
            is_queued: false,
        }
    }

    /// Returns the pod as the hook observes it.
    pub(super) fn observed(&self, pod: &Workload) -> AcceptancePod {
        AcceptancePod {
            name: self.name.clone(),
            uid: pod.uid.clone(),
            node: self.node.clone(),
            test: self.test.clone(),
            time: self.time,
            digest: self.digest.clone(),
            created: pod.created,
            deleting: pod.deleted_at.is_some(),
            phase: self.phase.clone(),
            log_container: self.has_log.then(|| CONTAINER.to_owned()),
        }
    }

    /// Returns the log of a container. `None`: it has none.
    pub(super) fn log(&self, container: &str) -> Option<&'static str> {
        (self.has_log && container == CONTAINER).then_some(LOG)
    }

    /// Returns the seconds since its creation.
    pub(super) fn seconds(&self, now: u64) -> u64 {
        now.saturating_sub(self.created_at) / 1000
    }
}

/// A run of a test: node, test, when it runs, and UID of the driver pod.
type TestRun = (String, String, AcceptanceTime, String);

/// The pods of tests by UID, and the results of those that have ended.
#[derive(Debug, Default)]
pub(super) struct TestPods {
    pods: BTreeMap<String, TestPod>,
    /// Whether the last pod of each run succeeded.
    results: BTreeMap<TestRun, bool>,
}

impl TestPods {
    pub(super) fn get(&self, uid: &str) -> Option<&TestPod> {
        self.pods.get(uid)
    }

    pub(super) fn get_mut(&mut self, uid: &str) -> Option<&mut TestPod> {
        self.pods.get_mut(uid)
    }

    pub(super) fn insert(&mut self, uid: String, pod: TestPod) {
        self.pods.insert(uid, pod);
    }

    pub(super) fn remove(&mut self, uid: &str) {
        self.pods.remove(uid);
    }

    /// Iterates over all pods with their UIDs.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &TestPod)> {
        self.pods.iter()
    }

    /// Iterates over the pods that test a node, with their UIDs.
    pub(super) fn of_node(&self, node: &str) -> impl Iterator<Item = (&String, &TestPod)> {
        self.iter().filter(move |(_, pod)| pod.node == node)
    }

    /// Notes the end of a pod.
    pub(super) fn note_result(&mut self, uid: &str, has_passed: bool) {
        let Some(pod) = self.pods.get(uid) else { return };
        if let Some((time, driver_pod)) = pod.time.zip(pod.driver_pod.clone()) {
            let run = (pod.node.clone(), pod.test.clone(), time, driver_pod);
            self.results.insert(run, has_passed);
        }
    }

    /// Returns whether a test has passed on a node with this driver pod. `None`: it has not ended.
    pub(super) fn result(
        &self,
        node: &str,
        test: &str,
        time: AcceptanceTime,
        driver_pod: &str,
    ) -> Option<bool> {
        let run = (node.to_owned(), test.to_owned(), time, driver_pod.to_owned());
        self.results.get(&run).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn result_is_about_one_driver_pod() {
        let mut pods = TestPods::default();
        let pod = TestPod {
            test: "dcgm".to_owned(),
            time: Some(AcceptanceTime::After),
            driver_pod: Some("d1".to_owned()),
            ..TestPod::new("dcgm-1", "gpu-0", &"a".repeat(64), 1_000)
        };
        pods.insert("u1".to_owned(), pod);
        pods.note_result("u1", false);
        pods.note_result("u1", true);
        let result = |time, driver| pods.result("gpu-0", "dcgm", time, driver);
        assert_eq!(result(AcceptanceTime::After, "d1"), Some(true), "the last pod counts");
        assert_eq!(result(AcceptanceTime::After, "d2"), None);
        assert_eq!(result(AcceptanceTime::Before, "d1"), None);
        assert_eq!(pods.of_node("gpu-1").count(), 0);
        assert_eq!(pods.get("u1").map(|pod| (pod.digest.len(), pod.seconds(3_500))), Some((12, 2)));
    }
}
