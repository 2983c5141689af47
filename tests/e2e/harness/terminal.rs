//! A user at a terminal, who types the commands of a bundle's README.md exactly and knows nothing
//! else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use tokio::net::TcpStream;
use tokio::process::Command;

use super::deployers::{Kind, argocd};
use super::ports::free_port;
use super::process::Process;
use super::stack::Stack;
use super::tools::program;
use super::wait::until;

const LIMIT: Duration = Duration::from_mins(2);

/// A shell with the programs that a user of one deployer has.
pub(crate) struct Terminal {
    /// The current directory of the user.
    folder: PathBuf,
    environment: Vec<(&'static str, String)>,
    #[expect(dead_code, reason = "dropping it ends the server")]
    server: Option<Process>,
}

impl Terminal {
    /// Opens a shell in the home directory.
    pub(crate) async fn open(stack: &Stack, kind: Kind) -> Result<Self> {
        let home = stack.helm.directory().join("terminal");
        let bin = home.join("bin");
        fs::create_dir_all(&bin)?;
        link(&bin, "helm", &program(if kind == Kind::Helm3 { "helm3" } else { "helm4" })?)?;
        link(&bin, "helmfile", &program("helmfile")?)?;
        link(&bin, "kubectl", &program("kubectl")?)?;
        let (mut environment, mut server) = (stack.helm.environment().to_vec(), None);
        match kind {
            Kind::Helm3 | Kind::Helm4 | Kind::Helmfile | Kind::Flux => {}
            Kind::ArgoCd | Kind::ArgoCdHelm => {
                link(&bin, "argocd", &program("argocd")?)?;
                let (process, address) = serve(stack).await?;
                environment.push(("ARGOCD_OPTS", format!("--server {address} --plaintext")));
                server = Some(process);
            }
        }
        let path = std::env::var("PATH").unwrap_or_default();
        environment.extend([
            ("PATH", format!("{}:{path}", bin.display())),
            ("HOME", home.display().to_string()),
            ("HELMFILE_CACHE_HOME", stack.helm.directory().join("helmfile").display().to_string()),
        ]);
        Ok(Self { folder: home, environment, server })
    }

    /// Changes to the directory of a bundle.
    pub(crate) fn enter(&mut self, bundle: PathBuf) {
        self.folder = bundle;
    }

    /// Returns the code blocks of a section of the README.md.
    pub(crate) fn blocks(&self, heading: &str) -> Result<Vec<String>> {
        let page = fs::read_to_string(self.folder.join("README.md"))?;
        let section = page.split("\n## ").find(|section| section.lines().next() == Some(heading));
        let section =
            section.with_context(|| format!("no section `{heading}` in the README.md"))?;
        let blocks = section.split("\n```sh\n").skip(1);
        let blocks = blocks
            .map(|block| block.split("\n```").next().unwrap_or_default().to_owned())
            .collect::<Vec<_>>();
        ensure!(!blocks.is_empty(), "section `{heading}` has no commands");
        Ok(blocks)
    }

    /// Runs a code block. Fails with the output if a line fails.
    pub(crate) async fn run(&self, block: &str) -> Result<String> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", "--", "sh", "-euc", block]);
        command
            .envs(self.environment.iter().map(|(key, value)| (*key, value.as_str())))
            .current_dir(&self.folder);
        let output =
            command.stdin(Stdio::null()).kill_on_drop(true).output().await.context("running sh")?;
        let said = format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        eprintln!("$ {}\n{said}", block.replace('\n', "\n$ "));
        ensure!(output.status.success(), "{}\n{block}\n{said}", output.status);
        Ok(said)
    }
}

/// Starts the server of Argo CD's command line.
async fn serve(stack: &Stack) -> Result<(Process, String)> {
    let port = free_port()?;
    let arguments = [
        format!("--port={port}"),
        format!("--metrics-port={}", free_port()?),
        format!("--namespace={}", argocd::NAMESPACE),
        "--address=127.0.0.1".into(),
        "--metrics-address=127.0.0.1".into(),
        "--insecure".into(),
        "--disable-auth".into(),
    ];
    let addresses =
        fs::read_to_string(stack.helm.directory().join("argocd").join(argocd::ADDRESSES))?;
    let arguments = arguments.into_iter().chain(addresses.lines().map(str::to_owned));
    let environment = [
        ("ARGOCD_BINARY_NAME", "argocd-server".to_owned()),
        ("ARGOCD_FAKE_IN_CLUSTER", "true".to_owned()),
        ("KUBECONFIG", stack.control_plane.kubeconfig.display().to_string()),
    ];
    let program = program("argocd")?;
    let server =
        Process::start(stack.helm.directory(), "argocd-server", &program, arguments, &environment)?;
    let address = format!("127.0.0.1:{port}");
    until("argocd-server to listen", LIMIT, async || {
        TcpStream::connect(&address).await?;
        Ok(Some(()))
    })
    .await?;
    Ok((server, address))
}

/// Adds a program to the PATH of a shell.
pub(crate) fn link(bin: &Path, name: &str, program: &Path) -> Result<()> {
    let link = bin.join(name);
    if link.symlink_metadata().is_ok() {
        return Ok(());
    }
    std::os::unix::fs::symlink(program, &link)
        .with_context(|| format!("linking {}", link.display()))
}
