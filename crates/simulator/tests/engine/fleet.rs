//! A small cluster for decisions, with functions that build and change it.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::names;
use contract::record::Verdict;
use contract::settings::{Mode, Settings};
use contract::task::Task;
use contract::user_request::AcceptedNode;
use jiff::Timestamp;
use observed::{
    ClusterPolicy, ImageSpec, Labels, LiveUpgradePolicy, Observed, ObservedContainer,
    ObservedDaemonSet, ObservedDeployment, ObservedNode, ObservedPod, ObservedRevision,
    ObservedSlice, OptionalApi, Views,
};
use planner::action::NodePatch;
use planner::decide::{Action, Decision, Planner, decide};
use planner::memory::RunMemory;
use planner::note::DecisionNote;
use planner::reason::Reason;
use planner::spec::driver_identity;

use crate::settings::settings;

pub(crate) const OLD: &str = "580.105.08";
pub(crate) const NEW: &str = "580.126.20";

/// Returns the time at this second of the story's clock.
pub(crate) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).expect("in range")
}

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// A fleet with its settings and the memory of a run.
pub(crate) struct Fleet {
    pub(crate) observed: Observed,
    pub(crate) settings: Settings,
    pub(crate) memory: RunMemory,
    pub(crate) planner: Planner,
    /// Whether the operator leads and has finished its work long ago.
    pub(crate) operator_is_quiet: bool,
    uids: u32,
}

impl Fleet {
    /// Returns settled nodes `gpu-0` … with driver, toolkit and DRA plugin of one age, and a run
    /// that starts at second 0.
    pub(crate) fn at_rest(nodes: usize) -> Self {
        let deadline = at(3555);
        let mut fleet = Self {
            observed: Observed::default(),
            settings: settings(),
            memory: RunMemory::new(at(0), deadline),
            planner: Planner::default(),
            operator_is_quiet: true,
            uids: 0,
        };
        fleet.observed.operator = Some(ObservedDeployment {
            replicas: 1,
            current: 1,
            updated: 1,
            available: 1,
            observed: true,
            ..ObservedDeployment::default()
        });
        fleet.observed.cluster_policy = OptionalApi::Served(Some(ClusterPolicy {
            uid: "policy".into(),
            driver_enabled: true,
            driver: image("nvcr.io/nvidia", "driver", OLD),
            driver_manager: image("nvcr.io/nvidia/cloud-native", "k8s-driver-manager", "v0.9.1"),
            toolkit_enabled: true,
            toolkit: image("nvcr.io/nvidia/k8s", "container-toolkit", "v1.18.1"),
            labels: labels(&[("helm.sh/chart", "gpu-operator-v25.10.1"), ("app", "not this one")]),
            upgrade_policy: LiveUpgradePolicy {
                auto_upgrade: true,
                max_parallel: Some(1),
                max_unavailable: Some("25%".into()),
                ..LiveUpgradePolicy::default()
            },
            state: Some("ready".into()),
            ready_reason: Some("Reconciled".into()),
            ..ClusterPolicy::default()
        }));
        fleet.observed.nvidia_drivers = OptionalApi::Served(Vec::new());
        fleet.observed.daemon_sets = vec![
            ObservedDaemonSet {
                namespace: "gpu-operator".into(),
                name: "nvidia-driver-daemonset".into(),
                uid: "driver-ds".into(),
                owner: Some("policy".into()),
                observed: true,
                on_delete: true,
                node_selector: labels(&[(names::DEPLOY_DRIVER_LABEL, "true")]),
                ..ObservedDaemonSet::default()
            },
            ObservedDaemonSet {
                namespace: "gpu-operator".into(),
                name: "nvidia-container-toolkit-daemonset".into(),
                uid: "toolkit-ds".into(),
                owner: Some("policy".into()),
                observed: true,
                node_selector: labels(&[(names::DEPLOY_TOOLKIT_LABEL, "true")]),
                ..ObservedDaemonSet::default()
            },
        ];
        fleet.observed.dra.namespaces = vec!["nvidia-dra-driver-gpu".into()];
        fleet.observed.dra.daemon_sets = vec![ObservedDaemonSet {
            namespace: "nvidia-dra-driver-gpu".into(),
            name: "any-name".into(),
            uid: "plugin-ds".into(),
            observed: true,
            desired: 1,
            images: BTreeMap::from([(
                "gpus".to_owned(),
                "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0".to_owned(),
            )]),
            ..ObservedDaemonSet::default()
        }];
        fleet.observed.dra.slices = OptionalApi::Served(Views::new());
        fleet.operator_observes();
        fleet.revision("driver-ds", 1, "old");
        fleet.revision("toolkit-ds", 1, "toolkit");
        for index in 0..nodes {
            fleet.join(&format!("gpu-{index}"), -100_000);
            let name = format!("gpu-{index}");
            fleet.driver(&name, "old", OLD, -5000);
            fleet.toolkit(&name, -4990);
            fleet.plugin(&name, -4900, OLD);
        }
        fleet
    }

    /// Renders the templates from the current ClusterPolicy, as the operator does.
    pub(crate) fn operator_observes(&mut self) {
        let policy = self.policy().clone();
        let full = |image: &ImageSpec, suffix: &str| {
            let part = |part: &Option<String>| part.clone().unwrap_or_default();
            format!(
                "{}/{}:{}{suffix}",
                part(&image.repository),
                part(&image.image),
                part(&image.version)
            )
        };
        let chart = policy.labels["helm.sh/chart"].clone();
        for daemon_set in &mut self.observed.daemon_sets {
            let (kind, images) = if daemon_set.uid == "driver-ds" {
                let driver = ("nvidia-driver-ctr".to_owned(), full(&policy.driver, "-ubuntu22.04"));
                (
                    names::DRIVER_COMPONENT,
                    BTreeMap::from([
                        driver,
                        ("k8s-driver-manager".to_owned(), full(&policy.driver_manager, "")),
                    ]),
                )
            } else {
                (
                    names::TOOLKIT_APP,
                    BTreeMap::from([(
                        "nvidia-container-toolkit-ctr".to_owned(),
                        full(&policy.toolkit, ""),
                    )]),
                )
            };
            daemon_set.template_labels = labels(&[kind, ("helm.sh/chart", &chart)]);
            daemon_set.images = images;
        }
    }

    pub(crate) fn policy(&mut self) -> &mut ClusterPolicy {
        match &mut self.observed.cluster_policy {
            OptionalApi::Served(Some(policy)) => policy,
            OptionalApi::Served(None) | OptionalApi::Absent => {
                panic!("the fleet has a ClusterPolicy")
            }
        }
    }

    /// Returns a settled fleet with a new driver that is requested and rendered. NVIDIA's
    /// controller may start.
    pub(crate) fn migrating(nodes: usize) -> Self {
        let mut fleet = Self::at_rest(nodes);
        fleet.bump();
        fleet.migration_begins();
        fleet
    }

    /// Switches to mode `assist` with an operator of this version.
    pub(crate) fn is_assisted(&mut self, version: &str) {
        self.settings.mode = Mode::Assist;
        self.settings.tasks = vec![Task::Settle, Task::Wake, Task::Reroll];
        self.observed.operator.as_mut().expect("the operator").version = Some(version.into());
    }

    /// Gives driver pods and their DaemonSet what the controller identifies them by.
    pub(crate) fn is_seen_by_controller(&mut self) {
        let app = ("app".to_owned(), "nvidia-driver-daemonset".to_owned());
        let nodes: Vec<String> = self.observed.nodes.keys().map(ToString::to_string).collect();
        let daemon_set = &mut self.observed.daemon_sets[0];
        daemon_set.desired = i32::try_from(nodes.len()).expect("few");
        daemon_set.template_labels.extend([app.clone()]);
        for node in nodes {
            self.driver_pod(&node).labels.extend([app.clone()]);
        }
    }

    /// Requests the new driver. The operator has not noticed it yet.
    pub(crate) fn bump(&mut self) {
        self.policy().driver.version = Some(NEW.into());
    }

    /// Makes the operator render the new driver: a new revision of the driver DaemonSet, and every
    /// node marked.
    pub(crate) fn migration_begins(&mut self) {
        self.operator_observes();
        self.revision("driver-ds", 2, "new");
        let nodes: Vec<String> = self.observed.nodes.keys().map(ToString::to_string).collect();
        for node in nodes {
            self.state(&node, "upgrade-required");
        }
    }

    fn revision(&mut self, owner: &str, revision: i64, hash: &str) {
        self.observed.revisions.push(ObservedRevision {
            owner: owner.into(),
            revision,
            hash: hash.into(),
        });
    }

    pub(crate) fn uid(&mut self) -> String {
        self.uids += 1;
        format!("uid-{}", self.uids)
    }

    /// Adds a GPU node that the operator has labeled.
    pub(crate) fn join(&mut self, name: &str, second: i64) {
        let uid = self.uid();
        let labels = labels(&[
            (names::GPU_PRESENT_LABEL, "true"),
            (names::DEPLOY_DRIVER_LABEL, "true"),
            (names::DEPLOY_TOOLKIT_LABEL, "true"),
            ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ]);
        let node = ObservedNode {
            name: name.into(),
            uid,
            created: at(second),
            ready: true,
            ready_since: Some(at(second)),
            unschedulable: false,
            labels,
            ..ObservedNode::default()
        };
        self.observed.nodes.insert(name, node);
    }

    /// Applies a patch to labels, annotations and cordon of a node.
    pub(crate) fn patch(&mut self, patch: &NodePatch) {
        let node = self.node(&patch.node);
        for (key, value) in &patch.labels {
            match value {
                Some(value) => drop(node.labels.insert(key.clone(), value.clone())),
                None => drop(node.labels.remove(key)),
            }
        }
        for (key, value) in &patch.annotations {
            match value {
                Some(value) => drop(node.annotations.insert(key.clone(), value.clone())),
                None => drop(node.annotations.remove(key)),
            }
        }
        if let Some(unschedulable) = patch.unschedulable {
            node.unschedulable = unschedulable;
        }
    }

    pub(crate) fn node(&mut self, name: &str) -> &mut ObservedNode {
        self.observed.nodes.get_mut(name).expect("the node exists")
    }

    pub(crate) fn state(&mut self, name: &str, state: &str) {
        self.node(name).labels.insert(names::UPGRADE_STATE_LABEL.into(), state.into());
    }

    fn put(
        &mut self,
        node: &str,
        kind: (&str, &str),
        owner: &str,
        revision: &str,
        container: (&str, String),
        second: i64,
    ) {
        let uid = self.uid();
        let pods = if owner == "plugin-ds" {
            &mut self.observed.dra.pods
        } else {
            &mut self.observed.pods
        };
        pods.edit()
            .retain(|pod| pod.node.as_deref() != Some(node) || pod.owner.as_deref() != Some(owner));
        pods.push(ObservedPod {
            namespace: if owner == "plugin-ds" { "nvidia-dra-driver-gpu" } else { "gpu-operator" }
                .into(),
            name: format!("{owner}-{uid}"),
            uid,
            owner: Some(owner.into()),
            node: Some(node.into()),
            revision: Some(revision.into()),
            labels: labels(&[kind]),
            running: true,
            ready: true,
            ready_since: Some(at(second)),
            created: at(second),
            containers: vec![ObservedContainer {
                name: container.0.into(),
                image: container.1,
                started: Some(at(second)),
                restarts: 0,
            }],
            ..ObservedPod::default()
        });
    }

    /// Sets the node's driver pod, started and ready at this second.
    pub(crate) fn driver(&mut self, node: &str, revision: &str, version: &str, second: i64) {
        let image = format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04");
        self.put(
            node,
            names::DRIVER_COMPONENT,
            "driver-ds",
            revision,
            ("nvidia-driver-ctr", image),
            second,
        );
    }

    pub(crate) fn toolkit(&mut self, node: &str, second: i64) {
        self.put(
            node,
            names::TOOLKIT_APP,
            "toolkit-ds",
            "toolkit",
            ("nvidia-container-toolkit-ctr", String::new()),
            second,
        );
    }

    /// Sets the node's plugin pod and its published slice.
    pub(crate) fn plugin(&mut self, node: &str, second: i64, version: &str) {
        self.put(node, ("app", "plugin"), "plugin-ds", "plugin", ("gpus", String::new()), second);
        let OptionalApi::Served(slices) = &mut self.observed.dra.slices else {
            panic!("the fleet serves ResourceSlices")
        };
        slices.edit().retain(|slice| slice.node != node);
        slices.push(ObservedSlice {
            driver: names::DRA_GPU_DRIVER.into(),
            node: node.into(),
            driver_version: Some(version.into()),
            devices: 8,
            ..ObservedSlice::default()
        });
    }

    pub(crate) fn plugin_pod(&mut self, node: &str) -> &mut ObservedPod {
        self.observed.dra.pods.find_mut(node, |_| true).expect("the plugin exists")
    }

    pub(crate) fn driver_pod(&mut self, node: &str) -> &mut ObservedPod {
        let is_driver = |pod: &ObservedPod| pod.owner.as_deref() == Some("driver-ds");
        self.observed.pods.find_mut(node, is_driver).expect("the driver pod exists")
    }

    /// Has a user take a node as proven that has failed since this second.
    pub(crate) fn accept(&mut self, node: &str, second: i64) {
        let driver = driver_identity(&self.observed, self.settings.driver);
        let accepted = AcceptedNode { node: node.to_owned(), failed_at: at(second), driver };
        self.memory.accepted.insert(accepted);
    }

    /// Migrates a node as NVIDIA's controller does: new driver, uncordoned, done.
    pub(crate) fn migrate(&mut self, node: &str, second: i64) {
        self.driver(node, "new", NEW, second);
        self.state(node, "upgrade-done");
    }

    /// Decides at this second and stores the memory.
    pub(crate) fn decide(&mut self, second: i64) -> Decision {
        self.decide_at(at(second))
    }

    /// Decides at this time.
    pub(crate) fn decide_at(&mut self, now: Timestamp) -> Decision {
        if self.operator_is_quiet {
            crate::operator::is_quiet(&mut self.observed, &mut self.memory, now);
        }
        let decision = self.planner.decide(&self.observed, &self.settings, &self.memory, now);
        let full = decide(&self.observed, &self.settings, &self.memory, now);
        assert_eq!(decision, full, "what builds on the last decision and what looks at everything");
        self.memory = decision.memory.clone();
        decision
    }

    /// Decides at this second only to update the memory.
    pub(crate) fn pass(&mut self, second: i64) {
        drop(self.decide(second));
    }

    /// Restarts the process. Only the record survives.
    pub(crate) fn restart(&mut self) {
        let nodes = std::mem::take(&mut self.memory.nodes);
        let (cohort, baseline) = (self.memory.cohort.take(), self.memory.baseline.take());
        self.planner = Planner::default();
        self.memory = RunMemory {
            nodes,
            cohort,
            baseline,
            ..RunMemory::new(self.memory.started_at, self.memory.deadline)
        };
    }
}

fn image(repository: &str, image: &str, version: &str) -> ImageSpec {
    ImageSpec {
        repository: Some(repository.into()),
        image: Some(image.into()),
        version: Some(version.into()),
    }
}

/// Returns the nodes whose plugins a decision replaces.
pub(crate) fn replaced(decision: &Decision) -> Vec<&str> {
    let plugin = |action: &&Action| matches!(action, Action::ReplacePlugin { .. });
    decision.actions.iter().filter(plugin).map(Action::node).collect()
}

/// Returns the reasons of a decision's waits, with their nodes.
pub(crate) fn waits(decision: &Decision) -> Vec<String> {
    let text = |wait: planner::reason::Wait| {
        format!("{}:{}", wait.node.as_deref().unwrap_or("*"), wait.reason.name())
    };
    decision.waits.iter().map(text).collect()
}

/// Returns the reasons of a verdict as `node:Reason`, with `*` for the fleet.
pub(crate) fn named(verdict: &Verdict) -> Vec<String> {
    verdict
        .reasons
        .iter()
        .map(|one| format!("{}:{}", one.node.as_deref().unwrap_or("*"), one.reason))
        .collect()
}

/// Returns the reason of a node in the decision: of its wait, its end, or its tolerated problem.
pub(crate) fn reason_of(decision: &Decision, node: &str) -> Reason {
    let waits = decision
        .waits
        .iter()
        .chain(decision.ended.iter())
        .filter_map(|wait| Some((wait.node?, wait.reason)));
    let tolerated = |note: &DecisionNote| {
        let (DecisionNote::Tolerated { reason, .. } | DecisionNote::FailedBefore { reason, .. }) =
            note
        else {
            return None;
        };
        Some((note.node()?.into(), Arc::clone(reason)))
    };
    let notes = decision.notes.iter().filter_map(tolerated);
    waits
        .chain(notes)
        .find(|(found, _)| **found == *node)
        .map_or_else(|| panic!("nothing of {node}"), |(_, reason)| Reason::clone(&reason))
}
