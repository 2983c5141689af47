//! The upgrade controllers: NVIDIA's library in the programs of `tests/tools/upgrade-controller`.
//! Each is a process that ends with its operator.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use nvidia_upgrade::ControllerGeneration;

use crate::harness::process::Process;
use crate::harness::tools::program;

/// The environment of the controllers: their logs, and the access to the API server.
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

/// Returns the program for operators of a generation, and the option that selects the driver. The
/// libraries of gpu-operator before v26.3 and of network-operator are not available.
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

/// The controller of an operator instance. Dropping it kills the process and loses its memory.
pub(super) struct UpgradeController {
    place: Place,
    /// The instance.
    name: String,
    process: Option<Process>,
    started: usize,
}

impl UpgradeController {
    /// Returns a controller that does not run yet. `name`: the name of the instance, for its logs.
    pub(super) fn new(place: &Place, name: &str) -> Self {
        Self { place: place.clone(), name: name.to_owned(), process: None, started: 0 }
    }

    /// Starts the controller if it does not run. If it has ended unexpectedly, starts it again, as
    /// its pod's kubelet would, and returns an error with the end of its log. `tick`: the interval
    /// of checks without a change.
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
