//! Bundles as a user makes them: the program renders a recipe, its `deploy.sh` deploys it.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::json;
use tokio::process::Command;

use super::fleet::Release;
use super::helm::Said;
use super::node_agent::HOOK_REPOSITORY;
use super::stack::Stack;

impl Stack {
    /// Renders a recipe with this release of the operator for so many GPU nodes into the run's `bundle`, over the one that is there.
    pub(crate) async fn render(&self, release: &Release, gpu_nodes: usize) -> Result<PathBuf> {
        let bundle = self.helm.directory().join("bundle");
        self.render_for("helm", &bundle, &[], release, gpu_nodes).await?;
        Ok(bundle)
    }

    /// The same for any deployer into any directory. `more`: arguments of `bundle render`, such as `--repo`.
    pub(crate) async fn render_for(&self, deployer: &str, bundle: &Path, more: &[&str], release: &Release, gpu_nodes: usize) -> Result<()> {
        let recipe = json!({
            "apiVersion": "gpu-rollout.dev/v1",
            "kind": "Recipe",
            "metadata": {"name": "e2e"},
            "cluster": {"gpuNodes": gpu_nodes},
            "rollout": {"gpuDriver": {
                "version": release.driver,
                "policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"},
                "perNode": "20s",
                "quiet": "3s",
            }},
            "components": [
                {"name": "cert-manager"},
                {"name": "gpu-operator", "version": release.chart, "values": {"devicePlugin": {"enabled": false}}},
                {"name": "nvidia-dra-driver-gpu", "version": "25.12.0", "values": {
                    "nvidiaDriverRoot": "/run/nvidia/driver",
                    "gpuResourcesEnabledOverride": true,
                }},
            ],
        });
        let file = self.helm.directory().join("recipe.yaml");
        std::fs::write(&file, recipe.to_string())?;
        let charts = &self.stand_in.as_ref().context("nothing is played yet")?.charts;
        let mut command = Command::new(env!("CARGO_BIN_EXE_gpu-rollout"));
        command.args(["bundle", "render", "--deployer", deployer, "--recipe"]).arg(&file).arg("--output").arg(bundle).args(more);
        for repository in ["nvidia", "jetstack"] {
            command.args(["--chart-repository", &format!("{repository}={charts}")]);
        }
        let output = command.args(["--hook-image", &format!("{HOOK_REPOSITORY}:e2e")]).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Runs a bundle's `deploy.sh` to its end.
    pub(crate) async fn deploy_bundle(&self, bundle: &Path) -> Result<Said> {
        self.helm.script(&bundle.join("deploy.sh"), &[]).await
    }
}
