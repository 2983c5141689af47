//! The hook Job: observe → decide → act. `ARCHITECTURE.md` ("How the loop runs") says who owns which task.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;

use contract::settings::Settings;
use kube_io::lease::LeaseCandidate;

mod clock;
mod end;
mod metrics;
mod occurrence;
mod run;
mod shutdown;
mod start;

pub use clock::RunClock;
pub use end::{EndReason, RunEnd};
pub use metrics::{HookMetrics, listen, serve};
pub use run::CANNOT_BE_READ;
pub use run::lease::WAITING_FOR_LEASE;
pub use shutdown::Shutdown;

/// Who and where this pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodIdentity {
    /// UID of the Job that owns the pod.
    pub job: String,
    /// Name of the pod.
    pub pod: String,
}

/// All that a run needs.
pub struct HookProcess {
    client: Client,
    settings: Settings,
    identity: PodIdentity,
    clock: RunClock,
    shutdown: Shutdown,
    metrics: Arc<HookMetrics>,
}

impl HookProcess {
    /// A run that has not begun.
    pub fn new(client: Client, settings: Settings, identity: PodIdentity, clock: RunClock, shutdown: Shutdown) -> Self {
        let metrics = Arc::new(HookMetrics::new(settings.clone()));
        Self { client, settings, identity, clock, shutdown, metrics }
    }

    /// What the run says of itself in numbers.
    pub fn metrics(&self) -> Arc<HookMetrics> {
        Arc::clone(&self.metrics)
    }

    /// Performs the tasks until there is a verdict, or a signal ends the process. Safe to run again at any moment.
    /// RBAC: the rows of `contract/task.rs` for the settings' tasks.
    pub async fn run(self) -> RunEnd {
        let leases = LeaseCandidate::new(&self.client, &self.identity.pod, self.now_function());
        let begin = start::begin(&self, &leases);
        let start = tokio::select! {
            start = begin => start,
            () = self.shutdown.requested() => return RunEnd::new(EndReason::SignalReceived, "ended by a signal before the run began"),
        };
        match start {
            Ok(start) => Box::pin(run::drive(&self, &leases, start)).await,
            Err(ended) => ended,
        }
    }

    fn now_function(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.now())
    }
}
