//! What version 0.1.0 left in clusters is still read. The literals have its names, so a renamed key
//! or value fails here.

use contract::check::PreflightCheck;
use contract::record::{NodeOutcome, NodeRecord, ReplacedPodKind, RunRecord};
use contract::settings::{Mode, Settings};
use contract::task::Task;
use serde_json::{Value, from_value, json};

fn settings() -> Value {
    json!({
        "formatVersion": 1,
        "digest": "4f1c",
        "release": "gpu-operator-post",
        "namespace": "gpu-operator",
        "record": "gpu-operator-post-record",
        "component": "gpu-operator",
        "duties": ["settle", "wake", "reroll"],
        "driver": "gpu",
        "mode": "assist",
        "gate": "settled",
        "budgetSeconds": 3600,
        "perNodeSeconds": 600,
        "quietSeconds": 10,
        "graceSeconds": 300,
        "operatorNamespace": "gpu-operator",
        "clusterPolicy": "cluster-policy",
        "tolerateNotReady": 0,
        "dra": {
            "reroll": "auto",
            "required": "auto",
            "namespaces": [],
            "maxUnavailable": "25%",
            "replacementSeconds": 300
        },
        "expected": {},
        "preflight": {"strictness": {"nobody-upgrades": "ignore"}}
    })
}

#[test]
fn settings_are_read() {
    let settings: Settings = from_value(settings()).expect("the settings of 0.1.0");
    assert_eq!(settings.tasks, [Task::Settle, Task::Wake, Task::Reroll]);
    assert_eq!(settings.mode, Mode::Assist);
    let strictness = &settings.preflight.strictness;
    assert_eq!(strictness.severity(PreflightCheck::AutoUpgradeOff, Mode::Assist), None);
}

#[test]
fn run_is_read() {
    let run: RunRecord = from_value(json!({
        "formatVersion": 1,
        "digest": "4f1c",
        "job": "uid-1",
        "startedAt": "2026-11-20T01:00:00Z",
        "specs": "a;b",
        "configs": {"default": {"digest": "77aa", "since": "2026-11-20T01:02:00Z"}},
        "verdict": {"code": "nodes-failed", "message": "1 node failed", "at": "2026-11-20T02:00:00Z"}
    }))
    .expect("the run of 0.1.0");
    assert_eq!(
        (run.digest.as_str(), run.job.as_str(), run.specs.as_str()),
        ("4f1c", "uid-1", "a;b")
    );
    assert_eq!(run.configs["default"].digest, "77aa");
    assert_eq!(run.verdict.expect("a verdict").message, "1 node failed");
}

#[test]
fn node_is_read() {
    let node: NodeRecord = from_value(json!({
        "uid": "uid-2",
        "outcome": "deferred",
        "reason": "NodeNotReady: the node is not Ready",
        "since": "2026-11-20T01:10:00Z",
        "steps": [{"state": "drain-required", "at": "2026-11-20T01:03:00Z"}],
        "evicted": [{"pod": "ml/train-0", "at": "2026-11-20T01:04:00Z"}],
        "replaced": {
            "nvidia-dra-driver-gpu/kubelet-plugin": {
                "plugin": "dra",
                "pod": "kubelet-plugin-x",
                "daemonSet": "kubelet-plugin",
                "under": "uid-3+0",
                "cause": "stale",
                "at": "2026-11-20T01:05:00Z",
                "backAt": "2026-11-20T01:06:00Z"
            },
            "gpu-operator/device-plugin": {
                "plugin": "device",
                "pod": "device-plugin-x",
                "daemonSet": "nvidia-device-plugin-daemonset",
                "under": "77aa",
                "cause": "configuration",
                "at": "2026-11-20T01:07:00Z"
            }
        }
    }))
    .expect("the node of 0.1.0");
    assert_eq!(node.outcome, Some(NodeOutcome::Deferred));
    assert_eq!(node.reason.expect("a reason").name, "NodeNotReady");
    assert_eq!((node.steps[0].state.as_str(), node.steps[0].or_earlier), ("drain-required", false));
    assert_eq!(node.evicted[0].pod, "ml/train-0");
    let dra = &node.replaced["nvidia-dra-driver-gpu/kubelet-plugin"];
    assert_eq!((dra.plugin, dra.under.as_str()), (ReplacedPodKind::Dra, "uid-3+0"));
    assert!(dra.back_at.is_some());
    let device = &node.replaced["gpu-operator/device-plugin"];
    assert_eq!((device.plugin, device.cause.as_str()), (ReplacedPodKind::Device, "configuration"));
}
