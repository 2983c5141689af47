//! The upgrade controllers: NVIDIA's library in the programs of `tests/tools/upgrade-controller`, each a process that lives as long as
//! the operator that it belongs to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;

use crate::harness::process::Process;
use crate::harness::tools::program;

/// Where the controllers run: their logs, and how they reach the API server.
#[derive(Clone)]
pub(super) struct Place {
    directory: PathBuf,
    kubeconfig: PathBuf,
}

impl Place {
    pub(super) fn new(directory: &Path, kubeconfig: &Path) -> Self {
        Self { directory: directory.to_owned(), kubeconfig: kubeconfig.to_owned() }
    }
}

/// Whose upgrades a controller does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Of {
    /// gpu-operator up to v26.3; what older ones than that have cannot be had.
    Gpu26_3,
    /// gpu-operator v26.7.
    Gpu26_7,
    /// network-operator.
    Network,
}

impl Of {
    /// What its program is called, and its options.
    fn program(self) -> (&'static str, [&'static str; 2]) {
        match self {
            Self::Gpu26_3 => ("upgrade-controller-26.3", ["--driver=gpu", "--namespace=gpu-operator"]),
            Self::Gpu26_7 => ("upgrade-controller-26.7", ["--driver=gpu", "--namespace=gpu-operator"]),
            Self::Network => ("upgrade-controller-26.3", ["--driver=ofed", "--namespace=nvidia-network-operator"]),
        }
    }
}

/// The controller of an instance of an operator. Dropping it kills it, with all that it had in memory.
pub(super) struct UpgradeController {
    place: Place,
    /// The instance.
    name: String,
    process: Option<Process>,
    started: usize,
}

impl UpgradeController {
    /// One that does not run yet. `name`: that of the instance, for its logs.
    pub(super) fn new(place: &Place, name: &str) -> Self {
        Self { place: place.clone(), name: name.to_owned(), process: None, started: 0 }
    }

    /// Starts it, unless it runs. One that has ended by itself is started again, as its pod's kubelet would; that is an error all the same, with the
    /// end of its log. `tick`: when it looks again although nothing has changed.
    pub(super) fn ensure(&mut self, of: Of, tick: Duration) -> Result<()> {
        let alive = self.process.as_mut().map_or(Ok(()), Process::check_alive);
        if alive.is_err() {
            self.process = None;
        }
        if self.process.is_none() {
            self.started += 1;
            let (tool, [driver, namespace]) = of.program();
            let tick = format!("--requeue-after={}ms", tick.as_millis());
            let log = format!("upgrade-controller-{}-{}", self.name, self.started);
            let environment = [("KUBECONFIG", self.place.kubeconfig.display().to_string())];
            self.process = Some(Process::start(&self.place.directory, &log, &program(tool)?, [driver, namespace, &tick], &environment)?);
        }
        alive
    }
}
