//! Programs that live exactly as long as the test that started them, however it ends.

use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow, bail};
use tokio::process::{Child, Command};

/// A running program; killed when dropped, and by the kernel when the test process dies without dropping it.
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    child: Child,
}

impl Process {
    /// Starts `program`; its output goes to `<directory>/logs/<name>.log`.
    ///
    /// `setpriv` ties its life to the starting thread: a test's own thread, on which its single-threaded runtime runs.
    pub(crate) fn start<S: AsRef<OsStr>>(
        directory: &Path,
        name: &str,
        program: &Path,
        arguments: impl IntoIterator<Item = S>,
        environment: &[(&str, String)],
    ) -> Result<Self> {
        let log = directory.join("logs").join(format!("{name}.log"));
        let output = File::create(&log).with_context(|| format!("creating {}", log.display()))?;
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(program)
            .args(arguments)
            .envs(environment.iter().map(|(key, value)| (*key, value.as_str())))
            .current_dir(directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .with_context(|| format!("starting {name} ({})", program.display()))?;
        Ok(Self { name: name.to_owned(), log, child })
    }

    /// Fails with the end of the log if the program has ended.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        if let Some(status) = self.child.try_wait()? {
            bail!("{} ended: {status}\n{}", self.name, tail(&self.log));
        }
        Ok(())
    }

    /// Returns when the program has ended by itself, with the end of its log.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow!("{} ended: {status}\n{}", self.name, tail(&self.log)),
            Err(error) => anyhow!(error).context(format!("waiting for {}", self.name)),
        }
    }

    /// Waits until it has ended.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.with_context(|| format!("waiting for {}", self.name))
    }

    /// The end of what it has said.
    pub(crate) fn log(&self) -> String {
        tail(&self.log)
    }

    /// Kills the program and waits until it is gone.
    pub(crate) async fn kill(mut self) -> Result<()> {
        self.child.kill().await.with_context(|| format!("killing {}", self.name))
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
