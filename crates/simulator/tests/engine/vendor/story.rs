//! A trace as a sequence of moments: the observed state after each event, and the changes of state
//! labels.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::OnceLock;

use contract::driver::Driver;
use contract::selector::Selector;
use jiff::Timestamp;
use nvidia_upgrade::snapshot::SnapshotInputs;
use nvidia_upgrade::{
    ControllerGeneration, ControllerState, PassOptions, PolicyRules, UpgradeSnapshot,
};
use observed::Observed;
use observed::workload::{AwaitedPod, PodPhase};
use serde_json::Value;

use crate::traces::{apply, observed, origin, seconds, trace};

const TRACES: [&str; 16] = [
    "01-fresh-install",
    "02-driver-bump-serial",
    "03-driver-bump-parallel",
    "04-restart-only",
    "05-failing-driver",
    "06-drain-pdb",
    "07-wait-for-jobs",
    "08-join-and-leave",
    "09-pause-mid-roll",
    "11-toolkit-bump",
    "12b-gpu-node-appears",
    "16-rollback-mid-roll",
    "26.3-serial",
    "26.3-parallel-jobs",
    "26.3-drain-pdb",
    "26.3-failing-driver",
];

/// Returns all traces with their names. They are read once.
pub(crate) fn stories() -> impl Iterator<Item = (&'static str, &'static Story)> {
    TRACES.into_iter().map(|name| (name, story(name)))
}

/// Returns the trace with this name.
pub(crate) fn story(name: &str) -> &'static Story {
    static STORIES: [OnceLock<Story>; TRACES.len()] = [const { OnceLock::new() }; TRACES.len()];
    let index = TRACES.iter().position(|trace| *trace == name).expect("a trace");
    STORIES[index].get_or_init(|| Story::of(name))
}

/// The observed state after an event.
pub(crate) struct Moment {
    pub(crate) second: f64,
    pub(crate) observed: Observed,
}

/// A change of a node's state label.
#[derive(Clone, Debug)]
pub(crate) struct Step {
    /// The moment that shows the change.
    pub(crate) moment: usize,
    pub(crate) second: f64,
    pub(crate) node: String,
    pub(crate) from: ControllerState,
    pub(crate) to: ControllerState,
}

pub(crate) struct Story {
    pub(crate) moments: Vec<Moment>,
    pub(crate) steps: Vec<Step>,
    /// For each moment, the time since which the controller had no trigger.
    pub(crate) asleep_since: Vec<f64>,
    /// The release of the recorded controller.
    pub(crate) generation: ControllerGeneration,
    origin: Timestamp,
}

impl Story {
    fn of(name: &str) -> Self {
        let lines = trace(name);
        let generation = if name.starts_with("26.3-") {
            ControllerGeneration::Gpu26_3
        } else {
            ControllerGeneration::Gpu26_7
        };
        let mut story = Self {
            moments: Vec::new(),
            steps: Vec::new(),
            asleep_since: Vec::new(),
            generation,
            origin: origin(&lines),
        };
        let mut views = BTreeMap::new();
        let mut digests = BTreeMap::new();
        for line in lines.iter().filter(|line| line.object["kind"] != "Event") {
            if line.second >= 0.0 && story.moments.is_empty() {
                let seen = complete(observed(&views), &views, &mut digests);
                story.moments.push(Moment { second: 0.0, observed: seen });
            }
            apply(&mut views, line);
            if line.second < 0.0 {
                continue;
            }
            let now = complete(observed(&views), &views, &mut digests);
            if let Some(before) = story.moments.last() {
                let moment = story.moments.len();
                for (node, from, to) in steps(&before.observed, &now) {
                    story.steps.push(Step { moment, second: line.second, node, from, to });
                }
            }
            story.moments.push(Moment { second: line.second, observed: now });
        }
        story.asleep_since = story.sleeps();
        story
    }

    /// Returns the last moment before a time.
    pub(crate) fn before(&self, second: f64) -> &Moment {
        self.moments
            .iter()
            .take_while(|moment| moment.second < second)
            .last()
            .expect("something was there")
    }

    pub(crate) fn at(&self, second: f64) -> Timestamp {
        self.origin + seconds(second)
    }

    pub(crate) fn options(&self, second: f64) -> PassOptions {
        PassOptions::new(self.generation, self.at(second))
    }
}

/// Returns the controller's snapshot.
pub(crate) fn snapshot(observed: &Observed) -> UpgradeSnapshot<'_> {
    UpgradeSnapshot::from_observed(observed, &SnapshotInputs::from_observed(observed, Driver::Gpu))
}

pub(crate) fn rules(observed: &Observed) -> PolicyRules {
    let policy = observed.cluster_policy.served().and_then(Option::as_ref);
    policy.map(|policy| PolicyRules::from_live(&policy.upgrade_policy)).unwrap_or_default()
}

/// Adds validators and jobs, which other tasks of the hook do not read, and the trimmed environment
/// of driver pods. A pod has the environment of its template at the time of its creation.
fn complete(
    mut observed: Observed,
    views: &BTreeMap<String, Value>,
    digests: &mut BTreeMap<String, Option<String>>,
) -> Observed {
    for pod in observed.pods.edit().iter_mut().map(Arc::make_mut) {
        let template = observed
            .daemon_sets
            .iter()
            .find(|daemon_set| pod.owner.as_ref() == Some(&daemon_set.uid));
        let digest = || template.and_then(|daemon_set| daemon_set.config_digest.clone());
        pod.config_digest = digests.entry(pod.uid.clone()).or_insert_with(digest).clone();
    }
    let is_validator = |name: &str| name.starts_with("nvidia-operator-validator-");
    observed.validators =
        observed.pods.iter().filter(|pod| is_validator(&pod.name)).cloned().collect();
    if let Some(wait) = rules(&observed).policy.wait_for_completion {
        let selector: Selector = wait.pod_selector.parse().expect("a selector");
        let pods =
            views.iter().filter(|(key, _)| key.starts_with("Pod/")).map(|(_, object)| object);
        observed.workloads.jobs = pods.filter_map(|object| job(object, &selector)).collect();
    }
    observed
}

fn job(object: &Value, selector: &Selector) -> Option<AwaitedPod> {
    let metadata = &object["metadata"];
    let labels: BTreeMap<String, String> =
        serde_json::from_value(metadata["labels"].clone()).ok()?;
    let phase = match object["status"]["phase"].as_str()? {
        "Running" => PodPhase::Running,
        "Pending" => PodPhase::Pending,
        _ => PodPhase::Succeeded,
    };
    let text = |value: &Value| value.as_str().map(str::to_owned);
    selector.matches(&labels).then_some(AwaitedPod {
        namespace: text(&metadata["namespace"])?,
        name: text(&metadata["name"])?,
        node: text(&object["spec"]["nodeName"])?,
        phase,
    })
}

fn steps(before: &Observed, after: &Observed) -> Vec<(String, ControllerState, ControllerState)> {
    let label = Driver::Gpu.traits().state_label;
    let state = |observed: &Observed, name: &str| {
        observed
            .nodes
            .get(name)
            .map(|node| ControllerState::from_label(node.labels.get(label).map(String::as_str)))
    };
    let both = after
        .nodes
        .keys()
        .filter_map(|name| Some((name, state(before, name)?, state(after, name)?)));
    both.filter(|(_, from, to)| from != to)
        .map(|(name, from, to)| (name.to_string(), from, to))
        .collect()
}

/// If the projection of the traces dropped these objects, every test in this module would check
/// nothing.
#[test]
fn the_traces_show_drivers_validators_and_jobs() {
    let story = story("07-wait-for-jobs");
    let seen = &story.before(100.0).observed;
    assert_eq!(seen.validators.len(), 4);
    assert_eq!(seen.workloads.jobs.len(), 1);
    assert_eq!(snapshot(seen).entries.len(), 4);
}
