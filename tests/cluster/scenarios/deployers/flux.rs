//! a, b. The road of `scenarios/bundle.rs` with Flux: a recipe becomes a bundle, which is committed; and then a commit that changes nothing.

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::deployers::flux::{Flux, TOOLS};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::fleet::{NEW, OLD};
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::tools;

use super::{fired, hooks};

const NODES: usize = 3;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
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
        ensure!(fired(stack, begin)? == [1, 1, 1], "each hook fires once: {:?}", fired(stack, begin)?);
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
        ensure!(fired(stack, begin)? == [1, 1, 0], "the operator's hooks fire once: {:?}", fired(stack, begin)?);
        stack.check_rerolled(&before, &[operator, dra], Timestamp::now()).await?;

        // Nothing: neither a commit without a change nor a look by hand is a reason to fire.
        let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
        flux.commit_nothing(stack).await?;
        flux.wait(stack, Outcome::Succeeded).await?;
        flux.reconcile_by_hand(stack).await?;
        ensure!(fired(stack, begin)? == [0, 0, 0], "no hook fires: {:?}\n{}", fired(stack, begin)?, flux.status(stack).await?);
        ensure!(stack.plugins().await? == plugins, "every plugin is the one that it was");
        Ok(())
    })
    .await
}

async fn logs(stack: &Stack) -> Result<String> {
    let mut logs = String::new();
    for hook in hooks(stack) {
        logs += &hook.logs().await?;
    }
    Ok(logs)
}
