//! Real Helm with a separate home directory.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use tokio::process::Command;

use super::tools::program;

/// Runs Helm 4 against one control plane.
pub(crate) struct Helm {
    directory: PathBuf,
    environment: Vec<(&'static str, String)>,
}

/// The output and the exit of a command.
#[derive(Debug)]
pub(crate) struct Said {
    /// Its exit code was 0.
    pub(crate) success: bool,
    /// Standard output.
    pub(crate) stdout: String,
    /// Standard error.
    pub(crate) stderr: String,
    /// When it ended.
    pub(crate) ended: Timestamp,
    /// How long it ran.
    pub(crate) elapsed: Duration,
}

impl Helm {
    /// Creates Helm's home directory. `helm` in the PATH of scripts is Helm 4.
    pub(crate) fn new(directory: &Path, kubeconfig: &Path) -> Result<Self> {
        let bin = directory.join("bin");
        std::fs::create_dir_all(&bin)?;
        std::os::unix::fs::symlink(program("helm4")?, bin.join("helm"))?;
        let home = |name: &str| directory.join("helm").join(name).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        let environment = vec![
            ("PATH", format!("{}:{path}", bin.display())),
            ("KUBECONFIG", kubeconfig.display().to_string()),
            ("HELM_CACHE_HOME", home("cache")),
            ("HELM_CONFIG_HOME", home("config")),
            ("HELM_DATA_HOME", home("data")),
        ];
        Ok(Self { directory: directory.to_owned(), environment })
    }

    /// Returns the run's directory, for charts.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns Helm's environment variables.
    pub(crate) fn environment(&self) -> &[(&'static str, String)] {
        &self.environment
    }

    /// Runs `helm` with these arguments.
    pub(crate) async fn run(&self, arguments: &[&str]) -> Result<Said> {
        let helm = self.directory.join("bin/helm");
        let said = self.execute(&helm, arguments).await?;
        Ok(said)
    }

    /// Runs `helm`. Fails with its output if it does not succeed.
    pub(crate) async fn ok(&self, arguments: &[&str]) -> Result<Said> {
        let said = self.run(arguments).await?;
        if !said.success {
            bail!("helm {}: {}{}", arguments.join(" "), said.stdout, said.stderr);
        }
        Ok(said)
    }

    /// Runs a script, such as a bundle's `deploy.sh`, that calls `helm`.
    pub(crate) async fn script(&self, script: &Path, arguments: &[&str]) -> Result<Said> {
        self.execute(script, arguments).await
    }

    async fn execute(&self, program: &Path, arguments: &[&str]) -> Result<Said> {
        let begin = Instant::now();
        let output = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .envs(self.environment.iter().map(|(key, value)| (*key, value.as_str())))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await
            .with_context(|| format!("running {}", program.display()))?;
        Ok(Said {
            success: output.status.success(),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            ended: Timestamp::now(),
            elapsed: begin.elapsed(),
        })
    }
}
