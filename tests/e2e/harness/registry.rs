//! A registry on loopback, with plain HTTP: the program `registry` of the project `distribution`.

use std::ffi::OsStr;
use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::node_agent::hook_layout;
use super::oci_layout::OciLayout;
use super::ports::free_port;
use super::process::Process;
use super::rendered::said;
use super::repository::gpu_rollout;
use super::tools::{program, require};
use super::wait::until;

const START_LIMIT: Duration = Duration::from_mins(1);
/// The user `robot` with the password `secret`, as `htpasswd -B` writes them.
const USERS: &str = "robot:$2y$05$abcdefghijklmnopqrstuuOQiyCxlgf/oeuTqixKmWdcYUh4Hjl0a\n";
/// The same user and password in the format of `docker login`.
pub(crate) const LOGIN: &str = "cm9ib3Q6c2VjcmV0";
/// The same user with a password that is wrong.
pub(crate) const WRONG_LOGIN: &str = "cm9ib3Q6d3Jvbmc=";
/// The repository of the hook's image.
const HOOK: &str = "gpu-rollout";

/// A running registry.
pub(crate) struct Registry {
    address: String,
    storage: PathBuf,
    #[expect(dead_code, reason = "dropping it ends the program")]
    process: Process,
}

impl Registry {
    /// Starts an empty registry without logins. Its files are in the directory of the run.
    pub(crate) async fn start(directory: &Path) -> Result<Self> {
        Self::start_at(directory, &free_address()?).await
    }

    /// Starts a registry without logins at an address such as `127.0.0.1:5000`.
    pub(crate) async fn start_at(directory: &Path, address: &str) -> Result<Self> {
        Self::run(directory, address, None).await
    }

    /// Starts an empty registry that requires a [`LOGIN`].
    pub(crate) async fn start_with_login(directory: &Path) -> Result<Self> {
        let users = directory.join("registry-users");
        fs::write(&users, USERS)?;
        let login = json!({"htpasswd": {"realm": "e2e", "path": users}});
        Self::run(directory, &free_address()?, Some(login)).await
    }

    async fn run(directory: &Path, address: &str, login: Option<Value>) -> Result<Self> {
        // Otherwise, another program could answer in place of the registry.
        TcpListener::bind(address).with_context(|| format!("{address} is in use"))?;
        // It copies images to and from registries.
        require("skopeo")?;
        let name = format!("registry-{}", address.replace(':', "-"));
        let storage = directory.join(&name);
        let mut settings = json!({
            "version": "0.1",
            "log": {"level": "info"},
            "http": {"addr": address},
            "storage": {"filesystem": {"rootdirectory": storage}, "delete": {"enabled": true}},
        });
        if let Some(login) = login {
            settings["auth"] = login;
        }
        let file = directory.join(format!("{name}.json"));
        fs::write(&file, settings.to_string())?;
        // By default, it sends traces to a port of this machine.
        let environment = [("OTEL_TRACES_EXPORTER", "none".to_owned())];
        let arguments = [OsStr::new("serve"), file.as_os_str()];
        let program = program("registry")?;
        let mut process = Process::start(directory, &name, &program, arguments, &environment)?;
        let listens = until("the registry to listen", START_LIMIT, async || {
            TcpStream::connect(address).await?;
            Ok(Some(()))
        });
        tokio::select! {
            listens = listens => listens?,
            error = process.ended() => return Err(error),
        }
        Ok(Self { address: address.to_owned(), storage, process })
    }

    /// Returns its address, such as `127.0.0.1:5000`.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Returns the URL of a repository.
    pub(crate) fn url(&self, repository: &str) -> String {
        format!("oci://{}/{repository}", self.address)
    }

    /// Pushes the hook's image. Returns its reference with the digest.
    pub(crate) async fn push_hook_image(&self) -> Result<String> {
        let layout = hook_layout();
        ensure!(layout.exists(), "no image in {}: run `make image`", layout.display());
        let image = OciLayout::new(layout);
        let reference = format!("{}/{HOOK}", self.address);
        image.push(&format!("{reference}:e2e")).await?;
        Ok(format!("{reference}@{}", image.digest()?))
    }

    /// Pushes a bundle with the program. Returns the references of its charts and, as the last one,
    /// of the bundle, with their digests.
    pub(crate) async fn push_bundle(
        &self,
        bundle: &Path,
        repository: &str,
        tag: &str,
    ) -> Result<Vec<String>> {
        let mut command = Command::new(gpu_rollout()?);
        command.args(["bundle", "push"]).arg(bundle);
        command.arg(format!("{}:{tag}", self.url(repository))).arg("--plain-http");
        let pushed: Vec<String> = said(&mut command).await?.lines().map(str::to_owned).collect();
        ensure!(!pushed.is_empty(), "`bundle push` prints nothing");
        Ok(pushed)
    }

    /// Returns the files of all blobs: manifests, configurations and layers.
    pub(crate) fn blobs(&self) -> Result<Vec<PathBuf>> {
        let mut blobs = Vec::new();
        for group in fs::read_dir(self.storage.join("docker/registry/v2/blobs/sha256"))? {
            for blob in fs::read_dir(group?.path())? {
                blobs.push(blob?.path().join("data"));
            }
        }
        blobs.sort();
        Ok(blobs)
    }
}

fn free_address() -> Result<String> {
    Ok(format!("127.0.0.1:{}", free_port()?))
}
