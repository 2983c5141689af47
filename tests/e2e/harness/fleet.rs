//! The fleet of scenarios: GPU nodes with the pods of operator and DRA driver, and checks of their
//! plugins.

use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::hook_release::HookRelease;
use super::kwok;
use super::stack::Stack;
use super::stand_in::{
    GPU, GPU_DRIVER, OPERATOR_NAMESPACE, Script, cluster_policy_kind, driver_version, is_ready,
    offered, published, resource_slice_kind,
};
use super::wait::until;

/// A release of the operator and the versions that its chart brings.
pub(crate) struct Release {
    /// The chart's version.
    pub(crate) chart: &'static str,
    /// Its driver.
    pub(crate) driver: &'static str,
}

impl Release {
    /// Returns the operator's values for mode `drive`: the operator's own controller and its driver
    /// manager leave the nodes alone.
    pub(crate) fn driven_values(&self) -> Value {
        json!({"driver": {
            "version": self.driver,
            "upgradePolicy": {"autoUpgrade": false},
            "manager": {"env": [{"name": "ENABLE_GPU_POD_EVICTION", "value": "false"}, {"name": "ENABLE_AUTO_DRAIN", "value": "false"}]},
        }})
    }
}

/// The release that fleets start with.
pub(crate) const OLD: Release = Release { chart: "v25.10.1", driver: "580.105.08" };
/// The release that fleets are upgraded to.
pub(crate) const NEW: Release = Release { chart: "v26.3.1", driver: "580.126.20" };
/// The namespace of the DRA driver.
pub(crate) const DRA_NAMESPACE: &str = "nvidia-dra-driver-gpu";
const LIMIT: Duration = Duration::from_mins(3);
/// The time limit for a thousand nodes, which the controllers process one after another.
const GROWN: Duration = Duration::from_mins(50);
/// The number of nodes that are added at the same time.
const AT_ONCE: usize = 25;

impl Release {
    /// Returns the operator's values for mode `steer`: the lowest limits that it needs.
    pub(crate) fn steered_values(&self) -> Value {
        json!({"driver": {
            "version": self.driver,
            "upgradePolicy": {"autoUpgrade": true, "maxParallelUpgrades": 1, "maxUnavailable": "25%"},
        }})
    }

    /// Returns the operator's values: those of its chart, with a pinned driver, and at most one
    /// node unavailable.
    pub(crate) fn values(&self) -> Value {
        json!({"driver": {"version": self.driver, "upgradePolicy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%"}}})
    }
}

/// A DRA kubelet plugin on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plugin {
    uid: String,
    name: String,
}

impl Plugin {
    /// The pod's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Stack {
    /// Sets up nodes that offer their GPUs, with operator and (unless `dra` is false) DRA driver of
    /// the old release, all ready.
    pub(crate) async fn fleet(
        &mut self,
        script: Script,
        nodes: usize,
        dra: bool,
    ) -> Result<Vec<String>> {
        self.play(script).await?;
        let nodes = self.add_gpu_nodes(nodes).await?;
        self.deploy("gpu-operator", OLD.chart, OPERATOR_NAMESPACE, &OLD.values()).await?;
        self.await_policy("ready").await?;
        self.await_validated(&nodes, LIMIT).await?;
        if dra {
            // After the operator, as in a bundle: what starts in the same second as its node's
            // driver or toolkit counts as stale. NVIDIA's chart publishes no GPUs without the
            // second of them.
            let values = json!({"nvidiaDriverRoot": "/run/nvidia/driver", "gpuResourcesEnabledOverride": true});
            self.deploy("nvidia-dra-driver-gpu", "25.12.0", DRA_NAMESPACE, &values).await?;
            until("every plugin to serve", LIMIT, async || {
                let served = self.served().await?;
                Ok(nodes
                    .iter()
                    .all(|node| served.get(node) == Some(&published(OLD.driver)))
                    .then_some(()))
            })
            .await?;
        }
        Ok(nodes)
    }

    /// Adds nodes from `gpu-<from>` until there are `nodes`, each with driver and serving plugin.
    pub(crate) async fn grow(&self, from: usize, nodes: usize) -> Result<()> {
        let begin = Instant::now();
        // The details of their start do not matter.
        self.rewrite(|script| {
            script.driver_manager = false;
            script.driver = (0, 1);
        })?;
        let names = self.add_gpu_nodes_at_once(from..nodes).await?;
        self.await_served(nodes).await?;
        self.await_policy("ready").await?;
        self.await_validated(&names, GROWN).await?;
        eprintln!("{nodes} nodes after {:.1?}", begin.elapsed());
        Ok(())
    }

    /// Adds nodes with these numbers, several at the same time, and returns their names.
    pub(crate) async fn add_gpu_nodes_at_once(&self, numbers: Range<usize>) -> Result<Vec<String>> {
        let names: Vec<String> = numbers.map(|index| format!("gpu-{index}")).collect();
        stream::iter(&names)
            .map(|name| kwok::add_gpu_node(&self.client, name))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        Ok(names)
    }

    /// Waits until the plugins of this number of nodes serve.
    pub(crate) async fn await_served(&self, nodes: usize) -> Result<()> {
        until("every plugin to serve", GROWN, async || {
            Ok((self.served().await?.len() == nodes).then_some(()))
        })
        .await
    }

    /// Waits until the validator of each of these nodes is ready, and with it all that the operator
    /// runs there, and the GPUs are offered. Up to v26.3 the ClusterPolicy may be ready before
    /// that.
    pub(crate) async fn await_validated(&self, names: &[String], limit: Duration) -> Result<()> {
        until("every node to be validated", limit, async || {
            let validators =
                self.pods_by_node(OPERATOR_NAMESPACE, "app=nvidia-operator-validator").await?;
            let offers = self.offers().await?;
            let validated = |node: &String| {
                validators.get(node).is_some_and(is_ready)
                    && offers.get(node).is_some_and(|gpus| *gpus > 0)
            };
            Ok(names.iter().all(validated).then_some(()))
        })
        .await
    }

    /// Returns the offered GPUs of each node that has ever offered GPUs.
    pub(crate) async fn offers(&self) -> Result<BTreeMap<String, u32>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(nodes.iter().filter_map(|node| Some((node.name_any(), offered(node)?))).collect())
    }

    /// Makes nodes offer GPUs without NVIDIA's pods.
    pub(crate) async fn offer(&self, nodes: &[String], gpus: u32) -> Result<()> {
        let gpus = json!({GPU: gpus.to_string()});
        let patch = Patch::Merge(json!({"status": {"capacity": gpus, "allocatable": gpus}}));
        for node in nodes {
            Api::<Node>::all(self.client.clone())
                .patch_status(node, &PatchParams::default(), &patch)
                .await?;
        }
        Ok(())
    }

    /// Ends the operator's container. Its kubelet starts it again at once.
    pub(crate) async fn restart_operator(&self) -> Result<()> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let pod = pods
            .list(&ListParams::default().labels("app=gpu-operator"))
            .await?
            .items
            .pop()
            .context("the operator's pod")?;
        let mut status = pod
            .status
            .clone()
            .and_then(|status| status.container_statuses?.pop())
            .context("its container")?;
        status.restart_count += 1;
        status.container_id = Some(format!(
            "containerd://{}-{}",
            pod.uid().unwrap_or_default(),
            status.restart_count
        ));
        let patch = Patch::Merge(json!({"status": {"containerStatuses": [status]}}));
        pods.patch_status(&pod.name_any(), &PatchParams::default(), &patch).await?;
        Ok(())
    }

    /// Waits until the ClusterPolicy has this status.
    pub(crate) async fn await_policy(&self, state: &str) -> Result<()> {
        let policies = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_policy_kind());
        until(&format!("the ClusterPolicy to be {state}"), LIMIT, async || {
            let policy = policies.get_opt("cluster-policy").await?;
            Ok(policy.filter(|policy| policy.data["status"]["state"] == state).map(drop))
        })
        .await
    }

    /// Waits until each of these nodes runs this driver, ready. The ClusterPolicy's status tells
    /// less: it is ready between two nodes as well.
    pub(crate) async fn await_drivers(&self, names: &[String], version: &str) -> Result<()> {
        until(&format!("every node to run driver {version}"), LIMIT, async || {
            let drivers = self.drivers().await?;
            let is_current =
                |pod: &Pod| is_ready(pod) && driver_version(first_image(pod)) == version;
            let runs = |node: &String| drivers.get(node).is_some_and(is_current);
            Ok(names.iter().all(runs).then_some(()))
        })
        .await
    }

    /// Changes the driver version by hand, as a user does. Returns when the operator has observed
    /// it.
    pub(crate) async fn set_driver(&self, version: &str) -> Result<()> {
        let policies = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_policy_kind());
        let patch = Patch::Merge(json!({"spec": {"driver": {"version": version}}}));
        policies.patch("cluster-policy", &PatchParams::default(), &patch).await?;
        self.await_policy("notReady").await
    }

    /// Returns the driver version that is published for each node.
    pub(crate) async fn served(&self) -> Result<BTreeMap<String, String>> {
        let slices = Api::<DynamicObject>::all_with(self.client.clone(), &resource_slice_kind());
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let served = |slice: DynamicObject| {
            let spec = &slice.data["spec"];
            let version = text(&spec["devices"][0]["attributes"]["driverVersion"]["version"]);
            (spec["driver"] == GPU_DRIVER).then(|| (text(&spec["nodeName"]), version))
        };
        Ok(slices.list(&ListParams::default()).await?.into_iter().filter_map(served).collect())
    }

    /// Returns the plugin pod of each node.
    pub(crate) async fn plugins(&self) -> Result<BTreeMap<String, Plugin>> {
        let labels = "nvidia-dra-driver-gpu-component=kubelet-plugin";
        let plugin =
            |pod: &Pod| Plugin { uid: pod.uid().unwrap_or_default(), name: pod.name_any() };
        Ok(self
            .pods_by_node(DRA_NAMESPACE, labels)
            .await?
            .iter()
            .map(|(node, pod)| (node.clone(), plugin(pod)))
            .collect())
    }

    /// Returns the driver pod of each node.
    pub(crate) async fn drivers(&self) -> Result<BTreeMap<String, Pod>> {
        self.pods_by_node(OPERATOR_NAMESPACE, "app.kubernetes.io/component=nvidia-driver").await
    }

    /// Returns the pod with these labels on each node.
    pub(crate) async fn pods_by_node(
        &self,
        namespace: &str,
        labels: &str,
    ) -> Result<BTreeMap<String, Pod>> {
        let pods = Api::<Pod>::namespaced(self.client.clone(), namespace)
            .list(&ListParams::default().labels(labels))
            .await?;
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        Ok(pods.into_iter().filter_map(|pod| Some((node(&pod)?, pod))).collect())
    }

    /// Returns since when kwok reports a pod as ready, with microseconds, which pod statuses do not
    /// have.
    fn ready_at(&self, pod: &Pod) -> Result<Timestamp> {
        self.ready_times([pod])?.pop().context("one time")
    }

    /// The same for many pods, in their order. kwok may repeat a write that it has not yet
    /// observed.
    pub(crate) fn ready_times<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p Pod>,
    ) -> Result<Vec<Timestamp>> {
        let mut requests = self.audit.by_user("admin")?;
        // The log has them in the order of their answers, in which one may overtake another.
        requests.sort_by_key(|request| request.time);
        let mut since = HashMap::new();
        for request in requests.into_iter().filter(|request| request.code == 200) {
            match request.makes_ready {
                Some(true) => _ = since.entry(request.name).or_insert(request.time),
                Some(false) => _ = since.remove(&request.name),
                None => {}
            }
        }
        let time = |pod: &Pod| {
            let name = pod.name_any();
            ensure!(is_ready(pod), "{name} is not ready");
            since.get(&name).copied().with_context(|| format!("no request made {name} ready"))
        };
        pods.into_iter().map(time).collect()
    }

    /// Checks that every plugin of `before` was replaced exactly once and by these hooks, after the
    /// new driver of *its* node had become ready; that the replacements serve the new driver; and
    /// that all of it was over at `end`.
    pub(crate) async fn check_rerolled(
        &self,
        before: &BTreeMap<String, Plugin>,
        hooks: &[HookRelease<'_>],
        end: Timestamp,
    ) -> Result<()> {
        self.check_rerolled_since(Timestamp::MIN, before, hooks, end).await
    }

    /// The same, for requests since a time.
    pub(crate) async fn check_rerolled_since(
        &self,
        begin: Timestamp,
        before: &BTreeMap<String, Plugin>,
        hooks: &[HookRelease<'_>],
        end: Timestamp,
    ) -> Result<()> {
        let mut deleted = Vec::new();
        for hook in hooks {
            deleted.extend(hook.deleted_pods()?);
        }
        // In mode `drive`, the hook also deletes driver pods, which are in the operator's
        // namespace.
        deleted.retain(|request| request.namespace == DRA_NAMESPACE && request.time >= begin);
        let (after, drivers, served) =
            (self.plugins().await?, self.drivers().await?, self.served().await?);
        for (node, old) in before {
            let driver = drivers.get(node).with_context(|| format!("no driver on {node}"))?;
            let image = first_image(driver);
            ensure!(driver_version(image) == NEW.driver, "{node} runs {image}");
            let [deletion] =
                deleted.iter().filter(|request| request.name == old.name).collect::<Vec<_>>()[..]
            else {
                bail!("{} of {node} was not deleted exactly once: {deleted:#?}", old.name);
            };
            let ready = self.ready_at(driver)?;
            ensure!(
                deletion.time > ready,
                "{node}: plugin deleted at {}, driver ready only at {ready}",
                deletion.time
            );
            ensure!(deletion.time < end, "{node}: plugin deleted after Helm had returned");
            ensure!(
                after.get(node).is_some_and(|new| new.uid != old.uid),
                "the plugin of {node} was not replaced"
            );
            ensure!(
                served.get(node) == Some(&published(NEW.driver)),
                "{node} serves {:?}",
                served.get(node)
            );
        }
        ensure!(deleted.len() == before.len(), "not one pod per node was deleted: {deleted:#?}");
        Ok(())
    }
}

/// Returns the image of a pod's first container. Empty: it has none.
pub(crate) fn first_image(pod: &Pod) -> &str {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    image.unwrap_or_default()
}
