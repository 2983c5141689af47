//! The DRA driver's kubelet plugins: each publishes the devices of its node, with the driver version that was loaded when it started.

use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache::Cache;
use super::kubelets::is_ready;

/// The value of the annotation `hold` of plugin pods.
pub(super) const PLUGIN: &str = "dra-plugin";
/// The annotation with the driver version that a plugin found at its start.
pub(super) const SERVES: &str = "stand-in.gpu-rollout.dev/serves";
/// Present once a plugin has published.
const PUBLISHED: &str = "stand-in.gpu-rollout.dev/published";
/// Publishes the GPUs, with the version of the driver.
pub(crate) const GPU_DRIVER: &str = "gpu.nvidia.com";

/// The kind ResourceSlice.
pub(crate) fn resource_slice_kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("resource.k8s.io", "v1", "ResourceSlice"), "resourceslices")
}

/// Starts the plugins.
pub(super) fn start(client: &Client, tasks: &mut JoinSet<()>) {
    let changed = Arc::new(Notify::new());
    let pods: Cache<Pod> = Cache::start(Api::all(client.clone()), (), Config::default(), &changed, tasks);
    let client = client.clone();
    tasks.spawn_local(async move {
        loop {
            changed.notified().await;
            for pod in pods.all() {
                if let Err(error) = publish(&client, &pod).await {
                    eprintln!("stand-in DRA driver: {error:#}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    changed.notify_one();
                }
            }
        }
    });
}

/// Publishes once, when the plugin is ready.
async fn publish(client: &Client, pod: &Pod) -> Result<()> {
    let annotations = pod.annotations();
    let (Some(version), None) = (annotations.get(SERVES), annotations.get(PUBLISHED)) else { return Ok(()) };
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { return Ok(()) };
    if !is_ready(pod) || pod.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str());
    for driver in containers.filter_map(driver_of) {
        write_slice(client, node, driver, version).await?;
    }
    let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"uid": pod.uid(), "annotations": {PUBLISHED: "true"}}});
    match pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // It was deleted meanwhile.
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The DRA driver that a container of the plugin is.
fn driver_of(container: &str) -> Option<&'static str> {
    match container {
        "gpus" => Some(GPU_DRIVER),
        "compute-domains" => Some("compute-domain.nvidia.com"),
        _ => None,
    }
}

async fn write_slice(client: &Client, node: &str, driver: &str, version: &str) -> Result<()> {
    let slices = Api::<DynamicObject>::all_with(client.clone(), &resource_slice_kind());
    let name = format!("{node}-{driver}");
    let Some(live) = slices.get_opt(&name).await? else {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        let object = DynamicObject { types: None, metadata, data: json!({"spec": slice(node, driver, version, 1)}) };
        slices.create(&PostParams::default(), &object).await?;
        return Ok(());
    };
    let generation = live.data.pointer("/spec/pool/generation").and_then(Value::as_i64).unwrap_or(0) + 1;
    let patch = json!({"spec": slice(node, driver, version, generation)});
    slices.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

fn slice(node: &str, driver: &str, version: &str, generation: i64) -> Value {
    let gpu = |index: usize| {
        json!({"name": format!("gpu-{index}"), "attributes": {
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA GB200"},
            "driverVersion": {"version": published(version)},
        }})
    };
    let part = |name: &str| json!({"name": format!("{name}-0"), "attributes": {"type": {"string": name}, "id": {"int": 0}}});
    let devices = if driver == GPU_DRIVER { [gpu(0), gpu(1)] } else { [part("daemon"), part("channel")] };
    json!({
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": devices,
    })
}

/// A driver version as a version attribute: leading zeros are dropped (`535.104.05` is published as `535.104.5`).
pub(crate) fn published(version: &str) -> String {
    let plain = |number: &str| number.parse::<u64>().map_or_else(|_| number.to_owned(), |number| number.to_string());
    version.split('.').map(plain).collect::<Vec<_>>().join(".")
}
