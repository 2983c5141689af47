//! The actions of gpu-operator while one of its instances leads.

mod labels;
mod leadership;
mod observed;
mod operands;
mod status;

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use contract::driver::Driver;
use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use nvidia_upgrade::ControllerGeneration;
use serde_json::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;

use self::leadership::Leader;
use self::observed::{Caches, Observed};
use super::cache::pause_after;
use super::script::Script;
use super::upgrade_controller::{Place, UpgradeController};

/// The namespace of the operator and its operands.
pub(crate) const OPERATOR_NAMESPACE: &str = "gpu-operator";
/// The operator checks again after this period without a change, because its own delays pass.
const PERIOD: Duration = Duration::from_millis(100);

pub(crate) use leadership::LEASE;
pub(crate) use operands::{Operand, driver_version};
pub(super) use operands::{PLUGIN_VALIDATION, VALIDATES_TOOLKIT};

/// The kind ClusterPolicy.
pub(crate) fn cluster_policy_kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("nvidia.com", "v1", "ClusterPolicy"),
        "clusterpolicies",
    )
}

/// Starts the operator.
pub(super) fn start(
    client: &Client,
    place: &Place,
    script: &Arc<Mutex<Script>>,
    tasks: &mut JoinSet<()>,
) {
    let changed = Arc::new(Notify::new());
    let caches = Caches::start(client, &changed, tasks);
    let leader = leadership::start(client, script, tasks);
    let found = Found { client: client.clone(), place: place.clone(), caches, leader, changed };
    tasks.spawn_local(run(found, Arc::clone(script)));
}

/// The shared parts that each instance starts with.
struct Found {
    client: Client,
    place: Place,
    caches: Caches,
    leader: watch::Receiver<Option<Leader>>,
    changed: Arc<Notify>,
}

/// Runs one instance after the other, each with a new state.
async fn run(found: Found, script: Arc<Mutex<Script>>) {
    let mut operator: Option<Operator> = None;
    loop {
        // Reconcile after a change or after the period.
        tokio::time::timeout(PERIOD, found.changed.notified()).await.ok();
        let leader = found.leader.borrow().clone();
        let Some(leader) = leader else {
            operator = None;
            continue;
        };
        let script = script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let known = operator.take().filter(|known| known.identity == leader.identity);
        let operator = operator.insert(known.unwrap_or_else(|| Operator::new(&found, &leader)));
        if leader.is_outdated && !script.two_writers {
            continue;
        }
        if let Some(observed) = found.caches.observe(&leader.version)
            && let Err(error) = operator.reconcile(&observed, &script).await
        {
            eprintln!("stand-in operator: {error:#}");
            tokio::time::sleep(PERIOD).await;
        }
        pause_after(found.caches.pods()).await;
    }
}

/// The state of an instance of the operator.
struct Operator {
    client: Client,
    identity: String,
    /// The last observed generation of the ClusterPolicy, and when it was first observed.
    spec: Option<(String, Instant)>,
    /// Whether the instance has applied all operands once. Its upgrade controller starts after that
    /// (measured: 0.9 s after the start of the lead).
    has_rendered: bool,
    /// Since when everything has been ready.
    ready_since: Option<Instant>,
    upgrades: UpgradeController,
}

impl Operator {
    fn new(found: &Found, leader: &Leader) -> Self {
        Self {
            client: found.client.clone(),
            identity: leader.identity.clone(),
            spec: None,
            has_rendered: false,
            ready_since: None,
            upgrades: UpgradeController::new(&found.place, &leader.identity),
        }
    }

    async fn reconcile(&mut self, observed: &Observed, script: &Script) -> Result<()> {
        let generation = format!(
            "{}/{}",
            observed.policy.uid().unwrap_or_default(),
            observed.policy.metadata.generation.unwrap_or(0)
        );
        if self.spec.as_ref().is_none_or(|(seen, _)| *seen != generation) {
            self.spec = Some((generation.clone(), Instant::now()));
            self.ready_since = None;
        }
        let age = self.spec.as_ref().map_or(Duration::ZERO, |(_, since)| since.elapsed());
        labels::label_nodes(&self.client, observed).await?;
        let mut written = Vec::new();
        if age >= script.time(script.template_after, &format!("template {generation}")) {
            written = self.apply_operands(observed).await?;
            self.has_rendered = true;
        }
        if age >= script.time(script.stale_ready, &format!("stale {generation}")) {
            self.report(observed, script, &generation, &written).await?;
        }
        if self.has_rendered { self.upgrade(observed, script) } else { Ok(()) }
    }

    /// Starts the upgrade controller, a separate process that ends with the instance.
    fn upgrade(&mut self, observed: &Observed, script: &Script) -> Result<()> {
        let generation = ControllerGeneration::from_version(Driver::Gpu, Some(&observed.version));
        self.upgrades.ensure(generation.context("an operator without a version")?, script.tick)
    }

    /// Writes the DaemonSets of operands. Returns the written ones. Without GPU nodes, it writes
    /// none.
    async fn apply_operands(&self, observed: &Observed) -> Result<Vec<Operand>> {
        let mut written = Vec::new();
        if observed.gpu_nodes.is_empty() {
            return Ok(written);
        }
        let api = Api::<DaemonSet>::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        for operand in Operand::ALL {
            let wanted = operands::daemon_set(operand, observed);
            let live = observed.daemon_set(operand);
            match (wanted, live) {
                (Some(wanted), live) => {
                    let hash = |object: &DaemonSet| {
                        object.annotations().get(operands::HASH_ANNOTATION).cloned()
                    };
                    if live.and_then(hash) != Some(operands::hash(&wanted)) {
                        let wanted = operands::with_hash(wanted);
                        api.patch(
                            operand.name(),
                            &PatchParams::apply("gpu-operator").force(),
                            &Patch::Apply(wanted),
                        )
                        .await?;
                        written.push(operand);
                    }
                }
                (None, Some(_)) => {
                    drop(api.delete(operand.name(), &kube::api::DeleteParams::default()).await?);
                }
                (None, None) => {}
            }
        }
        Ok(written)
    }

    /// Writes the ClusterPolicy's status: `state` first, the conditions after it, as the real one
    /// does.
    async fn report(
        &mut self,
        observed: &Observed,
        script: &Script,
        generation: &str,
        written: &[Operand],
    ) -> Result<()> {
        let mut verdict = status::verdict(observed, written);
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
