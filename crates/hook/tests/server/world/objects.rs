//! Objects as an API server stores them.

use contract::names;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::fake::store::text;
use crate::settings::{DRA, OPERATOR};

pub(crate) fn node(name: &str, created: Timestamp) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": {"name": name, "creationTimestamp": text(created), "labels": {
            "kubernetes.io/hostname": name,
            names::GPU_PRESENT_LABEL: "true",
            names::DEPLOY_DRIVER_LABEL: "true",
            names::DEPLOY_TOOLKIT_LABEL: "true",
            names::DEPLOY_VALIDATOR_LABEL: "true",
            "feature.node.kubernetes.io/pci-10de.present": "true",
        }},
        "spec": {},
        "status": {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text(created)}]},
    })
}

pub(crate) fn policy(version: &str) -> Value {
    json!({
        "kind": "ClusterPolicy", "apiVersion": "nvidia.com/v1",
        "metadata": {"name": "cluster-policy", "uid": "policy"},
        "spec": {
            "daemonsets": {"labels": {"helm.sh/chart": "gpu-operator-v26.3.1"}},
            "driver": {
                "enabled": true, "repository": "nvcr.io/nvidia", "image": "driver", "version": version,
                "manager": {"repository": "nvcr.io/nvidia/cloud-native", "image": "k8s-driver-manager", "version": "v0.9.1"},
                "upgradePolicy": {"autoUpgrade": true, "maxParallelUpgrades": 1, "maxUnavailable": "25%"},
            },
            "devicePlugin": {"enabled": false}, "gfd": {"enabled": false}, "dcgm": {"enabled": false}, "dcgmExporter": {"enabled": false},
            "migManager": {"enabled": false},
            "toolkit": {"enabled": true, "repository": "nvcr.io/nvidia/k8s", "image": "container-toolkit", "version": "v1.18.1"},
        },
        "status": {"state": "ready", "conditions": [{"type": "Ready", "status": "True", "reason": "Reconciled"}]},
    })
}

pub(crate) fn deployment() -> Value {
    json!({
        "kind": "Deployment", "apiVersion": "apps/v1",
        "metadata": {"name": names::OPERATOR_DEPLOYMENT, "generation": 1},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": "gpu-operator"}}, "template": {}},
        "status": {"observedGeneration": 1, "replicas": 1, "updatedReplicas": 1, "availableReplicas": 1},
    })
}

/// Returns the operator's pod, which is the leader.
pub(crate) fn operator_pod(name: &str) -> Value {
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "labels": {"app": "gpu-operator"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gpu-operator-1", "uid": "rs", "controller": true}],
        },
        "spec": {"nodeName": "system-0", "containers": [{"name": "gpu-operator"}]},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// Returns the Lease that the operator's pod holds.
pub(crate) fn operator_lease(pod: &str, now: Timestamp) -> Value {
    json!({
        "kind": "Lease", "apiVersion": "coordination.k8s.io/v1",
        "metadata": {"name": names::OPERATOR_LEASE},
        "spec": {
            "holderIdentity": format!("{pod}_4a1b"), "leaseDurationSeconds": 15, "leaseTransitions": 0,
            "acquireTime": micro(now), "renewTime": micro(now),
        },
    })
}

/// Formats a time as in Leases.
pub(crate) fn micro(at: Timestamp) -> String {
    format!("{at:.6}")
}

/// The DaemonSet of a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operand {
    Driver,
    Toolkit,
    Validator,
    Plugin,
}

impl Operand {
    pub(crate) fn namespace(self) -> &'static str {
        if self == Self::Plugin { DRA } else { OPERATOR }
    }

    pub(crate) fn daemon_set(self) -> &'static str {
        match self {
            Self::Driver => "nvidia-driver-daemonset",
            Self::Toolkit => "nvidia-container-toolkit-daemonset",
            Self::Validator => "nvidia-operator-validator",
            Self::Plugin => "nvidia-dra-driver-gpu-kubelet-plugin",
        }
    }

    fn labels(self) -> Value {
        match self {
            Self::Driver => {
                json!({"app": "nvidia-driver-daemonset", "app.kubernetes.io/component": "nvidia-driver", "helm.sh/chart": "gpu-operator-v26.3.1"})
            }
            Self::Toolkit => {
                json!({"app": "nvidia-container-toolkit-daemonset", "helm.sh/chart": "gpu-operator-v26.3.1"})
            }
            Self::Validator => {
                json!({"app": "nvidia-operator-validator", "helm.sh/chart": "gpu-operator-v26.3.1"})
            }
            Self::Plugin => json!({"app.kubernetes.io/name": "nvidia-dra-driver-gpu"}),
        }
    }

    fn containers(self, version: &str) -> Value {
        match self {
            Self::Driver => {
                json!([{"name": "nvidia-driver-ctr", "image": format!("nvcr.io/nvidia/driver:{version}-ubuntu22.04")}])
            }
            Self::Toolkit => {
                json!([{"name": "nvidia-container-toolkit-ctr", "image": "nvcr.io/nvidia/k8s/container-toolkit:v1.18.1"}])
            }
            Self::Validator => {
                json!([{"name": "nvidia-operator-validator", "image": "nvcr.io/nvidia/gpu-operator:v26.3.1"}])
            }
            Self::Plugin => {
                json!([{"name": "gpus", "image": "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0"}])
            }
        }
    }

    fn node_selector(self) -> Value {
        match self {
            Self::Driver => json!({names::DEPLOY_DRIVER_LABEL: "true"}),
            Self::Toolkit => json!({names::DEPLOY_TOOLKIT_LABEL: "true"}),
            Self::Validator => json!({names::DEPLOY_VALIDATOR_LABEL: "true"}),
            // The DRA driver's chart selects by affinity.
            Self::Plugin => json!({}),
        }
    }
}

pub(crate) fn daemon_set(operand: Operand, version: &str, nodes: usize) -> Value {
    let manager = json!([{"name": "k8s-driver-manager", "image": "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.9.1"}]);
    let owner = json!([{"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "name": "cluster-policy", "uid": "policy", "controller": true}]);
    json!({
        "kind": "DaemonSet", "apiVersion": "apps/v1",
        "metadata": {
            "name": operand.daemon_set(), "uid": operand.daemon_set(), "generation": 1,
            "ownerReferences": if operand == Operand::Plugin { json!([]) } else { owner },
        },
        "spec": {
            "selector": {},
            "updateStrategy": {"type": if operand == Operand::Driver { "OnDelete" } else { "RollingUpdate" }},
            "template": {"metadata": {"labels": operand.labels()}, "spec": {
                "nodeSelector": operand.node_selector(),
                "initContainers": if operand == Operand::Driver { manager } else { json!([]) },
                "containers": operand.containers(version),
            }},
        },
        "status": {
            "observedGeneration": 1, "desiredNumberScheduled": nodes, "currentNumberScheduled": nodes,
            "numberMisscheduled": 0, "numberReady": nodes,
        },
    })
}

pub(crate) fn revision(operand: Operand, number: i64, hash: &str) -> Value {
    json!({
        "kind": "ControllerRevision", "apiVersion": "apps/v1", "revision": number,
        "metadata": {
            "name": format!("{}-{hash}", operand.daemon_set()),
            "labels": {"controller-revision-hash": hash},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": operand.daemon_set(), "uid": operand.daemon_set(), "controller": true}],
        },
    })
}

/// Returns a pod of a DaemonSet that has not started.
pub(crate) fn pod(operand: Operand, name: &str, node: &str, hash: &str, version: &str) -> Value {
    let mut labels = operand.labels();
    labels["controller-revision-hash"] = json!(hash);
    json!({
        "kind": "Pod", "apiVersion": "v1",
        "metadata": {
            "name": name, "labels": labels,
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": operand.daemon_set(), "uid": operand.daemon_set(), "controller": true}],
        },
        "spec": {"nodeName": node, "containers": operand.containers(version)},
        "status": {"phase": "Pending", "conditions": [{"type": "Ready", "status": "False"}]},
    })
}

/// Returns the status of a ready pod with running containers.
pub(crate) fn running(pod: &Value, at: Timestamp) -> Value {
    let name = &pod["spec"]["containers"][0]["name"];
    json!({
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": text(at)}],
        "containerStatuses": [{
            "name": name, "image": "", "imageID": "", "ready": true, "restartCount": 0, "state": {"running": {"startedAt": text(at)}},
        }],
    })
}

pub(crate) fn slice(node: &str, version: &str) -> Value {
    let device = |index: u32| json!({"name": format!("gpu-{index}"), "attributes": {"driverVersion": {"version": version}, "type": {"string": "gpu"}}});
    json!({
        "kind": "ResourceSlice", "apiVersion": "resource.k8s.io/v1",
        "metadata": {"name": format!("{node}-gpu.nvidia.com-x")},
        "spec": {
            "driver": names::DRA_GPU_DRIVER, "nodeName": node, "devices": [device(0), device(1)],
            "pool": {"name": node, "generation": 1, "resourceSliceCount": 1},
        },
    })
}
