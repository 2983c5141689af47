//! Mode `drive` on a small cluster: performs each decision and advances the time.

use std::collections::BTreeMap;

use contract::count::Count;
use contract::driver::Driver;
use contract::names;
use contract::settings::Mode;
use contract::task::Task;
use observed::workload::{PodController, PodPhase, Workload};
use observed::{ObservedContainer, ObservedPod};
use planner::action::NodePatch;
use planner::decide::{Action, Decision};
use planner::drive_upgrade::record::belongs_to_other_hook;
use planner::pods::eviction_retry::{EvictionHistory, EvictionReply};

use crate::fleet::{Fleet, NEW, OLD, at, waits};

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

/// Returns the lines of the story for one node: second and action.
fn told(story: &str, node: &str) -> Vec<String> {
    let about = |line: &str| {
        let (second, rest) = line.trim_start().split_once(' ')?;
        Some(format!("{second} {}", rest.strip_prefix(node)?.strip_prefix(' ')?))
    };
    story.lines().filter_map(about).collect()
}

#[test]
fn nodes_are_upgraded_and_released_one_by_one() {
    let mut driven = Driven::new(3);
    driven.training("gpu-1");
    let story = driven.run();
    assert_eq!(
        told(&story, "gpu-1"),
        [
            "31 pod-deletion-required cordoned",
            "31 evict train-uid-13",
            "31 pod-restart-required cordoned",
            "31 delete driver",
            "61 driver ready",
            "62 replace plugin",
            "62 - schedulable",
        ],
        "{story}"
    );
    assert!(
        story.ends_with("Success: settled: 3 of 3 nodes done; 3 DRA plugins replaced"),
        "{story}"
    );
    assert!(
        driven
            .fleet
            .observed
            .nodes
            .values()
            .all(|node| !node.unschedulable && node.annotations.is_empty())
    );
}

#[test]
fn forbidden_pod_is_named_and_node_released_untouched() {
    let mut driven = Driven::new(3);
    driven.fleet.settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
    driven.fleet.settings.upgrade.policy.max_parallel_upgrades = 2;
    driven.training("gpu-1").memory_dir = true;
    let story = driven.run();
    assert_eq!(
        told(&story, "gpu-1"),
        [
            "0 pod-deletion-required cordoned",
            "0 upgrade-failed schedulable",
            "60 pod-deletion-required cordoned",
            "60 upgrade-failed schedulable",
        ],
        "{story}"
    );
    assert!(
        story.contains(
            "NodesFailed: gpu-1: no pod was evicted: ml/train-uid-13 has an emptyDir in memory"
        ),
        "{story}"
    );
    assert!(!driven.fleet.node("gpu-1").unschedulable);
    assert_eq!(driven.fleet.driver_pod("gpu-1").revision.as_deref(), Some("old"));
}

/// Regression: with a limit of one node, and a server that answered the start with 429 or 500, the
/// node held the slot that it waited for until the end of the run.
#[test]
fn node_with_lost_start_does_not_block_itself() {
    let starts = |decision: &Decision| {
        let patches = decision.actions.iter().filter_map(|action| {
            if let Action::PatchNode(patch) = action { Some(patch) } else { None }
        });
        patches.map(|patch| patch.node.clone()).collect::<Vec<_>>()
    };
    for task in [Task::Drive, Task::Steer] {
        let mut fleet = Driven::new(3).fleet;
        fleet.settings.upgrade.policy.max_parallel_upgrades = 1;
        if task == Task::Steer {
            fleet.settings.mode = Mode::Steer;
            fleet.settings.tasks = vec![Task::Settle, Task::Steer, Task::Reroll];
            fleet.policy().upgrade_policy.auto_upgrade = true;
            for node in ["gpu-0", "gpu-1", "gpu-2"] {
                let traits = Driver::Gpu.traits();
                fleet.node(node).labels.insert(traits.skip_label.into(), "true".into());
                fleet.node(node).annotations.insert(traits.hold.into(), "true".into());
            }
        }
        assert_eq!(starts(&fleet.decide(0)), ["gpu-0"], "{task:?}");
        assert_eq!(starts(&fleet.decide(5)), [""; 0], "{task:?}: its answer may be on its way");
        assert_eq!(
            starts(&fleet.decide(10)),
            ["gpu-0"],
            "{task:?}: it is asked for again, and no other node is started"
        );
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

/// Returns the pods that a decision evicts, or the failure of the node.
fn evicts(decision: &Decision) -> Vec<&str> {
    let deed = |action: &Action| {
        matches!(action, Action::Evict(_)).then_some("evicts").or(matches!(
            action,
            Action::PatchNode(_)
        )
        .then_some("patches"))
    };
    decision.actions.iter().filter_map(deed).collect()
}

/// Regression: the pause of five seconds lasted until another change, or a minute, because a
/// refusal changes no watched object.
#[test]
fn refused_eviction_is_repeated_after_its_pause() {
    let mut driven = about_to_evict();
    let decision = driven.fleet.decide(1);
    assert_eq!(evicts(&decision), ["evicts"]);
    assert!(decision.wake_at <= at(6), "{}", decision.wake_at);
}

/// Regression: the process died right after the cordon. The timeout was over when the next process
/// could evict, and an attempt was lost.
#[test]
fn eviction_never_requested_is_never_late() {
    let mut driven = about_to_evict();
    assert_eq!(evicts(&driven.fleet.decide(400)), ["evicts"]);
    for pod in &driven.workloads {
        driven.fleet.memory.evictions.insert(
            pod.uid.clone(),
            EvictionHistory::after(None, at(400), EvictionReply::Blocked { retry_after: None }),
        );
    }
    assert_eq!(evicts(&driven.fleet.decide(406)), ["patches"], "now it is");
}

/// Regression: the answer to the patch of a new attempt was lost, and the attempt ended before any
/// eviction, because the refusals of the earlier attempt counted.
#[test]
fn answer_to_earlier_attempt_is_not_reused() {
    let mut driven = about_to_evict();
    for pod in &driven.workloads {
        let refused = EvictionReply::Blocked { retry_after: None };
        driven
            .fleet
            .memory
            .evictions
            .insert(pod.uid.clone(), EvictionHistory::after(None, at(-60), refused));
    }
    assert_eq!(evicts(&driven.fleet.decide(400)), ["evicts"]);
}

/// Regression: a pod that tolerates the cordon came back after each eviction with another UID. The
/// node stayed cordoned and lost a pod every minute.
#[test]
fn recurring_pods_are_as_late_as_the_first() {
    let mut driven = about_to_evict();
    assert_eq!(evicts(&driven.fleet.decide(1)), ["evicts"]);
    let again = Workload { uid: "again".into(), created: at(395), ..driven.workloads[0].clone() };
    driven.fleet.observed.workloads.pods = [("gpu-0".to_owned(), vec![again])].into();
    assert_eq!(evicts(&driven.fleet.decide(400)), ["patches"]);
}

/// Whether the decision uncordons a node.
fn uncordons(decision: &Decision) -> bool {
    decision.actions.iter().any(
        |action| matches!(action, Action::PatchNode(patch) if patch.unschedulable == Some(false)),
    )
}

/// A node that failed under an earlier digest keeps its cordon and its broken driver. A new run
/// starts it and has no time left.
#[test]
fn deadline_releases_nodes_only_with_running_driver() {
    for broken in [false, true] {
        let mut driven = about_to_evict();
        driven.fleet.driver_pod("gpu-0").containers_ready = !broken;
        driven.fleet.memory.deadline = at(100);
        assert_eq!(uncordons(&driven.fleet.decide(100)), !broken, "broken: {broken}");
    }
}

/// Regression: the whole fleet waited at the deadline, and the hook did not check the nodes.
#[test]
fn deadline_releases_nodes_while_operator_is_awaited() {
    let mut driven = about_to_evict();
    driven.fleet.policy().driver.version = Some("999.99".into());
    driven.fleet.memory.deadline = at(100);
    assert!(!uncordons(&driven.fleet.decide(50)));
    let decision = driven.fleet.decide(100);
    assert!(uncordons(&decision), "{:?}", decision.actions);
}

#[test]
fn traces_of_another_daemon_set_are_not_adopted() {
    let mut driven = about_to_evict();
    let traits = Driver::DaemonSet.traits();
    let node = driven.fleet.node("gpu-0");
    let text = node.annotations["gpu-rollout.dev/gpu-driver-upgrade"].replacen(
        '{',
        r#"{"daemonSet":"one/driver","#,
        1,
    );
    node.annotations.insert(traits.own_record.into(), text);
    for (identity, is_other) in
        [(Some("two/driver"), true), (Some("one/driver"), false), (None, false)]
    {
        assert_eq!(
            belongs_to_other_hook(driven.fleet.node("gpu-0"), traits, identity),
            is_other,
            "{identity:?}"
        );
    }
}

#[test]
fn template_changed_after_restart_only_start_evicts_first() {
    let mut driven = Driven::new(1);
    driven.fleet.driver_pod("gpu-0").config_digest = Some("same".into());
    driver_set(&mut driven).config_digest = Some("same".into());
    driven.training("gpu-0");
    let decision = driven.fleet.decide(0);
    driven.perform(&decision.actions[0]);
    driver_set(&mut driven).config_digest = Some("another".into());
    let story = driven.run();
    let of = |what: &str| story.lines().position(|line| line.contains(what));
    assert!(of("evict").is_some() && of("evict") < of("delete driver"), "{story}");
}

fn driver_set(driven: &mut Driven) -> &mut observed::ObservedDaemonSet {
    driven
        .fleet
        .observed
        .daemon_sets
        .iter_mut()
        .find(|set| set.uid == "driver-ds")
        .expect("the driver's DaemonSet")
}

#[test]
fn node_that_loses_its_device_is_released() {
    let mut driven = Driven::new(2);
    driven.tick();
    assert!(driven.fleet.node("gpu-0").unschedulable, "it is being upgraded");
    let node = driven.fleet.node("gpu-0");
    for label in [
        names::GPU_PRESENT_LABEL,
        names::DEPLOY_DRIVER_LABEL,
        "feature.node.kubernetes.io/pci-10de.present",
    ] {
        node.labels.remove(label);
    }
    driven.fleet.observed.pods.changed().retain(|pod| pod.node.as_deref() != Some("gpu-0"));
    driven.starting.remove("gpu-0");
    driven.touch("gpu-0");
    let story = driven.run();
    assert!(!driven.fleet.node("gpu-0").unschedulable, "{story}");
    assert!(driven.fleet.node("gpu-0").annotations.is_empty(), "{story}");
}

#[test]
fn joined_node_with_old_driver_is_awaited() {
    let mut driven = Driven::new(1);
    driven.fleet.join("gpu-9", 1);
    driven.fleet.driver("gpu-9", "old", OLD, -5);
    driven.fleet.driver_pod("gpu-9").containers_ready = true;
    driven.fleet.toolkit("gpu-9", -4);
    driven.fleet.plugin("gpu-9", -3, OLD);
    driven.touch("gpu-9");
    let story = driven.run();
    assert!(!driven.fleet.node("gpu-9").unschedulable, "{story}");
    assert_eq!(driven.fleet.driver_pod("gpu-9").revision.as_deref(), Some("new"), "{story}");
}

#[test]
fn traces_of_another_drivers_hook_are_not_released() {
    let mut fleet = Fleet::at_rest(1);
    fleet.is_assisted("v26.7.0");
    let record = r#"{"version":1,"state":"upgrade-failed","since":"2026-01-01T00:00:00Z","started":"2026-01-01T00:00:00Z","digest":"d","cordoned":true}"#;
    let node = fleet.node("gpu-0");
    node.annotations.insert("gpu-rollout.dev/ofed-driver-upgrade".into(), record.into());
    node.labels.insert("gpu-rollout.dev/ofed-driver-upgrade-state".into(), "upgrade-failed".into());
    node.unschedulable = true;
    let decision = fleet.decide(0);
    assert!(
        !decision.actions.iter().any(|action| matches!(action, Action::PatchNode(_))),
        "{:?}",
        decision.actions
    );
}

/// Regression: the hook waited endlessly for the list of a node's pods, and the node kept its slot.
#[test]
fn node_with_unlistable_pods_is_released_before_driver() {
    let mut fleet = Driven::new(1).fleet;
    let (begun, digest) = (at(0), fleet.settings.digest.clone());
    let record = format!(
        r#"{{"version":1,"state":"pod-restart-required","since":"{begun}","started":"{begun}","digest":"{digest}","cordoned":true}}"#
    );
    let node = fleet.node("gpu-0");
    node.annotations.insert("gpu-rollout.dev/gpu-driver-upgrade".into(), record);
    node.labels
        .insert("gpu-rollout.dev/gpu-driver-upgrade-state".into(), "pod-restart-required".into());
    node.unschedulable = true;
    let patches = |decision: &Decision| {
        let patches = decision.actions.iter().filter_map(|action| {
            if let Action::PatchNode(patch) = action { Some(patch) } else { None }
        });
        patches
            .map(|patch| {
                (patch.unschedulable, patch.labels.values().flatten().cloned().collect::<Vec<_>>())
            })
            .collect::<Vec<_>>()
    };
    for second in [0, 60, 119] {
        let decision = fleet.decide(second);
        assert_eq!(waits(&decision), ["gpu-0:PodsNotListed"], "{second}");
        assert!(
            decision.focus.contains("gpu-0") && decision.actions.is_empty(),
            "{second}: {:?}",
            decision.actions
        );
    }
    assert_eq!(
        patches(&fleet.decide(120)),
        [(Some(false), vec!["upgrade-failed".to_owned()])],
        "its driver was not touched"
    );
}
