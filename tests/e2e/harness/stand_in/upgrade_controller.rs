//! The upgrade controllers: NVIDIA's library in the programs of `tests/tools/upgrade-controller`, each a process that lives as long as
//! the operator that it belongs to.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use nvidia_upgrade::ControllerGeneration;

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

/// The program for operators of a generation, and the option that says whose upgrades it does. The libraries of gpu-operator before v26.3 and of
/// network-operator cannot be had.
pub(crate) fn controller(generation: ControllerGeneration) -> Result<(PathBuf, &'static str)> {
    let (name, driver) = match generation {
        ControllerGeneration::Gpu26_7 => ("upgrade-controller-26.7", "--driver=gpu"),
        ControllerGeneration::Gpu25 | ControllerGeneration::Gpu26_3 => {
            ("upgrade-controller-26.3", "--driver=gpu")
        }
        ControllerGeneration::Network => ("upgrade-controller-26.3", "--driver=ofed"),
    };
    Ok((program(name)?, driver))
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
    pub(super) fn ensure(
        &mut self,
        generation: ControllerGeneration,
        tick: Duration,
    ) -> Result<()> {
        let alive = self.process.as_mut().map_or(Ok(()), Process::check_alive);
        if alive.is_err() {
            self.process = None;
        }
        if self.process.is_none() {
            self.started += 1;
            let (program, driver) = controller(generation)?;
            let tick = format!("--requeue-after={}ms", tick.as_millis());
            let log = format!("upgrade-controller-{}-{}", self.name, self.started);
            let environment = [("KUBECONFIG", self.place.kubeconfig.display().to_string())];
            self.process = Some(Process::start(
                &self.place.directory,
                &log,
                &program,
                [driver, &tick],
                &environment,
            )?);
        }
        alive
    }
}
