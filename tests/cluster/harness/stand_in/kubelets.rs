//! What the kubelets of GPU nodes and the init containers of NVIDIA's pods do: who starts when, and what fails.
//!
//! Pods of the operands and of the DRA driver carry the annotation `hold` until this lets them go; kwok does the rest.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Map, Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache::Cache;
use super::dra;
use super::network_operator::NETWORK_DRIVER;
use super::operator::driver_version;
use super::script::{Fault, Script};

const HOLD: &str = "stand-in.gpu-rollout.dev/hold";
const READY_AFTER: &str = "stand-in.gpu-rollout.dev/ready-after";
const NEVER_READY: &str = "stand-in.gpu-rollout.dev/never-ready";
/// On a network driver pod: the version of its node with which it has asked.
const ASKED: &str = "stand-in.gpu-rollout.dev/asked";
/// On a node: its network driver pod waits until it may load the driver (network-operator's init container).
pub(crate) const SAFE_LOAD: &str = "nvidia.com/ofed-driver-upgrade.driver-wait-for-safe-load";
const DRIVER: &str = "nvidia-driver-daemonset";
const TOOLKIT: &str = "nvidia-container-toolkit-daemonset";
const VALIDATOR: &str = "nvidia-operator-validator";
/// Written by the driver manager into the labels that let operands run on a node.
const PAUSED: &str = "paused-for-driver-upgrade";
const PAUSED_LABELS: [&str; 2] = ["nvidia.com/gpu.deploy.container-toolkit", "nvidia.com/gpu.deploy.operator-validator"];
/// How often a pod in a crash loop is restarted: some seconds to minutes for a real kubelet.
const CRASH_PERIOD: Duration = Duration::from_millis(500);
/// After so many restarts a container is waited for by its kubelet longer than any scenario lasts.
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
        loop {
            tokio::time::timeout(CRASH_PERIOD, changed.notified()).await.ok();
            if let Err(error) = kubelets.look().await {
                eprintln!("stand-in kubelets: {error:#}");
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
        }
    });
}

struct Kubelets {
    client: Client,
    script: Arc<Mutex<Script>>,
    pods: Cache<Pod>,
    nodes: Cache<Node>,
}

impl Kubelets {
    async fn look(&self) -> Result<()> {
        let script = self.script.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let pods = self.pods.all();
        for pod in &pods {
            let Some(node) = node_of(pod) else { continue };
            if pod.metadata.deletion_timestamp.is_some() {
                continue;
            }
            match pod.annotations().get(HOLD).map(String::as_str) {
                Some(DRIVER) => self.start_driver(pod, node, &pods, &script).await?,
                Some(NETWORK_DRIVER) => self.start_network_driver(pod, node, &script).await?,
                Some(TOOLKIT) if loaded_driver(&pods, node).is_some() => self.release(pod, json!({})).await?,
                Some(VALIDATOR) if loaded_driver(&pods, node).is_some() && toolkit_is_ready(&pods, node) => {
                    self.release(pod, json!({READY_AFTER: "1200ms"})).await?;
                }
                Some(dra::PLUGIN) => {
                    if let Some(version) = loaded_driver(&pods, node) {
                        self.release(pod, json!({dra::SERVES: version})).await?;
                    }
                }
                None if app(pod) == DRIVER => {
                    self.label_operands(node, PAUSED, "true").await?;
                    self.crash(pod, script.faults.get(node)).await?;
                }
                None if pod.labels().contains_key(NETWORK_DRIVER) => self.crash(pod, script.network_faults.get(node)).await?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The driver manager first sends the other operands away, then the driver is installed.
    async fn start_driver(&self, pod: &Pod, node: &str, pods: &[Arc<Pod>], script: &Script) -> Result<()> {
        let others = |pod: &Arc<Pod>| node_of(pod) == Some(node) && matches!(app(pod), TOOLKIT | VALIDATOR);
        if script.driver_manager && pods.iter().any(others) {
            return self.label_operands(node, "true", PAUSED).await;
        }
        let time = script.time(script.driver, &format!("driver {node}"));
        let mut annotations = json!({READY_AFTER: format!("{}ms", time.as_millis())});
        if script.faults.contains_key(node) {
            annotations[NEVER_READY] = "true".into();
        }
        self.release(pod, annotations).await
    }

    /// With `safeLoad` the init container first asks for the node, and waits until it has it.
    async fn start_network_driver(&self, pod: &Pod, node: &str, script: &Script) -> Result<()> {
        if script.safe_load.contains(node) {
            let Some(live) = self.nodes.all().into_iter().find(|live| live.name_any() == node) else { return Ok(()) };
            let version = |version: Option<String>| version.and_then(|version| version.parse::<u64>().ok());
            let Some(asked) = version(pod.annotations().get(ASKED).cloned()) else {
                let patch = Patch::Merge(json!({"metadata": {"annotations": {SAFE_LOAD: "true"}}}));
                let asked = Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &patch).await?;
                return self.patch(pod, &json!({"metadata": {"annotations": {ASKED: asked.resource_version()}}}), false).await;
            };
            let waits = live.annotations().get(SAFE_LOAD).is_some_and(|value| !value.is_empty());
            // What is known of the node may be older than the question.
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

    /// Changes the labels that let operands run on a node; other values than `from` are somebody's wish and stay.
    async fn label_operands(&self, node: &str, from: &str, to: &str) -> Result<()> {
        let Some(live) = self.nodes.all().into_iter().find(|live| live.name_any() == node) else { return Ok(()) };
        let differs = |label: &&str| live.labels().get(*label).is_some_and(|live| live == from);
        let labels: Map<String, Value> =
            PAUSED_LABELS.into_iter().filter(differs).map(|label| (label.to_owned(), Value::from(to))).collect();
        if !labels.is_empty() {
            let patch = json!({"metadata": {"labels": labels}});
            Api::<Node>::all(self.client.clone()).patch(node, &PatchParams::default(), &Patch::Merge(patch)).await?;
        }
        Ok(())
    }

    /// Takes the hold away and says how the pod goes on.
    async fn release(&self, pod: &Pod, mut annotations: Value) -> Result<()> {
        annotations[HOLD] = Value::Null;
        self.patch(pod, &json!({"metadata": {"annotations": annotations}}), false).await
    }

    /// Restarts the driver container of a node that is to crash.
    async fn crash(&self, pod: &Pod, fault: Option<&Fault>) -> Result<()> {
        let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_deref()).unwrap_or_default();
        let Some(container) = statuses.first() else { return Ok(()) };
        if fault != Some(&Fault::CrashLoop) || container.ready || container.restart_count >= MOST_CRASHES {
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
        let pods = Api::<Pod>::namespaced(self.client.clone(), &pod.namespace().unwrap_or_default());
        let (name, parameters) = (pod.name_any(), PatchParams::default());
        let patched = if status {
            pods.patch_status(&name, &parameters, &Patch::Merge(patch)).await
        } else {
            pods.patch(&name, &parameters, &Patch::Merge(patch)).await
        };
        match patched {
            Ok(_) => Ok(()),
            // Seen too late: the pod is gone.
            Err(kube::Error::Api(error)) if error.code == 404 => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// The version of the driver that works on a node.
fn loaded_driver<'a>(pods: &'a [Arc<Pod>], node: &str) -> Option<&'a str> {
    let driver = pods.iter().find(|pod| node_of(pod) == Some(node) && app(pod) == DRIVER && is_ready(pod))?;
    Some(driver_version(driver.spec.as_ref()?.containers.first()?.image.as_deref()?))
}

fn toolkit_is_ready(pods: &[Arc<Pod>], node: &str) -> bool {
    pods.iter().filter(|pod| node_of(pod) == Some(node) && app(pod) == TOOLKIT).all(|pod| is_ready(pod))
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
