//! The hook chart in a registry, without further settings: Helm takes the chart from there, and the
//! nodes the image.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use crate::harness::hook_release::HookRelease;
use crate::harness::published_hook::{PublishedHook, VERSION};
use crate::harness::registry::Registry;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;

/// The longest time from `helm install` to the first line of the hook's log. Other scenarios limit
/// no time. This limit is a requirement of the project: a user who tries the hook sees it work
/// within a minute. It is easy to meet, also on a machine that runs other scenarios.
const FIRST_LINE: Duration = Duration::from_mins(1);
const LIMIT: Duration = Duration::from_mins(5);

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn chart_from_registry_reaches_first_line_within_a_minute() -> Result<()> {
    scenario("released-chart", async |stack| {
        stack.fleet(Script::seeded(21), 1, false).await?;
        let registry = Registry::start(stack.helm.directory()).await?;
        let hook = PublishedHook::publish(&registry, &stack.helm).await?;
        reaches_first_line(stack, &hook).await
    })
    .await
}

/// Installs the chart with its defaults, as the notes of a release say. No node has the image.
pub(super) async fn reaches_first_line(stack: &Stack, published: &PublishedHook) -> Result<()> {
    let hook = HookRelease::new(stack, "gpu-rollout");
    let chart = published.chart_url();
    let install = [
        "install",
        hook.name(),
        &chart,
        "--version",
        VERSION,
        "--plain-http",
        "--namespace",
        OPERATOR_NAMESPACE,
        "--timeout",
        "62m",
    ];
    let begin = Instant::now();
    let first_line = async {
        let line = until("the first line of the hook's log", LIMIT, async || {
            Ok(hook.logs().await?.split_once('\n').map(|(line, _)| line.to_owned()))
        });
        line.await.map(|line| (line, begin.elapsed()))
    };
    let (_, (line, elapsed)) = tokio::try_join!(stack.helm.ok(&install), first_line)?;
    eprintln!("released: the first line after {elapsed:.1?}: {line}");
    ensure!(elapsed <= FIRST_LINE, "the first line came after {elapsed:.1?}");
    let pod = hook.pods().await?.pop().context("the hook's pod")?;
    let image = pod.spec.and_then(|spec| spec.containers.into_iter().next()?.image);
    ensure!(image.as_ref() == Some(&published.image), "the pod runs {image:?}");
    Ok(())
}
