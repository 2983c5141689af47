//! Programs that end together with the test that started them, however the test ends.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail, ensure};
use tokio::process::{Child, Command};

use super::wait::until;

const LIMIT: Duration = Duration::from_mins(1);

/// A running program; killed with all that it has started when dropped, and by the kernel when the
/// test process dies without dropping it.
pub(crate) struct Process {
    name: String,
    log: PathBuf,
    start: Start,
    child: Child,
}

/// The parameters to start a program.
struct Start {
    directory: PathBuf,
    program: PathBuf,
    arguments: Vec<OsString>,
    environment: Vec<(String, String)>,
}

/// Makes Go programs collect garbage half as often. This saves processor time and costs memory
/// (measured: an eighth of the API server's time).
const GARBAGE: (&str, &str) = ("GOGC", "200");

fn owned((key, value): (&str, &str)) -> (String, String) {
    (key.to_owned(), value.to_owned())
}

impl Process {
    /// Starts `program`; its output goes to `<directory>/logs/<name>.log`.
    ///
    /// `setpriv` ties its life to the starting thread: a test's own thread, on which its
    /// single-threaded runtime runs.
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
            environment: [GARBAGE]
                .into_iter()
                .chain(environment.iter().map(|(key, value)| (*key, value.as_str())))
                .map(owned)
                .collect(),
        };
        let child = start.spawn(output)?;
        Ok(Self { name: name.to_owned(), log, start, child })
    }

    /// Kills the program and starts it again with the same parameters. Its log continues.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.kill().await?;
        let output = OpenOptions::new()
            .append(true)
            .open(&self.log)
            .with_context(|| format!("opening {}", self.log.display()))?;
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

    /// Waits until the program has ended. Returns the end of its log.
    pub(crate) async fn ended(&mut self) -> anyhow::Error {
        match self.child.wait().await {
            Ok(status) => anyhow!("{} ended: {status}\n{}", self.name, tail(&self.log)),
            Err(error) => anyhow!(error).context(format!("waiting for {}", self.name)),
        }
    }

    /// Waits until the program has ended.
    pub(crate) async fn wait(&mut self) -> Result<ExitStatus> {
        self.child.wait().await.with_context(|| format!("waiting for {}", self.name))
    }

    /// Returns the end of its log.
    pub(crate) fn log(&self) -> String {
        tail(&self.log)
    }

    /// Kills the program and its children (SIGKILL), and waits until they are gone.
    pub(crate) async fn kill(&mut self) -> Result<()> {
        self.signal("KILL").await?;
        self.wait().await?;
        Ok(())
    }

    /// Sends SIGINT to the program and its children, as Ctrl-C in a terminal does. Returns when all
    /// of them have ended.
    pub(crate) async fn interrupt(&mut self) -> Result<()> {
        let group = self.group()?;
        self.signal("INT").await?;
        self.wait().await?;
        until(&format!("{} and its children to end", self.name), LIMIT, async || {
            Ok((!signaled("0", &group).status().await?.success()).then_some(()))
        })
        .await
    }

    async fn signal(&self, signal: &str) -> Result<()> {
        ensure!(
            signaled(signal, &self.group()?).status().await?.success(),
            "{} does not get SIG{signal}",
            self.name
        );
        Ok(())
    }

    /// Returns the process group of the program.
    fn group(&self) -> Result<String> {
        Ok(format!("-{}", self.child.id().with_context(|| format!("{} has ended", self.name))?))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Ok(group) = self.group() {
            // A failure has no consequence: the kernel ends the program with the test.
            _ = signaled("KILL", &group).into_std().status();
        }
    }
}

/// Returns the command that sends a signal. `0` only checks whether the process exists.
fn signaled(signal: &str, group: &str) -> Command {
    let mut command = Command::new("kill");
    command.args(["-s", signal, "--", group]).stderr(Stdio::null());
    command
}

impl Start {
    fn spawn(&self, output: File) -> Result<Child> {
        // Reset signals as in a terminal: programs started in the background ignore SIGINT.
        Command::new("env")
            .args(["--default-signal=HUP,INT,QUIT", "setpriv", "--pdeathsig", "KILL", "--"])
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

/// Returns the last lines of a log.
fn tail(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}
