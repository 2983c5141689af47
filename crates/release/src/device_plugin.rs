//! The release with the device plugin's configurations. It comes before the component, whose pods
//! do not start without the ConfigMap.

use serde_json::{Map, Value};

use super::error::PlanError;
use super::model::{ManifestsRelease, Release, ReleaseKind};
use super::time::LOCAL_TIMEOUT_SECONDS;
use catalog::{self, lookup};
use device_plugin_config::check::CheckTarget;
use device_plugin_config::config_map;
use device_plugin_config::environment::PluginChart;
use device_plugin_config::version::PluginVersion;
use recipe::model::RecipeComponent;

/// The component whose chart deploys the device plugin without an operator.
pub(super) const STAND_ALONE: &str = "nvidia-device-plugin";
/// Suffix of the names of the release and of its ConfigMap.
const SUFFIX: &str = "-config";

/// Returns the name of the release, and of its ConfigMap, for a component.
pub(super) fn release_name(component: &str) -> String {
    format!("{component}{SUFFIX}")
}

/// Returns the release, if the recipe has configurations for the component.
///
/// # Errors
/// A configuration that cannot be written.
pub(super) fn release(
    component: &RecipeComponent,
    namespace: &str,
    needs: &[String],
) -> Result<Option<Release>, PlanError> {
    let Some(config) = &component.device_plugin_config else { return Ok(None) };
    let name = release_name(&component.name);
    let object = config_map::object(&name, namespace, &config.configs).map_err(|reason| {
        PlanError::DevicePluginConfig { component: component.name.clone(), reason }
    })?;
    Ok(Some(Release {
        name,
        namespace: namespace.to_owned(),
        needs: needs.to_vec(),
        timeout_seconds: LOCAL_TIMEOUT_SECONDS,
        kind: ReleaseKind::Manifests(ManifestsRelease {
            description: format!("Device plugin configurations of {}", component.name),
            component: Some(component.name.clone()),
            objects: vec![object],
            shared: true,
        }),
    }))
}

/// Returns the plugin version and environment that a component with these values needs its
/// configurations for; `None` if it has no device plugin.
pub fn target(component: &str, version: &str, values: &Map<String, Value>) -> Option<CheckTarget> {
    let chart: PluginChart = component.parse().ok()?;
    let known = catalog::component(component);
    let default =
        |path: &str| known.and_then(|known| lookup(known.defaults(known.version(version)), path));
    let value = |path: &str| lookup(values, path).or_else(|| default(path)).cloned();
    let version = PluginVersion::deployed(chart, version, &value)
        .unwrap_or_else(|error| PluginVersion::nearest(&error));
    Some(CheckTarget { version, environment: chart.environment(version, &value) })
}

/// Returns the configuration that these values select for nodes without the label.
pub fn default_config(chart: PluginChart, values: &Map<String, Value>) -> Option<&str> {
    lookup(values, &format!("{}.default", chart.config_path())).and_then(Value::as_str)
}

/// Whether these values configure the component's device plugin from a ConfigMap. The plugin reads
/// it when it starts, and no controller restarts the plugin when it changes.
pub(super) fn is_configured(component: &str, values: &Map<String, Value>) -> bool {
    let name = |chart: PluginChart| {
        lookup(values, &format!("{}.name", chart.config_path()))
            .and_then(Value::as_str)
            .is_some_and(|name| !name.is_empty())
    };
    component.parse().is_ok_and(name)
}
