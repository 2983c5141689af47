//! Mode `steer`: NVIDIA's own library upgrades the nodes, and the hook runs the tests before it
//! uncordons them.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{PREVIOUS, check_done, driver_is, fleet, verdicts};
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stand_in::OPERATOR_NAMESPACE;
use crate::harness::test_timeline::TestTimeline;
use crate::harness::turns::Turns;

const SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";

/// Returns the settings of a hook: one node at a time.
fn settings(tasks: &[&str], tests: &[Value]) -> Value {
    json!({
        "component": {"version": NEW.chart}, "mode": "steer", "tasks": tasks,
        "upgrade": {
            "policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"},
            "canary": {"nodes": 1},
            "acceptance": tests,
        },
    })
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn nodes_of_nvidias_controller_are_tested_one_by_one() -> Result<()> {
    scenario("acceptance-steer", async |stack| {
        let nodes = fleet(stack, 74, 3, &PREVIOUS.steered_values()).await?;
        let values = NEW.steered_values();
        let first = HookRelease::new(stack, "gpu-rollout-pre");
        let said = first.deploy(&values, &settings(&["preflight", "hold"], &[])).await?;
        ensure!(said.success, "{said:?}\n{}", first.logs().await?);

        let (turns, timeline) = (Turns::record(&stack.client), TestTimeline::record(&stack.client));
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let tests = [driver_is("driver", NEW.driver), driver_is("again", NEW.driver)];
        let tasks = ["settle", "wake", "steer", "reroll"];
        let said = hook.deploy(&values, &settings(&tasks, &tests)).await?;

        ensure!(said.success, "{said:?}\n{}", hook.logs().await?);
        check_done(stack, &nodes, NEW.driver).await?;
        timeline.check(&nodes, &["driver", "again"]).await?;
        let started = timeline.started();
        for node in &nodes {
            let expected = ["driver after", "again after"];
            ensure!(started.get(node).is_some_and(|tests| *tests == expected), "{started:?}");
            let verdicts = verdicts(stack, &hook, node).await?;
            ensure!(verdicts == ["driver after passed", "again after passed"], "{verdicts:?}");
            ensure!(turns.gpu_starts(node) == 1, "{node}: {:#?}", turns.by_node().get(node));
        }
        let most = turns.most_cordoned();
        ensure!(most == 1, "{most} nodes were cordoned at once");
        for node in Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await? {
            ensure!(!node.labels().contains_key(SKIP), "{} is still held", node.name_any());
        }
        rights::check(stack, &hook, "acceptance-steer").await?;
        let unused = rights::unused_in("acceptance-steer", "acceptance")?;
        ensure!(unused.is_empty(), "granted and not used: {unused:?}");
        Ok(())
    })
    .await
}
