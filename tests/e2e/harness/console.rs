//! Commands of users: the program on a workstation, with an administrator's kubeconfig.

use std::process::Output;

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use tokio::process::Command;

use super::repository::gpu_rollout;
use super::stack::Stack;
use super::terminal::link;
use super::tools::program;

/// A workstation with the program and kubectl.
pub(crate) struct Console {
    kubeconfig: String,
    path: String,
}

impl Console {
    /// Returns a console for the administrator of a stack.
    pub(crate) fn new(stack: &Stack) -> Result<Self> {
        let bin = stack.helm.directory().join("workstation");
        std::fs::create_dir_all(&bin)?;
        let programs = [("gpu-rollout", gpu_rollout()?), ("kubectl", program("kubectl")?)];
        for (name, program) in programs {
            link(&bin, name, &program)?;
        }
        let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap_or_default());
        Ok(Self { kubeconfig: stack.control_plane.kubeconfig.display().to_string(), path })
    }

    /// Returns a console for a user of this name, who has only the rights that the test grants.
    pub(crate) fn for_user(stack: &Stack, user: &str) -> Result<Self> {
        let console = Self::new(stack)?;
        let mut config: Value = serde_json::from_slice(&std::fs::read(&console.kubeconfig)?)?;
        config["users"][0]["user"]["as"] = user.into();
        let path = stack.helm.directory().join(format!("{user}.kubeconfig"));
        std::fs::write(&path, serde_json::to_vec_pretty(&config)?)?;
        Ok(Self { kubeconfig: path.display().to_string(), ..console })
    }

    /// Runs a command line, which must succeed. Returns its standard output.
    pub(crate) async fn types(&self, line: &str) -> Result<String> {
        let output = self.tries(line).await?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        ensure!(
            output.status.success(),
            "$ {line}\n{}{}",
            text(&output.stdout),
            text(&output.stderr)
        );
        Ok(text(&output.stdout))
    }

    /// Runs a printed command line, and confirms it where it asks for confirmation.
    pub(crate) async fn confirms(&self, line: &str) -> Result<String> {
        let asks = line.starts_with("gpu-rollout ") && !line.contains(" --yes");
        self.types(&if asks { format!("{line} --yes") } else { line.to_owned() }).await
    }

    /// Runs a command line, which may fail.
    pub(crate) async fn tries(&self, line: &str) -> Result<Output> {
        let mut command = Command::new("bash");
        command
            .args(["-c", line])
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path)
            .kill_on_drop(true);
        command.stdin(std::process::Stdio::null());
        Ok(command.output().await?)
    }

    /// Returns the first rollout of `gpu-rollout status -o json`.
    pub(crate) async fn status(&self) -> Result<Value> {
        let mut document: Value =
            serde_json::from_str(&self.types("gpu-rollout status -o json").await?)?;
        let rollouts = document["rollouts"].as_array_mut().context("rollouts")?;
        ensure!(!rollouts.is_empty(), "no rollout");
        Ok(rollouts.swap_remove(0))
    }
}
