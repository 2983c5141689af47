//! Removes values, and maps that become empty.

use serde_json::{Map, Value};

use crate::values::gpu::MANAGER_ENV;
use catalog::lookup;
use contract::names::DRIVER_MANAGER_OFF;

/// Removes and returns the value at a dotted path if `wanted` accepts it.
pub(super) fn remove_if(
    values: &mut Map<String, Value>,
    path: &str,
    wanted: impl Fn(&Value) -> bool,
) -> Option<Value> {
    let Some((key, rest)) = path.split_once('.') else {
        return if wanted(values.get(path)?) { values.remove(path) } else { None };
    };
    let below = values.get_mut(key)?.as_object_mut()?;
    let taken = remove_if(below, rest, wanted)?;
    if below.is_empty() {
        values.remove(key);
    }
    Some(taken)
}

/// Removes a value that a bundle sets itself.
pub(super) fn remove_fixed(values: &mut Map<String, Value>, path: &str, value: &Value) {
    remove_if(values, path, |found| found == value);
}

/// Removes the settings of the driver's init container that mode `drive` sets to false.
pub(super) fn remove_manager_switches(values: &mut Map<String, Value>) {
    let Some(Value::Array(entries)) = lookup(values, MANAGER_ENV) else { return };
    let is_ours = |entry: &Value| {
        DRIVER_MANAGER_OFF
            .iter()
            .any(|name| *entry == serde_json::json!({"name": name, "value": "false"}))
    };
    let kept: Vec<Value> = entries.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    if kept.is_empty() {
        remove_if(values, MANAGER_ENV, |_| true);
    } else {
        // It exists: it was found above.
        let _ = crate::values::set(values, MANAGER_ENV, Value::Array(kept));
    }
}
