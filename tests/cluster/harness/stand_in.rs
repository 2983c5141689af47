//! Stand-ins for what cannot be had here: NVIDIA's GPU operator and network operator, the kubelets of their nodes, the DRA driver, and their
//! charts.
//!
//! They play what the real ones do to objects: for gpu-operator v26.7.0 as recorded (`tests/data/traces`), for the older releases with the
//! differences that are known. Pods themselves are kwok's.

mod cache;
mod charts;
mod dra;
mod kubelets;
mod network_operator;
mod operator;
mod random;
mod repository;
mod script;

use std::path::Path;
use std::sync::{Arc, Mutex};

use anyhow::Result;
use kube::Client;
use tokio::task::JoinSet;

pub(crate) use dra::{GPU_DRIVER, published, resource_slice_kind};
pub(crate) use kubelets::{SAFE_LOAD, is_ready};
pub(crate) use network_operator::{NETWORK_DRIVER, NETWORK_NAMESPACE};
pub(crate) use operator::{OPERATOR_NAMESPACE, cluster_policy_kind, driver_version};
pub(crate) use script::{Fault, Script};

/// Everything of NVIDIA's that is played. Dropping it stops it.
pub(crate) struct StandIn {
    /// URL of the chart repository.
    pub(crate) charts: String,
    script: Arc<Mutex<Script>>,
    #[expect(dead_code, reason = "dropping it stops the tasks")]
    tasks: JoinSet<()>,
}

impl StandIn {
    /// Starts to play by a script.
    pub(crate) async fn start(directory: &Path, client: &Client, helm: &super::helm::Helm, script: Script) -> Result<Self> {
        let script = Arc::new(Mutex::new(script));
        let mut tasks = JoinSet::new();
        charts::package(helm, &directory.join("chart-repository")).await?;
        let charts = repository::serve(&directory.join("chart-repository"), &mut tasks).await?;
        operator::start(client, &script, &mut tasks);
        network_operator::start(client, &mut tasks);
        kubelets::start(client, &script, &mut tasks);
        dra::start(client, &mut tasks);
        Ok(Self { charts, script, tasks })
    }

    /// Changes the script from now on.
    pub(crate) fn rewrite(&self, change: impl FnOnce(&mut Script)) {
        change(&mut self.script.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}
