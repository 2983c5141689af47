//! The objects of a driven fleet: the pods of the operator's DaemonSets, and workloads.

use contract::acceptance::{
    AcceptanceGpus, AcceptanceNodes, AcceptanceTest, AcceptanceTime, TEST_LABEL,
};
use contract::driver::Driver;
use contract::names;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fake::store::text;
use crate::settings::{DRA, OPERATOR};
use crate::world::at;

/// The namespace of the Network Operator.
pub(crate) const NETWORK: &str = "nvidia-network-operator";
/// The namespace of workloads.
pub(crate) const JOBS: &str = "ml";
/// The label of nodes with a foreign cordon.
pub(crate) const FOREIGN: &str = "example.com/cordoned-by-hand";

/// The kind of a DaemonSet's pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Driver,
    Mofed,
    Toolkit,
    Validator,
    Plugin,
}

impl Kind {
    /// Returns the kinds of pods on the nodes of a fleet with these drivers.
    pub(crate) fn all(drivers: &[Driver]) -> Vec<Self> {
        let of = |driver: &Driver| match driver {
            Driver::Gpu => vec![Self::Driver, Self::Toolkit, Self::Validator, Self::Plugin],
            Driver::Ofed => vec![Self::Mofed],
            Driver::DaemonSet => unreachable!("these stories are about the operators' drivers"),
        };
        drivers.iter().flat_map(of).collect()
    }

    /// Returns the driver that the pod installs, if any.
    pub(crate) fn installs(self) -> Option<Driver> {
        match self {
            Self::Driver => Some(Driver::Gpu),
            Self::Mofed => Some(Driver::Ofed),
            Self::Toolkit | Self::Validator | Self::Plugin => None,
        }
    }

    pub(crate) fn driver(driver: Driver) -> Self {
        match driver {
            Driver::Gpu => Self::Driver,
            Driver::Ofed => Self::Mofed,
            Driver::DaemonSet => unreachable!("these stories are about the operators' drivers"),
        }
    }

    pub(crate) fn is_driver(self) -> bool {
        self.installs().is_some()
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "nvidia-driver-daemonset",
            Self::Mofed => "mofed-ubuntu22.04-5b8c-ds",
            Self::Toolkit => "nvidia-container-toolkit-daemonset",
            Self::Validator => "nvidia-operator-validator",
            Self::Plugin => "nvidia-dra-driver-gpu-kubelet-plugin",
        }
    }

    pub(crate) fn namespace(self) -> &'static str {
        match self {
            Self::Driver | Self::Toolkit | Self::Validator => OPERATOR,
            Self::Mofed => NETWORK,
            Self::Plugin => DRA,
        }
    }

    /// Returns the kind of a pod, by its labels.
    pub(crate) fn of(pod: &Value) -> Option<Self> {
        let labels = &pod["metadata"]["labels"];
        let all = [Self::Driver, Self::Mofed, Self::Toolkit, Self::Validator, Self::Plugin];
        all.into_iter().find(|kind| {
            kind.labels()
                .as_object()
                .into_iter()
                .flatten()
                .all(|(key, value)| labels[key] == *value)
        })
    }

    fn labels(self) -> Value {
        match self {
            Self::Driver => {
                json!({"app": self.name(), names::DRIVER_COMPONENT.0: names::DRIVER_COMPONENT.1})
            }
            Self::Mofed => json!({names::OFED_DRIVER_LABEL: "", "ds-owner": "NicClusterPolicy"}),
            Self::Toolkit | Self::Validator => {
                json!({"app": self.name(), names::CHART_LABEL: "gpu-operator-v26.3.1"})
            }
            Self::Plugin => json!({"app.kubernetes.io/name": "nvidia-dra-driver-gpu"}),
        }
    }

    fn node_selector(self) -> Value {
        match self {
            Self::Driver => json!({names::DEPLOY_DRIVER_LABEL: "true"}),
            Self::Mofed => json!({names::NIC_PRESENT_LABEL: "true"}),
            Self::Toolkit => json!({names::DEPLOY_TOOLKIT_LABEL: "true"}),
            Self::Validator | Self::Plugin => json!({}),
        }
    }

    fn containers(self, version: &str) -> Value {
        let (name, image) = match self {
            Self::Driver => {
                ("nvidia-driver-ctr", format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04"))
            }
            Self::Mofed => (
                "mofed-container",
                format!("nvcr.io/nvidia/mellanox/doca-driver:{version}-ubuntu22.04-amd64"),
            ),
            Self::Toolkit => (
                "nvidia-container-toolkit-ctr",
                "nvcr.io/nvidia/k8s/container-toolkit:v1.18.1".into(),
            ),
            Self::Validator => {
                ("nvidia-operator-validator", "nvcr.io/nvidia/gpu-operator:v26.3.1".into())
            }
            Self::Plugin => ("gpus", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0".into()),
        };
        json!([{"name": name, "image": image}])
    }

    fn owner(self) -> Value {
        json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": self.name(), "uid": self.name(), "controller": true}])
    }

    /// Returns the DaemonSet, with the new driver version in its template.
    pub(crate) fn daemon_set(self, version: &str, nodes: usize) -> Value {
        let (policy, api) = if self == Self::Mofed {
            ("NicClusterPolicy", "mellanox.com/v1alpha1")
        } else {
            ("ClusterPolicy", "nvidia.com/v1")
        };
        let owner = json!([{"apiVersion": api, "kind": policy, "name": "policy", "uid": "policy", "controller": true}]);
        let off: Vec<Value> = names::MANAGER_EVICTIONS
            .iter()
            .map(|name| json!({"name": name, "value": "false"}))
            .collect();
        let manager = json!([{"name": "k8s-driver-manager", "image": "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.9.1", "env": off}]);
        let mut labels = self.labels();
        if matches!(self, Self::Driver | Self::Toolkit) {
            labels["helm.sh/chart"] = json!("gpu-operator-v26.3.1");
        }
        json!({
            "kind": "DaemonSet", "apiVersion": "apps/v1",
            "metadata": {"uid": self.name(), "generation": 1, "ownerReferences": if self == Self::Plugin { json!([]) } else { owner }},
            "spec": {
                "selector": {}, "updateStrategy": {"type": if self.is_driver() { "OnDelete" } else { "RollingUpdate" }},
                "template": {"metadata": {"labels": labels}, "spec": {
                    "nodeSelector": self.node_selector(),
                    "initContainers": if self == Self::Driver { manager } else { json!([]) },
                    "containers": self.containers(version),
                }},
            },
            "status": {"observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes, "numberMisscheduled": 0,
                "numberReady": nodes},
        })
    }

    pub(crate) fn revision(self, number: i64, hash: &str) -> Value {
        json!({
            "kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": number,
            "metadata": {"labels": {"controller-revision-hash": hash}, "ownerReferences": self.owner()},
        })
    }

    /// Returns a pod that has not started.
    pub(crate) fn pod(self, node: &str, hash: &str, version: &str) -> Value {
        let mut labels = self.labels();
        labels["controller-revision-hash"] = json!(hash);
        json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"labels": labels, "ownerReferences": self.owner()},
            "spec": {"nodeName": node, "containers": self.containers(version)},
            "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
        })
    }
}

pub(crate) fn node(name: &str, drivers: &[Driver]) -> Value {
    let since = text(at(-100_000));
    let mut labels = json!({});
    for driver in drivers {
        let present: &[&str] = match driver {
            Driver::Gpu => {
                &[names::GPU_PRESENT_LABEL, names::DEPLOY_DRIVER_LABEL, names::DEPLOY_TOOLKIT_LABEL]
            }
            Driver::Ofed => &[names::NIC_PRESENT_LABEL],
            Driver::DaemonSet => unreachable!("these stories are about the operators' drivers"),
        };
        for label in present {
            labels[*label] = json!("true");
        }
    }
    json!({
        "kind": "Node", "apiVersion": "v1", "metadata": {"name": name, "creationTimestamp": since, "labels": labels}, "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": since}]},
    })
}

pub(crate) fn nic_cluster_policy(version: &str) -> Value {
    json!({
        "kind": "NicClusterPolicy", "apiVersion": "mellanox.com/v1alpha1", "metadata": {"uid": "policy", "generation": 1},
        "spec": {"ofedDriver": {
            "repository": "nvcr.io/nvidia/mellanox", "image": "doca-driver", "version": version, "upgradePolicy": {"autoUpgrade": false},
        }},
        "status": {"state": "ready"},
    })
}

/// Returns the status of a pod with running containers.
pub(crate) fn running(pod: &Value, since: Timestamp) -> Value {
    crate::world::objects::running(pod, since)
}

/// Returns the status of a driver pod that cannot start.
pub(crate) fn crashing(pod: &Value, restarts: usize) -> Value {
    json!({
        "phase": "Running", "conditions": [{"type": "Ready", "status": "False"}],
        "containerStatuses": [{
            "name": pod["spec"]["containers"][0]["name"], "image": "", "imageID": "", "ready": false, "restartCount": restarts,
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        }],
    })
}

/// Returns an unbound pod of a workload. `controller`: kind and name.
pub(crate) fn workload((kind, name): (&str, &str), holds_gpu: bool) -> Value {
    let api = if kind == "Job" { "batch/v1" } else { "apps/v1" };
    let limits = if holds_gpu { json!({"nvidia.com/gpu": "1"}) } else { json!({"cpu": "1"}) };
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "labels": {"app": name},
            "ownerReferences": [{"apiVersion": api, "kind": kind, "name": name, "uid": name, "controller": true}],
        },
        "spec": {"terminationGracePeriodSeconds": 3, "containers": [{"name": "main", "image": "work:1", "resources": {"limits": limits}}]},
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    })
}

/// Returns a PodDisruptionBudget for one workload.
pub(crate) fn budget(name: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    spec["selector"] = json!({"matchLabels": {"app": name}});
    json!({"kind": "PodDisruptionBudget", "apiVersion": "policy/v1", "metadata": {"generation": 1}, "spec": spec, "status": {
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0,
    }})
}

/// Returns an acceptance test of all nodes.
pub(crate) fn acceptance_test(name: &str, when: &[AcceptanceTime]) -> AcceptanceTest {
    AcceptanceTest {
        name: name.to_owned(),
        timeout_seconds: 300,
        when: when.to_vec(),
        nodes: AcceptanceNodes::All,
        gpus: AcceptanceGpus::All,
        log_lines: 0,
    }
}

/// Returns the PodTemplate of an acceptance test.
pub(crate) fn pod_template() -> Value {
    let spec = json!({"containers": [{"name": "test", "image": "test:1"}]});
    json!({"kind": "PodTemplate", "apiVersion": "v1", "template": {"spec": spec}})
}

/// Returns whether the pod is that of an acceptance test.
pub(crate) fn is_test(pod: &Value) -> bool {
    pod["metadata"]["labels"][TEST_LABEL].is_string()
}

/// Returns the node of the pod of an acceptance test, whether it is bound or not.
pub(crate) fn node_of_test(pod: &Value) -> &str {
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    let term = &pod["spec"]["affinity"]["nodeAffinity"][required]["nodeSelectorTerms"][0];
    term["matchFields"][0]["values"][0].as_str().unwrap()
}
