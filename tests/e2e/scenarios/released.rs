//! What users get from a registry: the hook's image and chart, bundles, and signatures of all of
//! them. The registry, its clients and the deployers are the real programs.

mod air_gap;
mod build;
mod flux;
mod hook_chart;
mod pushed;
mod signatures;

use std::path::{Path, PathBuf};

use anyhow::Result;
use tokio::process::Command;

use crate::harness::ask::Ask;
use crate::harness::registry::Registry;
use crate::harness::rendered::said;
use crate::harness::repository::gpu_rollout;
use crate::harness::run_directory::RunDirectory;
use crate::harness::stack::Stack;
use crate::harness::stand_in::Script;

/// GPU nodes of the scenarios that deploy a bundle.
const NODES: usize = 2;

/// Runs a story that needs no cluster, in a directory of its own.
async fn without_cluster(name: &str, story: impl AsyncFnOnce(&Path) -> Result<()>) -> Result<()> {
    let mut directory = RunDirectory::create(name)?;
    Box::pin(story(directory.path())).await?;
    directory.succeeded();
    Ok(())
}

/// Starts GPU nodes, and a registry with the hook's image. Renders a bundle for Helm whose hooks
/// use this image.
async fn registry_and_bundle(stack: &mut Stack) -> Result<(Registry, PathBuf)> {
    stack.play(Script::seeded(21)).await?;
    stack.add_gpu_nodes(NODES).await?;
    let registry = Registry::start(stack.helm.directory()).await?;
    let ask = Ask { hook_image: registry.push_hook_image().await?, ..Ask::old(NODES) };
    let bundle = stack.render(&ask).await?;
    Ok((registry, bundle))
}

/// Renders a recipe of the library. `options`: those of `bundle render`, such as `--repo`.
async fn render(deployer: &str, bundle: &Path, options: &[&str]) -> Result<()> {
    let mut command = Command::new(gpu_rollout()?);
    command.args(["bundle", "render", "--recipe", "base", "--deployer", deployer, "--output"]);
    said(command.arg(bundle).args(options)).await?;
    Ok(())
}
