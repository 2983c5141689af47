//! a, b, c. A bundle that Argo CD reads from a Git repository: it is installed, upgraded, and looked at once more.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::deployers::argocd::{ArgoCd, Follow, Form, TOOLS};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::fleet::{NEW, OLD, Release};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;
use crate::harness::tools;

use super::{fired, hooks};

/// Argo CD starts, and takes its time between waves.
const DEADLINE: Duration = Duration::from_mins(20);

/// In order, as the bundle's README has it: each deployment is a tag, and the root hands it to one wave after another.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
async fn installed_upgraded_and_looked_at_once_more() -> Result<()> {
    tools::build(TOOLS)?;
    scenario_within(DEADLINE, "argocd", async |stack| {
        let (nodes, begin) = begin(stack).await?;
        let (stack, hooks) = (&*stack, hooks(stack));
        let argocd = ArgoCd::start(stack, Form::Applications, Follow::Tags).await?;

        // a. First install: every hook fires and succeeds; the DRA driver comes after the drivers, nothing is stale.
        argocd.deploy(stack, &OLD, nodes).await?;
        argocd.wait(stack, Outcome::Succeeded).await?;
        check_fired(stack, begin, [1, 1, 1])?;
        succeeded(&hooks).await?;
        for hook in &hooks {
            ensure!(hook.deleted_pods()?.is_empty(), "{} replaced what was not stale: {:#?}", hook.name(), hook.deleted_pods()?);
        }
        let before = stack.plugins().await?;
        ensure!(before.len() == nodes, "a plugin on every node: {before:?}");

        // b. Upgrade by a commit: the operator's hooks fire once. Nothing of the DRA driver has changed, and its hook stays where it is.
        argocd.deploy(stack, &NEW, nodes).await?;
        argocd.wait(stack, Outcome::Succeeded).await?;
        check_fired(stack, begin, [2, 2, 1])?;
        succeeded(&hooks).await?;
        stack.check_rerolled(&before, &hooks, Timestamp::now()).await?;

        nothing_new(stack, &argocd, &NEW, &hooks).await?;
        check_fired(stack, begin, [2, 2, 1])
    })
    .await
}

/// Helm makes all Applications at once, and no root holds them back: what came too early is tried again by Argo CD.
#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
async fn installed_by_the_umbrella_chart_and_looked_at_once_more() -> Result<()> {
    tools::build(TOOLS)?;
    scenario_within(DEADLINE, "argocd-helm", async |stack| {
        let (nodes, begin) = begin(stack).await?;
        let (stack, hooks) = (&*stack, hooks(stack));
        let argocd = ArgoCd::start(stack, Form::Umbrella, Follow::Branch).await?;
        argocd.deploy(stack, &OLD, nodes).await?;
        argocd.wait(stack, Outcome::Succeeded).await?;
        check_fired(stack, begin, [1, 1, 1])?;
        succeeded(&hooks).await?;
        // A plugin that was there before its node's driver is stale, and is replaced; once, whichever hook it was.
        let mut replaced = hooks.iter().map(HookRelease::deleted_pods).collect::<Result<Vec<_>>>()?.concat();
        replaced.sort_by(|one, other| one.name.cmp(&other.name));
        ensure!(replaced.len() <= nodes, "at most once a node: {replaced:#?}");
        ensure!(replaced.windows(2).all(|pair| pair[0].name != pair[1].name), "each at most once: {replaced:#?}");
        ensure!(stack.plugins().await?.len() == nodes, "a plugin on every node: {:?}", stack.plugins().await?);
        nothing_new(stack, &argocd, &OLD, &hooks).await?;
        check_fired(stack, begin, [1, 1, 1])
    })
    .await
}

/// GPU nodes, and when hooks are counted from.
async fn begin(stack: &mut Stack) -> Result<(usize, Timestamp)> {
    stack.play(Script::seeded(21)).await?;
    let nodes = stack.add_gpu_nodes(3).await?;
    Ok((nodes.len(), Timestamp::now()))
}

/// c. A commit that changes nothing, and a refresh by hand: no hook does anything.
async fn nothing_new(stack: &Stack, argocd: &ArgoCd, release: &Release, hooks: &[HookRelease<'_>]) -> Result<()> {
    let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
    argocd.deploy_nothing_new(stack, release, plugins.len()).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    argocd.refresh(stack).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    for hook in hooks {
        ensure!(hook.requests(begin)?.is_empty(), "{} has done something", hook.name());
    }
    ensure!(stack.plugins().await? == plugins, "every plugin is the one that it was");
    argocd.check_alive()
}

fn check_fired(stack: &Stack, since: Timestamp, expected: [usize; 3]) -> Result<()> {
    let fired = fired(stack, since)?;
    ensure!(fired == expected, "fired {fired:?}, expected {expected:?}");
    Ok(())
}

async fn succeeded(hooks: &[HookRelease<'_>]) -> Result<()> {
    for hook in hooks {
        let end = hook.end().await?;
        ensure!(end.exit_code == 0, "{}: {:?}\n{}", hook.name(), end.message, hook.logs().await?);
    }
    Ok(())
}
