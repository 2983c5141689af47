//! Stand-ins for programs that are not available here: NVIDIA's GPU Operator and Network Operator,
//! the kubelets of their nodes, the DRA driver, and their charts. NVIDIA's own state machine
//! upgrades the drivers (`upgrade_controller`).
//!
//! They change objects as the real programs do: for gpu-operator v26.7.0 as recorded
//! (`tests/data/traces`), for older releases with the known differences. kwok simulates the pods.

mod cache;
mod charts;
mod dra;
mod kubelets;
mod network_operator;
mod operator;
mod random;
mod repository;
mod script;
mod upgrade_controller;

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result};
use tokio::task::{AbortHandle, JoinSet};

use self::upgrade_controller::Place;
use super::control_plane::ControlPlane;

pub(crate) use dra::{GPU_DRIVER, published, resource_slice_kind};
pub(crate) use kubelets::{GPU, SAFE_LOAD, is_ready, offered};
pub(crate) use network_operator::{NETWORK_DRIVER, NETWORK_NAMESPACE};
pub(crate) use operator::{
    LEASE, OPERATOR_NAMESPACE, Operand, cluster_policy_kind, driver_version,
};
pub(crate) use random::number;
pub(crate) use script::{Fault, Script};
pub(crate) use upgrade_controller::controller;

/// The running stand-ins. Dropping it stops them.
pub(crate) struct StandIn {
    /// URL of the chart repository.
    pub(crate) charts: String,
    server: AbortHandle,
    repository: PathBuf,
    script: Arc<Mutex<Script>>,
    #[expect(dead_code, reason = "dropping it stops the tasks")]
    tasks: JoinSet<()>,
}

impl StandIn {
    /// Starts the stand-ins with a script.
    pub(crate) async fn start(
        directory: &Path,
        control_plane: &ControlPlane,
        helm: &super::helm::Helm,
        script: Script,
    ) -> Result<Self> {
        let client = &control_plane.client;
        let place = Place::new(directory, &control_plane.kubeconfig);
        let script = Arc::new(Mutex::new(script));
        let mut tasks = JoinSet::new();
        let repository = directory.join("chart-repository");
        charts::package(helm, &repository).await?;
        let (charts, server) = repository::serve(&repository, &mut tasks).await?;
        operator::start(client, &place, &script, &mut tasks);
        network_operator::start(client, &place, &script, &mut tasks);
        kubelets::start(client, &script, &mut tasks);
        dra::start(client, &mut tasks);
        Ok(Self { charts, server, repository, script, tasks })
    }

    /// Removes a chart's archive from the repository, so that requests get 404, or restores it.
    pub(crate) fn withhold(&self, chart: &str, version: &str, withhold: bool) -> Result<()> {
        let archive = self.repository.join(format!("{chart}-{version}.tgz"));
        let aside = archive.with_extension("aside");
        let (from, to) = if withhold { (archive, aside) } else { (aside, archive) };
        std::fs::rename(&from, &to).with_context(|| format!("renaming {}", from.display()))
    }

    /// Moves all packages of the chart repository into a directory, and stops its server.
    pub(crate) fn move_charts(&self, directory: &Path) -> Result<()> {
        self.server.abort();
        std::fs::rename(&self.repository, directory)
            .with_context(|| format!("renaming {}", self.repository.display()))
    }

    /// Changes the script of the stand-ins.
    pub(crate) fn rewrite(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
