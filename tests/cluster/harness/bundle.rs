//! Bundles: rendered by the program, deployed by their own `deploy.sh`.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Result, bail};
use serde_json::{Value, json};

use super::fleet::Release;
use super::helm::Said;
use super::node_agent::HOOK_REPOSITORY;
use super::stack::Stack;

/// A bundle on disk.
pub(crate) struct Bundle {
    directory: PathBuf,
}

impl Bundle {
    /// Renders a recipe with the operator at a release and the DRA driver; charts come from the stand-ins' repository.
    pub(crate) fn render(stack: &Stack, release: &Release, gpu_nodes: usize) -> Result<Self> {
        let run = stack.helm.directory();
        let recipe = run.join(format!("recipe-{}.json", release.chart));
        std::fs::write(&recipe, recipe_of(release, gpu_nodes).to_string())?;
        let directory = run.join("bundle");
        let output = Command::new(Path::new(env!("CARGO_BIN_EXE_gpu-rollout")))
            .args(["bundle", "render", "--deployer", "helm", "--recipe"])
            .arg(&recipe)
            .arg("--output")
            .arg(&directory)
            .args(["--chart-repository", &format!("nvidia={}", stack.charts()?)])
            .args(["--hook-image", &format!("{HOOK_REPOSITORY}:e2e")])
            .output()?;
        if !output.status.success() {
            bail!("gpu-rollout bundle render: {}", String::from_utf8_lossy(&output.stderr));
        }
        Ok(Self { directory })
    }

    /// Runs its `deploy.sh`.
    pub(crate) async fn deploy(&self, stack: &Stack) -> Result<Said> {
        stack.helm.script(&self.directory.join("deploy.sh"), &[]).await
    }
}

fn recipe_of(release: &Release, gpu_nodes: usize) -> Value {
    json!({
        "apiVersion": "gpu-rollout.dev/v1",
        "kind": "Recipe",
        "metadata": {"name": "end-to-end"},
        "cluster": {"gpuNodes": gpu_nodes},
        "rollout": {"gpuDriver": {
            "version": release.driver,
            "policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"},
            "perNode": "1m",
            "quiet": "3s",
        }},
        "components": [
            {"name": "gpu-operator", "version": release.chart},
            {"name": "nvidia-dra-driver-gpu", "version": "25.12.0", "values": {
                "nvidiaDriverRoot": "/run/nvidia/driver", "gpuResourcesEnabledOverride": true,
            }},
        ],
    })
}
