//! The kubelets of GPU nodes and the init containers of NVIDIA's pods: the order of starts, and
//! failures. Pods of the operands and of the DRA driver have the annotation `hold` until this
//! module removes it. kwok does the rest.

mod devices;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use futures::{StreamExt, TryStreamExt, stream};
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache::{Cache, pause_after};
use super::dra;
use super::network_operator::NETWORK_DRIVER;
use super::operator::{Operand, PLUGIN_VALIDATION, VALIDATES_TOOLKIT, driver_version};
use super::script::{Fault, Script};

pub(crate) use devices::{GPU, offered};

const HOLD: &str = "stand-in.gpu-rollout.dev/hold";
const READY_AFTER: &str = "stand-in.gpu-rollout.dev/ready-after";
const DELETE_AFTER: &str = "stand-in.gpu-rollout.dev/delete-after";
const NEVER_READY: &str = "stand-in.gpu-rollout.dev/never-ready";
/// Annotation of a network driver pod: the version of the node at its request.
const ASKED: &str = "stand-in.gpu-rollout.dev/asked";
/// Annotation of a node: its network driver pod waits until it may load the driver
/// (network-operator's init container).
pub(crate) const SAFE_LOAD: &str = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load";
/// Annotation of a validator pod: it has validated the container toolkit, and the waiting operands
/// start (the file `toolkit-ready`).
const TOOLKIT_VALIDATED: &str = "stand-in.gpu-rollout.dev/toolkit-validated";
/// The value of the annotation `hold` of the operator's own pods.
const OPERATOR: &str = "gpu-operator";
/// The value that the driver manager writes into the deploy labels of a node.
const PAUSED: &str = "paused-for-driver-upgrade";
/// The restart interval of a pod in a crash loop. With a real kubelet it is seconds to minutes.
const CRASH_PERIOD: Duration = Duration::from_millis(500);
/// The number of kubelets that write at the same time.
const AT_ONCE: usize = 16;
/// The number of restarts after which the back-off is longer than any scenario.
const MOST_CRASHES: i32 = 15;

/// Starts the kubelets.
pub(super) fn start(client: &Client, script: &Arc<Mutex<Script>>, tasks: &mut JoinSet<()>) {
    let changed = Arc::new(Notify::new());
    let kubelets = Kubelets {
        client: client.clone(),
        script: Arc::clone(script),
        pods: Cache::start(Api::all(client.clone()), (), Config::default(), &changed, tasks),
        nodes: Cache::start(Api::all(client.clone()), (), Config::default(), &changed, tasks),
    };
    tasks.spawn_local(async move {
        let offers = devices::Offers::default();
        loop {
            tokio::time::timeout(CRASH_PERIOD, changed.notified()).await.ok();
            if let Err(error) = kubelets.look(&offers).await {
                eprintln!("stand-in kubelets: {error:#}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            pause_after(kubelets.pods.len()).await;
        }
    });
}

struct Kubelets {
    client: Client,
    script: Arc<Mutex<Script>>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
}

/// A node and the pods on it.
#[derive(Default)]
struct Host<'a> {
    live: Option<&'a Node>,
    pods: Vec<&'a Pod>,
}

impl Host<'_> {
    /// Returns the operand's pods that are not being deleted.
    fn of(&self, operand: Operand) -> impl Iterator<Item = &Pod> {
        self.pods.iter().copied().filter(move |pod| {
            app(pod) == operand.name() && pod.metadata.deletion_timestamp.is_none()
        })
    }

    /// Returns the version of the ready driver on the node.
    fn driver(&self) -> Option<&str> {
        let driver =
            self.pods.iter().find(|pod| app(pod) == Operand::Driver.name() && is_ready(pod))?;
        Some(driver_version(driver.spec.as_ref()?.containers.first()?.image.as_deref()?))
    }

    /// Whether a validator has validated the container toolkit, and has not been removed since.
    fn toolkit_is_validated(&self) -> bool {
        self.of(Operand::Validator).any(|pod| pod.annotations().contains_key(TOOLKIT_VALIDATED))
    }
}

impl Kubelets {
    async fn look(&self, offers: &devices::Offers) -> Result<()> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let (pods, nodes) = (self.pods.all(), self.nodes.all());
        let mut hosts: BTreeMap<String, Host<'_>> = BTreeMap::new();
        for node in &nodes {
            hosts.entry(node.name_any()).or_default().live = Some(node);
        }
        for pod in &pods {
            if let Some(node) = node_of(pod) {
                hosts.entry(node.to_owned()).or_default().pods.push(pod);
            }
        }
        let script = &script;
        let looks = hosts.iter().map(|(node, host)| async move {
            for pod in host.pods.iter().filter(|pod| pod.metadata.deletion_timestamp.is_none()) {
                self.look_at(pod, node, host, script).await?;
            }
            offers.update(&self.client, node, host, script).await
        });
        stream::iter(looks).buffer_unordered(AT_ONCE).try_collect().await
    }

    async fn look_at(&self, pod: &Pod, node: &str, host: &Host<'_>, script: &Script) -> Result<()> {
        let hold = pod.annotations().get(HOLD).map(String::as_str);
        match hold {
            Some(NETWORK_DRIVER) => self.start_network_driver(pod, node, script).await,
            Some(OPERATOR) => {
                let time = script.time(script.operator, &format!("operator {}", pod.name_any()));
                self.release(pod, json!({READY_AFTER: format!("{}ms", time.as_millis())})).await
            }
            Some(dra::PLUGIN) => match host.driver() {
                Some(version) => self.release(pod, json!({dra::SERVES: version})).await,
                None => Ok(()),
            },
            Some(hold) => match Operand::named(hold) {
                Some(operand) => self.start_operand(operand, pod, node, host, script).await,
                None => Ok(()),
            },
            None if pod.labels().contains_key(NETWORK_DRIVER) => {
                self.crash(pod, script.network_faults.get(node)).await
            }
            None => {
                let Some(operand) = Operand::named(app(pod)) else { return Ok(()) };
                if operand == Operand::Driver {
                    self.label_operands(node, host, PAUSED, "true").await?;
                }
                self.crash(pod, fault(operand, pod, node, script)).await
            }
        }
    }

    /// Starts an operand when its init containers have what they wait for. The order: driver,
    /// toolkit, the validator's check of the toolkit, device plugin, the validator's check of the
    /// GPUs.
    async fn start_operand(
        &self,
        operand: Operand,
        pod: &Pod,
        node: &str,
        host: &Host<'_>,
        script: &Script,
    ) -> Result<()> {
        let mut annotations = json!({});
        match operand {
            Operand::Driver => {
                let others = |pod: &&Pod| {
                    Operand::named(app(pod)).is_some_and(|operand| operand != Operand::Driver)
                };
                if script.driver_manager && host.pods.iter().any(others) {
                    // The driver manager first removes the other operands, then the driver is
                    // installed.
                    return self.label_operands(node, host, "true", PAUSED).await;
                }
                let time = script.time(script.driver, &format!("driver {node}"));
                annotations[READY_AFTER] = format!("{}ms", time.as_millis()).into();
                let end = script.time(script.driver_end, &format!("end of the driver {node}"));
                annotations[DELETE_AFTER] = format!("{}ms", end.as_millis()).into();
            }
            Operand::Toolkit if !script.host_driver && host.driver().is_none() => return Ok(()),
            Operand::Validator if !pod.annotations().contains_key(TOOLKIT_VALIDATED) => {
                let toolkit = !pod.annotations().contains_key(VALIDATES_TOOLKIT)
                    || host.of(Operand::Toolkit).any(is_ready);
                if !script.host_driver && host.driver().is_none() || !toolkit {
                    return Ok(());
                }
                let validated = json!({"metadata": {"annotations": {TOOLKIT_VALIDATED: "true"}}});
                return self.patch(pod, &validated, false).await;
            }
            Operand::Validator => {
                let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
                let waits_for_plugin =
                    init.into_iter().any(|container| container.name == PLUGIN_VALIDATION);
                if waits_for_plugin && host.live.is_none_or(|live| offered(live).unwrap_or(0) == 0)
                {
                    return Ok(());
                }
                annotations[READY_AFTER] = "1s".into();
            }
            Operand::DevicePlugin
            | Operand::Dcgm
            | Operand::DcgmExporter
            | Operand::FeatureDiscovery
                if !host.toolkit_is_validated() =>
            {
                return Ok(());
            }
            Operand::Toolkit
            | Operand::DevicePlugin
            | Operand::Dcgm
            | Operand::DcgmExporter
            | Operand::FeatureDiscovery => {}
        }
        if fault(operand, pod, node, script).is_some() {
            annotations[NEVER_READY] = "true".into();
        }
        self.release(pod, annotations).await
    }

    /// With `safeLoad`, the init container first requests the node, and waits until it may load.
    async fn start_network_driver(&self, pod: &Pod, node: &str, script: &Script) -> Result<()> {
        if script.safe_load.contains(node) {
            let Some(live) = self.nodes.all().into_iter().find(|live| live.name_any() == node)
            else {
                return Ok(());
            };
            let version =
                |version: Option<String>| version.and_then(|version| version.parse::<u64>().ok());
            let Some(asked) = version(pod.annotations().get(ASKED).cloned()) else {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {SAFE_LOAD: "true"}}}));
                let asked = Api::<Node>::all(self.client.clone())
                    .patch(node, &PatchParams::default(), &patch)
                    .await?;
                return self
                    .patch(
                        pod,
                        &json!({"metadata": {"annotations": {ASKED: asked.resource_version()}}}),
                        false,
                    )
                    .await;
            };
            let waits = live.annotations().get(SAFE_LOAD).is_some_and(|value| !value.is_empty());
            // The cached node may be older than the request.
            if waits || version(live.resource_version()).is_none_or(|seen| seen < asked) {
                return Ok(());
            }
        }
        let time = script.time(script.driver, &format!("network driver {node}"));
        let mut annotations = json!({READY_AFTER: format!("{}ms", time.as_millis())});
        if script.network_faults.contains_key(node) {
            annotations[NEVER_READY] = "true".into();
        }
        self.release(pod, annotations).await
    }

    /// Changes the deploy labels of a node. Values other than `from` were set by users, and stay.
    async fn label_operands(
        &self,
        node: &str,
        host: &Host<'_>,
        from: &str,
        to: &str,
    ) -> Result<()> {
        let Some(live) = host.live else { return Ok(()) };
        let others = Operand::ALL
            .into_iter()
            .filter(|operand| *operand != Operand::Driver)
            .map(Operand::deploy_label);
        let differs = |label: &&str| live.labels().get(*label).is_some_and(|live| live == from);
        let labels: Map<String, Value> =
            others.filter(differs).map(|label| (label.to_owned(), Value::from(to))).collect();
        if !labels.is_empty() {
            let patch = json!({"metadata": {"labels": labels}});
            Api::<Node>::all(self.client.clone())
                .patch(node, &PatchParams::default(), &Patch::Merge(patch))
                .await?;
        }
        Ok(())
    }

    /// Removes the hold, and sets how the pod continues.
    async fn release(&self, pod: &Pod, mut annotations: Value) -> Result<()> {
        annotations[HOLD] = Value::Null;
        self.patch(pod, &json!({"metadata": {"annotations": annotations}}), false).await
    }

    /// Restarts a crashing container.
    async fn crash(&self, pod: &Pod, fault: Option<&Fault>) -> Result<()> {
        let statuses = pod
            .status
            .as_ref()
            .and_then(|status| status.container_statuses.as_deref())
            .unwrap_or_default();
        let Some(container) = statuses.first() else { return Ok(()) };
        if fault != Some(&Fault::CrashLoop)
            || container.ready
            || container.restart_count >= MOST_CRASHES
        {
            return Ok(());
        }
        let count = container.restart_count + 1;
        let status = json!({"status": {"containerStatuses": [{
            "name": container.name, "image": container.image, "imageID": "", "ready": false, "started": false, "restartCount": count,
            "containerID": format!("containerd://{}-{count}", pod.uid().unwrap_or_default()),
            "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off restarting failed container"}},
        }]}});
        self.patch(pod, &status, true).await
    }

    async fn patch(&self, pod: &Pod, patch: &Value, status: bool) -> Result<()> {
        let pods =
            Api::<Pod>::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let (name, parameters) = (pod.name_any(), PatchParams::default());
        let patched = if status {
            pods.patch_status(&name, &parameters, &Patch::Merge(patch)).await
        } else {
            pods.patch(&name, &parameters, &Patch::Merge(patch)).await
        };
        match patched {
            Ok(_) => Ok(()),
            // The pod is already gone.
            Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Returns the fault of an operand on a node.
fn fault<'a>(operand: Operand, pod: &Pod, node: &str, script: &'a Script) -> Option<&'a Fault> {
    if operand == Operand::Driver {
        let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
        let version = container.and_then(|container| container.image.as_deref());
        let version = version.map(driver_version);
        let is_bad = script.bad_driver.is_some() && version == script.bad_driver;
        return script.faults.get(node).or_else(|| is_bad.then_some(&Fault::CrashLoop));
    }
    script.operand_faults.get(&(node.to_owned(), operand.name().to_owned()))
}

fn app(pod: &Pod) -> &str {
    pod.labels().get("app").map_or("", String::as_str)
}

fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref())
}

/// Whether a pod's `Ready` condition is true.
pub(crate) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}
