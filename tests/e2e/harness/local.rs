//! The stack of `make stack` and of the tutorial: GPU nodes, stand-ins for NVIDIA's operator and
//! charts at a speed that users can follow, workloads, and the environment of a shell.

use std::path::PathBuf;

use anyhow::{Context, Result};
use serde_json::json;

use super::node_agent::HOOK_REPOSITORY;
use super::repository::gpu_rollout;
use super::stack::Stack;
use super::stand_in::Script;
use super::terminal::link;
use super::tools::program;
use super::workloads::{NAMESPACE, Serving};

/// The number of GPU nodes.
pub(crate) const NODES: usize = 8;
/// Pods with two GPUs each.
const PODS: usize = 6;

/// Starts the stand-ins, and writes a shell's environment. `quick`: at full speed, for tests.
pub(crate) async fn prepare(stack: &mut Stack, quick: bool) -> Result<PathBuf> {
    let driver = if quick { (1_000, 3_000) } else { (8_000, 20_000) };
    stack.play(Script { driver, ..Script::seeded(90) }).await?;
    let nodes = stack.add_gpu_nodes(NODES).await?;
    // The tutorial's workloads exist before its operator, whose device plugin is off.
    stack.offer(&nodes, 8).await?;
    stack.create_namespace(NAMESPACE).await?;
    stack.run(&Serving { name: "serve", replicas: PODS, ..Serving::default() }).await?;
    stack
        .protect(
            "serve",
            &json!({"maxUnavailable": 2, "selector": {"matchLabels": {"app": "serve"}}}),
        )
        .await?;
    stack.await_serving("serve", PODS).await?;
    environment(stack)
}

/// Writes a file with shell variables: cluster, programs, charts and image.
fn environment(stack: &Stack) -> Result<PathBuf> {
    let directory = stack.helm.directory();
    let bin = directory.join("workstation");
    std::fs::create_dir_all(&bin)?;
    let programs = [
        ("gpu-rollout", gpu_rollout()?),
        ("kubectl", program("kubectl")?),
        ("helm", program("helm4")?),
    ];
    for (name, program) in programs {
        link(&bin, name, &program)?;
    }
    let mut lines = vec!["# For a shell: `. environment`. Written by `make stack`.".to_owned()];
    lines.extend(
        stack
            .helm
            .environment()
            .iter()
            .filter(|(key, _)| *key != "PATH")
            .map(|(key, value)| format!("export {key}='{value}'")),
    );
    lines.push(format!("export PATH='{}':\"$PATH\"", bin.display()));
    lines.push(format!("export CHARTS='{}'", stack.charts()?));
    lines.push(format!("export HOOK_IMAGE='{HOOK_REPOSITORY}:e2e'"));
    let file = directory.join("environment");
    std::fs::write(&file, lines.join("\n") + "\n")
        .with_context(|| format!("writing {}", file.display()))?;
    Ok(file)
}
