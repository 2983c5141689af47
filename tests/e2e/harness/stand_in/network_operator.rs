//! The Network Operator's actions for its driver: DaemonSet, status and wait label. Its upgrade
//! controller is NVIDIA's own state machine.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use nvidia_upgrade::ControllerGeneration;
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache::Cache;
use super::kubelets::is_ready;
use super::script::Script;
use super::upgrade_controller::{Place, UpgradeController};
use crate::harness::kwok::KWOK_TAINT;

/// The namespace of the operator and its operands.
pub(crate) const NETWORK_NAMESPACE: &str = "nvidia-network-operator";
/// The label of driver DaemonSets and pods; the value of the annotation `hold` of the pods as well.
pub(crate) const NETWORK_DRIVER: &str = "nvidia.com/ofed-driver";
/// One DaemonSet for each pool of nodes with the same system and kernel; `app` is its name without
/// the last part.
const APP: &str = "mofed-ubuntu24.04-5f9c7d64bb";
const KERNEL: &str = "6.8.0-60-generic";
/// Node label: consumers of the network wait for the driver.
const WAIT: &str = "network.nvidia.com/operator.mofed.wait";
const NIC_LABEL: &str = "feature.node.kubernetes.io/pci-15b3.present";

/// Starts the operator.
pub(super) fn start(
    client: &Client,
    place: &Place,
    script: &Arc<Mutex<Script>>,
    tasks: &mut JoinSet<()>,
) {
    let changed = Arc::new(Notify::new());
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("mellanox.com", "v1alpha1", "NicClusterPolicy"),
        "nicclusterpolicies",
    );
    let policies = Api::<DynamicObject>::all_with(client.clone(), &kind);
    let in_namespace = || Api::<Pod>::namespaced(client.clone(), NETWORK_NAMESPACE);
    let mut operator = Operator {
        client: client.clone(),
        script: Arc::clone(script),
        upgrades: UpgradeController::new(place, "network-operator"),
        policies: Cache::start(policies.clone(), kind, Config::default(), &changed, tasks),
        nodes: Cache::start(Api::all(client.clone()), (), Config::default(), &changed, tasks),
        daemon_sets: Cache::start(
            Api::namespaced(client.clone(), NETWORK_NAMESPACE),
            (),
            Config::default(),
            &changed,
            tasks,
        ),
        pods: Cache::start(
            in_namespace(),
            (),
            Config::default().labels(NETWORK_DRIVER),
            &changed,
            tasks,
        ),
        api: policies,
    };
    tasks.spawn_local(async move {
        loop {
            changed.notified().await;
            if let Err(error) = operator.reconcile().await {
                eprintln!("stand-in network operator: {error:#}");
                tokio::time::sleep(Duration::from_millis(200)).await;
                changed.notify_one();
            }
        }
    });
}

struct Operator {
    client: Client,
    script: Arc<Mutex<Script>>,
    upgrades: UpgradeController,
    api: Api<DynamicObject>,
    policies: Cache<DynamicObject>,
    nodes: Cache<Node>,
    daemon_sets: Cache<DaemonSet>,
    pods: Cache<Pod>,
}

impl Operator {
    async fn reconcile(&mut self) -> Result<()> {
        let Some(policy) = self
            .policies
            .all()
            .into_iter()
            .find(|policy| policy.name_any() == "nic-cluster-policy")
        else {
            return Ok(());
        };
        let ofed = &policy.data["spec"]["ofedDriver"];
        if ofed.is_object() {
            let wanted = daemon_set(ofed, &policy);
            let live = self.daemon_sets.all().into_iter().next();
            // Scenarios change only this part.
            let image = |template: &DaemonSet| {
                Some(
                    template
                        .spec
                        .as_ref()?
                        .template
                        .spec
                        .as_ref()?
                        .containers
                        .first()?
                        .image
                        .clone(),
                )
            };
            let same = live.as_deref().and_then(image).flatten().as_deref()
                == wanted["spec"]["template"]["spec"]["containers"][0]["image"].as_str();
            if !same {
                let api = Api::<DaemonSet>::namespaced(self.client.clone(), NETWORK_NAMESPACE);
                api.patch(
                    &format!("{APP}-ds"),
                    &PatchParams::apply("network-operator").force(),
                    &Patch::Apply(wanted),
                )
                .await?;
            }
        }
        self.label_nodes().await?;
        self.report(&policy).await?;
        self.upgrade()
    }

    /// Starts the upgrade controller with the first NicClusterPolicy. Before that, it has nothing
    /// to do.
    fn upgrade(&mut self) -> Result<()> {
        let tick = self.script.lock().unwrap_or_else(PoisonError::into_inner).tick;
        self.upgrades.ensure(ControllerGeneration::Network, tick)
    }

    async fn label_nodes(&self) -> Result<()> {
        for pod in self.pods.all() {
            let node =
                pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default();
            let Some(live) = self.nodes.all().into_iter().find(|live| live.name_any() == node)
            else {
                continue;
            };
            let wait = if is_ready(&pod) { "false" } else { "true" };
            if live.labels().get(WAIT).is_none_or(|live| live != wait)
                && pod.metadata.deletion_timestamp.is_none()
            {
                let patch = json!({"metadata": {"labels": {WAIT: wait}}});
                Api::<Node>::all(self.client.clone())
                    .patch(&node, &PatchParams::default(), &Patch::Merge(patch))
                    .await?;
            }
        }
        Ok(())
    }

    /// Writes the status. A DaemonSet is ready if all its pods exist, are of the newest revision,
    /// and are available.
    async fn report(&self, policy: &DynamicObject) -> Result<()> {
        let ready = self.daemon_sets.all().iter().all(|daemon_set| {
            daemon_set.status.as_ref().is_some_and(|status| {
                let desired = status.desired_number_scheduled;
                let observed = status.observed_generation == daemon_set.metadata.generation;
                observed
                    && desired != 0
                    && status.number_available == Some(desired)
                    && status.updated_number_scheduled == Some(desired)
            })
        });
        let state = if ready { "ready" } else { "notReady" };
        if policy.data["status"]["state"] == state {
            return Ok(());
        }
        let status = json!({"status": {"state": state, "appliedStates": [{"name": "state-OFED", "state": state}]}});
        self.api
            .patch_status(
                &policy.name_any(),
                &PatchParams::default(),
                &Patch::<Value>::Merge(status),
            )
            .await?;
        Ok(())
    }
}

fn daemon_set(ofed: &Value, policy: &DynamicObject) -> Value {
    let field = |name: &str| ofed[name].as_str().unwrap_or_default();
    let image = format!(
        "{}/{}:{}-ubuntu24.04-amd64",
        field("repository"),
        field("image"),
        field("version")
    );
    let labels = json!({"app": APP, NETWORK_DRIVER: "", "mofed-ds-format-version": "1", "ds-owner": "NicClusterPolicy"});
    let mut of_pod = labels.clone();
    of_pod["kernel"] = KERNEL.into();
    json!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": format!("{APP}-ds"), "namespace": NETWORK_NAMESPACE, "labels": labels, "ownerReferences": [{
            "apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "controller": true, "blockOwnerDeletion": true,
            "name": policy.metadata.name, "uid": policy.metadata.uid,
        }]},
        "spec": {"selector": {"matchLabels": {"app": APP}}, "updateStrategy": {"type": "OnDelete"}, "template": {
            "metadata": {"labels": of_pod, "annotations": {"stand-in.gpu-rollout.dev/hold": NETWORK_DRIVER}},
            "spec": {
                "nodeSelector": {NIC_LABEL: "true", "feature.node.kubernetes.io/kernel-version.full": KERNEL},
                "tolerations": [
                    {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
                    {"key": KWOK_TAINT, "operator": "Exists", "effect": "NoSchedule"},
                ],
                "hostNetwork": true,
                "priorityClassName": "system-node-critical",
                "terminationGracePeriodSeconds": 300,
                "initContainers": [{"name": "network-operator-init-container", "image": "network-operator-init-container"}],
                "containers": [{"name": "mofed-container", "image": image}],
            },
        }},
    })
}
