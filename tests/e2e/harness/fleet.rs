//! A fleet as scenarios meet it: GPU nodes with the operator's and the DRA driver's pods, and what became of their plugins.

use std::collections::{BTreeMap, HashMap};
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
    /// The operator's values where the hook drives: the operator's own controller and its driver manager leave the nodes alone.
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
/// The release that they are upgraded to.
pub(crate) const NEW: Release = Release { chart: "v26.3.1", driver: "580.126.20" };
/// Where the DRA driver is installed.
pub(crate) const DRA_NAMESPACE: &str = "nvidia-dra-driver-gpu";
const LIMIT: Duration = Duration::from_mins(3);
/// For a thousand nodes, one after another as far as the controllers go.
const GROWN: Duration = Duration::from_mins(50);
/// Nodes that are added at once.
const AT_ONCE: usize = 25;

impl Release {
    /// The operator's values: as its chart has them, the driver pinned, all nodes but one at work.
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
    /// Nodes that offer their GPUs, and the operator and (unless `dra` is false) the DRA driver of the old release, everything ready.
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
            // After the operator, as in a bundle: what starts in the same second as its node's driver or toolkit counts as stale.
            // NVIDIA's chart publishes no GPUs without the second of them.
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

    /// Nodes `gpu-<from>` up to so many of them in all, each with driver and serving plugin.
    pub(crate) async fn grow(&self, from: usize, nodes: usize) -> Result<()> {
        let begin = Instant::now();
        // Nothing about how they come up matters to anybody.
        self.rewrite(|script| {
            script.driver_manager = false;
            script.driver = (0, 1);
        })?;
        let names: Vec<String> = (from..nodes).map(|index| format!("gpu-{index}")).collect();
        stream::iter(&names)
            .map(|name| kwok::add_gpu_node(&self.client, name))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
        until("every plugin to serve", GROWN, async || {
            Ok((self.served().await?.len() == nodes).then_some(()))
        })
        .await?;
        self.await_policy("ready").await?;
        self.await_validated(&names, GROWN).await?;
        eprintln!("{nodes} nodes after {:.1?}", begin.elapsed());
        Ok(())
    }

    /// Waits until the validator of each of these nodes is ready, and with it all that the operator runs there, and the GPUs are offered.
    /// Up to v26.3 the ClusterPolicy may be ready before that.
    async fn await_validated(&self, names: &[String], limit: Duration) -> Result<()> {
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

    /// The GPUs that each node offers which has ever offered some.
    pub(crate) async fn offers(&self) -> Result<BTreeMap<String, u32>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(nodes.iter().filter_map(|node| Some((node.name_any(), offered(node)?))).collect())
    }

    /// Nodes offer GPUs although nothing of NVIDIA's runs there.
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

    /// The operator's container ends, and its kubelet starts it again at once.
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

    /// Waits until the ClusterPolicy's status says so.
    pub(crate) async fn await_policy(&self, state: &str) -> Result<()> {
        let policies = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_policy_kind());
        until(&format!("the ClusterPolicy to be {state}"), LIMIT, async || {
            let policy = policies.get_opt("cluster-policy").await?;
            Ok(policy.filter(|policy| policy.data["status"]["state"] == state).map(drop))
        })
        .await
    }

    /// Waits until each of these nodes runs this driver, ready. The ClusterPolicy's status tells less: it is ready between two nodes as well.
    pub(crate) async fn await_drivers(&self, names: &[String], version: &str) -> Result<()> {
        until(&format!("every node to run driver {version}"), LIMIT, async || {
            let drivers = self.drivers().await?;
            let image = |pod: &Pod| {
                pod.spec
                    .as_ref()
                    .and_then(|spec| spec.containers.first()?.image.clone())
                    .unwrap_or_default()
            };
            let runs = |node: &String| {
                drivers
                    .get(node)
                    .is_some_and(|pod| is_ready(pod) && driver_version(&image(pod)) == version)
            };
            Ok(names.iter().all(runs).then_some(()))
        })
        .await
    }

    /// What somebody does who changes the driver's version by hand; returns when the operator has seen it.
    pub(crate) async fn set_driver(&self, version: &str) -> Result<()> {
        let policies = Api::<DynamicObject>::all_with(self.client.clone(), &cluster_policy_kind());
        let patch = Patch::Merge(json!({"spec": {"driver": {"version": version}}}));
        policies.patch("cluster-policy", &PatchParams::default(), &patch).await?;
        self.await_policy("notReady").await
    }

    /// The driver version that is published for each node.
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

    /// The plugin pod of each node.
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

    /// The driver pod of each node.
    pub(crate) async fn drivers(&self) -> Result<BTreeMap<String, Pod>> {
        self.pods_by_node(OPERATOR_NAMESPACE, "app.kubernetes.io/component=nvidia-driver").await
    }

    /// The pod of each node, of those with these labels.
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

    /// Since when kwok says that a pod is ready: to the microsecond, which pod statuses are not.
    fn ready_at(&self, pod: &Pod) -> Result<Timestamp> {
        self.ready_times([pod])?.pop().context("one time")
    }

    /// The same of many, in their order. kwok may say it again while it has not yet seen what it wrote.
    pub(crate) fn ready_times<'p>(
        &self,
        pods: impl IntoIterator<Item = &'p Pod>,
    ) -> Result<Vec<Timestamp>> {
        let mut since = HashMap::new();
        for request in
            self.audit.by_user("admin")?.into_iter().filter(|request| request.code == 200)
        {
            match request.makes_ready {
                Some(true) => _ = since.entry(request.name).or_insert(request.time),
                Some(false) => _ = since.remove(&request.name),
                None => {}
            }
        }
        let time = |pod: &Pod| {
            let name = pod.name_any();
            ensure!(is_ready(pod), "{name} is not ready");
            since.get(&name).copied().with_context(|| format!("nobody has made {name} ready"))
        };
        pods.into_iter().map(time).collect()
    }

    /// Checks that every plugin of `before` was replaced exactly once and by these hooks, after the new driver of *its* node had become
    /// ready; that the replacements serve the new driver; and that all of it was over at `end`.
    pub(crate) async fn check_rerolled(
        &self,
        before: &BTreeMap<String, Plugin>,
        hooks: &[HookRelease<'_>],
        end: Timestamp,
    ) -> Result<()> {
        self.check_rerolled_since(Timestamp::MIN, before, hooks, end).await
    }

    /// The same, of what was done since a moment.
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
        // Driver pods, where the hook drives, are in the operator's namespace.
        deleted.retain(|request| request.namespace == DRA_NAMESPACE && request.time >= begin);
        let (after, drivers, served) =
            (self.plugins().await?, self.drivers().await?, self.served().await?);
        for (node, old) in before {
            let driver = drivers.get(node).with_context(|| format!("no driver on {node}"))?;
            let image = driver
                .spec
                .as_ref()
                .and_then(|spec| spec.containers.first()?.image.as_deref())
                .unwrap_or_default();
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
                "{node} has a new plugin"
            );
            ensure!(
                served.get(node) == Some(&published(NEW.driver)),
                "{node} serves {:?}",
                served.get(node)
            );
        }
        ensure!(deleted.len() == before.len(), "pods were deleted once a node: {deleted:#?}");
        Ok(())
    }
}
