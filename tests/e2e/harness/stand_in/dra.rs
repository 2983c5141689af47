//! The DRA driver's kubelet plugins. Each publishes the devices of its node, with the driver
//! version that was loaded at its start.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, bail};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{
    ApiResource, DynamicObject, GroupVersionKind, ObjectMeta, Patch, PatchParams, PostParams,
};
use kube::runtime::watcher::Config;
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use super::cache::{Cache, pause_after};
use super::kubelets::is_ready;

/// The value of the annotation `hold` of plugin pods.
pub(super) const PLUGIN: &str = "dra-plugin";
/// The annotation with the driver version that a plugin found at its start.
pub(super) const SERVES: &str = "stand-in.gpu-rollout.dev/serves";
/// Present once a plugin has published.
const PUBLISHED: &str = "stand-in.gpu-rollout.dev/published";
/// Publishes the GPUs, with the version of the driver.
pub(crate) const GPU_DRIVER: &str = "gpu.nvidia.com";

const GROUP: &str = "resource.k8s.io";
/// The versions of its API, the newest first. Kubernetes 1.34 and later serve the first one,
/// earlier ones the last.
const VERSIONS: [&str; 3] = ["v1", "v1beta2", "v1beta1"];

/// The kind ResourceSlice.
pub(crate) fn resource_slice_kind() -> ApiResource {
    of_version(VERSIONS[0])
}

fn of_version(version: &str) -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk(GROUP, version, "ResourceSlice"),
        "resourceslices",
    )
}

/// Returns the kind in the newest version that the API server serves.
async fn served(client: &Client) -> Result<ApiResource> {
    for version in VERSIONS {
        match client.list_api_group_resources(&format!("{GROUP}/{version}")).await {
            Ok(_) => return Ok(of_version(version)),
            Err(kube::Error::Api(error)) if error.code == 404 => {}
            Err(error) => return Err(error.into()),
        }
    }
    bail!("the API server has no {GROUP}")
}

/// Starts the plugins.
pub(super) fn start(client: &Client, tasks: &mut JoinSet<()>) {
    let changed = Arc::new(Notify::new());
    let pods: Cache<Pod> =
        Cache::start(Api::all(client.clone()), (), Config::default(), &changed, tasks);
    let client = client.clone();
    tasks.spawn_local(async move {
        let mut kind = None;
        loop {
            changed.notified().await;
            for pod in pods.all() {
                if let Err(error) = publish(&client, &mut kind, &pod).await {
                    eprintln!("stand-in DRA driver: {error:#}");
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    changed.notify_one();
                }
            }
            pause_after(pods.len()).await;
        }
    });
}

/// Publishes once, when the plugin is ready. `kind`: the kind that the first plugin found.
async fn publish(client: &Client, kind: &mut Option<ApiResource>, pod: &Pod) -> Result<()> {
    let annotations = pod.annotations();
    let (Some(version), None) = (annotations.get(SERVES), annotations.get(PUBLISHED)) else {
        return Ok(());
    };
    let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else {
        return Ok(());
    };
    if !is_ready(pod) || pod.metadata.deletion_timestamp.is_some() {
        return Ok(());
    }
    let kind = match kind {
        Some(kind) => kind,
        None => kind.insert(served(client).await?),
    };
    let containers =
        pod.spec.iter().flat_map(|spec| &spec.containers).map(|container| container.name.as_str());
    for driver in containers.filter_map(driver_of) {
        write_slice(client, kind, node, driver, version).await?;
    }
    let pods = Api::<Pod>::namespaced(client.clone(), &pod.namespace().unwrap_or_default());
    let patch = json!({"metadata": {"uid": pod.uid(), "annotations": {PUBLISHED: "true"}}});
    match pods.patch(&pod.name_any(), &PatchParams::default(), &Patch::Merge(patch)).await {
        Ok(_) => Ok(()),
        // The pod was deleted in the meantime.
        Err(kube::Error::Api(error)) if matches!(error.code, 404 | 409) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// Returns the DRA driver of a plugin's container.
fn driver_of(container: &str) -> Option<&'static str> {
    match container {
        "gpus" => Some(GPU_DRIVER),
        "compute-domains" => Some("compute-domain.nvidia.com"),
        _ => None,
    }
}

async fn write_slice(
    client: &Client,
    kind: &ApiResource,
    node: &str,
    driver: &str,
    version: &str,
) -> Result<()> {
    let slices = Api::<DynamicObject>::all_with(client.clone(), kind);
    let is_first = kind.version == VERSIONS[2];
    let name = format!("{node}-{driver}");
    let Some(live) = slices.get_opt(&name).await? else {
        let metadata = ObjectMeta { name: Some(name), ..ObjectMeta::default() };
        let object = DynamicObject {
            types: None,
            metadata,
            data: json!({"spec": slice(node, driver, version, 1, is_first)}),
        };
        slices.create(&PostParams::default(), &object).await?;
        return Ok(());
    };
    let generation =
        live.data.pointer("/spec/pool/generation").and_then(Value::as_i64).unwrap_or(0) + 1;
    let patch = json!({"spec": slice(node, driver, version, generation, is_first)});
    slices.patch(&name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// Returns a ResourceSlice. `is_first`: in the first version of the API, the fields of a device are
/// under `basic`.
fn slice(node: &str, driver: &str, version: &str, generation: i64, is_first: bool) -> Value {
    let device = |name: String, attributes: Value| {
        if is_first {
            json!({"name": name, "basic": {"attributes": attributes}})
        } else {
            json!({"name": name, "attributes": attributes})
        }
    };
    let gpu = |index: usize| {
        let attributes = json!({
            "type": {"string": "gpu"},
            "productName": {"string": "NVIDIA GB200"},
            "driverVersion": {"version": published(version)},
        });
        device(format!("gpu-{index}"), attributes)
    };
    let part = |name: &str| {
        device(format!("{name}-0"), json!({"type": {"string": name}, "id": {"int": 0}}))
    };
    let devices =
        if driver == GPU_DRIVER { [gpu(0), gpu(1)] } else { [part("daemon"), part("channel")] };
    json!({
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": generation, "resourceSliceCount": 1},
        "devices": devices,
    })
}

/// A driver version as a version attribute: leading zeros are dropped (`535.104.05` is published as
/// `535.104.5`).
pub(crate) fn published(version: &str) -> String {
    let plain = |number: &str| {
        number.parse::<u64>().map_or_else(|_| number.to_owned(), |number| number.to_string())
    };
    version.split('.').map(plain).collect::<Vec<_>>().join(".")
}
