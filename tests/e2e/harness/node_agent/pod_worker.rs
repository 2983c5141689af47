//! Runs one pod on a worker node.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, Preconditions};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tokio::sync::watch;

use super::sandbox::Sandbox;
use super::specification::{Refusal, Specification};
use super::{Shared, status};

/// The pause before a retry if the API server does not answer.
const RETRY: Duration = Duration::from_millis(200);

/// The deletion of a pod.
#[derive(Clone, Copy)]
pub(super) struct Deletion {
    grace: Duration,
    /// Whether the object is already gone, so that no confirmation is needed.
    gone: bool,
}

impl Deletion {
    /// The pod was deleted by force.
    pub(super) const GONE: Self = Self { grace: Duration::ZERO, gone: true };

    /// Returns the deletion that a pod's metadata requests.
    pub(super) fn asked_for(pod: &Pod) -> Option<Self> {
        let seconds = pod.metadata.deletion_grace_period_seconds.unwrap_or(0);
        pod.metadata.deletion_timestamp.as_ref()?;
        Some(Self { grace: Duration::from_secs(seconds.unsigned_abs()), gone: false })
    }
}

/// Runs the pod to its end, and confirms its deletion if it is requested.
pub(super) async fn run(
    shared: Arc<Shared>,
    pod: Pod,
    mut deletion: watch::Receiver<Option<Deletion>>,
) {
    let worker = Worker { shared, pod };
    if !status::is_final(&worker.pod) {
        let last = worker.run_container(&mut deletion).await;
        worker.report(last).await;
    }
    if asked_for(&mut deletion).await.is_some_and(|asked| !asked.gone) {
        worker.confirm_deletion().await;
    }
}

/// Waits until the pod's deletion is requested. `None`: the agent ends.
async fn asked_for(deletion: &mut watch::Receiver<Option<Deletion>>) -> Option<Deletion> {
    deletion.wait_for(Option::is_some).await.ok().and_then(|asked| *asked)
}

struct Worker {
    shared: Arc<Shared>,
    pod: Pod,
}

impl Worker {
    /// Returns the status to report last.
    async fn run_container(&self, deletion: &mut watch::Receiver<Option<Deletion>>) -> Value {
        let started = match Specification::of(&self.shared, &self.pod).await {
            Ok(specification) => {
                Sandbox::start(&self.shared, &self.pod, specification).await.map_err(Refusal::from)
            }
            Err(refusal) => Err(refusal),
        };
        let mut sandbox = match started {
            Ok(sandbox) => sandbox,
            Err(refusal) => return status::waiting(&self.pod, &refusal),
        };
        let key = format!("{}/{}", self.pod.namespace().unwrap_or_default(), self.pod.name_any());
        // Register the process before its status is reported, because a signal may follow at once.
        self.shared.running().insert(key.clone(), sandbox.process());
        self.report(status::running(&self.pod, &sandbox)).await;
        let code = tokio::select! {
            code = sandbox.exited() => code,
            asked = asked_for(deletion) => sandbox.stop(asked.map_or(Duration::ZERO, |asked| asked.grace)).await,
        };
        self.shared.running().remove(&key);
        status::ended(&self.pod, &sandbox, code)
    }

    /// Writes the status. Retries while the API server is unreachable.
    async fn report(&self, status: Value) {
        while status::write(&self.api(), &self.pod, &status).await.is_err() {
            tokio::time::sleep(RETRY).await;
        }
    }

    async fn confirm_deletion(&self) {
        let own = Preconditions { uid: self.pod.uid(), resource_version: None };
        let parameters = DeleteParams::default().grace_period(0).preconditions(own);
        loop {
            match self.api().delete(&self.pod.name_any(), &parameters).await {
                Ok(_) => return,
                Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => return,
                Err(_) => tokio::time::sleep(RETRY).await,
            }
        }
    }

    fn api(&self) -> Api<Pod> {
        Api::namespaced(self.shared.client.clone(), &self.pod.namespace().unwrap_or_default())
    }
}
