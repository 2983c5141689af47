//! The tables would tell if a bundle broke its promise: each of these bundles does, on purpose, and a cell of a table is not what it is
//! otherwise.

use std::fs;
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
use super::{edit_values, for_each_deployer};

const DEADLINE: Duration = Duration::from_mins(12);
const NODES: usize = 2;

for_each_deployer!(without_a_trigger, argocd ArgoCd);

/// Argo CD runs hooks when an ordinary object differs, and without the trigger's ConfigMap none does.
async fn without_a_trigger(kind: Kind) -> Result<()> {
    broken(
        "no-trigger",
        kind,
        |bundle| in_each(bundle, "templates/trigger.yaml", |_| None),
        async |stack, deployer, ask| {
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await.context("the install")?;
            let policy = Ask { max_unavailable: "100%", ..ask.clone() };
            fails(changed(stack, deployer, OPERATOR, 0, async || deployer.deploy(stack, &policy).await).await, "fired 0 times")
        },
    )
    .await
}

mod job_that_vanishes {
    use super::*;

    for_each_deployer!(story, helm4 Helm4);

    /// Nobody can ask a Job why it failed that is not there any more.
    async fn story(kind: Kind) -> Result<()> {
        let vanish = |bundle: &Path| {
            in_each(bundle, "templates/job.yaml", |text| {
                Some(text.replacen("  backoffLimit:", "  ttlSecondsAfterFinished: 5\n  backoffLimit:", 1))
            })
        };
        broken("vanishes", kind, vanish, async |stack, deployer, ask| {
            fails(changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await, "and its log are gone")
        })
        .await
    }
}

mod waiting_for_objects {
    use super::*;

    for_each_deployer!(story, helm4 Helm4, flux Flux);

    /// The ClusterPolicy is ready when its drivers are, and those are what the hook brings after the wait.
    async fn story(kind: Kind) -> Result<()> {
        let wait = |bundle: &Path| {
            in_each(bundle, "deploy.sh", |text| {
                Some(text.replace("set -- upgrade --install", "set -- upgrade --install --wait").replace(" 600 ", " 30 "))
            })
            .or_else(|_| {
                in_each(bundle, "releases/*-gpu-operator.yaml", |text| {
                    Some(text.replace("disableWait: true", "disableWait: false").replace("timeout: 10m", "timeout: 30s"))
                })
            })
        };
        broken("waits", kind, wait, async |stack, deployer, ask| {
            let drive = Ask { gpu_driver: json!({"mode": "drive"}), ..ask.clone() };
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, &drive).await).await.context("the install")?;
            let new = drive.with(&NEW);
            fails(changed(stack, deployer, OPERATOR, NODES, async || deployer.deploy(stack, &new).await).await, "Failed, and not Succeeded")
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
            in_each(bundle, "releases/*-gpu-operator-post.yaml", |text| {
                Some(text.replace("    - kind: ConfigMap\n      name: gpu-operator-values\n", ""))
            })
        };
        broken("not-shared", kind, alone, async |stack, deployer, ask| {
            changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await.context("the install")?;
            let edit = async || {
                edit_values(&deployer.bundle(), OLD.driver, NEW.driver)?;
                deployer.hand_over(stack, "Another driver, by hand").await
            };
            fails(changed(stack, deployer, OPERATOR, NODES, edit).await, "gpu-operator-post fired 0 times")
        })
        .await
    }
}

mod timeout_below_the_budget {
    use super::*;

    for_each_deployer!(story, helmfile Helmfile);

    /// Helm gives up on a Job that is still at work.
    async fn story(kind: Kind) -> Result<()> {
        let short = |bundle: &Path| {
            in_each(bundle, "helmfile*.yaml", |text| {
                let of_hook = text.find("chart: \"./")?;
                let lines = text.lines().map(|line| if line.trim_start().starts_with("timeout:") { "    timeout: 2" } else { line });
                (of_hook > 0).then(|| lines.collect::<Vec<_>>().join("\n"))
            })
        };
        broken("timeout", kind, short, async |stack, deployer, ask| {
            fails(changed(stack, deployer, ALL, 0, async || deployer.deploy(stack, ask).await).await, "Failed, and not Succeeded")
        })
        .await
    }
}

/// Tells a story with bundles that are broken after they were rendered.
async fn broken(
    name: &str,
    kind: Kind,
    how: fn(&Path) -> Result<()>,
    story: impl AsyncFnOnce(&Stack, &dyn Deployer, &Ask) -> Result<()>,
) -> Result<()> {
    kind.build_tools()?;
    scenario_within(DEADLINE, &format!("{name}-{}", kind.word()), async |stack| {
        stack.play(Script { driver: (300, 1_000), ..Script::seeded(23) }).await?;
        stack.add_gpu_nodes(NODES).await?;
        let deployer = kind.start(stack).await?;
        let ask = Ask { afterwards: how, ..Ask::old(NODES) };
        story(stack, &*deployer, &ask).await
    })
    .await
}

/// A cell that must not come out as it does with a whole bundle, and why.
fn fails(cell: Result<String>, why: &str) -> Result<()> {
    match cell {
        Ok(cell) => bail!("the broken bundle was not noticed: {cell}"),
        Err(error) => {
            let text = format!("{error:#}");
            ensure!(text.contains(why), "noticed, but not as `{why}`: {text}");
            Ok(())
        }
    }
}

/// Changes each file of a bundle's own folders or of the bundle itself that is called so (`*` in a name stands for anything); `None` takes
/// it away. At least one has to be there and to change.
fn in_each(bundle: &Path, pattern: &str, change: impl Fn(&str) -> Option<String>) -> Result<()> {
    let mut changed = 0;
    for folder in fs::read_dir(bundle)?.map(|entry| entry.map(|entry| entry.path())).chain([Ok(bundle.to_owned())]) {
        let folder = folder?;
        let (inner, name) = pattern.rsplit_once('/').unwrap_or(("", pattern));
        let directory = folder.join(inner);
        let Ok(files) = fs::read_dir(&directory) else { continue };
        for file in files {
            let file = file?.path();
            let found = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            let (begin, end) = name.split_once('*').unwrap_or((name, ""));
            let fits = if name.contains('*') { found.starts_with(begin) && found.ends_with(end) } else { found == name };
            if !fits || !file.is_file() {
                continue;
            }
            let text = fs::read_to_string(&file)?;
            match change(&text) {
                Some(new) if new == text => continue,
                Some(new) => fs::write(&file, new)?,
                None => fs::remove_file(&file)?,
            }
            changed += 1;
        }
    }
    ensure!(changed > 0, "nothing in {} is called {pattern} and can be changed", bundle.display());
    Ok(())
}
