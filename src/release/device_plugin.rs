//! The release with the device plugin's configurations: before the component, whose pods do not start without the ConfigMap.

use super::error::PlanError;
use super::model::{Kind, Manifests, Release};
use super::time::LOCAL_TIMEOUT_SECONDS;
use crate::device_plugin::config_map;
use crate::recipe::model::Component;

/// Ends the name of the release and of its ConfigMap.
const SUFFIX: &str = "-config";

/// The name of the release, and of its ConfigMap, for a component.
pub(super) fn release_name(component: &str) -> String {
    format!("{component}{SUFFIX}")
}

/// The release, if the recipe has configurations for the component.
///
/// # Errors
/// A configuration that cannot be written.
pub(super) fn release(component: &Component, namespace: &str, needs: &[String]) -> Result<Option<Release>, PlanError> {
    let Some(config) = &component.device_plugin_config else { return Ok(None) };
    let name = release_name(&component.name);
    let object = config_map::object(&name, namespace, &config.configs)
        .map_err(|reason| PlanError::DevicePluginConfig { component: component.name.clone(), reason })?;
    Ok(Some(Release {
        name,
        namespace: namespace.to_owned(),
        needs: needs.to_vec(),
        timeout_seconds: LOCAL_TIMEOUT_SECONDS,
        kind: Kind::Manifests(Manifests {
            description: format!("The configurations of the device plugin of {}", component.name),
            component: Some(component.name.clone()),
            objects: vec![object],
            shared: true,
        }),
    }))
}
