//! Views of objects as an API server holds them.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::*;
use crate::workload::{PodController, PodPhase};

fn object<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).expect("an object of its kind")
}

/// Returns a pod with this status and with this spec, to which a node is added.
fn pod(spec: &Value, status: &Value) -> Value {
    let mut spec = spec.clone();
    spec["nodeName"] = json!("node-1");
    if spec["containers"].is_null() {
        spec["containers"] = json!([{"name": "main"}]);
    }
    json!({"metadata": {"name": "a", "namespace": "jobs", "uid": "u"}, "spec": spec, "status": status})
}

fn of_spec(spec: &Value) -> crate::workload::Workload {
    workload(&object(pod(spec, &json!({})))).expect("bound to a node")
}

fn set<const N: usize>(names: [&str; N]) -> std::collections::BTreeSet<String> {
    names.map(str::to_owned).into()
}

#[test]
fn workload_view_has_what_decides_its_eviction() {
    let full = json!({
        "metadata": {
            "name": "train-0", "namespace": "jobs", "uid": "u1", "creationTimestamp": "2026-01-02T03:04:05Z",
            "deletionTimestamp": "2026-01-02T04:00:00Z", "finalizers": ["batch.kubernetes.io/job-tracking"],
            "labels": {"app": "train"},
            "annotations": {"kubernetes.io/config.mirror": "x", "k8s.v1.cni.cncf.io/networks": "rdma"},
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "o1"},
                {"apiVersion": "batch/v1", "kind": "Job", "name": "train", "uid": "j1", "controller": true},
            ],
        },
        "spec": {"nodeName": "node-1", "containers": [{"name": "main"}], "terminationGracePeriodSeconds": 600, "runtimeClassName": "nvidia"},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    });
    let seen = workload(&object(full)).expect("bound to a node");
    assert_eq!(
        (seen.namespace.as_str(), seen.name.as_str(), seen.uid.as_str(), seen.node.as_str()),
        ("jobs", "train-0", "u1", "node-1")
    );
    assert_eq!(seen.created.to_string(), "2026-01-02T03:04:05Z");
    assert_eq!(seen.deleted_at.map(|at| at.to_string()).as_deref(), Some("2026-01-02T04:00:00Z"));
    assert_eq!(seen.finalizers, ["batch.kubernetes.io/job-tracking"]);
    assert_eq!(seen.labels.get("app").map(String::as_str), Some("train"));
    assert!(seen.mirror && seen.secondary_network && seen.ready);
    assert_eq!(
        (seen.phase, seen.grace_seconds, seen.runtime_class.as_deref()),
        (PodPhase::Running, 600, Some("nvidia"))
    );
    let job = PodController {
        api_version: "batch/v1".into(),
        kind: "Job".into(),
        name: "train".into(),
        uid: "j1".into(),
    };
    assert_eq!(seen.controller, Some(job));
    let bare = of_spec(&json!({}));
    assert_eq!(
        (bare.phase, bare.grace_seconds, bare.controller, bare.deleted_at),
        (PodPhase::Pending, 30, None, None)
    );
    assert!(
        !bare.mirror
            && !bare.secondary_network
            && !bare.ready
            && !bare.empty_dir
            && !bare.memory_dir
            && !bare.host_devices
    );
    let unbound = json!({"metadata": {"name": "a"}, "spec": {"containers": []}});
    assert_eq!(workload(&object(unbound)), None, "a pod without a node does not block a node");
}

#[test]
fn extended_resources_separate_containers_and_sidecars() {
    let resources = |limits: Value, requests: Value| json!({"name": "c", "resources": {"limits": limits, "requests": requests}});
    let (gpu, none) = (json!({"nvidia.com/gpu": "1", "memory": "1Gi"}), json!({}));
    for (containers, expected) in [
        (json!([resources(gpu.clone(), none.clone())]), set(["nvidia.com/gpu"])),
        (json!([resources(none.clone(), gpu.clone())]), set(["nvidia.com/gpu"])),
        (
            json!([resources(json!({"nvidia.com/mig-1g.5gb": "0"}), none.clone())]),
            set(["nvidia.com/mig-1g.5gb"]),
        ),
        (
            json!([{"name": "a"}, resources(json!({"rdma/hca": 1}), gpu)]),
            set(["nvidia.com/gpu", "rdma/hca"]),
        ),
        (
            json!([resources(
                json!({"cpu": 1, "hugepages-2Mi": "1Gi", "kubernetes.io/batch-cpu": "1"}),
                none
            )]),
            set([]),
        ),
    ] {
        assert_eq!(of_spec(&json!({"containers": containers})).resources, expected, "{containers}");
    }
    let container = |policy: Value| json!({"name": "i", "restartPolicy": policy, "resources": {"limits": {"nvidia.com/gpu": 1}}});
    for (policy, expected) in [(json!("Always"), set(["nvidia.com/gpu"])), (json!(null), set([]))] {
        let seen = of_spec(&json!({"initContainers": [container(policy)]}));
        assert_eq!(seen.sidecar_resources, expected);
        assert_eq!(seen.resources, set([]));
    }
}

#[test]
fn pod_view_has_what_keeps_it_there() {
    for (volumes, on_disk, in_memory) in [
        (json!([{"name": "a", "emptyDir": {}}]), true, false),
        (json!([{"name": "a", "emptyDir": {"medium": ""}}]), true, false),
        (json!([{"name": "a", "emptyDir": {"medium": "Memory"}}]), false, true),
        (json!([{"name": "a", "emptyDir": {"medium": "HugePages-2Mi"}}]), false, true),
        (
            json!([{"name": "a", "emptyDir": {"medium": "Memory"}}, {"name": "b", "emptyDir": {"sizeLimit": "1Gi"}}]),
            true,
            true,
        ),
        (json!([{"name": "a", "configMap": {"name": "x"}}]), false, false),
    ] {
        let seen = of_spec(&json!({"volumes": volumes}));
        assert_eq!((seen.empty_dir, seen.memory_dir), (on_disk, in_memory), "{volumes}");
    }
}

#[test]
fn devices_behind_the_kubelets_back_are_seen() {
    let volume = |path: &str| json!([{"name": "v", "hostPath": {"path": path}}]);
    let container = |privileged: bool, mount: &str| json!([{"name": "c", "securityContext": {"privileged": privileged}, "volumeMounts": [{"name": mount, "mountPath": "/x"}]}]);
    for (path, privileged, mount, expected) in [
        ("/dev/nvidia0", false, "v", true),
        ("/dev/nvidia-caps/", false, "other", true),
        ("/dev", true, "v", true),
        ("/dev/", true, "v", true),
        ("/dev", false, "v", false),
        ("/dev", true, "other", false),
        ("/dev/shm", true, "v", false),
        ("/var/lib", true, "v", false),
    ] {
        let seen =
            of_spec(&json!({"volumes": volume(path), "containers": container(privileged, mount)}));
        assert_eq!(seen.host_devices, expected, "{path} {privileged} {mount}");
    }
    assert!(
        of_spec(&json!({"volumes": volume("/dev"), "initContainers": container(true, "v")}))
            .host_devices
    );
}

#[test]
fn template_claims_have_names_from_the_status() {
    let spec = json!({"resourceClaims": [
        {"name": "own", "resourceClaimName": "shared"},
        {"name": "made", "resourceClaimTemplateName": "t"},
        {"name": "late", "resourceClaimTemplateName": "t"},
        {"name": "none", "resourceClaimTemplateName": "t"},
    ]});
    let status = json!({"resourceClaimStatuses": [{"name": "made", "resourceClaimName": "a-made-x"}, {"name": "none"}],
        "extendedResourceClaimStatus": {"resourceClaimName": "a-extended-x"}});
    let seen = workload(&object(pod(&spec, &status))).expect("bound to a node");
    assert_eq!(
        seen.claims,
        [
            Some("shared".to_owned()),
            Some("a-made-x".to_owned()),
            None,
            Some("a-extended-x".to_owned())
        ]
    );
}

#[test]
fn jobs_are_seen_with_their_phase() {
    for (text, phase) in [
        ("Pending", PodPhase::Pending),
        ("Running", PodPhase::Running),
        ("Succeeded", PodPhase::Succeeded),
        ("Failed", PodPhase::Failed),
        ("Unknown", PodPhase::Unknown),
    ] {
        let seen = job(&object(pod(&json!({}), &json!({"phase": text})))).expect("bound to a node");
        assert_eq!(
            (seen.namespace.as_str(), seen.name.as_str(), seen.node.as_str(), seen.phase),
            ("jobs", "a", "node-1", phase)
        );
    }
    assert_eq!(job(&object(json!({"metadata": {"name": "a"}, "spec": {"containers": []}}))), None);
}

#[test]
fn budget_view_has_selector_and_allowance() {
    for (selector, shown) in [
        (json!(null), None),
        (json!({}), Some("")),
        (json!({"matchLabels": {"app": "a", "tier": "b"}}), Some("app=a,tier=b")),
        (
            json!({"matchLabels": {"app": "a"}, "matchExpressions": [
                {"key": "t", "operator": "In", "values": ["x", "y"]}, {"key": "u", "operator": "NotIn", "values": ["z"]},
                {"key": "v", "operator": "Exists"}, {"key": "w", "operator": "DoesNotExist"}, {"key": "q", "operator": "Like"},
            ]}),
            Some("app=a,t in (x,y),u!=z,v,!w"),
        ),
    ] {
        let seen = budget(&object(
            json!({"metadata": {"name": "p", "namespace": "n"}, "spec": {"selector": selector}}),
        ))
        .expect("a budget");
        assert_eq!(seen.selector.map(|selector| selector.to_string()).as_deref(), shown);
        assert!(!seen.evicts_unhealthy);
    }
    let status = |observed: i64| json!({"disruptionsAllowed": 1, "currentHealthy": 3, "desiredHealthy": 2, "expectedPods": 4, "observedGeneration": observed});
    for (observed, expected) in [(2, true), (1, false)] {
        let object = object(json!({
            "metadata": {"name": "p", "namespace": "n", "generation": 2},
            "spec": {"minAvailable": "50%", "maxUnavailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"},
            "status": status(observed),
        }));
        let seen = budget(&object).expect("a budget");
        assert_eq!((seen.allowed, seen.healthy, seen.desired, seen.expected), (1, 3, 2, 4));
        assert_eq!(
            (seen.min_available.as_deref(), seen.max_unavailable.as_deref()),
            (Some("50%"), Some("1"))
        );
        assert!(seen.evicts_unhealthy);
        assert_eq!(seen.observed, expected);
    }
    let new = budget(&object(json!({"metadata": {"name": "p", "generation": 1}, "spec": {}})))
        .expect("a budget");
    assert!(!new.observed, "the controller has not observed it yet");
}

#[test]
fn claim_view_has_devices_without_admin_access() {
    for version in ["v1", "v1beta2", "v1beta1"] {
        let full = json!({
            "apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceClaim",
            "metadata": {"name": "c", "namespace": "n", "deletionTimestamp": "2026-01-02T03:04:05Z"},
            "status": {
                "allocation": {
                    "devices": {"results": [
                        {"request": "gpu", "driver": "gpu.nvidia.com", "pool": "node-1", "device": "gpu-0"},
                        {"request": "nic", "driver": "nic.example.com", "pool": "node-1", "device": "nic-0", "adminAccess": false},
                        {"request": "look", "driver": "compute-domain.nvidia.com", "pool": "node-1", "device": "x", "adminAccess": true},
                    ]},
                    "nodeSelector": {"nodeSelectorTerms": [
                        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]},
                    ]},
                },
                "reservedFor": [
                    {"resource": "pods", "name": "a", "uid": "u1"},
                    {"apiGroup": "example.com", "resource": "things", "name": "b", "uid": "u2"},
                ],
            },
        });
        let seen = claim(&object(full)).expect("a claim");
        assert_eq!(seen.drivers, set(["gpu.nvidia.com", "nic.example.com"]), "{version}");
        assert_eq!(
            (seen.node.as_deref(), seen.reserved_for),
            (Some("node-1"), vec!["u1".to_owned()])
        );
        assert!(seen.deleting.is_some());
    }
    let new =
        claim(&object(json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "c"}}))).expect("a claim");
    assert_eq!(
        (new.drivers, new.node, new.reserved_for, new.deleting),
        (set([]), None, Vec::new(), None)
    );
}

#[test]
fn dra_1455_taints_of_devices_are_seen() {
    let taint = json!({"key": "gpu.nvidia.com/xid", "value": "48", "effect": "NoSchedule", "timeAdded": "2026-01-02T03:04:05Z"});
    let bare = json!({"key": "gpu.nvidia.com/unhealthy", "effect": "NoExecute"});
    let v1 = json!([{"name": "gpu-0"}, {"name": "gpu-3", "taints": [taint.clone(), bare.clone()]}]);
    let v1beta1 = json!([{"name": "gpu-0", "basic": {}}, {"name": "gpu-3", "basic": {"taints": [taint, bare]}}]);
    for (version, devices) in [("v1", v1), ("v1beta1", v1beta1)] {
        let full = json!({
            "apiVersion": format!("resource.k8s.io/{version}"), "kind": "ResourceSlice", "metadata": {"name": "s"},
            "spec": {"driver": "gpu.nvidia.com", "nodeName": "node-1", "devices": devices},
        });
        let seen = slice(&object(full)).expect("a slice of NVIDIA's");
        assert_eq!(
            seen.taints,
            ["gpu-3 gpu.nvidia.com/xid=48:NoSchedule", "gpu-3 gpu.nvidia.com/unhealthy:NoExecute"],
            "{version}"
        );
        assert_eq!(seen.devices, 2, "{version}");
    }
}

#[test]
fn maintenance_view_has_its_requestor() {
    let kind = json!({"apiVersion": "maintenance.nvidia.com/v1alpha1", "kind": "NodeMaintenance", "metadata": {"name": "m", "namespace": "n"}});
    let mut full = kind.clone();
    full["spec"] = json!({"nodeName": "node-1", "requestorID": "example.com/ops"});
    full["status"] =
        json!({"conditions": [{"type": "Ready", "status": "False", "reason": "Draining"}]});
    let seen = maintenance(&object(full)).expect("a maintenance");
    assert_eq!(
        (seen.node.as_str(), seen.requestor.as_str(), seen.state.as_deref()),
        ("node-1", "example.com/ops", Some("Draining"))
    );
    assert_eq!(maintenance(&object(kind)), None, "without a node it is about none");
}

#[test]
fn pod_with_node_is_scheduled_despite_its_condition() {
    let status = json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "SchedulerError", "message": "already assigned"}]});
    let field = json!([{"key": "metadata.name", "operator": "In", "values": ["node-1"]}]);
    let terms = json!({"nodeSelectorTerms": [{"matchFields": field}]});
    let affinity =
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}});
    let mut waits = pod(&json!({"affinity": affinity}), &status);
    let bound = super::pod(&object(waits.clone())).expect("bound to a node");
    assert_eq!((bound.unbound, bound.unschedulable), (false, None));
    waits["spec"]["nodeName"] = Value::Null;
    let unbound = super::pod(&object(waits)).expect("made for a node");
    assert_eq!(
        (unbound.unbound, unbound.unschedulable.as_deref()),
        (true, Some("already assigned"))
    );
}

/// The operator's conditions are the only place where it says why it makes no DaemonSet.
#[test]
fn error_condition_of_cluster_policy_is_observed() {
    let status = json!({"state": "notReady", "conditions": [
        {"type": "Ready", "status": "False", "reason": "Error", "message": ""},
        {"type": "Error", "status": "True", "reason": "ReconcileFailed", "message": "Failed to reconcile state-driver: no kernel"},
    ]});
    let kind = json!({"apiVersion": "nvidia.com/v1", "kind": "ClusterPolicy", "metadata": {"name": "cluster-policy"}, "spec": {}});
    let mut full = kind.clone();
    full["status"] = status;
    let failed = cluster_policy(&object(full)).expect("a policy");
    let failure = failed.conditions.failure().expect("the reconciliation failed");
    assert_eq!(
        (failure.reason.as_str(), failure.message.as_str()),
        ("ReconcileFailed", "Failed to reconcile state-driver: no kernel")
    );
    assert_eq!(failed.ready_reason, None);
    let mut full = kind;
    full["status"] =
        json!({"conditions": [{"type": "Ready", "status": "True", "reason": "NoGPUNodes"}]});
    let ready = cluster_policy(&object(full)).expect("a policy");
    assert_eq!(
        (ready.ready_reason.as_deref(), ready.conditions.is_ready()),
        (Some("NoGPUNodes"), true)
    );
}

#[test]
fn nvidia_driver_is_observed_with_selector_and_conditions() {
    let full = json!({
        "apiVersion": "nvidia.com/v1alpha1", "kind": "NVIDIADriver",
        "metadata": {
            "name": "blue", "uid": "u", "generation": 3,
            "managedFields": [{"manager": "kubectl-edit", "fieldsV1": {"f:spec": {"f:version": {}}}, "time": "2026-01-02T03:04:05Z"}],
        },
        "spec": {"default": false, "nodeSelector": {"pool": "blue"}, "version": "580.126.20"},
        "status": {"state": "ready", "conditions": [
            {"type": "Ready", "status": "False", "reason": "Error", "message": ""},
            {"type": "Error", "status": "True", "reason": "DriverNotReady", "message": "driver pods are not ready"},
        ]},
    });
    let seen = nvidia_driver(&object(full)).expect("an NVIDIADriver");
    assert!(!seen.is_default && seen.conditions.ready.as_ref().is_some_and(|ready| !ready.is_true));
    assert_eq!(seen.conditions.failure(), None, "it only rolls");
    assert_eq!(seen.node_selector.get("pool").map(String::as_str), Some("blue"));
    assert_eq!(
        (seen.driver.version.as_deref(), seen.field_manager.as_deref()),
        (Some("580.126.20"), Some("kubectl-edit"))
    );
}
