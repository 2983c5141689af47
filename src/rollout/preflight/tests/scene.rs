//! The fleet that the tests change.

use std::collections::BTreeMap;

use crate::contract::names;
use crate::contract::policy::Policy;
use crate::contract::preflight::Coming;
use crate::contract::settings::Settings;
use crate::rollout::observed::workload::Workload;
use crate::rollout::observed::{Api, ClusterPolicy, DaemonSet, Labels, Node, Observed, Pod, UpgradePolicy};
use crate::rollout::pods::filter::{DaemonSets, Own};
use crate::rollout::pods::fixture::{at, gpu_pod};
use crate::rollout::preflight::{Finding, Input, preflight};

pub(super) struct Scene {
    pub(super) observed: Observed,
    pub(super) settings: Settings,
    pub(super) policy: Policy,
    pub(super) pods: Vec<Workload>,
    pub(super) daemon_sets: DaemonSets,
    pub(super) own: Own,
}

/// Labels or annotations.
pub(super) fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The environment of a container, as values have it.
pub(super) fn environ(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn settings() -> Settings {
    serde_json::from_value(serde_json::json!({
        "formatVersion": 1, "digest": "d", "release": "gpu-operator-pre", "namespace": "gpu-operator", "record": "record",
        "component": "gpu-operator", "duties": ["settle"], "mode": "assist", "gate": "settled", "budgetSeconds": 3600,
        "perNodeSeconds": 600, "quietSeconds": 15, "graceSeconds": 120, "operatorNamespace": "gpu-operator",
        "clusterPolicy": "cluster-policy", "tolerateNotReady": 0, "expected": {},
        "dra": {"reroll": "auto", "required": "auto", "namespaces": ["nvidia-dra-driver-gpu"], "maxUnavailable": "100%", "replacementSeconds": 300}
    }))
    .expect("settings")
}

impl Scene {
    /// Nodes `gpu-0` …, each with its driver; `gpu-0` also with a pod of a ReplicaSet that uses a GPU.
    pub(super) fn new(nodes: usize) -> Self {
        let mut scene = Self {
            observed: Observed::default(),
            settings: settings(),
            policy: Policy::default(),
            pods: vec![gpu_pod("trainer")],
            daemon_sets: DaemonSets::new(),
            own: Own::default(),
        };
        scene.observed.cluster_policy = Api::Served(Some(ClusterPolicy {
            uid: "policy".into(),
            driver_enabled: true,
            upgrade_policy: UpgradePolicy { auto_upgrade: true, max_unavailable: Some("25%".into()), ..UpgradePolicy::default() },
            ..ClusterPolicy::default()
        }));
        scene.observed.nvidia_drivers = Api::Served(Vec::new());
        scene.observed.daemon_sets = vec![DaemonSet {
            namespace: "gpu-operator".into(),
            name: "nvidia-driver-daemonset".into(),
            uid: "driver".into(),
            owner: Some("policy".into()),
            observed: true,
            on_delete: true,
            node_selector: labels(&[(names::DEPLOY_DRIVER_LABEL, "true")]),
            template_labels: labels(&[names::DRIVER_COMPONENT, ("nvidia.com/precompiled", "false")]),
            manager_environment: labels(&[("ENABLE_GPU_POD_EVICTION", "true"), ("ENABLE_AUTO_DRAIN", "false")]),
            ..DaemonSet::default()
        }];
        for index in 0..nodes {
            scene.join(&format!("gpu-{index}"));
        }
        scene
    }

    /// One more node with its driver.
    pub(super) fn join(&mut self, name: &str) {
        let labels = labels(&[(names::GPU_PRESENT_LABEL, "true"), (names::DEPLOY_DRIVER_LABEL, "true")]);
        let node = Node { name: name.into(), uid: name.into(), ready: true, kubelet: "v1.33.1".into(), labels, ..Node::default() };
        self.observed.nodes.insert(name, node);
        self.observed.pods.push(Pod {
            name: format!("driver-{name}"),
            uid: format!("driver-{name}"),
            owner: Some("driver".into()),
            node: Some(name.into()),
            labels: [(names::DRIVER_COMPONENT.0.to_owned(), names::DRIVER_COMPONENT.1.to_owned())].into(),
            running: true,
            ready: true,
            ..Pod::default()
        });
    }

    pub(super) fn node(&mut self, name: &str) -> &mut Node {
        self.observed.nodes.get_mut(name).expect("a node of the fleet")
    }

    pub(super) fn cluster_policy(&mut self) -> &mut ClusterPolicy {
        match &mut self.observed.cluster_policy {
            Api::Served(Some(policy)) => policy,
            Api::Served(None) | Api::Absent => panic!("the fleet has a ClusterPolicy"),
        }
    }

    pub(super) fn coming(&mut self) -> &mut Coming {
        &mut self.settings.preflight.coming
    }

    pub(super) fn input(&self) -> Input<'_> {
        Input {
            observed: &self.observed,
            settings: &self.settings,
            policy: &self.policy,
            pods: &self.pods,
            daemon_sets: &self.daemon_sets,
            own: &self.own,
            now: at(0),
        }
    }

    pub(super) fn findings(&self) -> Vec<Finding> {
        preflight(self.input())
    }

    /// `check: text` of each finding.
    pub(super) fn texts(&self) -> Vec<String> {
        self.findings().into_iter().map(|finding| format!("{}: {}", finding.check.name(), finding.text)).collect()
    }
}
