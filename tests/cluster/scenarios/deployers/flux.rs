//! a, b. The road of `scenarios/bundle.rs` with Flux: a recipe becomes a bundle, which is committed; and then a commit that changes nothing.

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::deployers::flux::{Flux, TOOLS};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::tools;

const NODES: usize = 3;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn hooks_fire_for_a_commit_that_changes_something_for_them() -> Result<()> {
    tools::build(TOOLS)?;
    scenario("flux", async |stack| {
        stack.play(Script::seeded(22)).await?;
        stack.add_gpu_nodes(NODES).await?;
        let flux = Flux::start(stack).await?;

        // First install: every hook fires, the DRA driver comes after the drivers, nothing is stale.
        let begin = Timestamp::now();
        flux.deploy(stack, &OLD, NODES).await?;
        let installed = flux.wait(stack, Outcome::Succeeded).await;
        ensure!(installed.is_ok(), "{installed:?}\n{}", logs(stack).await?);
        ensure!(firings(stack, begin)? == [1, 1, 1], "each hook fires once: {:?}", firings(stack, begin)?);
        let [_, operator, dra] = hooks(stack);
        for hook in [&operator, &dra] {
            ensure!(hook.deleted_pods()?.is_empty(), "a plugin was replaced that was not stale: {:#?}", hook.deleted_pods()?);
        }
        let before = stack.plugins().await?;
        ensure!(before.len() == NODES, "a plugin on every node: {before:?}");

        // Upgrade: what the operator's hooks consume has changed, for the DRA driver's hook nothing has.
        let begin = Timestamp::now();
        flux.deploy(stack, &NEW, NODES).await?;
        let upgraded = flux.wait(stack, Outcome::Succeeded).await;
        ensure!(upgraded.is_ok(), "{upgraded:?}\n{}", logs(stack).await?);
        ensure!(firings(stack, begin)? == [1, 1, 0], "the operator's hooks fire once: {:?}", firings(stack, begin)?);
        stack.check_rerolled(&before, &[operator, dra], Timestamp::now()).await?;

        // Nothing: neither a commit without a change nor a look by hand is a reason to fire.
        let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
        flux.commit_nothing(stack).await?;
        flux.wait(stack, Outcome::Succeeded).await?;
        flux.reconcile_by_hand(stack).await?;
        ensure!(firings(stack, begin)? == [0, 0, 0], "no hook fires: {:?}\n{}", firings(stack, begin)?, flux.status(stack).await?);
        ensure!(stack.plugins().await? == plugins, "every plugin is the one that it was");
        Ok(())
    })
    .await
}

/// The bundle's hooks in their order.
fn hooks(stack: &Stack) -> [HookRelease<'_>; 3] {
    [
        HookRelease::new(stack, "gpu-operator-pre"),
        HookRelease::new(stack, "gpu-operator-post"),
        HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
    ]
}

/// How often each of them has fired since a moment.
fn firings(stack: &Stack, since: Timestamp) -> Result<Vec<usize>> {
    hooks(stack).iter().map(|hook| hook.firings(since)).collect()
}

async fn logs(stack: &Stack) -> Result<String> {
    let mut logs = String::new();
    for hook in hooks(stack) {
        logs += &hook.logs().await?;
    }
    Ok(logs)
}
