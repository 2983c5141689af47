//! Renders bundles with the program, as a user does.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::ask::Ask;
use super::helm::Said;
use super::repository::gpu_rollout;
use super::stack::Stack;

impl Stack {
    /// Renders a recipe for Helm into the run's `bundle`, replacing the existing one.
    pub(crate) async fn render(&self, ask: &Ask) -> Result<PathBuf> {
        let bundle = self.helm.directory().join("bundle");
        self.render_for("helm", &bundle, &[], ask).await?;
        Ok(bundle)
    }

    /// Renders a recipe for any deployer into any directory. `more`: arguments of `bundle render`,
    /// such as `--repo`.
    pub(crate) async fn render_for(
        &self,
        deployer: &str,
        bundle: &Path,
        more: &[&str],
        ask: &Ask,
    ) -> Result<()> {
        self.render_recipe(deployer, bundle, more, &ask.recipe(), &ask.hook_image).await?;
        (ask.afterwards)(bundle)
    }

    /// Renders any recipe.
    pub(crate) async fn render_recipe(
        &self,
        deployer: &str,
        bundle: &Path,
        more: &[&str],
        recipe: &Value,
        hook_image: &str,
    ) -> Result<()> {
        let file = self.helm.directory().join("recipe.yaml");
        std::fs::write(&file, recipe.to_string())?;
        let charts = &self.stand_in.as_ref().context("the stand-ins are not started")?.charts;
        let mut command = Command::new(gpu_rollout()?);
        command
            .args(["bundle", "render", "--deployer", deployer, "--recipe"])
            .arg(&file)
            .arg("--output")
            .arg(bundle)
            .args(more);
        for repository in ["nvidia", "jetstack"] {
            command.args(["--chart-repository", &format!("{repository}={charts}")]);
        }
        let output = command.args(["--hook-image", hook_image]).output().await?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Ok(())
    }

    /// Runs a bundle's `deploy.sh` to its end.
    pub(crate) async fn deploy_bundle(&self, bundle: &Path) -> Result<Said> {
        self.helm.script(&bundle.join("deploy.sh"), &[]).await
    }
}
