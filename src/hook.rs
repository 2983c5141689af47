//! The hook Job: observe → decide → act. `ARCHITECTURE.md` ("How the loop runs") says who owns which task.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;

use crate::cluster::lease::Leases;
use crate::contract::settings::Settings;

mod begin;
mod clock;
mod drive;
mod end;
mod metrics;
mod occurrence;
mod shutdown;

pub use clock::Clock;
pub use drive::CANNOT_BE_READ;
pub use drive::lease::WAITING_FOR_LEASE;
pub use end::{EndReason, Ended};
pub use metrics::{Metrics, listen, serve};
pub use shutdown::Shutdown;

/// Who and where this pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// UID of the Job that owns the pod.
    pub job: String,
    /// Name of the pod.
    pub pod: String,
}

/// All that a run needs.
pub struct Hook {
    client: Client,
    settings: Settings,
    identity: Identity,
    clock: Clock,
    shutdown: Shutdown,
    metrics: Arc<Metrics>,
}

impl Hook {
    /// A run that has not begun.
    pub fn new(client: Client, settings: Settings, identity: Identity, clock: Clock, shutdown: Shutdown) -> Self {
        let metrics = Arc::new(Metrics::new(settings.clone()));
        Self { client, settings, identity, clock, shutdown, metrics }
    }

    /// What the run says of itself in numbers.
    pub fn metrics(&self) -> Arc<Metrics> {
        Arc::clone(&self.metrics)
    }

    /// Performs the duties until there is a verdict, or a signal ends the process. Safe to run again at any moment.
    /// RBAC: the rows of `contract/duty.rs` for the settings' duties.
    pub async fn run(self) -> Ended {
        let leases = Leases::new(&self.client, &self.identity.pod, self.now_function());
        let begin = begin::begin(&self, &leases);
        let start = tokio::select! {
            start = begin => start,
            () = self.shutdown.requested() => return Ended::new(EndReason::SignalReceived, "ended by a signal before the run began"),
        };
        match start {
            Ok(start) => Box::pin(drive::drive(&self, &leases, start)).await,
            Err(ended) => ended,
        }
    }

    fn now_function(&self) -> Arc<dyn Fn() -> Timestamp + Send + Sync> {
        let clock = self.clock.clone();
        Arc::new(move || clock.now())
    }
}
