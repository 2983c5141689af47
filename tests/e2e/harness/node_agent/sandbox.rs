//! A container under bubblewrap: separate process, mount, IPC and user namespaces, no capabilities,
//! a read-only root.

use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use tokio::process::{Child, Command};

use super::Shared;
use super::image::Content;
use super::specification::Specification;
use crate::harness::wait::until;

/// A running container. Dropping it kills it.
pub(super) struct Sandbox {
    child: Child,
    process: u32,
    started: Timestamp,
    log: PathBuf,
    termination_log: PathBuf,
}

impl Sandbox {
    /// Starts a container.
    pub(super) async fn start(
        shared: &Shared,
        pod: &Pod,
        specification: Specification,
    ) -> Result<Self> {
        let directory = shared.directory.join(pod.uid().unwrap_or_default());
        fs::create_dir_all(&directory)?;
        let termination_log = directory.join("termination-log");
        File::create(&termination_log)?;
        let log = shared.log(&pod.namespace().unwrap_or_default(), &pod.name_any());
        let output = File::create(&log)?;
        let information = directory.join("bwrap.json");
        // bubblewrap writes the process id of the container to a file descriptor that only a shell
        // can open for it.
        let child = Command::new("sh")
            .args([
                "-c",
                "information=$1; shift; exec bwrap --info-fd 3 \"$@\" 3>\"$information\"",
                "sh",
            ])
            .arg(&information)
            .args(arguments(&specification, &termination_log)?)
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output)
            .kill_on_drop(true)
            .spawn()
            .context("starting bubblewrap")?;
        let mut sandbox =
            Self { child, process: 0, started: Timestamp::now(), log, termination_log };
        sandbox.process =
            until("bubblewrap to start a container", Duration::from_secs(20), async || {
                if let Some(status) = sandbox.child.try_wait()?
                    && !information_is_there(&information)
                {
                    bail!("bubblewrap ended: {status}: {}", fs::read_to_string(&sandbox.log)?);
                }
                let text = fs::read_to_string(&information).unwrap_or_default();
                let information: Option<serde_json::Value> = serde_json::from_str(&text).ok();
                Ok(information
                    .and_then(|information| u32::try_from(information["child-pid"].as_u64()?).ok()))
            })
            .await?;
        Ok(sandbox)
    }

    /// The host's id of the container's first process.
    pub(super) fn process(&self) -> u32 {
        self.process
    }

    /// When it was started.
    pub(super) fn started(&self) -> Timestamp {
        self.started
    }

    /// Waits until the container has ended. Returns its exit code, or 128 + N if signal N ended it.
    pub(super) async fn exited(&mut self) -> i32 {
        self.child.wait().await.ok().and_then(|status| status.code()).unwrap_or(137)
    }

    /// Sends SIGTERM, and SIGKILL after the grace period.
    pub(super) async fn stop(&mut self, grace: Duration) -> i32 {
        // The container may just have ended.
        signal(self.process, "TERM").await.ok();
        if let Ok(code) = tokio::time::timeout(grace, self.exited()).await {
            return code;
        }
        signal(self.process, "KILL").await.ok();
        self.exited().await
    }

    /// Returns the termination message as a kubelet does. With `fall_back`, returns the end of the
    /// log if a failed container left none.
    pub(super) fn termination_message(&self, fall_back: bool) -> String {
        let mut message = fs::read_to_string(&self.termination_log).unwrap_or_default();
        message.truncate(message.floor_char_boundary(4096));
        if message.is_empty() && fall_back {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            log[log.ceil_char_boundary(log.len().saturating_sub(2048))..].clone_into(&mut message);
        }
        message
    }
}

fn information_is_there(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.len() > 0)
}

/// Sends a signal to a process.
pub(super) async fn signal(process: u32, signal: &str) -> Result<()> {
    let status = Command::new("kill")
        .args(["-s", signal, &process.to_string()])
        .stderr(Stdio::null())
        .status()
        .await?;
    if !status.success() {
        bail!("process {process} is gone");
    }
    Ok(())
}

/// bubblewrap's arguments.
fn arguments(specification: &Specification, termination_log: &Path) -> Result<Vec<OsString>> {
    let mut arguments: Vec<OsString> = Vec::new();
    let mut add =
        |words: &[&std::ffi::OsStr]| arguments.extend(words.iter().map(|word| (*word).to_owned()));
    match &specification.image.content {
        Content::Host(directories) => directories
            .iter()
            .for_each(|path| add(&["--ro-bind".as_ref(), path.as_ref(), path.as_ref()])),
        // File by file, so that mount points can be made in directories that the image has.
        Content::Root(root) => {
            for path in files(root)
                .with_context(|| format!("reading the image's root {}", root.display()))?
            {
                add(&[
                    "--ro-bind".as_ref(),
                    path.as_ref(),
                    Path::new("/").join(path.strip_prefix(root)?).as_ref(),
                ]);
            }
        }
    }
    add(&["--proc", "/proc", "--dev", "/dev"].map(std::ffi::OsStr::new));
    add(&["--bind".as_ref(), termination_log.as_ref(), "/dev/termination-log".as_ref()]);
    for mount in &specification.mounts {
        add(&[
            if mount.read_only { "--ro-bind" } else { "--bind" }.as_ref(),
            mount.source.as_ref(),
            mount.target.as_ref(),
        ]);
    }
    add(&[
        "--remount-ro",
        "/",
        "--unshare-user",
        "--unshare-pid",
        "--as-pid-1",
        "--unshare-ipc",
        "--unshare-uts",
    ]
    .map(std::ffi::OsStr::new));
    add(&["--cap-drop", "ALL", "--die-with-parent", "--new-session", "--clearenv"]
        .map(std::ffi::OsStr::new));
    add(&[
        "--uid".as_ref(),
        specification.user.to_string().as_ref(),
        "--gid".as_ref(),
        specification.group.to_string().as_ref(),
    ]);
    for (name, value) in &specification.environment {
        add(&["--setenv".as_ref(), name.as_ref(), value.as_ref()]);
    }
    add(&["--".as_ref()]);
    specification.command.iter().for_each(|word| add(&[word.as_ref()]));
    Ok(arguments)
}

/// All files below a directory.
fn files(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.extend(files(&entry.path())?);
        } else {
            found.push(entry.path());
        }
    }
    Ok(found)
}
