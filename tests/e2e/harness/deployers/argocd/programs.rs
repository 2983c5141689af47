//! Argo CD's processes, and the objects that they expect in the cluster.

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
/// Debian's; it has no pinned module.
const REDIS: &str = "redis-server";
/// Argo CD asks it whether a commit is signed, also where signatures are switched off; its image
/// brings one.
const VERIFY: (&str, &str) = ("git-verify-wrapper.sh", "#!/bin/sh\nexit 0\n");

/// The file in its home that says how the others are reached, one argument a line.
pub(crate) const ADDRESSES: &str = "addresses";

/// The running programs.
pub(super) struct Programs {
    /// Redis, repo-server, application-controller.
    all: [Process; 3],
}

impl Programs {
    /// Makes what Argo CD needs in the cluster, and starts it.
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
            // Else it refuses --disable-tls.
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
        // Argo CD's command line needs a server that knows both.
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

    /// Fails with the end of its log if one has ended by itself.
    pub(super) fn check_alive(&mut self) -> Result<()> {
        self.all.iter_mut().try_for_each(Process::check_alive)
    }
}

/// Directories of Argo CD's own, so that nothing of whoever runs the tests is read or written.
struct Home(PathBuf);

impl Home {
    fn create(directory: &Path) -> Result<Self> {
        for folder in ["bin", "home", "ssh", "tls", "tmp"] {
            fs::create_dir_all(directory.join(folder))?;
        }
        symlink(program("helm4")?, directory.join("bin/helm"))?;
        let verify = directory.join("bin").join(VERIFY.0);
        fs::write(&verify, VERIFY.1)?;
        fs::set_permissions(&verify, fs::Permissions::from_mode(0o755))?;
        fs::write(directory.join("ssh/ssh_known_hosts"), "")?;
        Ok(Self(directory.to_owned()))
    }

    /// One binary is all of Argo CD's programs, and is told by its environment which of them to be.
    fn environment(&self, stack: &Stack, program: &str) -> Vec<(&'static str, String)> {
        let folder = |name: &str| self.0.join(name).display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        vec![
            ("ARGOCD_BINARY_NAME", program.to_owned()),
            // "In the cluster" is where KUBECONFIG points to.
            ("ARGOCD_FAKE_IN_CLUSTER", "true".into()),
            ("ARGOCD_GPG_ENABLED", "false".into()),
            ("ARGOCD_SSH_DATA_PATH", folder("ssh")),
            ("ARGOCD_TLS_DATA_PATH", folder("tls")),
            // `timeout.reconciliation` of argocd-cm: Argo CD's manifests hand it over so.
            ("ARGOCD_RECONCILIATION_TIMEOUT", "15s".into()),
            ("ARGOCD_RECONCILIATION_JITTER", "0s".into()),
            ("HOME", folder("home")),
            ("KUBECONFIG", stack.control_plane.kubeconfig.display().to_string()),
            ("PATH", format!("{}:{path}", folder("bin"))),
            ("TMPDIR", folder("tmp")),
        ]
    }
}

/// CRDs, namespace, settings and the project `default`, which Argo CD's manifests make in a real
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
