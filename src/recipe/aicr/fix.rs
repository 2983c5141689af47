//! Keys of AICR's values that no chart reads any more and that have a counterpart which works.

use serde_json::Number;

use crate::text::tree::Value;

/// A key without effect, and the one that was meant.
pub(super) struct Fix {
    /// The component.
    pub(super) component: &'static str,
    /// The key in its values, as a dotted path.
    pub(super) dead: &'static str,
    /// Where a recipe sets it, from the top.
    pub(super) live: &'static [&'static str],
    /// The value there; `None` if this value cannot be meant.
    pub(super) value: fn(&Value) -> Option<Value>,
}

const FIXES: [Fix; 2] = [
    Fix {
        component: "gpu-operator",
        dead: "driver.maxParallelUpgrades",
        live: &["rollout", "gpuDriver", "policy", "maxParallelUpgrades"],
        value: count,
    },
    Fix {
        component: "gpu-operator",
        dead: "driver.useOpenKernelModules",
        live: &["components", "gpu-operator", "values", "driver", "kernelModuleType"],
        value: kernel_module_type,
    },
];

/// The row for a key.
pub(super) fn of(component: &str, dead: &str) -> Option<&'static Fix> {
    FIXES.iter().find(|fix| fix.component == component && fix.dead == dead)
}

fn count(value: &Value) -> Option<Value> {
    matches!(value, Value::Number(number) if number.as_u64().is_some_and(|number| u32::try_from(number).is_ok())).then(|| value.clone())
}

fn kernel_module_type(value: &Value) -> Option<Value> {
    match value {
        Value::Bool(true) => Some(Value::String("open".to_owned())),
        Value::Bool(false) => Some(Value::String("proprietary".to_owned())),
        Value::Null | Value::Number(_) | Value::String(_) | Value::List(_) | Value::Map(_) => None,
    }
}

/// What a value of the chart's `driver.upgradePolicy` is in the recipe's own policy: times have a unit there.
pub(super) fn policy_value(chart_key: &str, value: &Value) -> Value {
    match value {
        Value::Number(number) if chart_key == "timeoutSeconds" => seconds(number).map_or_else(|| value.clone(), Value::String),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) | Value::Map(_) => value.clone(),
    }
}

fn seconds(number: &Number) -> Option<String> {
    Some(format!("{}s", number.as_u64()?))
}
