//! The operands, as DaemonSets rendered from the ClusterPolicy with the assets of the operator's
//! version.

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::observed::Observed;
use crate::harness::kwok::KWOK_TAINT;

/// The annotation with the hash of the applied object.
pub(super) const HASH_ANNOTATION: &str = "nvidia.com/last-applied-hash";
/// Annotation of validator pods: the container toolkit is enabled, so they validate it.
pub(crate) const VALIDATES_TOOLKIT: &str = "stand-in.gpu-rollout.dev/validates-toolkit";
/// The validator's init container that waits for the device plugin's GPUs.
pub(crate) const PLUGIN_VALIDATION: &str = "plugin-validation";
/// The operating system's part of driver image tags, from the labels of the nodes.
const SYSTEM: &str = "ubuntu24.04";

/// A DaemonSet of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Operand {
    Driver,
    Toolkit,
    Validator,
    DevicePlugin,
    Dcgm,
    DcgmExporter,
    FeatureDiscovery,
}

impl Operand {
    /// In the order of the operator's states.
    pub(crate) const ALL: [Self; 7] = [
        Self::Driver,
        Self::Toolkit,
        Self::Validator,
        Self::DevicePlugin,
        Self::Dcgm,
        Self::DcgmExporter,
        Self::FeatureDiscovery,
    ];

    /// The DaemonSet's name, which is its `app` label too.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Driver => "nvidia-driver-daemonset",
            Self::Toolkit => "nvidia-container-toolkit-daemonset",
            Self::Validator => "nvidia-operator-validator",
            Self::DevicePlugin => "nvidia-device-plugin-daemonset",
            Self::Dcgm => "nvidia-dcgm",
            Self::DcgmExporter => "nvidia-dcgm-exporter",
            Self::FeatureDiscovery => "gpu-feature-discovery",
        }
    }

    /// Returns the operand with this name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|operand| operand.name() == name)
    }

    /// Returns the node label that allows it to run on a node.
    pub(crate) fn deploy_label(self) -> &'static str {
        match self {
            Self::Driver => "nvidia.com/gpu.deploy.driver",
            Self::Toolkit => "nvidia.com/gpu.deploy.container-toolkit",
            Self::Validator => "nvidia.com/gpu.deploy.operator-validator",
            Self::DevicePlugin => "nvidia.com/gpu.deploy.device-plugin",
            Self::Dcgm => "nvidia.com/gpu.deploy.dcgm",
            Self::DcgmExporter => "nvidia.com/gpu.deploy.dcgm-exporter",
            Self::FeatureDiscovery => "nvidia.com/gpu.deploy.gpu-feature-discovery",
        }
    }

    /// Returns its name in the operator's messages.
    pub(super) fn state(self) -> &'static str {
        match self {
            Self::Driver => "state-driver",
            Self::Toolkit => "state-container-toolkit",
            Self::Validator => "state-operator-validation",
            Self::DevicePlugin => "state-device-plugin",
            Self::Dcgm => "state-dcgm",
            Self::DcgmExporter => "state-dcgm-exporter",
            Self::FeatureDiscovery => "gpu-feature-discovery",
        }
    }

    /// Its section of the ClusterPolicy's spec.
    fn section(self) -> &'static str {
        match self {
            Self::Driver => "/driver",
            Self::Toolkit => "/toolkit",
            Self::Validator => "/validator",
            Self::DevicePlugin => "/devicePlugin",
            Self::Dcgm => "/dcgm",
            Self::DcgmExporter => "/dcgmExporter",
            Self::FeatureDiscovery => "/gfd",
        }
    }

    /// Its container.
    fn container(self) -> &'static str {
        match self {
            Self::Driver => "nvidia-driver-ctr",
            Self::Toolkit => "nvidia-container-toolkit-ctr",
            Self::Validator => "nvidia-operator-validator",
            Self::DevicePlugin => "nvidia-device-plugin",
            Self::Dcgm => "nvidia-dcgm-ctr",
            Self::DcgmExporter => "nvidia-dcgm-exporter",
            Self::FeatureDiscovery => "gpu-feature-discovery",
        }
    }

    /// The value of `app.kubernetes.io/part-of`, which is in the selector too.
    fn part_of(self) -> Option<&'static str> {
        match self {
            Self::Validator => Some("gpu-operator"),
            Self::FeatureDiscovery => Some("nvidia-gpu"),
            Self::Driver | Self::Toolkit | Self::DevicePlugin | Self::Dcgm | Self::DcgmExporter => {
                None
            }
        }
    }

    /// Whether the ClusterPolicy enables it. The default is `true`.
    pub(super) fn is_enabled(self, observed: &Observed) -> bool {
        self == Self::Validator || observed.spec(&format!("{}/enabled", self.section())) != false
    }
}

/// The driver version in a driver image's reference: its tag without the operating system.
pub(crate) fn driver_version(image: &str) -> &str {
    let tag = image.rsplit(':').next().unwrap_or_default();
    tag.split('-').next().unwrap_or_default()
}

/// Returns the DaemonSet of an operand. `None`: the ClusterPolicy does not enable it.
pub(super) fn daemon_set(operand: Operand, observed: &Observed) -> Option<Value> {
    if !operand.is_enabled(observed) {
        return None;
    }
    let mut labels = json!({"app": operand.name()});
    if let Some(part_of) = operand.part_of() {
        labels["app.kubernetes.io/part-of"] = part_of.into();
    }
    let selector = labels.clone();
    if operand == Operand::Driver {
        labels["app.kubernetes.io/component"] = "nvidia-driver".into();
        labels["nvidia.com/precompiled"] = "false".into();
    }
    for (key, value) in observed.spec("/daemonsets/labels").as_object().into_iter().flatten() {
        if !matches!(key.as_str(), "app" | "app.kubernetes.io/part-of") {
            labels[key] = value.clone();
        }
    }
    let mut annotations = json!({"stand-in.gpu-rollout.dev/hold": operand.name()});
    if operand == Operand::Validator && Operand::Toolkit.is_enabled(observed) {
        annotations[VALIDATES_TOOLKIT] = "true".into();
    }
    let mut tolerations =
        observed.spec("/daemonsets/tolerations").as_array().cloned().unwrap_or_default();
    tolerations.push(json!({"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"}));
    let mut pod = pod(operand, observed);
    pod["nodeSelector"] = json!({operand.deploy_label(): "true"});
    pod["tolerations"] = tolerations.into();
    pod["priorityClassName"] = "system-node-critical".into();
    Some(json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": operand.name(), "namespace": super::OPERATOR_NAMESPACE, "labels": labels, "ownerReferences": [{
            "apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "controller": true, "blockOwnerDeletion": true,
            "name": observed.policy.metadata.name, "uid": observed.policy.metadata.uid,
        }]},
        "spec": {"selector": {"matchLabels": selector}, "updateStrategy": update_strategy(operand, observed), "template": {
            "metadata": {"labels": labels, "annotations": annotations},
            "spec": pod,
        }},
    }))
}

/// The driver is never replaced by its DaemonSet.
fn update_strategy(operand: Operand, observed: &Observed) -> Value {
    if operand == Operand::Driver || observed.text("/daemonsets/updateStrategy") == "OnDelete" {
        return json!({"type": "OnDelete"});
    }
    let asked = observed.spec("/daemonsets/rollingUpdate/maxUnavailable");
    let number = asked.as_str().and_then(|text| text.parse::<u64>().ok()).map(Value::from);
    let max_unavailable =
        number.unwrap_or_else(|| if asked.is_null() { 1.into() } else { asked.clone() });
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": max_unavailable, "maxSurge": 0}})
}

fn pod(operand: Operand, observed: &Observed) -> Value {
    let image = |section: &str, suffix: &str| {
        let field = |name: &str| observed.text(&format!("{section}/{name}"));
        format!("{}/{}:{}{suffix}", field("repository"), field("image"), field("version"))
    };
    if operand == Operand::Driver {
        return driver_pod(
            &image("/driver", &format!("-{SYSTEM}")),
            &image("/driver/manager", ""),
            observed,
        );
    }
    let mut validations = match operand {
        Operand::Driver => vec![],
        Operand::Toolkit => vec!["driver-validation"],
        Operand::Validator => vec!["driver-validation", "toolkit-validation", "cuda-validation"],
        Operand::DevicePlugin
        | Operand::Dcgm
        | Operand::DcgmExporter
        | Operand::FeatureDiscovery => vec!["toolkit-validation"],
    };
    if operand == Operand::Validator && Operand::DevicePlugin.is_enabled(observed) {
        validations.push(PLUGIN_VALIDATION);
    }
    let validator = image(Operand::Validator.section(), "");
    let init: Vec<Value> =
        validations.into_iter().map(|name| json!({"name": name, "image": validator})).collect();
    json!({"initContainers": init, "containers": [{"name": operand.container(), "image": image(operand.section(), "")}]})
}

/// Returns the driver's pod template. Operators of different versions render different pods from
/// the same ClusterPolicy (measured between v26.3.1 and v26.7.0: the digest, the pre-stop command,
/// two volumes).
fn driver_pod(driver: &str, manager: &str, observed: &Observed) -> Value {
    let mut environment = Vec::new();
    let mut container = json!({"name": Operand::Driver.container(), "image": driver});
    let mut volumes = json!([]);
    if observed.is_at_least(26, 7) {
        environment.push(json!({"name": "DRIVER_CONFIG_DIGEST", "value": digest(&json!(["v26.7", driver, manager]))}));
        container["lifecycle"] = json!({"preStop": {"exec": {"command": [
            "/bin/sh", "-c", "rm -f /run/nvidia/validations/.driver-ctr-ready /run/nvidia/validations/.driver-daemons-status",
        ]}}});
        volumes = json!([{"name": "dev-log", "emptyDir": {}}, {"name": "host-sys-devices-system", "emptyDir": {}}]);
    } else if observed.is_at_least(26, 3) {
        environment.push(
            json!({"name": "DRIVER_CONFIG_DIGEST", "value": digest(&json!([driver, manager]))}),
        );
    }
    container["env"] = json!(environment);
    let asked = observed.spec("/driver/manager/env");
    let of_manager: Vec<Value> =
        asked.as_array().into_iter().flatten().cloned().chain(environment).collect();
    json!({
        "initContainers": [{"name": "k8s-driver-manager", "image": manager, "env": of_manager}],
        "containers": [container],
        "volumes": volumes,
    })
}

/// Returns the hash of an applied DaemonSet.
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
