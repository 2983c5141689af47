//! The cluster of one run: control plane, kwok, worker nodes that run pods for real, Helm.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Namespace, Pod};
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::Value;

use super::audit::AuditLog;
use super::control_plane::ControlPlane;
use super::helm::Helm;
use super::kwok;
use super::node_agent::NodeAgent;
use super::process::Process;
use super::stand_in::{Script, StandIn};

/// The cluster of a scenario.
pub(crate) struct Stack {
    /// An administrator's client.
    pub(crate) client: Client,
    /// Real Helm 4.
    pub(crate) helm: Helm,
    /// The audit log of the API server.
    pub(crate) audit: AuditLog,
    /// The nodes that run pods for real: `worker-0`, `worker-1`, and those that were joined.
    pub(crate) workers: Vec<NodeAgent>,
    /// etcd, API server, controllers, scheduler.
    pub(crate) control_plane: ControlPlane,
    /// The stand-ins for NVIDIA's operator, DRA driver and charts, after they are started.
    pub(crate) stand_in: Option<StandIn>,
    directory: PathBuf,
    kwok: Process,
}

impl Stack {
    /// Starts everything in `directory`, with the control plane of a minor version of Kubernetes
    /// such as `1.32`, or the usual one.
    pub(crate) async fn start(directory: &Path, version: Option<&'static str>) -> Result<Self> {
        let control_plane = ControlPlane::start(directory, version).await?;
        let kwok = kwok::start(directory, &control_plane)?;
        let client = control_plane.client.clone();
        let workers = vec![
            NodeAgent::start(directory, &control_plane, "worker-0").await?,
            NodeAgent::start(directory, &control_plane, "worker-1").await?,
        ];
        let helm = Helm::new(directory, &control_plane.kubeconfig)?;
        let audit = AuditLog::new(directory);
        Ok(Self {
            client,
            helm,
            audit,
            workers,
            control_plane,
            stand_in: None,
            directory: directory.to_owned(),
            kwok,
        })
    }

    /// Starts the stand-ins for NVIDIA's operator, DRA driver and charts, with a CPU node for their
    /// controllers.
    pub(crate) async fn play(&mut self, script: Script) -> Result<()> {
        kwok::add_cpu_node(&self.client, "system-0").await?;
        self.stand_in =
            Some(StandIn::start(&self.directory, &self.control_plane, &self.helm, script).await?);
        Ok(())
    }

    /// The URL of the stand-ins' chart repository.
    pub(crate) fn charts(&self) -> Result<&str> {
        Ok(&self.stand_in.as_ref().context("the stand-ins are not started")?.charts)
    }

    /// Removes a chart from the repository, or restores it.
    pub(crate) fn withhold(&self, chart: &str, version: &str, withhold: bool) -> Result<()> {
        self.stand_in
            .as_ref()
            .context("the stand-ins are not started")?
            .withhold(chart, version, withhold)
    }

    /// Moves all packages of the chart repository into a directory, and stops its server: from then
    /// on, the charts are only there.
    pub(crate) fn move_charts(&self, directory: &Path) -> Result<()> {
        self.stand_in.as_ref().context("the stand-ins are not started")?.move_charts(directory)
    }

    /// Changes the script of the stand-ins.
    pub(crate) fn rewrite(&self, change: impl FnOnce(&mut Script)) -> Result<()> {
        self.stand_in.as_ref().context("the stand-ins are not started")?.rewrite(change);
        Ok(())
    }

    /// Installs or upgrades a release from the stand-ins' charts, without waiting.
    pub(crate) async fn deploy(
        &self,
        chart: &str,
        version: &str,
        namespace: &str,
        values: &Value,
    ) -> Result<()> {
        let url = self.charts()?;
        let file = self.directory.join(format!("{chart}-values.json"));
        std::fs::write(&file, values.to_string())?;
        let file = file.display().to_string();
        let repository = [
            "--repo",
            url,
            "--version",
            version,
            "--namespace",
            namespace,
            "--create-namespace",
            "--values",
            &file,
        ];
        self.helm.ok(&[&["upgrade", "--install", chart, chart][..], &repository].concat()).await?;
        Ok(())
    }

    /// Adds nodes `gpu-0`, `gpu-1` … and returns their names.
    pub(crate) async fn add_gpu_nodes(&self, count: usize) -> Result<Vec<String>> {
        let names: Vec<String> = (0..count).map(|index| format!("gpu-{index}")).collect();
        for name in &names {
            kwok::add_gpu_node(&self.client, name).await?;
        }
        Ok(names)
    }

    /// Makes a kwok node run pods with the annotation [`kwok::REAL`] for real.
    pub(crate) fn join(&mut self, node: &str) -> Result<()> {
        self.workers.push(NodeAgent::join(&self.directory, &self.control_plane, node)?);
        Ok(())
    }

    /// Returns the worker node that runs a pod.
    pub(crate) fn worker_of(&self, pod: &Pod) -> Result<&NodeAgent> {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        self.workers
            .iter()
            .find(|worker| Some(worker.name()) == node)
            .with_context(|| format!("the pod is not on a worker node: {node:?}"))
    }

    /// Creates a namespace.
    pub(crate) async fn create_namespace(&self, name: &str) -> Result<()> {
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(name.to_owned());
        Api::<Namespace>::all(self.client.clone())
            .create(&PostParams::default(), &namespace)
            .await?;
        Ok(())
    }

    /// Fails if one of the programs has ended unexpectedly.
    pub(crate) fn check_alive(&mut self) -> Result<()> {
        self.control_plane.check_alive()?;
        self.kwok.check_alive()
    }
}
