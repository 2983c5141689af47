//! Mode `drive` on a small cluster: performs each decision and advances the time.

use std::collections::BTreeMap;

use contract::names;
use contract::settings::Mode;
use contract::task::Task;
use observed::workload::{PodController, PodPhase, Workload};
use observed::{ObservedContainer, ObservedPod};
use planner::action::NodePatch;
use planner::decide::{Action, Decision};
use planner::memory::RunMemory;
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};

use crate::fleet::{Fleet, NEW, at, waits};

mod evictions;
mod groups;
mod releases;
mod upgrades;

/// A driven fleet, second by second.
pub(crate) struct Driven {
    pub(crate) fleet: Fleet,
    pub(crate) second: i64,
    /// When the new driver of each node becomes ready.
    starting: BTreeMap<String, i64>,
    /// Seconds that a driver takes to start.
    pub(crate) driver_seconds: i64,
    /// The lines of the story.
    pub(crate) story: Vec<String>,
    workloads: Vec<Workload>,
    versions: u64,
    pub(crate) last: Option<Decision>,
}

impl Driven {
    pub(crate) fn new(nodes: usize) -> Self {
        let mut fleet = Fleet::at_rest(nodes);
        fleet.settings.mode = Mode::Drive;
        fleet.settings.tasks = vec![Task::Settle, Task::Drive, Task::Reroll];
        fleet.settings.per_node_seconds = 60;
        fleet.policy().upgrade_policy.auto_upgrade = false;
        fleet.policy().driver.version = Some(NEW.into());
        fleet.operator_observes();
        for daemon_set in &mut fleet.observed.daemon_sets {
            for key in ["ENABLE_GPU_POD_EVICTION", "ENABLE_AUTO_DRAIN"] {
                daemon_set.manager_environment.insert(key.into(), "false".into());
            }
        }
        fleet.observed.revisions.push(observed::ObservedRevision {
            owner: "driver-ds".into(),
            revision: 2,
            hash: "new".into(),
        });
        let names: Vec<String> = fleet.observed.nodes.keys().map(ToString::to_string).collect();
        for node in &names {
            fleet.driver_pod(node).containers_ready = true;
            fleet.node(node).labels.insert(names::DEPLOY_VALIDATOR_LABEL.into(), "true".into());
            fleet.observed.validators.push(ObservedPod {
                name: format!("validator-{node}"),
                node: Some(node.clone()),
                running: true,
                containers_ready: true,
                ..ObservedPod::default()
            });
        }
        let mut driven = Self {
            fleet,
            second: 0,
            starting: BTreeMap::new(),
            driver_seconds: 30,
            story: Vec::new(),
            workloads: Vec::new(),
            versions: 0,
            last: None,
        };
        for node in names {
            driven.touch(&node);
        }
        driven
    }

    /// Deploys the hook again, with another trigger digest, after a run that did not succeed.
    pub(crate) fn deploy(&mut self, digest: &str) {
        let before = std::mem::take(&mut self.fleet.memory);
        let (now, end) = (at(self.second), at(self.second + 7_200));
        digest.clone_into(&mut self.fleet.settings.digest);
        self.fleet.memory = RunMemory {
            earlier_baseline: before.baseline.clone(),
            ..RunMemory::following(&before.nodes, now, end)
        };
    }

    fn touch(&mut self, node: &str) {
        self.versions += 1;
        self.fleet.node(node).version = self.versions.to_string();
    }

    /// Adds a training pod with a GPU, of a ReplicaSet.
    pub(crate) fn training(&mut self, node: &str) -> &mut Workload {
        let uid = self.fleet.uid();
        self.workloads.push(Workload {
            namespace: "ml".into(),
            name: format!("train-{uid}"),
            uid,
            node: node.into(),
            phase: PodPhase::Running,
            ready: true,
            controller: Some(PodController {
                api_version: "apps/v1".into(),
                kind: "ReplicaSet".into(),
                name: "train".into(),
                uid: "rs".into(),
            }),
            resources: ["nvidia.com/gpu".to_owned()].into(),
            grace_seconds: 30,
            ..Workload::default()
        });
        self.workloads.last_mut().expect("just put there")
    }

    fn tell(&mut self, what: &str) {
        self.story.push(format!("{:>4} {what}", self.second));
    }

    fn patch(&mut self, patch: &NodePatch) {
        assert_eq!(
            self.fleet.node(&patch.node).version,
            patch.version,
            "the patch knows of the node's newest change"
        );
        self.fleet.patch(patch);
        let node = self.fleet.node(&patch.node);
        let state = node
            .labels
            .get("gpu-rollout.dev/gpu-driver-upgrade-state")
            .cloned()
            .unwrap_or_else(|| "-".into());
        let cordon = if node.unschedulable { "cordoned" } else { "schedulable" };
        self.tell(&format!("{} {state} {cordon}", patch.node));
        self.touch(&patch.node);
    }

    fn perform(&mut self, action: &Action) {
        match action {
            Action::PatchNode(patch) => self.patch(patch),
            Action::Evict(eviction) => {
                self.tell(&format!("{} evict {}", eviction.node, eviction.pod));
                self.workloads.retain(|pod| pod.uid != eviction.uid);
                let history =
                    EvictionHistory::after(None, at(self.second), EvictionReply::Accepted);
                self.fleet.memory.evictions.insert(eviction.uid.clone(), history);
            }
            Action::DeleteDriver(deletion) => {
                self.tell(&format!("{} delete driver", deletion.node));
                assert!(
                    self.fleet.node(&deletion.node).unschedulable,
                    "{} takes new pods",
                    deletion.node
                );
                self.fleet.driver(&deletion.node, "new", NEW, self.second);
                let pod = self.fleet.driver_pod(&deletion.node);
                (pod.ready, pod.ready_since) = (false, None);
                pod.containers =
                    vec![ObservedContainer { started: None, ..pod.containers[0].clone() }];
                self.starting.insert(deletion.node.clone(), self.second + self.driver_seconds);
            }
            Action::CreateAcceptancePod(_)
            | Action::DeleteAcceptancePod(_)
            | Action::ReadTestLog(_) => {
                panic!("no test has been set up: {action:?}")
            }
            Action::ReplacePlugin { node, .. } => {
                self.tell(&format!("{node} replace plugin"));
                self.fleet.plugin(node, self.second + 1, NEW);
            }
        }
    }

    /// Decides and acts until nothing changes any more, then advances the time by one second.
    pub(crate) fn tick(&mut self) -> bool {
        let ready: Vec<String> = self
            .starting
            .iter()
            .filter(|(_, at)| **at <= self.second)
            .map(|(node, _)| node.clone())
            .collect();
        for node in ready {
            self.starting.remove(&node);
            let second = self.second;
            let pod = self.fleet.driver_pod(&node);
            (pod.ready, pod.containers_ready, pod.ready_since) = (true, true, Some(at(second)));
            pod.containers[0].started = Some(at(second));
            self.tell(&format!("{node} driver ready"));
        }
        for _ in 0..20 {
            let decision = self.fleet.decide(self.second);
            let pods = decision.focus.iter().map(|node| {
                (
                    node.clone(),
                    self.workloads.iter().filter(|pod| pod.node == *node).cloned().collect(),
                )
            });
            let focused: BTreeMap<String, Vec<Workload>> = pods.collect();
            let seen = focused != self.fleet.observed.workloads.pods;
            self.fleet.observed.workloads.pods = focused;
            for action in &decision.actions {
                self.perform(action);
            }
            let over = decision.verdict.is_some();
            let still = decision.actions.is_empty() && !seen;
            self.last = Some(decision);
            if over {
                return false;
            }
            if still {
                break;
            }
        }
        self.second += 1;
        true
    }

    pub(crate) fn run(&mut self) -> String {
        while self.tick() {
            assert!(
                self.second < 10_000,
                "{}\n{:?}",
                self.story.join("\n"),
                self.last.as_ref().map(waits)
            );
        }
        let verdict = self.last.as_ref().and_then(|last| last.verdict.clone()).expect("it is over");
        self.tell(&format!("{:?}: {}", verdict.code, verdict.message));
        self.story.join("\n")
    }
}

/// Returns a fleet with a node whose pods are listed but not evicted yet.
fn about_to_evict() -> Driven {
    let mut driven = Driven::new(3);
    driven.training("gpu-0");
    let decision = driven.fleet.decide(0);
    decision.actions.iter().for_each(|action| driven.perform(action));
    driven.fleet.observed.workloads.pods = [("gpu-0".to_owned(), driven.workloads.clone())].into();
    driven
}
