//! The model as the operator of a small world. It must repeat the recorded steps of the real
//! operator at the same times.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::driver::Driver;
use jiff::{SignedDuration, Timestamp};
use nvidia_upgrade::background_task::eviction_ended;
use nvidia_upgrade::pass::PassWrite;
use nvidia_upgrade::{ControllerGeneration, ControllerState, UpgradeController};
use observed::{Observed, ObservedPod};

use super::story::{Story, rules, story};

/// An event of the world.
enum Event {
    /// The operator and the DaemonSet controller act on the new spec, with these DaemonSets,
    /// revisions and policy.
    Spec(Box<Observed>),
    /// The evictions of a node have succeeded.
    Evicted(String),
    /// The DaemonSet controller creates a pod for a node.
    Created(String),
    /// A driver is ready.
    Ready(String),
    /// The validator of a node becomes ready or unready.
    Validator(String, bool),
}

struct World {
    observed: Observed,
    controller: UpgradeController,
    events: BTreeMap<(Timestamp, usize), Event>,
    count: usize,
    steps: Vec<(Timestamp, String, ControllerState)>,
}

const LABEL: &str = "nvidia.com/gpu-driver-upgrade-state";

/// Returns the seconds that a driver takes on a node in the recordings.
fn driver_seconds(node: &str) -> i64 {
    match node {
        "gpu-000" => 5,
        "gpu-001" => 8,
        "gpu-002" => 12,
        _ => 20,
    }
}

impl World {
    fn new(story: &Story) -> Self {
        let observed = story.moments[0].observed.clone();
        let mut controller =
            UpgradeController::new(Driver::Gpu, ControllerGeneration::Gpu26_7, None, story.at(0.0));
        controller.run(&observed, story.at(0.0), &mut |_| true);
        Self { observed, controller, events: BTreeMap::new(), count: 0, steps: Vec::new() }
    }

    fn after(&mut self, at: Timestamp, event: Event) {
        self.count += 1;
        self.events.insert((at, self.count), event);
    }

    fn run(&mut self, until: Timestamp) {
        loop {
            let event = self.events.first_key_value().map(|(key, _)| *key);
            let due = self.controller.due().filter(|due| event.is_none_or(|(at, _)| *due < at));
            let Some(now) = due.or(event.map(|(at, _)| at)).filter(|now| *now <= until) else {
                return;
            };
            let before = self.observed.clone();
            if due.is_some() {
                let seen = self.observed.clone();
                let mut writes = Vec::new();
                let done = self.controller.run(&seen, now, &mut |write| {
                    writes.push(write.clone());
                    true
                });
                assert!(done.cleaned.is_empty());
                for write in writes {
                    self.perform(write, now);
                }
            } else if let Some((_, event)) = self.events.pop_first() {
                self.happen(event, now);
            }
            self.controller.notice(&before, &self.observed, now);
        }
    }

    fn state(&mut self, node: &str, state: ControllerState, now: Timestamp) {
        self.node(node).labels.insert(LABEL.to_owned(), state.label().to_owned());
        self.steps.push((now, node.to_owned(), state));
    }

    fn node(&mut self, name: &str) -> &mut observed::ObservedNode {
        self.observed.nodes.get_mut(name).expect("it is there")
    }

    fn driver(&mut self, node: &str) -> &mut ObservedPod {
        let is_driver = |pod: &ObservedPod| pod.name.starts_with("nvidia-driver");
        self.observed.pods.find_mut(node, is_driver).expect("a driver pod")
    }

    fn perform(&mut self, write: PassWrite, now: Timestamp) {
        let soon = now + SignedDuration::from_millis(100);
        match write {
            PassWrite::State { node, state } => self.state(&node, state, now),
            PassWrite::Annotate { node, key, value: Some(value) } => {
                self.node(&node).annotations.insert(key.to_owned(), value);
            }
            PassWrite::Annotate { node, key, value: None } => {
                self.node(&node).annotations.remove(key);
            }
            PassWrite::Cordon { node } => self.node(&node).unschedulable = true,
            PassWrite::Uncordon { node } => self.node(&node).unschedulable = false,
            PassWrite::Evict { node } => self.after(soon, Event::Evicted(node)),
            PassWrite::DeletePod { node, name, .. } => {
                self.observed.pods.edit().retain(|pod| pod.name != name);
                self.after(soon, Event::Created(node));
            }
            PassWrite::Drain { .. }
            | PassWrite::CreateMaintenance { .. }
            | PassWrite::JoinMaintenance { .. }
            | PassWrite::LeaveMaintenance { .. }
            | PassWrite::DeleteMaintenance { .. } => panic!("not in these stories: {write}"),
        }
    }

    fn happen(&mut self, event: Event, now: Timestamp) {
        match event {
            Event::Spec(new) => {
                (self.observed.daemon_sets, self.observed.revisions) =
                    (new.daemon_sets, new.revisions);
                self.observed.cluster_policy = new.cluster_policy;
            }
            Event::Evicted(node) => {
                let state = eviction_ended(true, &rules(&self.observed).policy);
                self.controller.ended(&node);
                self.state(&node, state, now);
            }
            Event::Created(node) => {
                let template = self
                    .observed
                    .pods
                    .iter()
                    .find(|pod| pod.name.starts_with("nvidia-driver"))
                    .expect("another one")
                    .clone();
                let newest = self
                    .observed
                    .revisions
                    .iter()
                    .filter(|revision| Some(&revision.owner) == template.owner.as_ref());
                let revision = newest
                    .max_by_key(|revision| revision.revision)
                    .map(|revision| revision.hash.clone());
                let daemon_set = self
                    .observed
                    .daemon_sets
                    .iter()
                    .find(|daemon_set| Some(&daemon_set.uid) == template.owner.as_ref());
                let config_digest =
                    daemon_set.and_then(|daemon_set| daemon_set.config_digest.clone());
                let name = format!("nvidia-driver-daemonset-new-{node}");
                let (uid, on) = (name.clone(), Some(node.clone()));
                let pod = ObservedPod {
                    name,
                    uid,
                    node: on,
                    revision,
                    config_digest,
                    running: false,
                    containers_ready: false,
                    ready: false,
                    ..template
                };
                self.observed.pods.push(pod);
                self.after(
                    now + SignedDuration::from_secs(driver_seconds(&node)),
                    Event::Ready(node),
                );
            }
            Event::Ready(node) => {
                let pod = self.driver(&node);
                (pod.running, pod.containers_ready, pod.ready) = (true, true, true);
            }
            Event::Validator(node, ready) => {
                let on_node = |pod: &&mut ObservedPod| pod.node.as_ref() == Some(&node);
                self.observed
                    .validators
                    .edit()
                    .iter_mut()
                    .map(Arc::make_mut)
                    .find(on_node)
                    .expect("a validator")
                    .containers_ready = ready;
            }
        }
    }
}

/// Returns the states of each node with their seconds.
fn by_node(
    steps: impl Iterator<Item = (f64, String, ControllerState)>,
) -> BTreeMap<String, Vec<(f64, ControllerState)>> {
    let mut all: BTreeMap<String, Vec<(f64, ControllerState)>> = BTreeMap::new();
    for (second, node, state) in steps {
        all.entry(node).or_default().push((second, state));
    }
    all
}

#[test]
fn small_world_model_matches_the_real_controller() {
    for (name, others) in [
        ("02-driver-bump-serial", Vec::new()),
        (
            "03-driver-bump-parallel",
            vec![
                (122.859, Event::Validator("gpu-000".into(), false)),
                (273.656, Event::Validator("gpu-000".into(), true)),
            ],
        ),
        ("04-restart-only", Vec::new()),
    ] {
        let story = story(name);
        let mut world = World::new(story);
        let newest = story.moments.iter().find(|moment| {
            moment.observed.revisions.len() > story.moments[0].observed.revisions.len()
        });
        let spec = newest.expect("a new revision");
        // The real controller is notified of an edit before its revision exists, and reads later.
        // Here a pass reads at once, so both arrive together.
        let mut edit = spec.observed.clone();
        for daemon_set in &mut edit.daemon_sets {
            daemon_set.observed = false;
        }
        world.after(story.at(spec.second), Event::Spec(Box::new(edit)));
        world.after(story.at(spec.second + 0.2), Event::Spec(Box::new(spec.observed.clone())));
        for (second, event) in others {
            world.after(story.at(second), event);
        }
        world.run(story.at(1000.0));
        let simulated = world.steps.iter().map(|(at, node, state)| {
            (at.duration_since(story.at(0.0)).as_secs_f64(), node.clone(), *state)
        });
        let recorded = story.steps.iter().map(|step| (step.second, step.node.clone(), step.to));
        let (simulated, recorded) = (by_node(simulated), by_node(recorded));
        assert_eq!(
            simulated.keys().collect::<Vec<_>>(),
            recorded.keys().collect::<Vec<_>>(),
            "{name}"
        );
        for (node, real) in &recorded {
            let states = |steps: &[(f64, ControllerState)]| {
                steps.iter().map(|(_, state)| *state).collect::<Vec<_>>()
            };
            assert_eq!(states(&simulated[node]), states(real), "{name}: {node}");
            for ((model, state), (real, _)) in simulated[node].iter().zip(real) {
                // Writes take no time here. In reality, a batch takes about a second.
                assert!(
                    (model - real).abs() < 7.0,
                    "{name}: {node} reaches {state} at {model}, and at {real} in reality"
                );
            }
        }
    }
}

/// The timing of an undisturbed controller: ticks, and back-off after errors.
#[test]
fn controller_ticks_backs_off_and_sleeps_when_off() {
    let story = story("02-driver-bump-serial");
    let mut observed = story.moments[0].observed.clone();
    let start = story.at(0.0);
    let mut controller =
        UpgradeController::new(Driver::Gpu, ControllerGeneration::Gpu26_7, None, start);
    assert_eq!(controller.due(), Some(start));
    controller.run(&observed, start, &mut |_| true);
    assert_eq!(controller.due(), Some(start + SignedDuration::from_secs(120)));

    let lost = observed
        .pods
        .iter()
        .position(|pod| pod.name.starts_with("nvidia-driver"))
        .expect("a driver pod");
    let pod = observed.pods.edit().remove(lost);
    for pause in [100, 200, 400, 800, 1600, 3000, 3000] {
        assert!(controller.run(&observed, start, &mut |_| true).error().is_some());
        assert_eq!(controller.due(), Some(start + SignedDuration::from_millis(pause)));
    }
    observed.pods.edit().push(pod);
    controller.run(&observed, start, &mut |_| true);
    assert_eq!(controller.due(), Some(start + SignedDuration::from_secs(120)));

    let mut off = observed.clone();
    if let observed::OptionalApi::Served(Some(policy)) = &mut off.cluster_policy {
        policy.upgrade_policy.auto_upgrade = false;
        policy.generation += 1;
    }
    controller.notice(&observed, &off, start);
    assert_eq!(controller.due(), Some(start), "an edit of the policy wakes it");
    let done = controller.run(&off, start, &mut |_| true);
    assert_eq!((done.cleaned.len(), done.passes.len(), controller.due()), (4, 0, None));
}
