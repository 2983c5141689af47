//! What gpu-operator does to the objects of a cluster, while its Deployment has a pod that is ready.

mod labels;
mod observed;
mod operands;
mod status;
mod upgrade;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::Value;
use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::observed::{Caches, Observed};
use self::operands::Operand;
use super::script::Script;

/// Where the operator and its operands run.
pub(crate) const OPERATOR_NAMESPACE: &str = "gpu-operator";
/// The operator looks again so soon although nothing seems to have changed: its own delays pass.
const PERIOD: Duration = Duration::from_millis(100);

pub(crate) use operands::driver_version;

/// The kind ClusterPolicy.
pub(crate) fn cluster_policy_kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy"), "clusterpolicies")
}

/// Starts the operator.
pub(super) fn start(client: &Client, script: &Arc<Mutex<Script>>, tasks: &mut JoinSet<()>) {
    let changed = Arc::new(Notify::new());
    let caches = Caches::start(client, &changed, tasks);
    let operator = Operator {
        client: client.clone(),
        script: Arc::clone(script),
        spec: None,
        ready_since: None,
        upgrade: upgrade::Controller::default(),
    };
    tasks.spawn_local(operator.run(caches, changed));
}

struct Operator {
    client: Client,
    script: Arc<Mutex<Script>>,
    /// The generation of the ClusterPolicy that was seen last, and when it was seen first.
    spec: Option<(String, Instant)>,
    /// Since when everything has been ready.
    ready_since: Option<Instant>,
    upgrade: upgrade::Controller,
}

impl Operator {
    async fn run(mut self, caches: Caches, changed: Arc<Notify>) {
        loop {
            // Woken by a change or after the period: either way it looks.
            tokio::time::timeout(PERIOD, changed.notified()).await.ok();
            if let Some(observed) = caches.observe()
                && let Err(error) = self.reconcile(&caches, &observed).await
            {
                eprintln!("stand-in operator: {error:#}");
                tokio::time::sleep(PERIOD).await;
            }
        }
    }

    async fn reconcile(&mut self, caches: &Caches, observed: &Observed) -> Result<()> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let generation = format!("{}/{}", observed.policy.uid().unwrap_or_default(), observed.policy.metadata.generation.unwrap_or(0));
        if self.spec.as_ref().is_none_or(|(seen, _)| *seen != generation) {
            self.spec = Some((generation.clone(), Instant::now()));
            self.ready_since = None;
        }
        let age = self.spec.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        labels::label_nodes(&self.client, observed).await?;
        if age >= script.time(script.template_after, &format!("template {generation}")) {
            self.apply_operands(observed).await?;
        }
        if age >= script.time(script.stale_ready, &format!("stale {generation}")) {
            self.report(observed, &script, &generation).await?;
        }
        self.upgrade.reconcile(&self.client, caches, observed, &script).await
    }

    async fn apply_operands(&self, observed: &Observed) -> Result<()> {
        let api = Api::<DaemonSet>::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        for operand in Operand::ALL {
            let wanted = operands::daemon_set(operand, observed);
            let live = observed.daemon_set(operand);
            match (wanted, live) {
                (Some(wanted), live) => {
                    let hash = |object: &DaemonSet| object.annotations().get(operands::HASH_ANNOTATION).cloned();
                    if live.and_then(hash) != Some(operands::hash(&wanted)) {
                        let wanted = operands::with_hash(wanted);
                        api.patch(operand.name(), &PatchParams::apply("gpu-operator").force(), &Patch::Apply(wanted)).await?;
                    }
                }
                (None, Some(_)) => drop(api.delete(operand.name(), &kube::api::DeleteParams::default()).await?),
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// Writes the ClusterPolicy's status: `state` first, the conditions after it, as the real one does.
    async fn report(&mut self, observed: &Observed, script: &Script, generation: &str) -> Result<()> {
        let mut verdict = status::verdict(observed);
        if verdict.is_ready() {
            let since = *self.ready_since.get_or_insert_with(Instant::now);
            if since.elapsed() < script.time(script.ready_after, &format!("ready {generation}")) {
                return Ok(());
            }
        } else {
            self.ready_since = None;
        }
        let api = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_policy_kind());
        let name = observed.policy.name_any();
        for patch in verdict.patches(&observed.policy) {
            api.patch_status(&name, &PatchParams::default(), &Patch::<Value>::Merge(patch)).await?;
        }
        Ok(())
    }
}
