//! Programs that live exactly as long as the test that started them, however it ends.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::process::{Child, Command};

/// A running program; killed when dropped, and by the kernel when the test process dies without dropping it.
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    start: Start,
    child: Child,
}

/// What is needed to start a program.
struct Start {
    directory: PathBuf,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
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
        let start = Start {
            directory: directory.to_owned(),
            program: program.to_owned(),
            arguments: arguments.into_iter().map(|argument| argument.as_ref().to_owned()).collect(),
            environment: environment.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect(),
        };
        let child = start.spawn(output)?;
        Ok(Self { name: name.to_owned(), log, start, child })
    }

    /// Kills the program and starts it again as it was started before; its log goes on.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        let output = OpenOptions::new().append(true).open(&self.log).with_context(|| format!("opening {}", self.log.display()))?;
        self.child = self.start.spawn(output)?;
        Ok(())
    }

    /// Its name.
    pub(crate) fn name(&self) -> &str {
        &self.name
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

    /// Kills the program with all that it has started (SIGKILL) and waits until it is gone.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.signal("KILL").await?;
        self.wait().await?;
        Ok(())
    }

    /// What Ctrl-C does in a terminal: SIGINT for the program and all that it has started.
    pub(crate) async fn interrupt(&self) -> Result<()> {
        self.signal("INT").await
    }

    async fn signal(&self, signal: &str) -> Result<()> {
        let group = self.child.id().with_context(|| format!("{} has ended", self.name))?;
        let status = Command::new("kill").args(["-s", signal, "--", &format!("-{group}")]).status().await?;
        ensure!(status.success(), "{} does not get SIG{signal}", self.name);
        Ok(())
    }
}

impl Start {
    fn spawn(&self, output: File) -> Result<Child> {
        Command::new("setpriv")
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.program)
            .args(&self.arguments)
            .envs(self.environment.iter().map(|(key, value)| (key, value)))
            .current_dir(&self.directory)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .process_group(0)
            .spawn()
            .with_context(|| format!("starting {}", self.program.display()))
    }
}

/// The last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
