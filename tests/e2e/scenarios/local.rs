//! The local stack: `make stack` keeps it running, and a test runs the tutorial's commands on it
//! exactly.

use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use nvidia_upgrade::ControllerGeneration;
use tokio::process::Command;

use crate::harness::fleet::{NEW, first_image};
use crate::harness::local::{NODES, prepare};
use crate::harness::repository::repository;
use crate::harness::scenario::{scenario, scenario_within};
use crate::harness::stand_in::{controller, driver_version};
use crate::harness::tools::{stack_programs, used_programs};

/// Longer than a user works on the tutorial.
const WORKING_DAY: Duration = Duration::from_hours(12);
/// The folder in which the tutorial finds the environment.
const PLACE: &str = "target/stack";

/// Not a test: `make stack` runs it by its name, and it runs until Ctrl-C.
#[tokio::test(flavor = "local")]
#[ignore = "for people: make stack"]
async fn stays_until_it_is_told_to_end() -> Result<()> {
    scenario_within(WORKING_DAY, "stack", async |stack| {
        let environment = prepare(stack, false).await?;
        let place = repository(PLACE);
        std::fs::create_dir_all(&place)?;
        std::fs::copy(&environment, place.join("environment"))?;
        eprintln!("\nThe cluster is ready: {NODES} nodes with GPUs, no driver yet. Run in another terminal, in this folder:\n");
        eprintln!("  . {PLACE}/environment\n  kubectl get nodes\n");
        eprintln!("Continue with docs/tutorial.md. Ctrl-C stops the cluster and removes it.");
        tokio::signal::ctrl_c().await?;
        Ok(std::fs::remove_dir_all(place)?)
    })
    .await
}

/// Returns the shell blocks of a page, without the one that starts the stack.
fn blocks(page: &str) -> Vec<&str> {
    let all = page.split("\n```sh\n").skip(1).filter_map(|block| block.split("\n```").next());
    all.filter(|block| !block.starts_with("make ") && !block.starts_with(". ")).collect()
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn tutorial_works_exactly_as_written() -> Result<()> {
    scenario("tutorial", async |stack| {
        let environment = prepare(stack, true).await?;
        let folder = stack.helm.directory().join("tutorial");
        std::fs::create_dir_all(&folder)?;
        let page = std::fs::read_to_string(repository("docs/tutorial.md"))?;
        let blocks = blocks(&page);
        ensure!(blocks.len() >= 8, "only {} blocks", blocks.len());
        for block in blocks {
            let script = format!(". {}\n{block}", environment.display());
            let mut command = Command::new("setpriv");
            command
                .args(["--pdeathsig", "KILL", "--", "bash", "-euc", &script])
                .current_dir(&folder)
                .stdin(Stdio::null())
                .kill_on_drop(true);
            let output = command.output().await.context("running bash")?;
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            eprintln!("$ {}\n{said}", block.replace('\n', "\n$ "));
            ensure!(output.status.success(), "{}\n{block}\n{said}", output.status);
        }
        let drivers = stack.drivers().await?;
        ensure!(drivers.len() == NODES, "{} drivers", drivers.len());
        for (node, pod) in drivers {
            let image = first_image(&pod);
            ensure!(driver_version(image) == NEW.driver, "{node} runs {image}");
        }
        let report = std::fs::read_to_string(folder.join("report.html"))?;
        ensure!(
            report.contains("<svg") && report.contains("gpu-7") && report.contains("settled"),
            "{report}"
        );
        // The tutorial upgrades to an operator of v26.3. On the same cluster, users can also
        // install a newer one.
        controller(ControllerGeneration::Gpu26_7)?;
        let (used, built) = (used_programs(), stack_programs()?);
        ensure!(used == built, "the cluster used {used:?}, `make stack` builds {built:?}");
        Ok(())
    })
    .await
}
