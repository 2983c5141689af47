//! The operands that matter to a driver upgrade, as DaemonSets made from the ClusterPolicy.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::observed::Observed;
use crate::harness::kwok::KWOK_TAINT;

/// Where the operator keeps the hash of what it applied.
pub(super) const HASH_ANNOTATION: &str = "nvidia.com/last-applied-hash";
/// The operating system's part of driver image tags, from the labels of the nodes.
const SYSTEM: &str = "ubuntu24.04";

/// A DaemonSet of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Driver,
    Toolkit,
    Validator,
}

impl Operand {
    pub(super) const ALL: [Self; 3] = [Self::Driver, Self::Toolkit, Self::Validator];

    /// The DaemonSet's name, which is its `app` label too.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Driver => "nvidia-driver-daemonset",
            Self::Toolkit => "nvidia-container-toolkit-daemonset",
            Self::Validator => "nvidia-operator-validator",
        }
    }

    /// What the operator calls it in its messages.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Driver => "state-driver",
            Self::Toolkit => "state-container-toolkit",
            Self::Validator => "state-operator-validation",
        }
    }

    fn deploy_label(self) -> &'static str {
        match self {
            Self::Driver => "nvidia.com/gpu.deploy.driver",
            Self::Toolkit => "nvidia.com/gpu.deploy.container-toolkit",
            Self::Validator => "nvidia.com/gpu.deploy.operator-validator",
        }
    }
}

/// The driver version in a driver image's reference: its tag without the operating system.
pub(crate) fn driver_version(image: &str) -> &str {
    let tag = image.rsplit(':').next().unwrap_or_default();
    tag.split('-').next().unwrap_or_default()
}

/// The DaemonSet of an operand; `None`: the ClusterPolicy does not ask for it, or no node has a GPU.
pub(super) fn daemon_set(operand: Operand, observed: &Observed) -> Option<Value> {
    let enabled = match operand {
        Operand::Driver => observed.spec("/driver/enabled") == true,
        Operand::Toolkit => observed.spec("/toolkit/enabled") == true,
        Operand::Validator => true,
    };
    if !enabled || observed.gpu_nodes.is_empty() {
        return None;
    }
    let mut labels = json!({"app": operand.name()});
    let mut selector = labels.clone();
    match operand {
        Operand::Driver => {
            labels["app.kubernetes.io/component"] = "nvidia-driver".into();
            labels["nvidia.com/precompiled"] = "false".into();
        }
        Operand::Toolkit => {}
        Operand::Validator => {
            labels["app.kubernetes.io/part-of"] = "gpu-operator".into();
            selector["app.kubernetes.io/part-of"] = "gpu-operator".into();
        }
    }
    for (key, value) in observed.spec("/daemonsets/labels").as_object().into_iter().flatten() {
        labels[key] = value.clone();
    }
    let update_strategy = match operand {
        Operand::Driver => json!({"type": "OnDelete"}),
        Operand::Toolkit | Operand::Validator => json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}}),
    };
    let mut tolerations = observed.spec("/daemonsets/tolerations").as_array().cloned().unwrap_or_default();
    tolerations.push(json!({"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}));
    let mut pod = containers(operand, observed);
    pod["nodeSelector"] = json!({operand.deploy_label(): "true"});
    pod["tolerations"] = tolerations.into();
    pod["priorityClassName"] = "system-node-critical".into();
    Some(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": operand.name(), "namespace": super::OPERATOR_NAMESPACE, "labels": labels, "ownerReferences": [{
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "controller": true, "blockOwnerDeletion": true,
            "name": observed.policy.metadata.name, "uid": observed.policy.metadata.uid,
        }]},
        "spec": {"selector": {"matchLabels": selector}, "updateStrategy": update_strategy, "template": {
            "metadata": {"labels": labels, "annotations": {"stand-in.gpu-rollout.dev/hold": operand.name()}},
            "spec": pod,
        }},
    }))
}

fn containers(operand: Operand, observed: &Observed) -> Value {
    let image = |section: &str, suffix: &str| {
        let field = |name: &str| observed.text(&format!("{section}/{name}"));
        format!("{}/{}:{}{suffix}", field("repository"), field("image"), field("version"))
    };
    match operand {
        Operand::Driver => {
            let driver = image("/driver", &format!("-{SYSTEM}"));
            let manager = image("/driver/manager", "");
            let mut environment = Vec::new();
            if observed.is_at_least(26, 3) {
                environment.push(json!({"name": "DRIVER_CONFIG_DIGEST", "value": digest(&json!([driver, manager]))}));
            }
            let asked = observed.spec("/driver/manager/env");
            let manager_environment: Vec<Value> =
                asked.as_array().into_iter().flatten().cloned().chain(environment.iter().cloned()).collect();
            json!({
                "initContainers": [{"name": "k8s-driver-manager", "image": manager, "env": manager_environment}],
                "containers": [{"name": "nvidia-driver-ctr", "image": driver, "env": environment}],
            })
        }
        Operand::Toolkit => json!({
            "initContainers": [{"name": "driver-validation", "image": image("/validator", "")}],
            "containers": [{"name": "nvidia-container-toolkit-ctr", "image": image("/toolkit", "")}],
        }),
        Operand::Validator => json!({
            "initContainers": [{"name": "driver-validation", "image": image("/validator", "")}],
            "containers": [{"name": "nvidia-operator-validator", "image": image("/validator", "")}],
        }),
    }
}

/// The hash under which a DaemonSet is known to be applied.
pub(super) fn hash(wanted: &Value) -> String {
    digest(wanted)
}

/// The DaemonSet with its hash as annotation.
pub(super) fn with_hash(mut wanted: Value) -> Value {
    wanted["metadata"]["annotations"] = json!({HASH_ANNOTATION: hash(&wanted)});
    wanted
}

fn digest(value: &Value) -> String {
    let sum = Sha256::digest(value.to_string());
    u32::from_be_bytes([sum[0], sum[1], sum[2], sum[3]]).to_string()
}
