//! The recipe's `rollout`, mapped into the values of the vendor's chart (gpu-operator: `driver.version`, `driver.upgradePolicy`).

use serde_json::{Map, Value, json};

use super::{PlanError, device_plugin};
use crate::catalog::lookup;
use crate::catalog::model::Version;
use crate::device_plugin::environment::Chart;
use crate::recipe::model::{Component, GpuDriver};

/// Chart key of `rollout.gpuDriver.version`.
pub const DRIVER_VERSION: &str = "driver.version";
/// Chart key of `maxParallelUpgrades`.
pub const MAX_PARALLEL: &str = "driver.upgradePolicy.maxParallelUpgrades";
/// Chart key of `maxUnavailable`.
pub const MAX_UNAVAILABLE: &str = "driver.upgradePolicy.maxUnavailable";
/// Chart key of `waitForCompletion.podSelector`.
pub const WAIT_SELECTOR: &str = "driver.upgradePolicy.waitForCompletion.podSelector";
/// Chart key of `waitForCompletion.timeout`.
pub const WAIT_TIMEOUT: &str = "driver.upgradePolicy.waitForCompletion.timeoutSeconds";

/// The one top-level key that the hook chart does not leave to the component.
const OF_THE_HOOK: &str = "rollout";

/// Puts `value` at a dotted path, making the maps on the way.
///
/// # Errors
/// The part of the path at which something else than a map stands.
pub(super) fn set(values: &mut Map<String, Value>, path: &str, value: Value) -> Result<(), String> {
    let mut map = values;
    let mut keys: Vec<&str> = path.split('.').collect();
    let Some(last) = keys.pop() else { return Ok(()) };
    for (depth, key) in keys.iter().enumerate() {
        let next = map.entry((*key).to_owned()).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        map = next.as_object_mut().ok_or_else(|| path.split('.').take(depth + 1).collect::<Vec<_>>().join("."))?;
    }
    map.insert(last.to_owned(), value);
    Ok(())
}

/// A chart's default values with others on top, as Helm merges them: maps recurse, everything else replaces, null deletes.
pub fn over(defaults: &Map<String, Value>, values: &Map<String, Value>) -> Map<String, Value> {
    let mut merged = defaults.clone();
    for (key, value) in values {
        match (merged.get_mut(key), value) {
            (_, Value::Null) => {
                merged.remove(key);
            }
            (Some(Value::Object(below)), Value::Object(above)) => *below = over(below, above),
            (Some(place), value) => *place = value.clone(),
            (None, value) => {
                merged.insert(key.clone(), value.clone());
            }
        }
    }
    merged
}

/// The values of a component: the recipe's, those that every bundle sets, and for gpu-operator what `rollout.gpuDriver` says.
///
/// # Errors
/// A value that the recipe sets in two ways, or sets against what the bundle must set.
pub(super) fn of(component: &Component, version: Option<&Version>, driver: Option<&GpuDriver>) -> Result<Map<String, Value>, PlanError> {
    let mut values = component.values.clone();
    if values.contains_key(OF_THE_HOOK) {
        return Err(PlanError::Value {
            component: component.name.clone(),
            path: OF_THE_HOOK.to_owned(),
            reason: "the hook shares these values and takes this key for its own settings".to_owned(),
        });
    }
    let no_map = |path: String| PlanError::NoMap { component: component.name.clone(), path };
    for (path, expected) in version.into_iter().flat_map(|version| &version.bundle_values) {
        match lookup(&values, path) {
            Some(found) if found != expected => {
                return Err(PlanError::Reserved {
                    component: component.name.clone(),
                    path: path.clone(),
                    expected: expected.to_string(),
                    found: found.to_string(),
                });
            }
            Some(_) => {}
            None => set(&mut values, path, expected.clone()).map_err(no_map)?,
        }
    }
    for (rollout, path, value) in driver.into_iter().flat_map(mapped) {
        if lookup(&component.values, path).is_some() {
            return Err(PlanError::SetTwice {
                component: component.name.clone(),
                rollout: format!("rollout.gpuDriver.{rollout}"),
                values: format!("values.{path}"),
            });
        }
        set(&mut values, path, value).map_err(no_map)?;
    }
    device_plugin(component, &mut values)?;
    Ok(values)
}

/// The chart is told where its device plugin finds the configurations of the bundle.
fn device_plugin(component: &Component, values: &mut Map<String, Value>) -> Result<(), PlanError> {
    let Some(config) = &component.device_plugin_config else { return Ok(()) };
    let Ok(chart) = component.name.parse::<Chart>() else {
        return Err(PlanError::NoDevicePlugin(component.name.clone()));
    };
    let mut rows = vec![("name", device_plugin::release_name(&component.name))];
    rows.extend(config.default.clone().map(|default| ("default", default)));
    for (key, value) in rows {
        let path = format!("{}.{key}", chart.config_path());
        if lookup(values, &path).is_some_and(|found| !found.is_null() && *found != "") {
            return Err(PlanError::ConfigTwice { component: component.name.clone(), path });
        }
        set(values, &path, Value::String(value)).map_err(|path| PlanError::NoMap { component: component.name.clone(), path })?;
    }
    Ok(())
}

/// What the recipe sets, as (path below `rollout.gpuDriver`, path in the chart's values, value). Names and types are the chart's:
/// eviction is `gpuPodDeletion` in values (`podDeletion` only in the custom resource), times are whole seconds.
fn mapped(driver: &GpuDriver) -> Vec<(&'static str, &'static str, Value)> {
    let policy = &driver.policy;
    let mut rows = Vec::new();
    let mut row = |rollout, path, value: Option<Value>| rows.extend(value.map(|value| (rollout, path, value)));
    row("version", DRIVER_VERSION, driver.version.as_ref().map(|version| json!(version)));
    row("policy.maxParallelUpgrades", MAX_PARALLEL, policy.max_parallel_upgrades.map(|number| json!(number)));
    row("policy.maxUnavailable", MAX_UNAVAILABLE, policy.max_unavailable.map(|count| json!(count)));
    if let Some(wait) = &policy.wait_for_completion {
        row("policy.waitForCompletion.podSelector", WAIT_SELECTOR, Some(json!(wait.pod_selector)));
        row("policy.waitForCompletion.timeout", WAIT_TIMEOUT, wait.timeout.map(|timeout| json!(timeout.as_secs())));
    }
    if let Some(deletion) = &policy.pod_deletion {
        row("policy.podDeletion.force", "driver.upgradePolicy.gpuPodDeletion.force", deletion.force.map(Value::Bool));
        row(
            "policy.podDeletion.timeout",
            "driver.upgradePolicy.gpuPodDeletion.timeoutSeconds",
            deletion.timeout.map(|timeout| json!(timeout.as_secs())),
        );
        row(
            "policy.podDeletion.deleteEmptyDir",
            "driver.upgradePolicy.gpuPodDeletion.deleteEmptyDir",
            deletion.delete_empty_dir.map(Value::Bool),
        );
    }
    if let Some(drain) = &policy.drain {
        row("policy.drain.enable", "driver.upgradePolicy.drain.enable", drain.enable.map(Value::Bool));
        row("policy.drain.force", "driver.upgradePolicy.drain.force", drain.force.map(Value::Bool));
        row("policy.drain.podSelector", "driver.upgradePolicy.drain.podSelector", drain.pod_selector.as_ref().map(|text| json!(text)));
        row("policy.drain.timeout", "driver.upgradePolicy.drain.timeoutSeconds", drain.timeout.map(|timeout| json!(timeout.as_secs())));
        row("policy.drain.deleteEmptyDir", "driver.upgradePolicy.drain.deleteEmptyDir", drain.delete_empty_dir.map(Value::Bool));
    }
    rows
}
