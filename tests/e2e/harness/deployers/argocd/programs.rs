//! The processes of Argo CD, and the objects that they need in the cluster.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use serde_json::json;
use tokio::net::TcpStream;

use super::{NAMESPACE, read};
use crate::harness::apply::Applier;
use crate::harness::ports::free_port;
use crate::harness::process::Process;
use crate::harness::stack::Stack;
use crate::harness::tools::{definitions, program, require};
use crate::harness::wait::until;

const START_LIMIT: Duration = Duration::from_mins(2);
/// From Debian, because it is not a Go module that could be pinned.
const REDIS: &str = "redis-server";
/// The program that verifies signatures of commits. Argo CD runs it even if signatures are
/// disabled. The image of Argo CD contains one.
const VERIFY: (&str, &str) = ("git-verify-wrapper.sh", "#!/bin/sh\nexit 0\n");

/// The file in Argo CD's home with the arguments for the addresses of Redis and repo-server, one
/// per line.
pub(crate) const ADDRESSES: &str = "addresses";

/// The running programs.
pub(super) struct Programs {
    /// Redis, repo-server, application-controller.
    all: [Process; 3],
}

impl Programs {
    /// Creates the objects that Argo CD needs in the cluster, and starts Argo CD.
    pub(super) async fn start(stack: &Stack) -> Result<Self> {
        objects(stack).await?;
        let directory = stack.helm.directory();
        let home = Home::create(&directory.join("argocd"))?;
        let argocd = program("argocd")?;

        require(REDIS)?;
        let redis = free_port()?;
        let arguments = [
            "--port",
            &redis.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        .map(String::from);
        let redis_server = Process::start(directory, REDIS, Path::new(REDIS), arguments, &[])?;
        listens(REDIS, redis).await?;
        let redis = format!("127.0.0.1:{redis}");

        let port = free_port()?;
        let arguments = [
            format!("--port={port}"),
            format!("--metrics-port={}", free_port()?),
            "--address=127.0.0.1".into(),
            "--metrics-address=127.0.0.1".into(),
            "--disable-tls".into(),
            // Without this argument, it refuses --disable-tls.
            "--client-ca-path=".into(),
            format!("--redis={redis}"),
        ];
        let environment = home.environment(stack, "argocd-repo-server");
        let repo_server =
            Process::start(directory, "argocd-repo-server", &argocd, arguments, &environment)?;
        listens("argocd-repo-server", port).await?;

        let arguments = [
            format!("--namespace={NAMESPACE}"),
            format!("--metrics-port={}", free_port()?),
            format!("--redis={redis}"),
            format!("--repo-server=127.0.0.1:{port}"),
            "--repo-server-plaintext".into(),
        ];
        // Argo CD's command line needs a server with both addresses.
        fs::write(
            home.0.join(ADDRESSES),
            format!("--redis={redis}\n--repo-server=127.0.0.1:{port}\n--repo-server-plaintext\n"),
        )?;
        let environment = home.environment(stack, "argocd-application-controller");
        let controller = Process::start(
            directory,
            "argocd-application-controller",
            &argocd,
            arguments,
            &environment,
        )?;
        Ok(Self { all: [redis_server, repo_server, controller] })
    }

    /// Kills the application-controller and starts it again.
    pub(super) async fn restart_controller(&mut self) -> Result<()> {
        let [_, _, controller] = &mut self.all;
        controller.restart().await
    }

    /// Fails with the end of the log if a process has ended unexpectedly.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.all.iter_mut().try_for_each(Process::check_alive)
    }
}

/// The directories of this Argo CD. They keep the home of the user who runs the tests unused.
struct Home(PathBuf);

impl Home {
    fn create(directory: &Path) -> Result<Self> {
        for folder in ["bin", "home", "ssh", "tls", "tmp"] {
            fs::create_dir_all(directory.join(folder))?;
        }
        symlink(program("helm4")?, directory.join("bin/helm"))?;
        symlink(program("kustomize")?, directory.join("bin/kustomize"))?;
        let verify = directory.join("bin").join(VERIFY.0);
        fs::write(&verify, VERIFY.1)?;
        fs::set_permissions(&verify, fs::Permissions::from_mode(0o755))?;
        fs::write(directory.join("ssh/ssh_known_hosts"), "")?;
        Ok(Self(directory.to_owned()))
    }

    /// Returns the environment of a program. Argo CD is one binary, and a variable selects the
    /// program.
    fn environment(&self, stack: &Stack, program: &str) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.0.join(name).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("ARGOCD_BINARY_NAME", program.to_owned()),
            // Uses the cluster of KUBECONFIG as its own cluster.
            ("ARGOCD_FAKE_IN_CLUSTER", "true".into()),
            ("ARGOCD_GPG_ENABLED", "false".into()),
            ("ARGOCD_SSH_DATA_PATH", folder("ssh")),
            ("ARGOCD_TLS_DATA_PATH", folder("tls")),
            // Argo CD's manifests set this variable from `timeout.reconciliation` in argocd-cm.
            ("ARGOCD_RECONCILIATION_TIMEOUT", "15s".into()),
            ("ARGOCD_RECONCILIATION_JITTER", "0s".into()),
            ("HOME", folder("home")),
            ("KUBECONFIG", stack.control_plane.kubeconfig.display().to_string()),
            ("PATH", format!("{}:{path}", folder("bin"))),
            ("TMPDIR", folder("tmp")),
        ]
    }
}

/// Creates CRDs, namespace, settings and the project `default`, as Argo CD's manifests do in a real
/// cluster.
async fn objects(stack: &Stack) -> Result<()> {
    let applier = Applier::new(&stack.client);
    for file in definitions("argocd")? {
        let object = read(&file)?;
        if object["kind"] == "CustomResourceDefinition" {
            applier.apply_crd(&object).await?;
        }
    }
    stack.create_namespace(NAMESPACE).await?;
    let labels = json!({"app.kubernetes.io/part-of": "argocd"});
    for object in [
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "labels": labels}}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "argocd-secret", "labels": labels}}),
        json!({
            "apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject", "metadata": {"name": "default"},
            "spec": {
                "sourceRepos": ["*"],
                "destinations": [{"server": "*", "namespace": "*"}],
                "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
            },
        }),
    ] {
        applier.apply(&object, NAMESPACE).await?;
    }
    Ok(())
}

async fn listens(name: &str, port: u16) -> Result<()> {
    until(&format!("{name} to listen"), START_LIMIT, async || {
        TcpStream::connect(("127.0.0.1", port)).await?;
        Ok(Some(()))
    })
    .await
}
