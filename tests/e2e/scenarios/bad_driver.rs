//! Runs docs/how-to/bad-driver.md command by command. The new driver starts on no node, and the
//! fleet returns to its previous driver.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::harness::ask::Ask;
use crate::harness::console::Console;
use crate::harness::fleet::{NEW, OLD, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Script, driver_version};
use crate::harness::wait::until;

const DEADLINE: Duration = Duration::from_mins(12);
const LIMIT: Duration = Duration::from_mins(4);
const NODES: usize = 4;

/// Returns the commands of the page's steps, in their order. The last section is about other modes.
fn commands() -> Result<Vec<String>> {
    let page = include_str!("../../../docs/how-to/bad-driver.md");
    let steps = page.split("\n## In the modes").next().unwrap_or_default();
    let blocks = steps.split("```").skip(1).step_by(2);
    let lines = blocks.filter_map(|block| block.strip_prefix("sh\n")).flat_map(str::lines);
    let commands: Vec<String> = lines
        .map(|line| line.split("  #").next().unwrap_or_default().trim().to_owned())
        .filter(|line| !line.is_empty())
        .collect();
    ensure!(commands.len() == 7, "{commands:?}");
    Ok(commands)
}

async fn wait_for(
    console: &Console,
    what: &str,
    is_reached: impl Fn(&Value) -> bool,
) -> Result<()> {
    until(what, LIMIT, async || Ok(is_reached(&console.status().await?).then_some(()))).await
}

/// Returns the nodes whose driver is not ready. There may be two: NVIDIA's controller finishes the
/// upgrade of a node that it has started before the pause.
fn broken(status: &Value) -> Vec<String> {
    let rows = status["nodes"].as_array().into_iter().flatten();
    let broken = rows.filter(|row| row["driverReady"] == false);
    broken.filter_map(|row| row["node"].as_str().map(str::to_owned)).collect()
}

/// Checks that every node runs the previous driver, is not cordoned, and has no hold.
async fn check_previous(stack: &Stack, console: &Console) -> Result<()> {
    for (node, pod) in stack.drivers().await? {
        let image = first_image(&pod);
        ensure!(driver_version(image) == OLD.driver, "{node} runs {image}");
    }
    let status = console.status().await?;
    ensure!(status["totals"]["done"] == NODES, "{:#}", status["totals"]);
    let rows = status["nodes"].as_array().context("nodes")?;
    let is_clean = |row: &&Value| row["cordoned"] == false && row["held"].is_null();
    ensure!(rows.iter().all(|row| is_clean(&row)), "{status:#}");
    Ok(())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn previous_driver_returns_in_drive() -> Result<()> {
    previous_driver_returns("bad-driver", 91, "drive").await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn previous_driver_returns_in_steer() -> Result<()> {
    previous_driver_returns("bad-driver-steer", 92, "steer").await
}

async fn previous_driver_returns(name: &str, seed: u64, mode: &str) -> Result<()> {
    scenario_within(DEADLINE, name, async |stack| {
        stack.play(Script { bad_driver: Some(NEW.driver), ..Script::seeded(seed) }).await?;
        stack.add_gpu_nodes(NODES).await?;
        let previous = Ask { dra: false, gpu_driver: json!({"mode": mode}), ..Ask::old(NODES) };
        let previous_bundle = stack.helm.directory().join("previous");
        stack.render_for("helm", &previous_bundle, &[], &previous).await?;
        let deployed = stack.deploy_bundle(&previous_bundle).await?;
        ensure!(deployed.success, "{deployed:?}");
        let bundle = stack.render(&previous.with(&NEW)).await?;
        let console = Console::new(stack)?;
        let commands = commands()?;
        let [pause, status, report, abort, deploy, resume, report_again] = commands.as_slice()
        else {
            unreachable!("seven commands");
        };
        ensure!(deploy == "previous-bundle/deploy.sh", "{deploy}");

        let bad = stack.deploy_bundle(&bundle);
        let on_call = async {
            wait_for(&console, "a node to get the bad driver", |status| {
                let rows = status["nodes"].as_array().into_iter().flatten();
                let mut reasons = rows.filter_map(|row| row["waiting"]["reason"].as_str());
                reasons.any(|reason| matches!(reason, "DriverNotReady" | "UpgradeFailed"))
            })
            .await?;
            console.types(pause).await?;
            eprintln!("{}", console.types(status).await?);
            eprintln!("{}", console.types(report).await?);
            console.types(abort).await
        };
        let (bad, _) = tokio::try_join!(bad, on_call)?;
        ensure!(!bad.success, "the bad driver was rolled out: {bad:?}");
        let touched = stack.drivers().await?;
        let is_bad = |pod: &&Pod| driver_version(first_image(pod)) == NEW.driver;
        let bad_nodes = touched.values().filter(is_bad).count();
        ensure!((1..NODES).contains(&bad_nodes), "{bad_nodes} nodes have the bad driver");

        let is_driven = mode == "drive";
        let broken = broken(&console.status().await?);
        ensure!(!broken.is_empty(), "no node has a broken driver");
        let broken = broken.join(" ");
        console.types(&format!("kubectl cordon {broken}")).await?;

        let back = async {
            let deployed = stack.deploy_bundle(&previous_bundle).await?;
            ensure!(deployed.success, "{deployed:?}");
            Ok(())
        };
        let on_call = async {
            wait_for(&console, "the nodes to wait for the end of the pause", |status| {
                let rows = status["nodes"].as_array().into_iter().flatten();
                let wants = |row: &Value| row["driverWanted"] == OLD.driver;
                let is_paused = |row: &Value| row["waiting"]["reason"] == "Paused";
                rows.clone().all(wants) && rows.into_iter().any(is_paused)
            })
            .await?;
            eprintln!("{}", console.types(status).await?);
            let prepare = if is_driven { "gpu-rollout retry --yes" } else { "kubectl uncordon" };
            console.types(&format!("{prepare} {broken}")).await?;
            // The page has the command without the option, so that it asks about colleagues' pauses.
            console.types(&format!("{resume} --yes")).await
        };
        tokio::try_join!(back, on_call)?;

        if is_driven {
            let cordoned = "kubectl get nodes -o name --field-selector spec.unschedulable=true";
            let cordoned = console.types(cordoned).await?.replace("node/", "");
            ensure!(cordoned.split_whitespace().eq(broken.split(' ')), "cordoned: {cordoned}");
            console.types(&format!("kubectl uncordon {broken}")).await?;
        }
        check_previous(stack, &console).await?;
        let text = console.types(report_again).await?;
        ensure!(text.contains("INC-4711") && text.contains("resume"), "{text}");
        let hook = HookRelease::new(stack, "gpu-operator-post");
        ensure!(hook.verdict().await?.code.number() == 0, "{text}");
        Ok(())
    })
    .await
}
