//! Takes values out, and the maps that are empty then.

use serde_json::{Map, Value};

use crate::values::gpu::MANAGER_ENV;
use catalog::lookup;
use contract::names::DRIVER_MANAGER_OFF;

/// Takes the value at a dotted path out if it is as `wanted`.
pub(super) fn take(values: &mut Map<String, Value>, path: &str, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
    let Some((key, rest)) = path.split_once('.') else {
        return if wanted(values.get(path)?) { values.remove(path) } else { None };
    };
    let below = values.get_mut(key)?.as_object_mut()?;
    let taken = take(below, rest, wanted)?;
    if below.is_empty() {
        values.remove(key);
    }
    Some(taken)
}

/// Takes out what a bundle sets by itself.
pub(super) fn take_fixed(values: &mut Map<String, Value>, path: &str, value: &Value) {
    take(values, path, |found| found == value);
}

/// Takes out what mode `drive` switches off in the driver's init container.
pub(super) fn take_manager(values: &mut Map<String, Value>) {
    let Some(Value::Array(entries)) = lookup(values, MANAGER_ENV) else { return };
    let is_ours = |entry: &Value| DRIVER_MANAGER_OFF.iter().any(|name| *entry == serde_json::json!({"name": name, "value": "false"}));
    let kept: Vec<Value> = entries.iter().filter(|entry| !is_ours(entry)).cloned().collect();
    if kept.is_empty() {
        take(values, MANAGER_ENV, |_| true);
    } else {
        // It stood there just now.
        let _ = crate::values::set(values, MANAGER_ENV, Value::Array(kept));
    }
}
