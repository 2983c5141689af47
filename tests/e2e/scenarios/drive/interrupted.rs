//! The hook's pod dies during its work, on any node. The next pod of the Job continues, and does
//! nothing twice.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::{
    LIMIT, check_deleted_once, check_done, evictions_of, is_cordoned, nodes, settings, tell_cost,
    upgrade,
};
use crate::harness::hook_release::HookRelease;
use crate::harness::kwok::{KWOK_TAINT, REAL};
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::turns::Turns;
use crate::harness::wait::until;
use crate::harness::workloads::{NAMESPACE, Serving};

async fn kill(stack: &Stack, hook: &HookRelease<'_>) -> Result<()> {
    let pod = hook.running_pod().await?;
    stack.worker_of(&pod)?.signal(OPERATOR_NAMESPACE, &pod.name_any(), "KILL").await
}

/// Checks that no pod was evicted twice. Returns the number of evictions.
fn check_evicted_once(hook: &HookRelease<'_>, begin: Timestamp) -> Result<usize> {
    let mut went: BTreeMap<String, usize> = BTreeMap::new();
    for eviction in evictions_of(hook, begin)?.into_iter().filter(|eviction| eviction.code == 201) {
        *went.entry(eviction.name).or_default() += 1;
    }
    ensure!(went.values().all(|times| *times == 1), "{went:?}");
    Ok(went.len())
}

/// The hook's pod is deleted during the evictions of the first node. Its successor is killed after
/// it has deleted a driver pod, before the new one is ready.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn hook_that_dies_twice_deletes_pods_once() -> Result<()> {
    scenario("drive-killed", async |stack| {
        stack.fleet(Script::seeded(56), 3, true).await?;
        let before = stack.plugins().await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", 6, None).await?;
        let drivers = stack.drivers().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let (turns, begin) = (Turns::record(&stack.client), Timestamp::now());
        let deaths = async {
            until("the first eviction", LIMIT, async || {
                Ok((!evictions_of(&hook, begin)?.is_empty()).then_some(()))
            })
            .await?;
            let pod = hook.running_pod().await?;
            let pods = Api::<Pod>::namespaced(stack.client.clone(), OPERATOR_NAMESPACE);
            pods.delete(&pod.name_any(), &DeleteParams::default()).await?;
            until("the first driver to be deleted", LIMIT, async || {
                Ok((!hook.deleted_pods()?.is_empty()).then_some(()))
            })
            .await?;
            kill(stack, &hook).await
        };
        let settings = settings(1, 240);
        let (said, died) = tokio::join!(upgrade(stack, &hook, &settings), deaths);
        let said = said?;
        died?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &[]).await?;
        check_deleted_once(&hook, OPERATOR_NAMESPACE, &drivers, &[])?;
        let evicted = check_evicted_once(&hook, begin)?;
        ensure!(evicted >= 6, "{evicted} pods were evicted, expected at least 6");
        for node in drivers.keys() {
            ensure!(
                turns.gpu_starts(node) == 1,
                "{node} was not upgraded exactly once: {:#?}",
                turns.by_node().get(node)
            );
        }
        ensure!(
            turns.most_cordoned() == 1,
            "{} nodes were cordoned at once",
            turns.most_cordoned()
        );
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        tell_cost(&hook, "drive-killed", begin, 3)?;
        rights::check(stack, &hook, "drive-killed").await
    })
    .await
}

/// The only GPU node also runs the hook and is drained completely. The hook is killed there while
/// the node is cordoned.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn hook_on_only_node_survives_its_drain() -> Result<()> {
    scenario("drive-own-node", async |stack| {
        stack.fleet(Script::seeded(57), 1, true).await?;
        let before = stack.plugins().await?;
        stack.join("gpu-0")?;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", 2, None).await?;
        stack
            .run(&Serving { name: "web", gpus: 0, node: Some("gpu-0"), ..Serving::default() })
            .await?;
        stack.await_serving("web", 1).await?;
        let drivers = stack.drivers().await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let mut settings = settings(1, 240);
        settings["upgrade"]["policy"]["drain"] = json!({"enable": true, "timeoutSeconds": 60});
        settings["upgrade"]["policy"]["podDeletion"] = json!({"enable": false});
        settings["pod"] = json!({
            "annotations": {REAL: "true"},
            "nodeSelector": {"nvidia.com/gpu.present": "true"},
            "tolerations": [{"key": KWOK_TAINT, "operator": "Exists"}],
        });

        let begin = Timestamp::now();
        let death = async {
            until("the driver to be deleted", LIMIT, async || {
                Ok((!hook.deleted_pods()?.is_empty()).then_some(()))
            })
            .await?;
            let node = nodes(stack).await?.remove("gpu-0").context("gpu-0")?;
            ensure!(is_cordoned(&node), "{node:?}");
            kill(stack, &hook).await
        };
        let (said, died) = tokio::join!(upgrade(stack, &hook, &settings), death);
        let said = said?;
        died?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        let pods = hook.pods().await?;
        let there = |pod: &Pod| {
            pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) == Some("gpu-0")
        };
        ensure!(
            pods.len() == 2 && pods.iter().all(there),
            "not both pods ran on the GPU node: {pods:#?}"
        );
        check_done(stack, &[]).await?;
        check_deleted_once(&hook, OPERATOR_NAMESPACE, &drivers, &[])?;
        let evictions = evictions_of(&hook, begin)?;
        ensure!(evictions.iter().all(|eviction| eviction.namespace == NAMESPACE), "{evictions:#?}");
        ensure!(check_evicted_once(&hook, begin)? == 3, "{evictions:#?}");
        stack.await_serving("serve", 2).await?;
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        tell_cost(&hook, "drive-own-node", begin, 1)?;
        rights::check(stack, &hook, "drive-own-node").await
    })
    .await
}
