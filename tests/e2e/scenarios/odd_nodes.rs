//! A rollout with the problems of real fleets: an exporter that was already broken, a GPU that
//! dies, a node whose MIG configuration changes, a node that joins. None of them makes the rollout
//! fail or blocks it.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::kwok;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Operand, Script, is_ready};
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(3);
const MIG_STATE: &str = "nvidia.com/mig.config.state";

async fn set_mig_state(stack: &Stack, node: &str, state: Option<&str>) -> Result<()> {
    let patch = Patch::Merge(json!({"metadata": {"labels": {MIG_STATE: state}}}));
    Api::<Node>::all(stack.client.clone()).patch(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

/// Makes the exporter on a node fail permanently.
async fn break_exporter(stack: &Stack, node: &str) -> Result<()> {
    let exporter = Operand::DcgmExporter.name().to_owned();
    let labels = format!("app={exporter}");
    stack.rewrite(|script| {
        script.operand_faults.extend([((node.to_owned(), exporter), Fault::CrashLoop)]);
    })?;
    let pods = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
    let pod = stack
        .pods_by_node(OPERATOR_NAMESPACE, &labels)
        .await?
        .remove(node)
        .map(|pod| pod.name_any())
        .unwrap_or_default();
    pods.delete(&pod, &DeleteParams::default()).await?;
    until("another exporter to fail", LIMIT, async || {
        let now = stack.pods_by_node(OPERATOR_NAMESPACE, &labels).await?.remove(node);
        Ok(now
            .filter(|now| {
                now.name_any() != pod
                    && now.status.as_ref().is_some_and(|status| status.phase.is_some())
                    && !is_ready(now)
            })
            .map(drop))
    })
    .await
}

async fn rolls_out(name: &str, seed: u64, values: Value, settings: Value) -> Result<()> {
    scenario(name, async |stack| {
        let nodes = stack.fleet(Script::seeded(seed), 4, false).await?;
        let (broken, mig, dying) = (&nodes[0], &nodes[1], &nodes[2]);
        break_exporter(stack, broken).await?;
        let before = stack.drivers().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;

        let odd = async {
            until("the first driver to be replaced", LIMIT, async || {
                let now = stack.drivers().await?;
                Ok(now
                    .iter()
                    .any(|(node, pod)| before.get(node).is_some_and(|old| old.uid() != pod.uid()))
                    .then_some(()))
            })
            .await?;
            set_mig_state(stack, mig, Some("pending")).await?;
            stack.rewrite(|script| script.gpus.extend([(dying.clone(), 7)]))?;
            kwok::add_gpu_node(&stack.client, "gpu-4").await?;
            until("the joined node to run a driver", LIMIT, async || {
                Ok(stack.drivers().await?.get("gpu-4").is_some_and(is_ready).then_some(()))
            })
            .await?;
            set_mig_state(stack, mig, Some("success")).await
        };
        let (said, happened) = tokio::join!(hook.deploy(&values, &settings), odd);
        let said = said?;
        happened?;

        let log = hook.logs().await?;
        ensure!(said.success, "{said:?}\n{log}");
        let now = stack.drivers().await?;
        ensure!(
            nodes.iter().all(|node| now[node].uid() != before[node].uid() && is_ready(&now[node])),
            "{log}"
        );
        ensure!(
            log.contains(Operand::DcgmExporter.name()),
            "the log does not name the broken exporter:\n{log}"
        );
        Ok(())
    })
    .await
}

fn settings(mode: &str, tasks: &[&str]) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": mode, "tasks": tasks, "budgetSeconds": 300,
        "upgrade": {"policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}, "startSeconds": 60},
    })
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn odd_nodes_do_not_block_rollout_in_drive() -> Result<()> {
    rolls_out(
        "odd-drive",
        95,
        NEW.driven_values(),
        settings("drive", &["settle", "drive", "reroll"]),
    )
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn odd_nodes_do_not_block_rollout_in_assist() -> Result<()> {
    rolls_out("odd-assist", 96, NEW.values(), settings("assist", &["settle", "wake", "reroll"]))
        .await
}
