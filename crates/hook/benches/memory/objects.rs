//! Objects as the API server of a cloud sends them, including all fields that the hook does not
//! use.

use std::fmt::Write as _;

use contract::names;

use crate::settings::{DRA, OPERATOR};

/// The pods of the operator's DaemonSets on each node: their `app` label, container and image.
const OPERANDS: [(&str, &str, &str); 6] = [
    (
        "nvidia-driver-daemonset",
        names::DRIVER_CONTAINER,
        "nvcr.io/nvidia/driver:580.105.08-ubuntu24.04",
    ),
    (
        "nvidia-container-toolkit-daemonset",
        "nvidia-container-toolkit-ctr",
        "nvcr.io/nvidia/k8s/container-toolkit:v1.18.1",
    ),
    (
        "nvidia-operator-validator",
        "nvidia-operator-validator",
        "nvcr.io/nvidia/gpu-operator:v26.3.1",
    ),
    (
        "nvidia-device-plugin-daemonset",
        "nvidia-device-plugin",
        "nvcr.io/nvidia/k8s-device-plugin:v0.18.1",
    ),
    ("gpu-feature-discovery", "gpu-feature-discovery", "nvcr.io/nvidia/k8s-device-plugin:v0.18.1"),
    (
        "nvidia-dcgm-exporter",
        "nvidia-dcgm-exporter",
        "nvcr.io/nvidia/k8s/dcgm-exporter:4.4.2-4.7.0-distroless",
    ),
];
const PLUGIN: (&str, &str, &str) =
    ("nvidia-dra-driver-gpu-kubelet-plugin", "gpus", "nvcr.io/nvidia/k8s-dra-driver-gpu:v25.12.0");

/// Returns the kind of objects for a request, by the last part of its path, its namespace and its
/// selector.
fn kind(path: &str, selector: &str) -> &'static str {
    let resource = path.rsplit('/').next().unwrap_or_default();
    let in_namespace = |namespace: &str| path.contains(&format!("/namespaces/{namespace}/"));
    match resource {
        "nodes" => "node",
        "resourceslices" => "slice",
        "clusterpolicies" => "policy",
        "deployments" => "deployment",
        "daemonsets" if in_namespace(OPERATOR) => "operand daemonset",
        "daemonsets" => "plugin daemonset",
        "controllerrevisions" => "revision",
        "pods" if in_namespace(DRA) => "plugin",
        // The hook lists these pods together. A request with a selector would be a second list,
        // which this server does not support.
        "pods" if in_namespace(OPERATOR) && selector.is_empty() => "operand",
        _ => "",
    }
}

/// Returns the number of objects of a kind.
pub(crate) fn count(path: &str, selector: &str, nodes: usize) -> usize {
    match kind(path, selector) {
        "" => 0,
        "policy" | "deployment" | "plugin daemonset" | "revision" => 1,
        "operand daemonset" => OPERANDS.len(),
        "operand" => OPERANDS.len() * nodes,
        _ => nodes,
    }
}

/// Returns one object of a kind as JSON.
pub(crate) fn object(path: &str, selector: &str, index: usize) -> String {
    match kind(path, selector) {
        "node" => node(index),
        "slice" => slice(index),
        "policy" => policy(),
        "deployment" => deployment(),
        "operand daemonset" => {
            let strategy = if index == 0 { "OnDelete" } else { "RollingUpdate" };
            daemon_set(OPERANDS[index], &format!(r#""updateStrategy":{{"type":"{strategy}"}}"#))
        }
        "plugin daemonset" => daemon_set(PLUGIN, r#""updateStrategy":{"type":"RollingUpdate"}"#),
        "revision" => revision(),
        "plugin" => pod(PLUGIN, DRA, index),
        _ => pod(OPERANDS[index % OPERANDS.len()], OPERATOR, index / OPERANDS.len()),
    }
}

fn uid(kind: &str, index: usize) -> String {
    format!("{:08x}-1c2d-4e3f-8a9b-{index:012x}", kind.len() * 7919)
}

fn managed_fields(count: usize) -> String {
    let mut fields = String::new();
    for field in 0..count {
        let _ = write!(
            fields,
            r#"{}"f:feature.node.kubernetes.io/field-{field}":{{}}"#,
            if field == 0 { "" } else { "," }
        );
    }
    format!(
        r#"[{{"manager":"nfd-master","operation":"Update","apiVersion":"v1","time":"2026-11-01T00:00:00Z","fieldsType":"FieldsV1","fieldsV1":{{"f:metadata":{{"f:labels":{{{fields}}}}}}}}}]"#
    )
}

/// Returns a node with 80 common labels, six labels of its own, 50 images and `managedFields`.
fn node(index: usize) -> String {
    let mut labels = String::new();
    for label in 0..75 {
        let _ =
            write!(labels, r#""feature.node.kubernetes.io/cpu-cpuid.FEATURE-{label:03}":"true","#);
    }
    for (key, value) in [
        (names::GPU_PRESENT_LABEL, "true"),
        (names::DEPLOY_DRIVER_LABEL, "true"),
        (names::DEPLOY_TOOLKIT_LABEL, "true"),
        ("feature.node.kubernetes.io/pci-10de.present", "true"),
        ("nvidia.com/gpu.product", "NVIDIA-H100-80GB-HBM3"),
    ] {
        let _ = write!(labels, r#""{key}":"{value}","#);
    }
    let own = format!(
        r#""kubernetes.io/hostname":"node-{index:05}","topology.ebs.csi.aws.com/instance":"i-{index:017x}","nvidia.com/gfd.timestamp":"{}","topology.kubernetes.io/zone":"zone-{}","nvidia.com/gpu.clique":"{}","alpha.eksctl.io/instance-id":"i-{index:017x}""#,
        1_760_000_000 + index,
        index % 3,
        index / 18,
    );
    let mut images = String::new();
    for image in 0..50 {
        let comma = if image == 0 { "" } else { "," };
        let _ = write!(
            images,
            r#"{comma}{{"names":["registry.example.com/team/some-image-{image}@sha256:{image:064x}","registry.example.com/team/some-image-{image}:v1.2.{image}"],"sizeBytes":{}}}"#,
            100_000_000 + image
        );
    }
    let uid = uid("node", index);
    let managed = managed_fields(80);
    let conditions: Vec<String> = ["MemoryPressure", "DiskPressure", "PIDPressure", "Ready"]
        .iter()
        .map(|kind| {
            let status = if *kind == "Ready" { "True" } else { "False" };
            format!(r#"{{"type":"{kind}","status":"{status}","lastHeartbeatTime":"2026-11-21T00:00:00Z","lastTransitionTime":"2026-11-01T00:00:00Z","reason":"KubeletHasSufficient","message":"kubelet is posting ready status"}}"#)
        })
        .collect();
    let conditions = conditions.join(",");
    format!(
        r#"{{"metadata":{{"name":"node-{index:05}","uid":"{uid}","resourceVersion":"{}","creationTimestamp":"2026-10-01T00:00:00Z","labels":{{{labels}{own}}},"annotations":{{"csi.volume.kubernetes.io/nodeid":"{{\"ebs.csi.aws.com\":\"i-{index}\"}}","nfd.node.kubernetes.io/feature-labels":"{}"}},"managedFields":{managed}}},"spec":{{"providerID":"aws:///zone/i-{index}","podCIDR":"10.0.0.0/24"}},"status":{{"capacity":{{"cpu":"192","nvidia.com/gpu":"8"}},"conditions":[{conditions}],"addresses":[{{"type":"InternalIP","address":"10.0.0.1"}}],"nodeInfo":{{"kubeletVersion":"v1.34.1","osImage":"Ubuntu 24.04","kernelVersion":"6.8.0","architecture":"amd64"}},"images":[{images}]}}}}"#,
        900_000_000 + index,
        "cpu-cpuid.ADX,".repeat(75),
    )
}

fn labels(app: &str) -> String {
    match app {
        "nvidia-driver-daemonset" => {
            r#""app":"nvidia-driver-daemonset","app.kubernetes.io/component":"nvidia-driver""#
                .to_owned()
        }
        app if app == PLUGIN.0 => r#""app.kubernetes.io/name":"nvidia-dra-driver-gpu""#.to_owned(),
        app => format!(r#""app":"{app}""#),
    }
}

fn environment() -> String {
    let mut all = String::new();
    for variable in 0..20 {
        let comma = if variable == 0 { "" } else { "," };
        let _ = write!(
            all,
            r#"{comma}{{"name":"VARIABLE_{variable}","value":"some value that is not used"}}"#
        );
    }
    all
}

fn pod((owner, name, image): (&str, &str, &str), namespace: &str, index: usize) -> String {
    let (uid, labels, environment, managed) =
        (uid(owner, index), labels(owner), environment(), managed_fields(40));
    format!(
        r#"{{"metadata":{{"name":"{owner}-{index:05x}","generateName":"{owner}-","namespace":"{namespace}","uid":"{uid}","resourceVersion":"{index}","creationTimestamp":"2026-11-01T00:00:00Z","labels":{{{labels},"controller-revision-hash":"6d5f8c9b7","pod-template-generation":"3"}},"ownerReferences":[{{"apiVersion":"apps/v1","kind":"DaemonSet","name":"{owner}","uid":"{owner}","controller":true,"blockOwnerDeletion":true}}],"managedFields":{managed}}},"spec":{{"nodeName":"node-{index:05}","affinity":{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{{"matchFields":[{{"key":"metadata.name","operator":"In","values":["node-{index:05}"]}}]}}]}}}}}},"containers":[{{"name":"{name}","image":"{image}","env":[{environment}],"volumeMounts":[{{"name":"a","mountPath":"/a"}},{{"name":"b","mountPath":"/b"}}]}}],"volumes":[{{"name":"a","hostPath":{{"path":"/run/nvidia"}}}},{{"name":"b","emptyDir":{{}}}}],"tolerations":[{{"operator":"Exists"}}]}},"status":{{"phase":"Running","conditions":[{{"type":"PodScheduled","status":"True","lastTransitionTime":"2026-11-01T00:00:00Z"}},{{"type":"Ready","status":"True","lastTransitionTime":"2026-11-01T00:01:00Z"}}],"podIP":"10.0.0.1","containerStatuses":[{{"name":"{name}","image":"{image}","imageID":"{image}@sha256:{index:064x}","containerID":"containerd://{index:064x}","ready":true,"restartCount":0,"state":{{"running":{{"startedAt":"2026-11-01T00:00:30Z"}}}}}}]}}}}"#
    )
}

/// Returns a ResourceSlice of eight devices with the attributes that the DRA driver publishes.
fn slice(index: usize) -> String {
    let mut devices = String::new();
    for device in 0..8 {
        let comma = if device == 0 { "" } else { "," };
        let _ = write!(
            devices,
            r#"{comma}{{"name":"gpu-{device}","attributes":{{"architecture":{{"string":"Hopper"}},"brand":{{"string":"Nvidia"}},"cudaComputeCapability":{{"version":"9.0.0"}},"cudaDriverVersion":{{"version":"13.0.0"}},"driverVersion":{{"version":"580.105.8"}},"productName":{{"string":"NVIDIA H100 80GB HBM3"}},"type":{{"string":"gpu"}},"uuid":{{"string":"GPU-{index:08}-{device}"}}}},"capacity":{{"memory":{{"value":"81559Mi"}}}}}}"#
        );
    }
    format!(
        r#"{{"apiVersion":"resource.k8s.io/v1","kind":"ResourceSlice","metadata":{{"name":"node-{index:05}-gpu.nvidia.com-x","uid":"{}","resourceVersion":"1","managedFields":{}}},"spec":{{"driver":"{}","nodeName":"node-{index:05}","pool":{{"name":"node-{index:05}","generation":1,"resourceSliceCount":1}},"devices":[{devices}]}}}}"#,
        uid("slice", index),
        managed_fields(20),
        names::DRA_GPU_DRIVER,
    )
}

fn policy() -> String {
    r#"{"apiVersion":"nvidia.com/v1","kind":"ClusterPolicy","metadata":{"name":"cluster-policy","uid":"policy","generation":1},"spec":{"driver":{"enabled":true,"repository":"nvcr.io/nvidia","image":"driver","version":"580.105.08","upgradePolicy":{"autoUpgrade":false}},"toolkit":{"enabled":false}},"status":{"state":"ready"}}"#.to_owned()
}

fn deployment() -> String {
    r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"gpu-operator","generation":1},"spec":{"replicas":1,"selector":{},"template":{}},"status":{"observedGeneration":1,"replicas":1,"updatedReplicas":1,"availableReplicas":1}}"#.to_owned()
}

fn daemon_set((app, container, image): (&str, &str, &str), strategy: &str) -> String {
    let (labels, deploy) = (labels(app), names::DEPLOY_DRIVER_LABEL);
    let template = format!(
        r#"{{"metadata":{{"labels":{{{labels}}}}},"spec":{{"nodeSelector":{{"{deploy}":"true"}},"containers":[{{"name":"{container}","image":"{image}"}}]}}}}"#
    );
    format!(
        r#"{{"metadata":{{"name":"{app}","namespace":"{OPERATOR}","uid":"{app}","generation":1,"ownerReferences":[{{"apiVersion":"nvidia.com/v1","kind":"ClusterPolicy","name":"cluster-policy","uid":"policy","controller":true}}]}},"spec":{{{strategy},"template":{template}}},"status":{{"observedGeneration":1,"desiredNumberScheduled":10000}}}}"#
    )
}

fn revision() -> String {
    r#"{"metadata":{"name":"nvidia-driver-daemonset-6d5f8c9b7","labels":{"controller-revision-hash":"6d5f8c9b7"},"ownerReferences":[{"apiVersion":"apps/v1","kind":"DaemonSet","name":"nvidia-driver-daemonset","uid":"nvidia-driver-daemonset","controller":true}]},"revision":1}"#.to_owned()
}
