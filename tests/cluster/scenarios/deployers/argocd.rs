//! a, b, c. A bundle that Argo CD reads from a Git repository: it is installed, upgraded, and looked at once more.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::deployers::argocd::{ArgoCd, Follow, Form};
use crate::harness::deployers::{Deployer, Outcome};
use crate::harness::firings::Firings;
use crate::harness::fleet::{DRA_NAMESPACE, NEW, OLD};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

/// Argo CD starts, and takes its time between waves.
const DEADLINE: Duration = Duration::from_mins(20);

#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
async fn installed_upgraded_and_looked_at_once_more() -> Result<()> {
    scenario_within(DEADLINE, "argocd", async |stack| told(stack, Form::Applications, Follow::Tags).await).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
async fn installed_upgraded_and_looked_at_once_more_on_a_branch() -> Result<()> {
    scenario_within(DEADLINE, "argocd-branch", async |stack| told(stack, Form::Applications, Follow::Branch).await).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: tests/cluster/run.sh scenarios::deployers::"]
async fn installed_upgraded_and_looked_at_once_more_with_the_umbrella_chart() -> Result<()> {
    scenario_within(DEADLINE, "argocd-helm", async |stack| told(stack, Form::Umbrella, Follow::Tags).await).await
}

async fn told(stack: &mut Stack, form: Form, follow: Follow) -> Result<()> {
    stack.play(Script::seeded(21)).await?;
    let nodes = stack.add_gpu_nodes(3).await?;
    let hooks = [
        HookRelease::new(stack, "gpu-operator-pre"),
        HookRelease::new(stack, "gpu-operator-post"),
        HookRelease::in_namespace(stack, "nvidia-dra-driver-gpu-post", DRA_NAMESPACE),
    ];
    let firings = Firings::record(&stack.client);
    let fired = || hooks.each_ref().map(|hook| firings.of(hook));
    let argocd = ArgoCd::start(stack, form, follow).await?;

    // a. First install: every hook fires and succeeds; the DRA driver comes after the drivers, nothing is stale.
    argocd.deploy(stack, &OLD, nodes.len()).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    ensure!(fired() == [1, 1, 1], "{:?}\n{}", fired(), argocd.status(stack).await?);
    succeeded(&hooks).await?;
    for hook in &hooks {
        ensure!(hook.deleted_pods()?.is_empty(), "{} replaced what was not stale: {:#?}", hook.name(), hook.deleted_pods()?);
    }
    let before = stack.plugins().await?;
    ensure!(before.len() == nodes.len(), "a plugin on every node: {before:?}");

    // b. Upgrade by a commit: the operator's hooks fire once. Nothing of the DRA driver has changed, and its hook stays where it is.
    argocd.deploy(stack, &NEW, nodes.len()).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    ensure!(fired() == [2, 2, 1], "{:?}\n{}", fired(), argocd.status(stack).await?);
    succeeded(&hooks).await?;
    stack.check_rerolled(&before, &hooks, Timestamp::now()).await?;

    // c. A commit that changes nothing, and a refresh by hand: no hook fires.
    let (plugins, begin) = (stack.plugins().await?, Timestamp::now());
    argocd.deploy_nothing_new(stack, &NEW, nodes.len()).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    argocd.refresh(stack).await?;
    argocd.wait(stack, Outcome::Succeeded).await?;
    ensure!(fired() == [2, 2, 1], "{:?}\n{}", fired(), argocd.status(stack).await?);
    for hook in &hooks {
        ensure!(hook.requests(begin)?.is_empty(), "{} has done something", hook.name());
    }
    ensure!(stack.plugins().await? == plugins, "every plugin is the one that it was");
    argocd.check_alive()
}

async fn succeeded(hooks: &[HookRelease<'_>]) -> Result<()> {
    for hook in hooks {
        let end = hook.end().await?;
        ensure!(end.exit_code == 0, "{}: {:?}\n{}", hook.name(), end.message, hook.logs().await?);
    }
    Ok(())
}
