//! The stand-in of the GPU Operator does the same as the recorded real one, only faster.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::recorder::Recorder;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::trace::Trace;
use crate::harness::wait::until;

/// The release that was recorded.
const VERSION: &str = "v26.7.0";
const LIMIT: Duration = Duration::from_mins(2);

/// Times that keep the recorded order: drivers are ready long before the controller's next tick.
fn script(seed: u64) -> Script {
    Script {
        tick: Duration::from_secs(5),
        driver: (500, 1_500),
        ready_after: (200, 800),
        driver_manager: false,
        ..Script::seeded(seed)
    }
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn install_and_serial_bump() -> Result<()> {
    scenario("trace-serial", async |stack| {
        stack.play(script(1)).await?;
        stack.add_gpu_nodes(4).await?;
        let values = json!({"toolkit": {"enabled": false}, "driver": {"version": "595.91.07"}});

        let recorder = Recorder::start(&stack.client);
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &values).await?;
        settled(&recorder, 4, LIMIT).await?;
        same_shape(&recorder, "01-fresh-install.jsonl")?;

        let recorder = Recorder::start(&stack.client);
        settled(&recorder, 4, LIMIT).await?;
        let values = json!({"toolkit": {"enabled": false}, "driver": {"version": "595.92.01"}});
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &values).await?;
        rolled(&recorder, 4).await?;
        same_shape(&recorder, "02-driver-bump-serial.jsonl")
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn parallel_bump_with_a_slow_validator() -> Result<()> {
    scenario("trace-parallel", async |stack| {
        stack.play(script(2)).await?;
        stack.add_gpu_nodes(4).await?;
        let policy = json!({"maxParallelUpgrades": 2, "maxUnavailable": "100%"});
        let values = json!({"toolkit": {"enabled": false}, "driver": {"version": "595.91.07", "upgradePolicy": policy}});
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &values).await?;
        let recorder = Recorder::start(&stack.client);
        settled(&recorder, 4, LIMIT).await?;

        let recorder = Recorder::start(&stack.client);
        settled(&recorder, 4, LIMIT).await?;
        let values = json!({"toolkit": {"enabled": false}, "driver": {"version": "595.92.01", "upgradePolicy": policy}});
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &values).await?;
        let slow = until("a node to wait for its driver", LIMIT, async || {
            let (nodes, _) = recorder.trace().now();
            Ok(nodes.into_iter().find(|(_, look)| look.state == "pod-restart-required").map(|(name, _)| name))
        })
        .await?;
        set_validator(stack, &slow, false).await?;
        until("the validator to block its node", LIMIT, async || {
            let (nodes, _) = recorder.trace().now();
            Ok(nodes.values().any(|look| look.validation_started).then_some(()))
        })
        .await?;
        set_validator(stack, &slow, true).await?;
        rolled(&recorder, 4).await?;
        same_shape(&recorder, "03-driver-bump-parallel.jsonl")
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn no_gpu_nodes() -> Result<()> {
    scenario("trace-no-nodes", async |stack| {
        stack.play(script(3)).await?;
        let recorder = Recorder::start(&stack.client);
        stack.deploy("gpu-operator", VERSION, OPERATOR_NAMESPACE, &json!({})).await?;
        until("the ClusterPolicy's conditions", LIMIT, async || {
            let (_, policy) = recorder.trace().now();
            Ok((policy.reasons.0 == "NFDLabelsMissing").then_some(()))
        })
        .await?;
        same_shape(&recorder, "12-no-gpu-nodes.jsonl")
    })
    .await
}

/// Waits until everything is installed and the controller has checked all nodes.
pub(super) async fn settled(recorder: &Recorder, count: usize, limit: Duration) -> Result<()> {
    until("all nodes to be done", limit, async || {
        let (nodes, policy) = recorder.trace().now();
        let done = nodes.len() == count && nodes.values().all(|look| look.state == "upgrade-done");
        Ok((done && policy.reasons.0 == "Reconciled").then_some(()))
    })
    .await
}

/// Waits until the nodes have been out of date and are done again.
async fn rolled(recorder: &Recorder, count: usize) -> Result<()> {
    until("a node to be out of date", LIMIT, async || {
        let (nodes, _) = recorder.trace().now();
        Ok(nodes.values().any(|look| look.state == "upgrade-required").then_some(()))
    })
    .await?;
    settled(recorder, count, LIMIT).await
}

fn same_shape(recorder: &Recorder, recording: &str) -> Result<()> {
    let played = format!("{:#?}", recorder.trace().shape());
    let expected = format!("{:#?}", Trace::read(recording)?.shape());
    let difference = similar::TextDiff::from_lines(&expected, &played);
    ensure!(
        played == expected,
        "the order differs from {recording} (-):\n{}",
        difference.unified_diff().context_radius(8)
    );
    Ok(())
}

/// Sets the readiness of the validator on a node, as kubelet does.
async fn set_validator(stack: &Stack, node: &str, ready: bool) -> Result<()> {
    let pods = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
    let on_node = ListParams::default()
        .labels("app=nvidia-operator-validator")
        .fields(&format!("spec.nodeName={node}"));
    for pod in pods.list(&on_node).await? {
        let never = if ready { json!(null) } else { json!("true") };
        let annotation =
            json!({"metadata": {"annotations": {"stand-in.gpu-rollout.dev/never-ready": never}}});
        pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(annotation)).await?;
        if !ready {
            let mut status = json!({"status": {"conditions": [{"type": "Ready", "status": "False"}, {"type": "ContainersReady", "status": "False"}]}});
            let mut containers =
                pod.status.clone().and_then(|status| status.container_statuses).unwrap_or_default();
            for container in &mut containers {
                container.ready = false;
            }
            status["status"]["containerStatuses"] = json!(containers);
            pods.patch_status(&pod.name_any(), &PatchParams::default(), &Patch::Strategic(status))
                .await?;
        }
    }
    Ok(())
}
