//! Obsolete keys of AICR's values, with the keys that replace them.

use diagnostics::tree::YamlValue;

/// An obsolete key, and the key that replaces it.
pub(super) struct ReplacedKey {
    /// The component.
    pub(super) component: &'static str,
    /// The key in its values, as a dotted path.
    pub(super) dead: &'static str,
    /// The path from the top where a recipe sets it.
    pub(super) live: &'static [&'static str],
    /// Converts the value; `None` if the value has no counterpart.
    pub(super) value: fn(&YamlValue) -> Option<YamlValue>,
}

const REPLACED: [ReplacedKey; 2] = [
    ReplacedKey {
        component: "gpu-operator",
        dead: "driver.maxParallelUpgrades",
        live: &["rollout", "gpuDriver", "policy", "maxParallelUpgrades"],
        value: count,
    },
    ReplacedKey {
        component: "gpu-operator",
        dead: "driver.useOpenKernelModules",
        live: &["components", "gpu-operator", "values", "driver", "kernelModuleType"],
        value: kernel_module_type,
    },
];

/// Finds the row for a key of a component's values.
pub(super) fn replacement_of(component: &str, dead: &str) -> Option<&'static ReplacedKey> {
    REPLACED.iter().find(|row| row.component == component && row.dead == dead)
}

fn count(value: &YamlValue) -> Option<YamlValue> {
    matches!(value, YamlValue::Number(number) if number.as_u64().is_some_and(|number| u32::try_from(number).is_ok())).then(|| value.clone())
}

fn kernel_module_type(value: &YamlValue) -> Option<YamlValue> {
    let YamlValue::Bool(is_open) = value else { return None };
    Some(YamlValue::String(if *is_open { "open" } else { "proprietary" }.to_owned()))
}

/// Converts a value of the chart's `driver.upgradePolicy` for the recipe's policy, where times have
/// a unit.
pub(super) fn policy_value(chart_key: &str, value: &YamlValue) -> YamlValue {
    if let YamlValue::Number(number) = value
        && chart_key == "timeoutSeconds"
        && number.is_u64()
    {
        return YamlValue::String(format!("{number}s"));
    }
    value.clone()
}
