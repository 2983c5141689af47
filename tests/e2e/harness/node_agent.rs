//! A node that runs pods for real. It implements the parts of a kubelet that a hook Job's pod
//! needs. A pod's container runs under bubblewrap: non-root, without capabilities, on a read-only
//! root that contains only its image. The agent refuses pods that a kubelet would refuse, and
//! unsupported pods, with the reason in the pod's status.

mod image;
mod log_server;
mod node;
mod pod_worker;
mod sandbox;
mod specification;
mod status;
mod toolkit;
mod volumes;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::{DeleteParams, ListParams};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

use image::PulledImages;
pub(crate) use image::{HOOK_REPOSITORY, PREVIOUS_TAG, SHELL_IMAGE, hook_layout, previous};
use pod_worker::Deletion;
pub(crate) use toolkit::DRIVER_VERSION;

use super::control_plane::ControlPlane;
use super::kwok::REAL;
use super::wait::until;

/// The state that the agent and the workers of its pods share.
struct Shared {
    client: Client,
    node: String,
    api_port: u16,
    directory: PathBuf,
    /// If set, the agent runs only pods with this annotation.
    only: Option<&'static str>,
    images: PulledImages,
    /// Host process ids of the containers that run now, by `namespace/pod`.
    running: Mutex<HashMap<String, u32>>,
}

/// A worker node. Dropping it acts as a power cut.
pub(crate) struct NodeAgent {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

impl NodeAgent {
    /// Registers the node, and starts to run the pods bound to it.
    pub(crate) async fn start(
        directory: &Path,
        control_plane: &ControlPlane,
        node: &str,
    ) -> Result<Self> {
        let shared = Shared::new(directory, control_plane, node, None)?;
        let ((listener, port), acceptor) = (log_server::listen().await?, log_server::acceptor()?);
        node::register(&shared, port).await.with_context(|| format!("registering {node}"))?;
        let served = Arc::clone(&shared);
        let task = tokio::task::spawn_local(async move {
            tokio::join!(run(Arc::clone(&served)), log_server::serve(served, listener, acceptor));
        });
        Ok(Self { shared, task })
    }

    /// Joins a kwok node, and runs the pods there that have the annotation [`REAL`]. kwok keeps the
    /// node alive.
    pub(crate) fn join(directory: &Path, control_plane: &ControlPlane, node: &str) -> Result<Self> {
        let shared = Shared::new(directory, control_plane, node, Some(REAL))?;
        let task = tokio::task::spawn_local(run(Arc::clone(&shared)));
        Ok(Self { shared, task })
    }

    /// The node's name.
    pub(crate) fn name(&self) -> &str {
        &self.shared.node
    }

    /// Sends a signal (`KILL`, `TERM`) to the first process of a pod's container.
    pub(crate) async fn signal(&self, namespace: &str, pod: &str, signal: &str) -> Result<()> {
        let process = self.shared.running().get(&format!("{namespace}/{pod}")).copied();
        sandbox::signal(
            process.with_context(|| {
                format!("no container of {namespace}/{pod} runs on {}", self.name())
            })?,
            signal,
        )
        .await
    }

    /// Returns the log of a pod's container.
    pub(crate) fn logs(&self, namespace: &str, pod: &str) -> Result<String> {
        let path = self.shared.log(namespace, pod);
        std::fs::read_to_string(&path).with_context(|| format!("reading {}", path.display()))
    }

    /// Returns the logs of all containers of the node. Needs no API server.
    pub(crate) fn all_logs(&self) -> Result<String> {
        let mut all = String::new();
        for entry in std::fs::read_dir(&self.shared.directory)? {
            let path = entry?.path();
            if path.extension().is_some_and(|extension| extension == "log") {
                all += &std::fs::read_to_string(path)?;
            }
        }
        Ok(all)
    }

    /// Cuts the power of the node: all its processes end, and the API server is not notified.
    pub(crate) async fn cut_power(&self) -> Result<()> {
        self.task.abort();
        let processes: Vec<u32> = self.shared.running().values().copied().collect();
        until("the processes of a dead node to be gone", Duration::from_secs(20), async || {
            Ok(processes
                .iter()
                .all(|process| !Path::new(&format!("/proc/{process}")).exists())
                .then_some(()))
        })
        .await
    }

    /// Removes the node permanently: cuts its power, and deletes its Node object and its pods. The
    /// pod garbage collector would delete the pods after 40 s.
    pub(crate) async fn lose(&self) -> Result<()> {
        self.cut_power().await?;
        Api::<Node>::all(self.shared.client.clone())
            .delete(self.name(), &DeleteParams::default())
            .await?;
        let on_node = ListParams::default().fields(&format!("spec.nodeName={}", self.name()));
        for pod in Api::<Pod>::all(self.shared.client.clone()).list(&on_node).await? {
            let pods = Api::<Pod>::namespaced(
                self.shared.client.clone(),
                &pod.namespace().unwrap_or_default(),
            );
            pods.delete(&pod.name_any(), &DeleteParams::default().grace_period(0)).await?;
        }
        Ok(())
    }
}

impl Drop for NodeAgent {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Shared {
    fn new(
        directory: &Path,
        control_plane: &ControlPlane,
        node: &str,
        only: Option<&'static str>,
    ) -> Result<Arc<Self>> {
        let directory = directory.join("nodes").join(node);
        std::fs::create_dir_all(&directory)?;
        Ok(Arc::new(Self {
            client: control_plane.client.clone(),
            node: node.to_owned(),
            api_port: control_plane.port,
            directory,
            only,
            images: PulledImages::default(),
            running: Mutex::default(),
        }))
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<String, u32>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, namespace: &str, pod: &str) -> PathBuf {
        self.directory.join(format!("{namespace}_{pod}.log"))
    }
}

/// Renews the node's Lease, and starts a worker for each pod of the node.
async fn run(shared: Arc<Shared>) {
    let mut workers = JoinSet::new();
    if shared.only.is_none() {
        workers.spawn_local(node::keep_lease(Arc::clone(&shared)));
    }
    let mut deletions: HashMap<String, watch::Sender<Option<Deletion>>> = HashMap::new();
    let on_node = watcher::Config::default().fields(&format!("spec.nodeName={}", shared.node));
    let mut events = std::pin::pin!(watcher(Api::<Pod>::all(shared.client.clone()), on_node));
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Apply(pod) | Event::InitApply(pod)) => {
                if shared.only.is_some_and(|mark| !pod.annotations().contains_key(mark)) {
                    continue;
                }
                let uid = pod.uid().unwrap_or_default();
                let deletion = Deletion::asked_for(&pod);
                let sender = deletions.entry(uid).or_insert_with(|| {
                    let (sender, receiver) = watch::channel(None);
                    workers.spawn_local(pod_worker::run(Arc::clone(&shared), pod, receiver));
                    sender
                });
                sender.send_replace(deletion);
            }
            Ok(Event::Delete(pod)) => {
                if let Some(sender) = deletions.remove(&pod.uid().unwrap_or_default()) {
                    sender.send_replace(Some(Deletion::GONE));
                }
            }
            Ok(Event::Init | Event::InitDone) => {}
            // If the API server is unreachable, the watch restarts.
            Err(_) => tokio::time::sleep(Duration::from_millis(200)).await,
        }
    }
}
