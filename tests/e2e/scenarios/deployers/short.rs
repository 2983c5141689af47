//! The short story that runs with every deployer on every change of this repository: an install, an
//! upgrade, no change, a failing hook, and the recovery.

use std::time::Duration;

use anyhow::{Result, ensure};
use jiff::Timestamp;

use crate::harness::ask::Ask;
use crate::harness::console::Console;
use crate::harness::deployers::{Kind, Outcome};
use crate::harness::fleet::NEW;
use crate::harness::scenario::scenario_on;
use crate::harness::stand_in::Script;

use super::change::{ALL, NONE, OPERATOR, changed};
use super::editor::{replace, try_again_soon};
use super::{fired, for_each_deployer, hooks};

for_each_deployer!(short);

const DEADLINE: Duration = Duration::from_mins(15);
const NODES: usize = 2;
/// The hook's own settings in the bundle.
const SETTINGS: &str = "*-gpu-operator-post/rollout.yaml";
/// A mistake in these settings: the hook looks three seconds for a ClusterPolicy that does not
/// exist.
const MISTAKE: (&str, &str) =
    ("  mode: assist\n", "  mode: assist\n  clusterPolicy: elsewhere\n  graceSeconds: 3\n");

/// Returns the begin of what `status` says about deploying again.
fn deploy_again(kind: Kind) -> &'static str {
    match kind {
        Kind::Helm3 | Kind::Helm4 | Kind::Helmfile => "in the directory of the bundle, deploy.sh",
        Kind::Flux => "flux reconcile helmrelease gpu-operator-post -n ",
        Kind::ArgoCd | Kind::ArgoCdHelm => "argocd app sync ",
    }
}

async fn short(kind: Kind) -> Result<()> {
    short_on(None, kind).await
}

/// The story on the API server of a minor version of Kubernetes, such as `1.32`.
pub(super) async fn short_on(version: Option<&'static str>, kind: Kind) -> Result<()> {
    let name = format!(
        "short-{}{}",
        kind.word(),
        version.map(|version| format!("-{version}")).unwrap_or_default()
    );
    scenario_on(version, DEADLINE, &name, async |stack| {
        stack.play(Script { driver: (300, 1_000), ..Script::seeded(21) }).await?;
        stack.add_gpu_nodes(NODES).await?;
        let stack = &*stack;
        let deployer = kind.start(stack).await?;
        let deployer = &*deployer;

        let old = Ask { afterwards: try_again_soon, ..Ask::old(NODES) };
        changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, &old).await).await?;
        let new = old.with(&NEW);
        changed(stack, deployer, OPERATOR, NODES, async || deployer.deploy(stack, &new).await)
            .await?;
        changed(stack, deployer, NONE, 0, async || {
            deployer.hand_over(stack, "Nothing has changed").await
        })
        .await?;

        let begin = Timestamp::now();
        replace(&deployer.bundle(), SETTINGS, MISTAKE.0, MISTAKE.1)?;
        deployer.hand_over(stack, "A mistake").await?;
        deployer.wait(stack, Outcome::Failed).await?;
        let [pre, post, dra] = fired(stack, begin)?;
        ensure!(
            post > 0 && pre <= 1 && dra == 0,
            "a release after the failed hook started: {pre}, {post}, {dra}"
        );
        let named = hooks(stack)[1].named().await?;
        ensure!(named == ["*:PolicyMissing"], "{named:?}");
        let again = Console::new(stack)?.status().await?["deployAgain"].clone();
        ensure!(
            again.as_str().is_some_and(|again| again.starts_with(deploy_again(kind))),
            "status says how to deploy again: {again}"
        );

        replace(&deployer.bundle(), SETTINGS, MISTAKE.1, MISTAKE.0)?;
        deployer.hand_over(stack, "The mistake is mended").await?;
        deployer.wait(stack, Outcome::Succeeded).await
    })
    .await
}
