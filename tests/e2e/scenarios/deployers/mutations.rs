//! Proves that the tables detect broken bundles. Each of these bundles is broken on purpose, and a
//! cell of a table must differ.

use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;

use crate::harness::ask::Ask;
use crate::harness::deployers::{Deployer, Kind};
use crate::harness::fleet::{NEW, OLD};
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

use super::change::{ALL, OPERATOR, changed};
use super::editor::{remove, replace, replace_driver, set_lines};
use super::for_each_deployer;

const DEADLINE: Duration = Duration::from_mins(12);
const NODES: usize = 2;
/// A driver that no release of the fleet has.
const OTHER: &str = "580.105.09";

for_each_deployer!(without_a_trigger, argocd ArgoCd);

/// Argo CD runs hooks when an ordinary object differs, and without the trigger's ConfigMap none
/// does.
async fn without_a_trigger(kind: Kind) -> Result<()> {
    broken(
        "no-trigger",
        kind,
        |bundle| remove(bundle, "*/templates/trigger.yaml"),
        async |stack, deployer, ask| {
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await)
                .await
                .context("the install")?;
            let policy = Ask { max_unavailable: "100%", ..ask.clone() };
            fails(
                changed(stack, deployer, OPERATOR, 0, async || {
                    deployer.deploy(stack, &policy).await
                })
                .await,
                &["fired 0 times"],
            )
        },
    )
    .await
}

mod job_that_vanishes {
    use super::*;

    for_each_deployer!(story, helm4 Helm4);

    /// A Job that is deleted after its end cannot show why it failed.
    async fn story(kind: Kind) -> Result<()> {
        let vanish = |bundle: &Path| {
            replace(
                bundle,
                "*/templates/job.yaml",
                "\n  backoffLimit:",
                "\n  ttlSecondsAfterFinished: 5\n  backoffLimit:",
            )
        };
        broken("vanishes", kind, vanish, async |stack, deployer, ask| {
            fails(
                changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await,
                &["and its log are gone"],
            )
        })
        .await
    }
}

mod waiting_for_objects {
    use super::*;

    for_each_deployer!(story, helm4 Helm4, flux Flux);

    /// A user has set the driver by hand, and in mode `drive` no controller rolls it out. The
    /// bundle's hook does, unless the operator's release, which comes before it, waits for the
    /// ClusterPolicy. The ClusterPolicy is ready only when the drivers are ready.
    async fn story(kind: Kind) -> Result<()> {
        let wait = |bundle: &Path| {
            if bundle.join("deploy.sh").is_file() {
                replace(
                    bundle,
                    "deploy.sh",
                    "set -- upgrade --install",
                    "set -- upgrade --install --wait",
                )?;
                return replace(bundle, "deploy.sh", " 600 ", " 30 ");
            }
            let operator = "releases/*-gpu-operator.yaml";
            replace(bundle, operator, "disableWait: true", "disableWait: false")?;
            replace(bundle, operator, "timeout: 10m", "timeout: 30s")
        };
        broken("waits", kind, wait, async |stack, deployer, ask| {
            let whole = Ask { gpu_driver: json!({"mode": "drive"}), ..Ask::old(NODES) };
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, &whole).await)
                .await
                .context("the install")?;
            let [first, second] = [NEW.driver, OTHER].map(|driver| Ask { driver, ..whole.clone() });
            stack.set_driver(first.driver).await?;
            changed(stack, deployer, OPERATOR, NODES, async || {
                deployer.deploy(stack, &first).await
            })
            .await
            .context("without waiting")?;
            stack.set_driver(second.driver).await?;
            let waiting = Ask { afterwards: ask.afterwards, ..second };
            let seen = changed(stack, deployer, OPERATOR, NODES, async || {
                deployer.deploy(stack, &waiting).await
            })
            .await;
            // Helm names the object that is not ready, or reports that its timeout expired.
            fails(seen, &["/cluster-policy", "would exceed context deadline"])
        })
        .await
    }
}

mod values_not_shared {
    use super::*;

    for_each_deployer!(story, flux Flux);

    /// An edit of the operator's values does not reach a hook that has values of its own.
    async fn story(kind: Kind) -> Result<()> {
        let alone = |bundle: &Path| {
            replace(
                bundle,
                "releases/*-gpu-operator-post.yaml",
                "    - kind: ConfigMap\n      name: gpu-operator-values\n",
                "",
            )
        };
        broken("not-shared", kind, alone, async |stack, deployer, ask| {
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await)
                .await
                .context("the install")?;
            let edit = async || {
                replace_driver(&deployer.bundle(), OLD.driver, NEW.driver)?;
                deployer.hand_over(stack, "Another driver, by hand").await
            };
            fails(
                changed(stack, deployer, OPERATOR, NODES, edit).await,
                &["gpu-operator-post fired 0 times"],
            )
        })
        .await
    }
}

mod timeout_below_the_budget {
    use super::*;

    for_each_deployer!(story, helmfile Helmfile);

    /// Helm's timeout expires while the Job is still running.
    async fn story(kind: Kind) -> Result<()> {
        let short = |bundle: &Path| set_lines(bundle, "helmfile.yaml", "    timeout:", " 2");
        broken("timeout", kind, short, async |stack, deployer, ask| {
            fails(
                changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await,
                &["context deadline exceeded", "would exceed context deadline"],
            )
        })
        .await
    }
}

/// Runs a story with a bundle that is broken after it was rendered.
async fn broken(
    name: &str,
    kind: Kind,
    how: fn(&Path) -> Result<()>,
    story: impl AsyncFnOnce(&Stack, &dyn Deployer, &Ask) -> Result<()>,
) -> Result<()> {
    scenario_within(DEADLINE, &format!("{name}-{}", kind.word()), async |stack| {
        stack.play(Script { driver: (300, 1_000), ..Script::seeded(23) }).await?;
        stack.add_gpu_nodes(NODES).await?;
        let deployer = kind.start(stack).await?;
        let ask = Ask { afterwards: how, ..Ask::old(NODES) };
        story(stack, &*deployer, &ask).await
    })
    .await
}

/// Checks that a story failed, and with one of these reasons.
fn fails(cell: Result<String>, whys: &[&str]) -> Result<()> {
    match cell {
        Ok(cell) => bail!("the broken bundle was not detected: {cell}"),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(
                whys.iter().any(|why| text.contains(why)),
                "detected, but for another reason than {whys:?}: {text}"
            );
            Ok(())
        }
    }
}
