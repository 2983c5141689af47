//! Keys of AICR's values that no chart reads any more and that have a counterpart which works.

use serde_json::Number;

use diagnostics::tree::YamlValue;

/// A key without effect, and the one that was meant.
pub(super) struct KeyFix {
    /// The component.
    pub(super) component: &'static str,
    /// The key in its values, as a dotted path.
    pub(super) dead: &'static str,
    /// Where a recipe sets it, from the top.
    pub(super) live: &'static [&'static str],
    /// The value there; `None` if this value cannot be meant.
    pub(super) value: fn(&YamlValue) -> Option<YamlValue>,
}

const FIXES: [KeyFix; 2] = [
    KeyFix {
        component: "gpu-operator",
        dead: "driver.maxParallelUpgrades",
        live: &["rollout", "gpuDriver", "policy", "maxParallelUpgrades"],
        value: count,
    },
    KeyFix {
        component: "gpu-operator",
        dead: "driver.useOpenKernelModules",
        live: &["components", "gpu-operator", "values", "driver", "kernelModuleType"],
        value: kernel_module_type,
    },
];

/// The row for a key.
pub(super) fn find_fix(component: &str, dead: &str) -> Option<&'static KeyFix> {
    FIXES.iter().find(|fix| fix.component == component && fix.dead == dead)
}

fn count(value: &YamlValue) -> Option<YamlValue> {
    matches!(value, YamlValue::Number(number) if number.as_u64().is_some_and(|number| u32::try_from(number).is_ok())).then(|| value.clone())
}

fn kernel_module_type(value: &YamlValue) -> Option<YamlValue> {
    match value {
        YamlValue::Bool(true) => Some(YamlValue::String("open".to_owned())),
        YamlValue::Bool(false) => Some(YamlValue::String("proprietary".to_owned())),
        YamlValue::Null | YamlValue::Number(_) | YamlValue::String(_) | YamlValue::List(_) | YamlValue::Map(_) => None,
    }
}

/// What a value of the chart's `driver.upgradePolicy` is in the recipe's own policy: times have a unit there.
pub(super) fn policy_value(chart_key: &str, value: &YamlValue) -> YamlValue {
    match value {
        YamlValue::Number(number) if chart_key == "timeoutSeconds" => seconds(number).map_or_else(|| value.clone(), YamlValue::String),
        YamlValue::Null | YamlValue::Bool(_) | YamlValue::Number(_) | YamlValue::String(_) | YamlValue::List(_) | YamlValue::Map(_) => {
            value.clone()
        }
    }
}

fn seconds(number: &Number) -> Option<String> {
    Some(format!("{}s", number.as_u64()?))
}
