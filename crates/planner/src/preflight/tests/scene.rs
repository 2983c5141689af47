//! The fleet that the tests change.

use std::collections::BTreeMap;

use crate::pods::filter::{DaemonSetLiveness, OwnPods};
use crate::pods::fixture::{at, gpu_pod};
use crate::preflight::{PreflightFinding, PreflightInput, preflight};
use contract::names;
use contract::policy::Policy;
use contract::preflight::ComingValues;
use contract::settings::Settings;
use observed::workload::Workload;
use observed::{
    ClusterPolicy, Labels, LiveUpgradePolicy, Observed, ObservedDaemonSet, ObservedNode,
    ObservedPod, OptionalApi,
};

pub(super) struct PreflightScene {
    pub(super) observed: Observed,
    pub(super) settings: Settings,
    pub(super) policy: Policy,
    pub(super) pods: Vec<Workload>,
    pub(super) daemon_sets: DaemonSetLiveness,
    pub(super) own: OwnPods,
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
        "component": "gpu-operator", "tasks": ["settle"], "mode": "assist", "gate": "settled", "budgetSeconds": 3600,
        "perNodeSeconds": 600, "quietSeconds": 15, "graceSeconds": 120, "operatorNamespace": "gpu-operator",
        "clusterPolicy": "cluster-policy", "tolerateNotReady": 0, "expected": {},
        "dra": {"reroll": "auto", "required": "auto", "namespaces": ["nvidia-dra-driver-gpu"], "maxUnavailable": "100%", "replacementSeconds": 300}
    }))
    .expect("settings")
}

impl PreflightScene {
    /// Nodes `gpu-0` …, each with its driver; `gpu-0` also with a pod of a ReplicaSet that uses a
    /// GPU.
    pub(super) fn new(nodes: usize) -> Self {
        let mut scene = Self {
            observed: Observed::default(),
            settings: settings(),
            policy: Policy::default(),
            pods: vec![gpu_pod("trainer")],
            daemon_sets: DaemonSetLiveness::new(),
            own: OwnPods::default(),
        };
        scene.observed.cluster_policy = OptionalApi::Served(Some(ClusterPolicy {
            uid: "policy".into(),
            driver_enabled: true,
            upgrade_policy: LiveUpgradePolicy {
                auto_upgrade: true,
                max_unavailable: Some("25%".into()),
                ..LiveUpgradePolicy::default()
            },
            ..ClusterPolicy::default()
        }));
        scene.observed.nvidia_drivers = OptionalApi::Served(Vec::new());
        scene.observed.daemon_sets = vec![ObservedDaemonSet {
            namespace: "gpu-operator".into(),
            name: "nvidia-driver-daemonset".into(),
            uid: "driver".into(),
            owner: Some("policy".into()),
            observed: true,
            on_delete: true,
            node_selector: labels(&[(names::DEPLOY_DRIVER_LABEL, "true")]),
            template_labels: labels(&[
                names::DRIVER_COMPONENT,
                ("nvidia.com/precompiled", "false"),
            ]),
            manager_environment: labels(&[
                ("ENABLE_GPU_POD_EVICTION", "true"),
                ("ENABLE_AUTO_DRAIN", "false"),
            ]),
            ..ObservedDaemonSet::default()
        }];
        for index in 0..nodes {
            scene.join(&format!("gpu-{index}"));
        }
        scene
    }

    /// One more node with its driver.
    pub(super) fn join(&mut self, name: &str) {
        let labels =
            labels(&[(names::GPU_PRESENT_LABEL, "true"), (names::DEPLOY_DRIVER_LABEL, "true")]);
        let node = ObservedNode {
            name: name.into(),
            uid: name.into(),
            ready: true,
            kubelet: "v1.33.1".into(),
            labels,
            ..ObservedNode::default()
        };
        self.observed.nodes.insert(name, node);
        self.observed.pods.push(ObservedPod {
            name: format!("driver-{name}"),
            uid: format!("driver-{name}"),
            owner: Some("driver".into()),
            node: Some(name.into()),
            labels: [(names::DRIVER_COMPONENT.0.to_owned(), names::DRIVER_COMPONENT.1.to_owned())]
                .into(),
            running: true,
            ready: true,
            ..ObservedPod::default()
        });
    }

    pub(super) fn node(&mut self, name: &str) -> &mut ObservedNode {
        self.observed.nodes.get_mut(name).expect("a node of the fleet")
    }

    pub(super) fn cluster_policy(&mut self) -> &mut ClusterPolicy {
        match &mut self.observed.cluster_policy {
            OptionalApi::Served(Some(policy)) => policy,
            OptionalApi::Served(None) | OptionalApi::Absent => {
                panic!("the fleet has a ClusterPolicy")
            }
        }
    }

    pub(super) fn coming(&mut self) -> &mut ComingValues {
        &mut self.settings.preflight.coming
    }

    pub(super) fn input(&self) -> PreflightInput<'_> {
        PreflightInput {
            observed: &self.observed,
            settings: &self.settings,
            policy: &self.policy,
            pods: &self.pods,
            daemon_sets: &self.daemon_sets,
            own: &self.own,
            now: at(0),
        }
    }

    pub(super) fn findings(&self) -> Vec<PreflightFinding> {
        preflight(self.input())
    }

    /// `check: text` of each finding.
    pub(super) fn texts(&self) -> Vec<String> {
        self.findings()
            .into_iter()
            .map(|finding| format!("{}: {}", finding.check.name(), finding.text))
            .collect()
    }
}
