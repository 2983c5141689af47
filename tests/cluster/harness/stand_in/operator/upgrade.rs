//! The upgrade controller: one pass after another over all nodes with a driver pod, at most one transition a node and pass.
//!
//! It looks when a state label, the ClusterPolicy or the driver DaemonSet's template changed, and otherwise only at its tick: pods that
//! become ready do not wake it. Drain and `waitForCompletion` are not played.

mod machine;

use std::time::{Duration, Instant};

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, EvictParams, ListParams, Patch, PatchParams, Preconditions};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

use self::machine::{DriverPod, Entry, Policy, Step, pass};
use super::OPERATOR_NAMESPACE;
use super::observed::{Caches, Observed, is_ready};
use super::operands::Operand;
use crate::harness::kwok;
use crate::harness::stand_in::script::Script;
use crate::harness::wait::until;

const STATE: &str = "nvidia.com/gpu-driver-upgrade-state";
const SKIP: &str = "nvidia.com/gpu-driver-upgrade.skip";
const INITIALLY_UNSCHEDULABLE: &str = "nvidia.com/gpu-driver-upgrade.node-initial-state.unschedulable";
const VALIDATION_START: &str = "nvidia.com/gpu-driver-upgrade-validation-start-time";
const EVICTING: &str = "pod-deletion-required";
/// After a failed pass.
const BACK_OFF: Duration = Duration::from_millis(300);

/// When it looked last, and at what.
#[derive(Default)]
pub(super) struct Controller {
    looked: Option<(String, Instant)>,
}

impl Controller {
    /// Makes a pass if one is due.
    pub(super) async fn reconcile(&mut self, client: &Client, caches: &Caches, observed: &Observed, script: &Script) -> Result<()> {
        let enabled = observed.spec("/driver/enabled") == true && observed.spec("/driver/upgradePolicy/autoUpgrade") == true;
        if !enabled {
            return remove_states(client, observed).await;
        }
        let seen = fingerprint(observed);
        let resting = self.looked.as_ref().is_some_and(|(last, since)| *last == seen && since.elapsed() < script.tick);
        if resting {
            return Ok(());
        }
        let Some(mut entries) = entries(observed, script) else {
            // A driver pod is missing: the pass fails and is made again soon.
            tokio::time::sleep(BACK_OFF).await;
            return Ok(());
        };
        self.looked = Some((seen, Instant::now()));
        for entry in entries.iter_mut().filter(|entry| entry.state == EVICTING) {
            entry.holders = holders(client, &entry.name).await?.len();
        }
        for (node, step) in pass(&entries, &policy(observed)) {
            perform(client, caches, observed, &node, step).await?;
        }
        Ok(())
    }
}

/// What wakes the controller; the skip label does so since v26.7.
fn fingerprint(observed: &Observed) -> String {
    let generation = observed.daemon_set(Operand::Driver).and_then(|object| object.metadata.generation);
    // The first revision does not: in recorded installs the labels come at the first tick.
    let template =
        generation.filter(|generation| *generation > 1).map(|generation| (generation, observed.newest_revision(Operand::Driver)));
    let mut seen = format!("{:?} {template:?}", observed.policy.metadata.generation);
    // The labels of every node count, with or without a driver.
    for node in &observed.nodes {
        let skip = observed.is_at_least(26, 7).then(|| node.labels().get(SKIP));
        seen.extend([" ".to_owned(), node.name_any(), format!("{:?} {skip:?}", node.labels().get(STATE))]);
    }
    seen
}

fn policy(observed: &Observed) -> Policy {
    let max_unavailable = observed.spec("/driver/upgradePolicy/maxUnavailable");
    let max_unavailable = max_unavailable.as_str().map(str::to_owned).or_else(|| max_unavailable.as_u64().map(|number| number.to_string()));
    Policy {
        max_parallel: observed.spec("/driver/upgradePolicy/maxParallelUpgrades").as_i64().unwrap_or(1),
        max_unavailable: max_unavailable.and_then(|text| text.parse().ok()),
    }
}

/// The nodes with a driver pod; `None`: the DaemonSet wants more pods than there are, or nobody knows its newest revision (garbage
/// collection takes it before the pods).
fn entries(observed: &Observed, script: &Script) -> Option<Vec<Entry>> {
    let Some(daemon_set) = observed.daemon_set(Operand::Driver) else { return Some(Vec::new()) };
    observed.newest_revision(Operand::Driver)?;
    let desired = daemon_set.status.as_ref().map_or(0, |status| status.desired_number_scheduled);
    let mut entries = Vec::new();
    for node in &observed.gpu_nodes {
        let name = node.name_any();
        let Some(pod) = observed.pod_on(Operand::Driver, &name) else { continue };
        let validator = observed.pod_on(Operand::Validator, &name);
        entries.push(Entry {
            state: node.labels().get(STATE).cloned().unwrap_or_default(),
            unschedulable: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
            ready: kwok::is_ready(node),
            skipped: node.labels().get(SKIP).is_some_and(|value| value == "true"),
            initially_unschedulable: node.annotations().contains_key(INITIALLY_UNSCHEDULABLE),
            validation_started: node.annotations().contains_key(VALIDATION_START),
            validator: validator.map(is_ready),
            driver: DriverPod {
                in_sync: observed.is_in_sync(Operand::Driver, pod),
                ready: is_ready(pod),
                failing: is_failing(pod),
                terminating: pod.metadata.deletion_timestamp.is_some(),
            },
            holders: 0,
            name,
        });
    }
    entries.sort_by_key(|entry| script.place(&entry.name));
    (entries.len() >= usize::try_from(desired).unwrap_or(0)).then_some(entries)
}

/// More than ten restarts of a container that is not ready.
fn is_failing(pod: &Pod) -> bool {
    let Some(status) = &pod.status else { return false };
    let containers = status.container_statuses.iter().chain(&status.init_container_statuses).flatten();
    containers.into_iter().any(|container| !container.ready && container.restart_count > 10)
}

async fn remove_states(client: &Client, observed: &Observed) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    for node in observed.gpu_nodes.iter().filter(|node| node.labels().contains_key(STATE)) {
        let patch = json!({"metadata": {"labels": {STATE: null}}});
        nodes.patch(&node.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await?;
    }
    Ok(())
}

async fn perform(client: &Client, caches: &Caches, observed: &Observed, node: &str, step: Step) -> Result<()> {
    let nodes = Api::<Node>::all(client.clone());
    let patch = async |patch: Value| nodes.patch(node, &PatchParams::default(), &Patch::Merge(patch)).await;
    match step {
        Step::State(state) => {
            patch(json!({"metadata": {"labels": {STATE: state}}})).await?;
            until("the written state to be seen", Duration::from_secs(10), async || {
                let node = caches.node(node);
                Ok(node.is_none_or(|node| node.labels().get(STATE).is_some_and(|seen| seen == state)).then_some(()))
            })
            .await?;
        }
        Step::Unschedulable(value) => drop(patch(json!({"spec": {"unschedulable": value}})).await?),
        Step::RememberUnschedulable => drop(patch(json!({"metadata": {"annotations": {INITIALLY_UNSCHEDULABLE: "true"}}})).await?),
        Step::ForgetUnschedulable => drop(patch(json!({"metadata": {"annotations": {INITIALLY_UNSCHEDULABLE: null}}})).await?),
        Step::StartValidation => {
            let now = jiff::Timestamp::now().as_second().to_string();
            patch(json!({"metadata": {"annotations": {VALIDATION_START: now}}})).await?;
        }
        Step::EndValidation => drop(patch(json!({"metadata": {"annotations": {VALIDATION_START: null}}})).await?),
        Step::Evict => evict(client, node).await?,
        Step::DeleteDriver => delete_driver(client, observed, node).await?,
    }
    Ok(())
}

/// The pods that use a node's GPUs and that somebody brings back on another one.
async fn holders(client: &Client, node: &str) -> Result<Vec<Pod>> {
    let parameters = ListParams::default().fields(&format!("spec.nodeName={node}"));
    let mut pods = Api::<Pod>::all(client.clone()).list(&parameters).await?.items;
    pods.retain(|pod| {
        let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
        let mut limits = containers.filter_map(|container| container.resources.as_ref()?.limits.as_ref());
        let ended =
            pod.status.as_ref().and_then(|status| status.phase.as_deref()).is_some_and(|phase| matches!(phase, "Succeeded" | "Failed"));
        !ended && limits.any(|limits| limits.keys().any(|name| name.starts_with("nvidia.com/gpu")))
    });
    Ok(pods)
}

/// Asks all of them to leave. Those that a budget protects are asked again at the next tick.
async fn evict(client: &Client, node: &str) -> Result<()> {
    for pod in holders(client, node).await?.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
        let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
        match pods.evict(&pod.name_any(), &EvictParams::default()).await {
            Ok(_) => {}
            Err(kube::Error::Api(error)) if matches!(error.code, 404 | 429) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

async fn delete_driver(client: &Client, observed: &Observed, node: &str) -> Result<()> {
    let Some(pod) = observed.pod_on(Operand::Driver, node) else { return Ok(()) };
    let own = Preconditions { uid: pod.uid(), resource_version: None };
    let pods = Api::<Pod>::namespaced(client.clone(), OPERATOR_NAMESPACE);
    match pods.delete(&pod.name_any(), &DeleteParams::default().preconditions(own)).await {
        Ok(_) => Ok(()),
        // Seen too late: it is gone already.
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}
