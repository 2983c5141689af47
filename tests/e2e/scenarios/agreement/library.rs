//! NVIDIA's library, which performs a pass on request.

use std::fs::File;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use contract::driver::Driver;
use nvidia_upgrade::ControllerGeneration;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};
use tokio::time::timeout;

use crate::harness::stand_in::controller;

/// Longer than any pass takes.
const LIMIT: Duration = Duration::from_mins(1);

/// The operator whose use of the library is tested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Of {
    pub(super) generation: ControllerGeneration,
}

impl Of {
    pub(super) fn driver(self) -> Driver {
        if self.generation == ControllerGeneration::Network { Driver::Ofed } else { Driver::Gpu }
    }
}

/// The answer to one line.
#[derive(Debug, Deserialize)]
pub(super) struct Said {
    /// Whether upgrades are enabled.
    #[serde(default)]
    pub(super) on: bool,
    /// The error that ended the pass.
    pub(super) error: Option<String>,
    /// The number of running evictions and drains.
    tasks: usize,
}

/// The running program; dropping it kills it.
pub(super) struct Library {
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    child: Child,
}

impl Library {
    pub(super) fn start(directory: &Path, kubeconfig: &Path, of: Of) -> Result<Self> {
        let log = directory.join("logs/upgrade-controller.log");
        let log = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .with_context(|| format!("opening {}", log.display()))?;
        let (program, driver) = controller(of.generation)?;
        let mut child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(["--passes", driver])
            .env("KUBECONFIG", kubeconfig)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("starting the upgrade controller")?;
        let input = child.stdin.take().context("no standard input")?;
        let output = BufReader::new(child.stdout.take().context("no standard output")?).lines();
        Ok(Self { input, output, child })
    }

    /// Performs one pass. Evictions and drains of it may still be running afterwards.
    pub(super) async fn pass(&mut self) -> Result<Said> {
        self.ask("pass").await
    }

    /// Returns the number of running evictions and drains.
    pub(super) async fn tasks(&mut self) -> Result<usize> {
        Ok(self.ask("tasks").await?.tasks)
    }

    async fn ask(&mut self, line: &str) -> Result<Said> {
        self.input.write_all(format!("{line}\n").as_bytes()).await?;
        let said = timeout(LIMIT, self.output.next_line())
            .await
            .with_context(|| format!("no answer to `{line}` within {LIMIT:?}"))?;
        let said = said?.context("the upgrade controller has ended")?;
        serde_json::from_str(&said).with_context(|| said.clone())
    }

    /// Kills the process at any point of its work. It sends no requests afterwards.
    pub(super) async fn kill(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }
}
