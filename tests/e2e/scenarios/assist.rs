//! Modes `assist` and `steer`. NVIDIA's controller performs the upgrades, and sleeps two minutes
//! after each driver pod that it deletes.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::harness::apply::Applier;
use crate::harness::fleet::{NEW, Release, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::network::{NETWORK_CHART, NEW_NETWORK, nic_cluster_policy_with};
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{NETWORK_NAMESPACE, OPERATOR_NAMESPACE, Script, is_ready};
use crate::harness::turns::Turns;
use crate::harness::workloads::{NAMESPACE, Serving};

const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
const SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";
/// The interval of the real controller.
const TICK: Duration = Duration::from_mins(2);

/// Checks that every GPU node is done and not cordoned, and that no label or annotation of
/// gpu-rollout remains.
async fn check_clean(stack: &Stack) -> Result<()> {
    for node in Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await? {
        let name = node.name_any();
        ensure!(
            node.spec.as_ref().and_then(|spec| spec.unschedulable) != Some(true),
            "{name} is cordoned"
        );
        ensure!(
            !node.labels().contains_key(SKIP),
            "{name} keeps a skip label: {:?}",
            node.labels()
        );
        let ours = |key: &&String| key.starts_with("gpu-rollout.dev/");
        ensure!(
            !node.labels().keys().any(|key| ours(&key))
                && !node.annotations().keys().any(|key| ours(&key)),
            "{name}: {node:?}"
        );
        let state = node.labels().get(STATE).map(String::as_str);
        let expected = name.starts_with("gpu-").then_some("upgrade-done");
        ensure!(state == expected, "{name}: {state:?}");
    }
    Ok(())
}

/// Upgrades four nodes one by one. If the hook did not wake the controller, it would need eight
/// minutes, and the Job has four.
async fn woken(name: &str, chart: &'static str) -> Result<()> {
    scenario(name, async |stack| {
        let script = Script { tick: TICK, ..Script::seeded(61) };
        stack.fleet(Script::seeded(61), 4, true).await?;
        let before = stack.plugins().await?;
        stack.rewrite(|live| *live = script)?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let release = Release { chart, driver: NEW.driver };

        let begin = Timestamp::now();
        stack.deploy("gpu-operator", release.chart, OPERATOR_NAMESPACE, &release.values()).await?;
        let settings = json!({"component": {"version": release.chart}, "mode": "assist", "tasks": ["settle", "wake", "reroll"]});
        let said = hook.deploy(&release.values(), &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_clean(stack).await?;
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        let wakes = hook.requests(begin)?.into_iter().filter(|request| request.verb == "patch" && request.resource == "nodes").count();
        ensure!((4..=40).contains(&wakes), "expected 4 to 40 wakes of the controller: {wakes}\n{}", hook.logs().await?);
        rights::check(stack, &hook, name).await
    })
    .await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn sleeping_controller_watching_state_labels_is_woken() -> Result<()> {
    woken("assist-state-label", "v26.3.1").await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn sleeping_controller_watching_skip_labels_is_woken() -> Result<()> {
    woken("assist-skip-label", "v26.7.0").await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn held_nodes_are_checked_before_they_take_workloads() -> Result<()> {
    scenario("steer", async |stack| {
        let script = Script { tick: TICK, ..Script::seeded(62) };
        stack.fleet(Script::seeded(62), 4, true).await?;
        let before = stack.plugins().await?;
        stack.rewrite(|live| *live = script)?;
        let values = NEW.steered_values();
        let upgrade = json!({"policy": {"maxParallelUpgrades": 2, "maxUnavailable": "50%"}});
        let component = json!({"version": NEW.chart});

        let first = HookRelease::new(stack, "gpu-rollout-pre");
        let settings = json!({"component": component, "mode": "steer", "tasks": ["preflight", "hold"], "upgrade": upgrade});
        let said = first.deploy(&values, &settings).await?;
        ensure!(said.success, "{said:?}\n{}", first.logs().await?);
        let nodes = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
        let held = nodes.iter().filter(|node| node.labels().get(SKIP).is_some_and(|value| value == "true")).count();
        ensure!(held == 4, "{held} nodes are held, expected 4");
        rights::check(stack, &first, "steer-pre").await?;

        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let settings = json!({"component": component, "mode": "steer", "tasks": ["settle", "wake", "steer", "reroll"], "upgrade": upgrade});
        let said = hook.deploy(&values, &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_clean(stack).await?;
        stack.check_rerolled(&before, std::slice::from_ref(&hook), said.ended).await?;
        rights::check(stack, &hook, "steer").await
    })
    .await
}

/// The Network Operator's controller drains a node and replaces its driver. The hook waits until
/// the controller has finished.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn network_drivers_are_upgraded_by_their_operator() -> Result<()> {
    scenario("assist-network", async |stack| {
        let names = stack.fleet(Script { driver: (500, 1_500), ..Script::seeded(63) }, 3, false).await?;
        stack.network(&names).await?;
        stack.create_namespace(NAMESPACE).await?;
        stack.run(&Serving { name: "mpi", replicas: 3, ..Serving::default() }).await?;
        stack.await_serving("mpi", 3).await?;
        let before = stack.network_drivers().await?;
        let policy = json!({"autoUpgrade": true, "maxParallelUpgrades": 1, "drain": {"enable": true, "timeoutSeconds": 60}});
        let asked = nic_cluster_policy_with(NEW_NETWORK, &policy);
        let hook = HookRelease::in_namespace(stack, "network-operator-post", NETWORK_NAMESPACE);

        let turns = Turns::record(&stack.client);
        Applier::new(&stack.client).apply(&asked, "").await?;
        let settings = json!({
            "component": {"name": "network-operator", "version": NETWORK_CHART},
            "driver": "ofed", "mode": "assist", "tasks": ["settle", "wake"],
        });
        let said = hook.deploy(&json!({"objects": [asked]}), &settings).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        for (node, pod) in stack.network_drivers().await? {
            let image = first_image(&pod);
            let replaced = before.get(&node).is_some_and(|before| before.uid() != pod.uid());
            ensure!(replaced && is_ready(&pod) && image.contains(NEW_NETWORK), "{node} runs {image}");
        }
        for node in Api::<Node>::all(stack.client.clone())
            .list(&ListParams::default())
            .await?
            .iter()
            .filter(|node| names.contains(&node.name_any()))
        {
            let state = node.labels().get("nvidia.com/ofed-driver-upgrade-state").map(String::as_str);
            ensure!(state == Some("upgrade-done"), "{}: {state:?}", node.name_any());
        }
        // NVIDIA's controller does not count a node whose new driver pod is not bound to it yet
        // ("Driver Pod has no NodeName, skipping", line 3 of docs/conformance.md). Until then,
        // another node can take the slot.
        ensure!((1..=2).contains(&turns.most_cordoned()), "{} nodes were cordoned at once", turns.most_cordoned());
        stack.await_serving("mpi", 3).await?;
        rights::check(stack, &hook, "assist-network").await
    })
    .await
}
