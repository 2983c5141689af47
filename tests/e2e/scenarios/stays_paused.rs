//! `gpu-rollout abort --stay-paused` in mode `assist`, with the library of NVIDIA as controller.
//! Without a hook, only the holds of the pause keep the controller from the nodes.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::{Either, select};
use serde_json::json;

use crate::harness::console::Console;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script, driver_version};
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(3);
const SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";
const NODES: usize = 6;

/// Returns the nodes that do not have the new driver.
async fn outdated(stack: &Stack) -> Result<BTreeSet<String>> {
    let drivers = stack.drivers().await?;
    let image = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.spec.as_ref()?.containers.first()?.image.clone()
    };
    let is_new = |image: String| driver_version(&image) == NEW.driver;
    let outdated = drivers.iter().filter(|(_, pod)| !image(pod).is_some_and(is_new));
    Ok(outdated.map(|(node, _)| node.clone()).collect())
}

/// Waits until no node is in progress. Returns the nodes that do not have the new driver.
async fn at_rest(stack: &Stack, console: &Console) -> Result<BTreeSet<String>> {
    until("no node to be in progress", LIMIT, async || {
        let totals = console.status().await?["totals"].clone();
        let idle = totals["inProgress"] == 0 && totals["failed"] == 0;
        let drivers = stack.drivers().await?;
        Ok((idle && drivers.len() == NODES).then_some(()))
    })
    .await?;
    outdated(stack).await
}

/// Regression: `abort` removed the holds that its own pause had set, and the controller continued
/// until all nodes had the new driver.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn aborted_fleet_stays_paused_for_nvidias_controller() -> Result<()> {
    scenario("stays-paused", async |stack| {
        stack.fleet(Script { driver: (3_000, 5_000), ..Script::seeded(74) }, NODES, false).await?;
        let stack = &*stack;
        let console = Console::new(stack)?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let (values, settings) = (
            NEW.values(),
            json!({"component": {"version": NEW.chart}, "mode": "assist", "tasks": ["settle", "wake"]}),
        );
        let upgrade = async {
            stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
            hook.deploy(&values, &settings).await
        };
        let abort = async {
            until("a node to have the new driver", LIMIT, async || {
                Ok((outdated(stack).await?.len() < NODES).then_some(()))
            })
            .await?;
            console.types("gpu-rollout abort --stay-paused --reason INC-9 --yes").await
        };
        // Helm may end before the abort does: the Job has failed then.
        match select(Box::pin(upgrade), Box::pin(abort)).await {
            Either::Left((_, abort)) => abort.await?,
            Either::Right((aborted, _)) => aborted?,
        };

        let held = at_rest(stack, &console).await?;
        ensure!(held.len() >= 2, "only {held:?} are left: the abort came too late");
        // The controller upgrades the one node that it may, and no other.
        let freed = held.first().context("a held node")?;
        console.types(&format!("kubectl label node {freed} {SKIP}-")).await?;
        until("the freed node to be upgraded", LIMIT, async || {
            Ok((!outdated(stack).await?.contains(freed)).then_some(()))
        })
        .await?;
        let left = at_rest(stack, &console).await?;
        let expected: BTreeSet<String> = held.iter().filter(|node| *node != freed).cloned().collect();
        ensure!(left == expected, "{left:?} instead of {expected:?}");
        let status = console.status().await?;
        ensure!(
            status["run"]["phase"] == "aborted" && status["pauses"][0]["reason"] == "INC-9",
            "{status:#}"
        );

        console.types("gpu-rollout resume --yes").await?;
        until("all nodes to be upgraded", LIMIT, async || {
            Ok(outdated(stack).await?.is_empty().then_some(()))
        })
        .await?;
        ensure!(at_rest(stack, &console).await?.is_empty(), "an old driver came back");
        let labels = console.types(&format!("kubectl get nodes -l {SKIP} -o name")).await?;
        ensure!(labels.is_empty(), "holds are left on {labels}");
        Ok(())
    })
    .await
}
