//! etcd, kube-apiserver, kube-controller-manager and kube-scheduler as plain processes on loopback.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use kube::Client;
use kube::config::{Config, KubeConfigOptions, Kubeconfig};

use super::certificates::Authority;
use super::ports::free_port;
use super::process::Process;
use super::tools::program;
use super::wait::until;

const AUDIT_POLICY: &str = include_str!("control_plane/audit_policy.yaml");
/// The time limit for a cold start on a busy machine. A warm start takes about 10 s.
const START_LIMIT: Duration = Duration::from_mins(2);

/// The requests a second that the API server's clients allow themselves. The defaults (20 and 50)
/// would be the slowest part of a large fleet; clusters of that size raise them.
const REQUESTS: u32 = 1_000;

/// A running control plane.
pub(crate) struct ControlPlane {
    etcd: Process,
    /// `None`: the scenario has stopped it.
    api_server: RefCell<Option<Process>>,
    /// Controller manager and scheduler. Empty if only the API server was started.
    controllers: Vec<Process>,
    version: Option<&'static str>,
    directory: PathBuf,
    api_server_arguments: Vec<String>,
    /// The API server's port on 127.0.0.1.
    pub(crate) port: u16,
    /// Kubeconfig of a cluster administrator.
    pub(crate) kubeconfig: PathBuf,
    /// A client with this kubeconfig.
    pub(crate) client: Client,
}

impl ControlPlane {
    /// Starts everything and returns when the API server is ready and the controllers have been
    /// started. `version`: another minor version of Kubernetes than usual, such as `1.32`.
    pub(crate) async fn start(directory: &Path, version: Option<&'static str>) -> Result<Self> {
        let mut control_plane = Self::start_server(directory, version).await?;
        control_plane.start_controllers()?;
        Ok(control_plane)
    }

    /// Starts etcd and the API server alone, and returns when it is ready.
    pub(crate) async fn start_server(
        directory: &Path,
        version: Option<&'static str>,
    ) -> Result<Self> {
        let certificates = directory.join("certificates");
        let authority = Authority::create(&certificates)?;
        authority.server()?;
        std::fs::write(directory.join("audit_policy.yaml"), AUDIT_POLICY)?;
        let (etcd_port, peer_port, port) = (free_port()?, free_port()?, free_port()?);
        let server = format!("https://127.0.0.1:{port}");
        let kubeconfig = authority.client("admin", "admin", Some("system:masters"), &server)?;
        authority.client("controller-manager", "system:kube-controller-manager", None, &server)?;
        authority.client("scheduler", "system:kube-scheduler", None, &server)?;

        let etcd = start_etcd(directory, etcd_port, peer_port)?;
        let mut arguments = api_server_arguments(directory, &certificates, port, etcd_port);
        arguments
            .extend(resource_allocation(version).iter().map(|argument| (*argument).to_owned()));
        let mut api_server = Process::start(
            directory,
            "kube-apiserver",
            &of_version("kube-apiserver", version)?,
            &arguments,
            &[],
        )?;
        let client = client(&kubeconfig).await?;
        await_ready(&client, &mut api_server).await?;
        Ok(Self {
            etcd,
            api_server: RefCell::new(Some(api_server)),
            controllers: Vec::new(),
            version,
            directory: directory.to_owned(),
            api_server_arguments: arguments,
            port,
            kubeconfig,
            client,
        })
    }

    fn start_controllers(&mut self) -> Result<()> {
        let file =
            |name: &str| self.directory.join("certificates").join(name).display().to_string();
        let controller_manager = Process::start(
            &self.directory,
            "kube-controller-manager",
            &of_version("kube-controller-manager", self.version)?,
            [
                format!("--kubeconfig={}", file("controller-manager.kubeconfig")),
                "--use-service-account-credentials=true".into(),
                format!("--root-ca-file={}", file("ca.crt")),
                format!("--service-account-private-key-file={}", file("service-accounts.key")),
                "--leader-elect=false".into(),
                "--bind-address=127.0.0.1".into(),
                format!("--secure-port={}", free_port()?),
                format!("--kube-api-qps={REQUESTS}"),
                format!("--kube-api-burst={REQUESTS}"),
            ],
            &[],
        )?;
        let scheduler = Process::start(
            &self.directory,
            "kube-scheduler",
            &of_version("kube-scheduler", self.version)?,
            [
                format!("--kubeconfig={}", file("scheduler.kubeconfig")),
                "--leader-elect=false".into(),
                "--bind-address=127.0.0.1".into(),
                format!("--secure-port={}", free_port()?),
                format!("--kube-api-qps={REQUESTS}"),
                format!("--kube-api-burst={REQUESTS}"),
            ],
            &[],
        )?;
        self.controllers = vec![controller_manager, scheduler];
        Ok(())
    }

    /// Fails with the end of its log if a program has ended unexpectedly.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        let others = std::iter::once(&mut self.etcd).chain(&mut self.controllers);
        others.chain(self.api_server.get_mut()).try_for_each(Process::check_alive)
    }

    /// Stops the API server. Its stored objects remain.
    pub(crate) async fn stop_api_server(&self) -> Result<()> {
        let mut api_server = self.api_server.take().context("the API server is already stopped")?;
        api_server.kill().await
    }

    /// Starts the API server again on the same port.
    pub(crate) async fn start_api_server(&self) -> Result<()> {
        let program = of_version("kube-apiserver", self.version)?;
        let mut api_server = Process::start(
            &self.directory,
            "kube-apiserver-again",
            &program,
            &self.api_server_arguments,
            &[],
        )?;
        await_ready(&self.client, &mut api_server).await?;
        self.api_server.replace(Some(api_server));
        Ok(())
    }
}

/// Returns the program of a minor version of Kubernetes, or of the default version.
fn of_version(name: &str, version: Option<&str>) -> Result<PathBuf> {
    program(&version.map_or_else(|| name.to_owned(), |version| format!("{name}-{version}")))
}

fn start_etcd(directory: &Path, port: u16, peer_port: u16) -> Result<Process> {
    let (client, peer) =
        (format!("http://127.0.0.1:{port}"), format!("http://127.0.0.1:{peer_port}"));
    Process::start(
        directory,
        "etcd",
        &program("etcd")?,
        [
            format!("--data-dir={}", directory.join("etcd").display()),
            "--unsafe-no-fsync".into(),
            "--log-level=warn".into(),
            format!("--listen-client-urls={client}"),
            format!("--advertise-client-urls={client}"),
            format!("--listen-peer-urls={peer}"),
            format!("--initial-advertise-peer-urls={peer}"),
            format!("--initial-cluster=default={peer}"),
        ],
        &[],
    )
}

fn api_server_arguments(
    directory: &Path,
    certificates: &Path,
    port: u16,
    etcd_port: u16,
) -> Vec<String> {
    let file = |name: &str| certificates.join(name).display().to_string();
    vec![
        format!("--etcd-servers=http://127.0.0.1:{etcd_port}"),
        format!("--secure-port={port}"),
        "--bind-address=127.0.0.1".into(),
        format!("--tls-cert-file={}", file("server.crt")),
        format!("--tls-private-key-file={}", file("server.key")),
        format!("--client-ca-file={}", file("ca.crt")),
        format!("--service-account-key-file={}", file("service-accounts.pub")),
        format!("--service-account-signing-key-file={}", file("service-accounts.key")),
        "--service-account-issuer=https://kubernetes.default.svc".into(),
        "--authorization-mode=RBAC,Node".into(),
        "--enable-admission-plugins=NodeRestriction,PodSecurity".into(),
        "--service-cluster-ip-range=10.96.0.0/24".into(),
        "--allow-privileged=true".into(),
        // The names of nodes cannot be resolved here.
        "--kubelet-preferred-address-types=InternalIP".into(),
        format!("--audit-policy-file={}", directory.join("audit_policy.yaml").display()),
        format!("--audit-log-path={}", directory.join("audit.log").display()),
        // Megabytes: the log is read as one file, and a large fleet writes more than the default.
        "--audit-log-maxsize=10000".into(),
    ]
}

/// Enables dynamic resource allocation in versions where it is off by default, because clusters
/// with a DRA driver have it.
fn resource_allocation(version: Option<&str>) -> &'static [&'static str] {
    match version {
        Some("1.32") => &[
            "--feature-gates=DynamicResourceAllocation=true",
            "--runtime-config=resource.k8s.io/v1beta1=true",
        ],
        Some("1.33") => &[
            "--feature-gates=DynamicResourceAllocation=true",
            "--runtime-config=resource.k8s.io/v1beta1=true,resource.k8s.io/v1beta2=true",
        ],
        _ => &[],
    }
}

async fn client(kubeconfig: &Path) -> Result<Client> {
    let config = Config::from_custom_kubeconfig(
        Kubeconfig::read_from(kubeconfig)?,
        &KubeConfigOptions::default(),
    )
    .await?;
    Ok(Client::try_from(config)?)
}

async fn await_ready(client: &Client, api_server: &mut Process) -> Result<()> {
    let ready = until("the API server to be ready", START_LIMIT, async || {
        let request = http::Request::get("/readyz").body(Vec::new())?;
        client.request_text(request).await.context("asking /readyz")?;
        Ok(Some(()))
    });
    tokio::select! {
        ready = ready => ready,
        error = api_server.ended() => Err(error),
    }
}
