//! The container toolkit. A container that requests GPUs gets the driver of its node; here, it gets
//! only the version of that driver.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{Container, Pod};
use kube::Api;
use kube::api::ListParams;

use super::Shared;
use crate::harness::stand_in::{GPU, OPERATOR_NAMESPACE, driver_version, is_ready};

/// The environment variable with the version of the node's driver.
pub(crate) const DRIVER_VERSION: &str = "STAND_IN_DRIVER_VERSION";
const DRIVER: &str = "app.kubernetes.io/component=nvidia-driver";

/// Whether the container requests GPUs.
pub(super) fn requests_gpus(container: &Container) -> bool {
    let resources = container.resources.as_ref();
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    limits.is_some_and(|limits| limits.contains_key(GPU))
}

/// Returns the version of the driver that is ready on the node.
///
/// # Errors
/// There is none. Without a driver, no container that requests GPUs starts.
pub(super) async fn driver(shared: &Shared) -> Result<String> {
    let on_node =
        ListParams::default().labels(DRIVER).fields(&format!("spec.nodeName={}", shared.node));
    let pods = Api::<Pod>::namespaced(shared.client.clone(), OPERATOR_NAMESPACE);
    let pods = pods.list(&on_node).await?;
    let image = pods.iter().find(|pod| is_ready(pod)).and_then(|pod| {
        let container = pod.spec.as_ref()?.containers.first()?;
        container.image.as_deref()
    });
    let image = image.with_context(|| format!("no driver is ready on {}", shared.node))?;
    Ok(driver_version(image).to_owned())
}
