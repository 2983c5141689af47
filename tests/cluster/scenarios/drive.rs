//! Mode `drive`: the hook does the whole upgrade, with workloads in the way.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::harness::audit::Request;
use crate::harness::fleet::NEW;
use crate::harness::helm::Said;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script, driver_version};
use crate::harness::workloads::NAMESPACE;

const STATE: &str = "gpu-rollout.dev/gpu-driver-upgrade-state";
const RECORD: &str = "gpu-rollout.dev/gpu-driver-upgrade";

/// The operator's values of a release that is driven by the hook: its own controller and its driver manager leave the nodes alone.
fn values() -> Value {
    json!({"driver": {
        "version": NEW.driver,
        "upgradePolicy": {"autoUpgrade": false},
        "manager": {"env": [{"name": "ENABLE_GPU_POD_EVICTION", "value": "false"}, {"name": "ENABLE_AUTO_DRAIN", "value": "false"}]},
    }})
}

/// What the hook is told.
fn settings(parallel: usize, budget: u64) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "drive", "duties": ["settle", "drive", "reroll"], "budgetSeconds": budget,
        "upgrade": {
            "policy": {"maxParallelUpgrades": parallel, "maxUnavailable": "50%", "podDeletion": {"timeoutSeconds": 60}},
            "attempts": 1,
            "startSeconds": 60,
        },
    })
}

async fn nodes(stack: &Stack) -> Result<BTreeMap<String, Node>> {
    let nodes = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
    Ok(nodes.into_iter().filter(|node| node.name_any().starts_with("gpu-")).map(|node| (node.name_any(), node)).collect())
}

fn is_cordoned(node: &Node) -> bool {
    node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true)
}

/// Deploys the new release and its hook, driven.
async fn upgrade(stack: &Stack, hook: &HookRelease<'_>, settings: &Value) -> Result<Said> {
    stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values()).await?;
    hook.deploy(&values(), settings).await
}

/// Every node but these runs the new driver, takes workloads, and carries nothing of ours.
async fn check_done(stack: &Stack, except: &[&str]) -> Result<()> {
    let drivers = stack.drivers().await?;
    for (name, node) in nodes(stack).await? {
        if except.contains(&name.as_str()) {
            continue;
        }
        ensure!(!is_cordoned(&node), "{name} is cordoned");
        let ours = |key: &&String| key.starts_with("gpu-rollout.dev/");
        ensure!(!node.labels().keys().any(|key| ours(&key)) && !node.annotations().keys().any(|key| ours(&key)), "{name}: {node:?}");
        let pod = drivers.get(&name).with_context(|| format!("no driver on {name}"))?;
        let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone()).unwrap_or_default();
        ensure!(driver_version(&image) == NEW.driver, "{name} runs {image}");
    }
    Ok(())
}

/// Requests a node, evictions and the Lease apart.
fn requests_a_node(hook: &HookRelease<'_>, since: Timestamp, nodes: usize) -> Result<(usize, usize)> {
    let apart = |request: &Request| request.resource == "leases" || request.resource == "pods/eviction";
    let requests: Vec<Request> = hook.requests(since)?.into_iter().filter(|request| !apart(request)).collect();
    let writes = requests.iter().filter(|request| request.is_write()).count();
    Ok((requests.len().div_ceil(nodes), writes.div_ceil(nodes)))
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn workloads_leave_within_their_budgets_and_every_node_is_given_back() -> Result<()> {
    scenario("drive", async |stack| {
        stack.fleet(Script::seeded(51), 4, true).await?;
        let before = stack.plugins().await?;
        stack.create_namespace(NAMESPACE).await?;
        // One may be away at a time: evictions are refused until a replacement is ready elsewhere.
        stack.serve("serve", 6, Some(5)).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let begin = Timestamp::now();
        let said = upgrade(stack, &hook, &settings(2, 240)).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &[]).await?;
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        let evictions =
            hook.requests(begin)?.into_iter().filter(|request| request.resource == "pods/eviction" && request.code == 201).count();
        ensure!(evictions > 0, "something was evicted\n{}", hook.logs().await?);
        let (requests, writes) = requests_a_node(&hook, begin, 4)?;
        eprintln!("drive: {requests} requests a node, of them {writes} writes; {evictions} evictions");
        rights::check(stack, &hook, "drive").await
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn a_node_whose_driver_fails_keeps_its_cordon_and_the_others_are_done() -> Result<()> {
    scenario("drive-fails", async |stack| {
        let mut script = Script::seeded(52);
        script.faults.insert("gpu-1".into(), Fault::CrashLoop);
        script.driver = (500, 1_500);
        stack.fleet(Script { faults: std::collections::HashMap::new(), ..script.clone() }, 4, false).await?;
        stack.rewrite(|live| *live = script)?;
        let hook = HookRelease::new(stack, "gpu-rollout");

        let said = upgrade(stack, &hook, &settings(1, 240)).await?;

        ensure!(!said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &["gpu-1"]).await?;
        let nodes = nodes(stack).await?;
        let failed = nodes.get("gpu-1").context("gpu-1")?;
        ensure!(is_cordoned(failed), "{failed:?}");
        ensure!(failed.labels().get(STATE).map(String::as_str) == Some("upgrade-failed"), "{:?}", failed.labels());
        ensure!(failed.annotations().get(RECORD).is_some_and(|text| text.contains("driver-failing")), "{:?}", failed.annotations());
        let end = hook.end().await?;
        let message = end.message.unwrap_or_default();
        ensure!(message.contains("gpu-1") && message.contains("restarts"), "{message}");
        let events = hook.events_about("gpu-1").await?;
        ensure!(events.iter().any(|event| event.contains("restarts")), "{events:?}");
        let record = hook.record().await?;
        ensure!(
            record.get("node.gpu-1").is_some_and(|text| text.contains("UpgradeFailed") && text.contains("pod-restart-required")),
            "{record:?}"
        );
        ensure!(record.get("node.gpu-0").is_some_and(|text| text.contains("\"outcome\":\"done\"")), "{record:?}");
        Ok(())
    })
    .await
}
