//! A pod's volumes as directories of this machine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::{
    ConfigMap, Container, KeyToPath, Pod, ServiceAccount, Volume, VolumeProjection,
};
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::Shared;
use super::specification::{Refusal, field_value};
use crate::harness::wait::until;

const MOUNT_LIMIT: Duration = Duration::from_mins(1);

/// A directory (or a file in it) of this machine, with its mount point in the container.
pub(super) struct Mount {
    pub(super) source: PathBuf,
    pub(super) target: String,
    pub(super) read_only: bool,
}

/// Fills the volumes that the container mounts.
pub(super) async fn prepare(
    shared: &Shared,
    pod: &Pod,
    container: &Container,
) -> Result<Vec<Mount>, Refusal> {
    let directory = shared.directory.join(pod.uid().unwrap_or_default());
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let volumes: BTreeMap<&str, &Volume> =
        volumes.map(|volume| (volume.name.as_str(), volume)).collect();
    let mut mounts = Vec::new();
    for mount in container.volume_mounts.iter().flatten() {
        let volume = volumes
            .get(mount.name.as_str())
            .ok_or_else(|| Refusal::configuration(format!("no volume {}", mount.name)))?;
        let source = directory.join(&mount.name);
        std::fs::create_dir_all(&source).context("creating a volume")?;
        let writable = fill(shared, pod, volume, &source).await?;
        let source = mount.sub_path.as_ref().map_or(source.clone(), |path| source.join(path));
        mounts.push(Mount {
            source,
            target: mount.mount_path.clone(),
            read_only: !writable || mount.read_only == Some(true),
        });
    }
    Ok(mounts)
}

/// Fills one volume. Returns whether containers may write to it.
async fn fill(
    shared: &Shared,
    pod: &Pod,
    volume: &Volume,
    directory: &Path,
) -> Result<bool, Refusal> {
    if volume.empty_dir.is_some() {
        return Ok(true);
    }
    if let Some(source) = &volume.config_map {
        config_map(shared, pod, &source.name, source.items.as_deref(), directory).await?;
        return Ok(false);
    }
    let Some(projected) = &volume.projected else {
        return Err(Refusal::configuration(format!(
            "this node agent knows no volume such as {}",
            volume.name
        )));
    };
    for source in projected.sources.iter().flatten() {
        project(shared, pod, source, directory).await?;
    }
    Ok(false)
}

async fn project(
    shared: &Shared,
    pod: &Pod,
    source: &VolumeProjection,
    directory: &Path,
) -> Result<(), Refusal> {
    if let Some(wanted) = &source.service_account_token {
        let token = token(shared, pod).await?;
        std::fs::write(directory.join(&wanted.path), token).context("writing the token")?;
    }
    if let Some(wanted) = &source.config_map {
        config_map(shared, pod, &wanted.name, wanted.items.as_deref(), directory).await?;
    }
    for item in source.downward_api.iter().flat_map(|wanted| wanted.items.iter().flatten()) {
        let path = item.field_ref.as_ref().map_or("", |field| &field.field_path);
        std::fs::write(directory.join(&item.path), field_value(pod, path)?)
            .context("writing a field")?;
    }
    Ok(())
}

/// Requests a token of the pod's ServiceAccount that is bound to the pod, as a kubelet does.
async fn token(shared: &Shared, pod: &Pod) -> Result<String> {
    let namespace = pod.namespace().unwrap_or_default();
    let account = pod
        .spec
        .as_ref()
        .and_then(|spec| spec.service_account_name.as_deref())
        .unwrap_or("default");
    let request: TokenRequest = serde_json::from_value(json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest",
        "metadata": {},
        "spec": {"audiences": [], "expirationSeconds": 3607, "boundObjectRef": {
            "apiVersion": "v1", "kind": "Pod", "name": pod.name_any(), "uid": pod.uid(),
        }},
    }))?;
    let accounts = Api::<ServiceAccount>::namespaced(shared.client.clone(), &namespace);
    let answer = accounts.create_token_request(account, &PostParams::default(), &request).await?;
    Ok(answer.status.context("a TokenRequest without status")?.token)
}

async fn config_map(
    shared: &Shared,
    pod: &Pod,
    name: &str,
    items: Option<&[KeyToPath]>,
    directory: &Path,
) -> Result<()> {
    let namespace = pod.namespace().unwrap_or_default();
    let maps = Api::<ConfigMap>::namespaced(shared.client.clone(), &namespace);
    // A kubelet retries until the pod is deleted: a new namespace gets its CA certificate shortly
    // after its first pod.
    let map = until(&format!("ConfigMap {namespace}/{name}"), MOUNT_LIMIT, async || {
        Ok(maps.get_opt(name).await?)
    })
    .await?;
    let data = map.data.unwrap_or_default();
    let path = |key: &str| {
        items.map_or(Some(key.to_owned()), |items| {
            items.iter().find(|item| item.key == key).map(|item| item.path.clone())
        })
    };
    for (key, value) in data {
        if let Some(path) = path(&key) {
            std::fs::write(directory.join(path), value)?;
        }
    }
    Ok(())
}
