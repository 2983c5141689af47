//! The hook Job: it observes, decides and acts in a loop. `docs/inside.md` ("How the loop runs")
//! lists the runtime's tasks and their owners.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use kube::Client;

use contract::budget::RELEASE_SECONDS;
use contract::settings::Settings;
use contract::task::Task;
use kube_io::lease::LeaseCandidate;

mod clock;
mod metrics;
mod run;
mod run_caches;
mod run_end;
mod run_events;
mod shutdown;
mod start;

use clock::later;

pub use clock::RunClock;
pub use metrics::{HookMetrics, listen, serve};
pub use run::{CANNOT_BE_READ, WAITING_FOR_LEASE};
pub use run_end::{EndReason, RunEnd};
pub use shutdown::Shutdown;

/// Identifies this pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// UID of the Job that owns the pod.
    pub job: String,
    /// Name of the pod.
    pub pod: String,
}

/// The hook process: the client, settings, identity, clock, shutdown signal and metrics of a run.
pub struct HookProcess {
    client: Client,
    settings: Settings,
    identity: PodIdentity,
    clock: RunClock,
    shutdown: Shutdown,
    metrics: Arc<HookMetrics>,
}

impl HookProcess {
    /// Returns a run that has not started.
    pub fn new(
        client: Client,
        settings: Settings,
        identity: PodIdentity,
        clock: RunClock,
        shutdown: Shutdown,
    ) -> Self {
        let metrics = Arc::new(HookMetrics::new(settings.clone()));
        Self { client, settings, identity, clock, shutdown, metrics }
    }

    /// Returns the metrics of the run.
    pub fn metrics(&self) -> Arc<HookMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Performs the tasks until there is a verdict or a signal ends the process. Running it again
    /// is always safe. RBAC: the rows of `contract/task/rights.rs` for the tasks of the settings.
    pub async fn run(self) -> RunEnd {
        let leases = LeaseCandidate::new(&self.client, &self.identity.pod, self.now_function());
        let start = tokio::select! {
            start = start::start(&self, &leases) => start,
            () = self.shutdown.requested() => return RunEnd::new(EndReason::SignalReceived, "ended by a signal before the run started"),
        };
        match start {
            Ok(start) => Box::pin(run::RunLoop::new(&self, &leases, start).run()).await,
            Err(ended) => ended,
        }
    }

    /// Returns the time until which calls are attempted: the deadline, and in mode `drive` the time
    /// to release nodes after it.
    fn last_attempt(&self, deadline: Timestamp) -> Timestamp {
        let more = if self.settings.has(Task::Drive) { RELEASE_SECONDS } else { 0 };
        later(deadline, Duration::from_secs(more))
    }

    fn now_function(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.now())
    }
}
