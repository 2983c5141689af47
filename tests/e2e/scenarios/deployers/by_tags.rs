//! Upgrades in order with Argo CD, as in the bundle's README. Each deployment is a tag, of a Git
//! repository or of a registry, and the root Application passes it to one wave after another.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::deployers::argocd::{ArgoCd, Follow, Form};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::fleet::NEW;
use crate::harness::registry::Registry;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

use super::{fired, hooks};

/// Includes the start of Argo CD and its pauses between waves.
const DEADLINE: Duration = Duration::from_mins(20);
const NODES: usize = 3;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn installed_upgraded_and_refreshed() -> Result<()> {
    scenario_within(DEADLINE, "by-tags", async |stack| {
        prepare(stack).await?;
        let argocd = ArgoCd::start(stack, Form::Applications, Follow::Tags).await?;
        rolls_out(stack, &argocd, &Ask::old(NODES)).await
    })
    .await
}

/// The nodes pull the hook's image from the same registry.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn argocd_deploys_from_oci() -> Result<()> {
    scenario_within(DEADLINE, "by-tags-oci", async |stack| {
        prepare(stack).await?;
        let registry = Registry::start(stack.helm.directory()).await?;
        let ask = Ask { hook_image: registry.push_hook_image().await?, ..Ask::old(NODES) };
        let argocd = ArgoCd::start_from_registry(stack, registry).await?;
        rolls_out(stack, &argocd, &ask).await
    })
    .await
}

async fn prepare(stack: &mut Stack) -> Result<()> {
    stack.play(Script::seeded(21)).await?;
    stack.add_gpu_nodes(NODES).await?;
    Ok(())
}

async fn rolls_out(stack: &Stack, argocd: &ArgoCd, ask: &Ask) -> Result<()> {
    let (hooks, begin) = (hooks(stack), Timestamp::now());

    // First install: every hook fires once. The DRA driver starts after the drivers, so no plugin
    // is stale.
    argocd.deploy(stack, ask).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    ensure!(fired(stack, begin)? == [1, 1, 1], "{:?}", fired(stack, begin)?);
    for hook in &hooks {
        ensure!(
            hook.deleted_pods()?.is_empty(),
            "{} replaced pods that were not stale: {:#?}",
            hook.name(),
            hook.deleted_pods()?
        );
    }
    let before = stack.plugins().await?;
    ensure!(before.len() == NODES, "a node has no plugin: {before:?}");

    // Upgrade: the operator's hooks fire once. The DRA driver has not changed, so its hook does not
    // fire.
    argocd.deploy(stack, &ask.with(&NEW)).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    ensure!(fired(stack, begin)? == [2, 2, 1], "{:?}", fired(stack, begin)?);
    stack.check_rerolled(&before, &hooks, Timestamp::now()).await?;

    // The same bundle under another tag: no hook does anything.
    let (plugins, again) = (stack.plugins().await?, Timestamp::now());
    argocd.hand_over(stack, "Nothing has changed").await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    for hook in &hooks {
        ensure!(hook.requests(again)?.is_empty(), "{} sent requests", hook.name());
    }
    ensure!(stack.plugins().await? == plugins, "a plugin was replaced");
    Ok(())
}
