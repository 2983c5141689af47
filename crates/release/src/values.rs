//! Computes the values of a component, from the recipe's `values`, `rollout` and `nodeScheduling`,
//! and from the values that every bundle sets.

use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{PlanError, device_plugin};
use catalog::lookup;
use catalog::model::{ComponentVersion, SchedulingPaths};
use catalog::nested::is_within;
use contract::duration::Duration;
use contract::names::{DRIVER_MANAGER_OFF, GPU_OPERATOR, NETWORK_OPERATOR};
use contract::settings::Mode;
use device_plugin_config::environment::PluginChart;
use recipe::model::{RecipeComponent, RecipeRollout};

pub mod gpu;
pub mod ofed;

/// The only top-level key that belongs to the hook chart.
const OF_THE_HOOK: &str = "rollout";

/// The limits of a policy, which the hook applies in modes in which it decides.
const LIMITS: [&str; 2] = ["maxParallelUpgrades", "maxUnavailable"];

/// One setting of the recipe's `rollout`: its path there, its path in the vendor's values, its
/// value there.
type MappedValue = (String, String, Value);
/// One setting that only the mode determines: its path in the vendor's values, its value.
type FixedValue = (&'static str, Value);

/// Sets `value` at a dotted path, and creates missing maps.
///
/// # Errors
/// The part of the path whose value is not a map.
pub(super) fn set(values: &mut Map<String, Value>, path: &str, value: Value) -> Result<(), String> {
    let mut map = values;
    let mut keys: Vec<&str> = path.split('.').collect();
    let Some(last) = keys.pop() else { return Ok(()) };
    for (depth, key) in keys.iter().enumerate() {
        let next = map.entry((*key).to_owned()).or_insert(Value::Null);
        if next.is_null() {
            *next = Value::Object(Map::new());
        }
        map = next
            .as_object_mut()
            .ok_or_else(|| path.split('.').take(depth + 1).collect::<Vec<_>>().join("."))?;
    }
    map.insert(last.to_owned(), value);
    Ok(())
}

/// Merges values over a chart's defaults like Helm: maps recursively, other values replace, null
/// deletes.
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

/// Returns the values of a component without its node scheduling. `details` is its version in the
/// catalog, `like` the most similar version.
///
/// # Errors
/// The recipe sets a value in two places, or differently from what the bundle must set.
pub(super) fn component_values(
    component: &RecipeComponent,
    details: Option<&ComponentVersion>,
    like: &ComponentVersion,
    rollout: &RecipeRollout,
) -> Result<Map<String, Value>, PlanError> {
    let mut values = component.values.clone();
    if values.contains_key(OF_THE_HOOK) {
        return Err(PlanError::value(
            &component.name,
            format!("values.{OF_THE_HOOK}"),
            "the hook shares these values, and uses this key for its own settings",
        ));
    }
    set_bundle_values(component, details, like, &mut values)?;
    device_plugin_config(component, &mut values)?;
    let written = |path: &str| format!("values.{path}");
    match (&rollout.ofed_driver, component.name.as_str()) {
        (_, GPU_OPERATOR) => {
            let mode = gpu::mode(&rollout.gpu_driver, &values);
            set_mapped(
                component,
                ("gpuDriver", gpu::mapped_values(&rollout.gpu_driver, mode)),
                &mut values,
                written,
            )?;
            set_fixed(component, (mode, gpu::fixed(mode)), &mut values, written)?;
            if mode == Mode::Drive {
                manager_env(component, &mut values)?;
            }
        }
        (Some(driver), NETWORK_OPERATOR)
            if like.custom_resources.is_empty() && ofed::is_rendered(&values) =>
        {
            set_mapped(
                component,
                ("ofedDriver", ofed::mapped_values(driver)),
                &mut values,
                written,
            )?;
            set_fixed(component, (driver.mode, ofed::fixed(driver.mode)), &mut values, written)?;
        }
        _ => {}
    }
    Ok(values)
}

/// Sets the values that every bundle sets. An existing value must be the same.
fn set_bundle_values(
    component: &RecipeComponent,
    details: Option<&ComponentVersion>,
    like: &ComponentVersion,
    values: &mut Map<String, Value>,
) -> Result<(), PlanError> {
    // Names must also stay the same with versions that the catalog does not have.
    let fixed =
        details.into_iter().flat_map(|details| &details.bundle_values).chain(&like.kept_names);
    for (path, expected) in fixed {
        match lookup(values, path) {
            Some(found) if found != expected => {
                return Err(PlanError::Reserved {
                    component: component.name.clone(),
                    path: path.clone(),
                    expected: expected.to_string(),
                    found: found.to_string(),
                });
            }
            Some(_) => {}
            None => set(values, path, expected.clone()).map_err(|path| no_map(component, path))?,
        }
    }
    Ok(())
}

/// Sets the values that the mode determines. An existing value must be the same.
fn set_fixed(
    component: &RecipeComponent,
    (mode, fixed): (Mode, Vec<FixedValue>),
    values: &mut Map<String, Value>,
    written: impl Fn(&str) -> String,
) -> Result<(), PlanError> {
    for (path, expected) in fixed {
        match lookup(values, path) {
            Some(found) if *found != expected => {
                return Err(PlanError::ModeConflict {
                    component: component.name.clone(),
                    path: written(path),
                    mode: mode.name(),
                    expected: expected.to_string(),
                    found: found.to_string(),
                });
            }
            Some(_) => {}
            None => set(values, path, expected).map_err(|path| no_map(component, path))?,
        }
    }
    Ok(())
}

/// Disables actions of the driver's init container that the hook does itself. Keeps the recipe's
/// entries and their order.
fn manager_env(
    component: &RecipeComponent,
    values: &mut Map<String, Value>,
) -> Result<(), PlanError> {
    let path = gpu::MANAGER_ENV;
    let wrong =
        |reason: String| PlanError::value(&component.name, format!("values.{path}"), reason);
    let mut entries = match lookup(values, path) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => entries.clone(),
        Some(_) => return Err(wrong("expected a list of `{name: …, value: …}`".to_owned())),
    };
    for name in DRIVER_MANAGER_OFF {
        let wanted = json!({"name": name, "value": "false"});
        match entries.iter().find(|entry| entry["name"] == name) {
            Some(found) if *found != wanted => {
                return Err(wrong(format!(
                    "in mode `drive`, the entry `{name}` must have the value \"false\", found {found}"
                )));
            }
            Some(_) => {}
            None => entries.push(wanted),
        }
    }
    set(values, path, Value::Array(entries)).map_err(|path| no_map(component, path))
}

/// Sets the chart's values for the bundle's device plugin configurations.
fn device_plugin_config(
    component: &RecipeComponent,
    values: &mut Map<String, Value>,
) -> Result<(), PlanError> {
    let Some(config) = &component.device_plugin_config else { return Ok(()) };
    let Ok(chart) = component.name.parse::<PluginChart>() else {
        return Err(PlanError::NoDevicePlugin(component.name.clone()));
    };
    let mut rows = vec![("name", device_plugin::release_name(&component.name))];
    rows.extend(config.default.clone().map(|default| ("default", default)));
    for (key, value) in rows {
        let path = format!("{}.{key}", chart.config_path());
        // Charts have an empty string if nothing is set.
        if lookup(values, &path).is_some_and(|found| !found.is_null() && *found != "") {
            return Err(PlanError::set_twice(
                &component.name,
                "devicePluginConfig",
                format!("values.{path}"),
            ));
        }
        set(values, &path, Value::String(value)).map_err(|path| no_map(component, path))?;
    }
    Ok(())
}

/// Returns the spec of a custom resource of the component.
///
/// # Errors
/// As for values.
pub(super) fn spec(
    component: &RecipeComponent,
    kind: &str,
    spec: &Map<String, Value>,
    rollout: &RecipeRollout,
) -> Result<Map<String, Value>, PlanError> {
    let mut spec = spec.clone();
    let Some(driver) = rollout
        .ofed_driver
        .as_ref()
        .filter(|_| component.name == NETWORK_OPERATOR && spec.contains_key("ofedDriver"))
    else {
        return Ok(spec);
    };
    let written = |path: &str| format!("customResources.{kind}.{path}");
    set_mapped(component, ("ofedDriver", ofed::mapped_values(driver)), &mut spec, written)?;
    set_fixed(component, (driver.mode, ofed::fixed(driver.mode)), &mut spec, written)?;
    // Without this key, the operator ignores the rest of the policy.
    if lookup(&spec, ofed::AUTO_UPGRADE).is_none() {
        set(&mut spec, ofed::AUTO_UPGRADE, Value::Bool(true))
            .map_err(|path| no_map(component, path))?;
    }
    Ok(spec)
}

/// Returns the vendor's values that the recipe sets for a driver in this mode. In `steer`, the hook
/// applies the policy's limits itself; in `drive`, the whole policy. `keys` are those of the
/// vendor's policy, each with its name in the recipe. The vendor's times are whole seconds.
fn mapped_values(
    mode: Mode,
    (version, version_path): (Option<&String>, &str),
    (policy, policy_path): (&impl Serialize, &str),
    keys: &[(&str, &str)],
) -> Vec<MappedValue> {
    let mut mapped: Vec<MappedValue> = Vec::new();
    mapped.extend(
        version.map(|version| ("version".to_owned(), version_path.to_owned(), json!(version))),
    );
    if mode == Mode::Drive {
        return mapped;
    }
    let policy = json!(policy);
    for (theirs, own) in keys.iter().filter(|(_, own)| !(mode.decides() && LIMITS.contains(own))) {
        let (own_path, path) = (format!("policy.{own}"), format!("{policy_path}.{theirs}"));
        match &policy[own] {
            Value::Null => {}
            Value::Object(fields) => mapped.extend(
                fields.iter().filter(|(_, value)| !value.is_null()).map(|(key, value)| {
                    let seconds = value
                        .as_str()
                        .filter(|_| key == "timeout")
                        .and_then(|text| text.parse::<Duration>().ok());
                    let (their_key, value) = seconds
                        .map_or((key.as_str(), value.clone()), |time| {
                            ("timeoutSeconds", json!(time.as_secs()))
                        });
                    (format!("{own_path}.{key}"), format!("{path}.{their_key}"), value)
                }),
            ),
            Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                mapped.push((own_path, path, policy[own].clone()));
            }
        }
    }
    mapped
}

/// Sets the values from `rollout`, unless they are set already.
fn set_mapped(
    component: &RecipeComponent,
    (driver, rows): (&str, Vec<MappedValue>),
    values: &mut Map<String, Value>,
    written: impl Fn(&str) -> String,
) -> Result<(), PlanError> {
    let already = values.clone();
    for (rollout, path, value) in rows {
        if lookup(&already, &path).is_some() {
            return Err(PlanError::set_twice(
                &component.name,
                format!("rollout.{driver}.{rollout}"),
                written(&path),
            ));
        }
        set(values, &path, value).map_err(|path| no_map(component, path))?;
    }
    Ok(())
}

fn no_map(component: &RecipeComponent, path: String) -> PlanError {
    PlanError::NoMap { component: component.name.clone(), path }
}

/// Writes node selectors and tolerations to the keys that the chart has for them, except for what
/// is `off`.
///
/// # Errors
/// The chart has no key for the setting, or the key is set already.
pub(super) fn schedule(
    component: &RecipeComponent,
    places: &SchedulingPaths,
    off: &[&str],
    values: &mut Map<String, Value>,
) -> Result<(), PlanError> {
    for part in component.node_scheduling.parts() {
        let written = format!("nodeScheduling.{}.{}", part.group, part.key);
        let paths = part.paths(places);
        if paths.is_empty() {
            return Err(PlanError::NoPlace { component: component.name.clone(), path: written });
        }
        for path in paths.iter().filter(|path| !is_within(path, off)) {
            if lookup(&component.values, path).is_some() {
                return Err(PlanError::set_twice(
                    &component.name,
                    written,
                    format!("values.{path}"),
                ));
            }
            set(values, path, part.value.clone()).map_err(|path| no_map(component, path))?;
        }
    }
    Ok(())
}
