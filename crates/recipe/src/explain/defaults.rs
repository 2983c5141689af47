//! The values that apply where no recipe sets one.

use serde_json::Value;

use crate::load::ValidRecipe;
use crate::model::DriverRollout;
use crate::parse::parse;
use crate::rules::{modes, rollout};
use crate::schema::TypeShape;
use contract::check::{CheckLevel, CheckSeverity, CheckStrictness, PreflightCheck};
use contract::driver::Driver;
use contract::duration::Duration;
use contract::names::GPU_OPERATOR;
use contract::settings::Mode;
use contract::task::Task;
use diagnostics::path::KeyPath;
use diagnostics::source::{SourceText, SourceTexts};
use diagnostics::tree::YamlNode;

const OF_HOOK: &str = "default of gpu-rollout";
const OF_CHART: &str = "default of the chart";
const OF_CATALOG: &str = "default of the catalog";
const OF_NETWORK_OPERATOR: &str = "default of the Network Operator";

/// A value that applies if no recipe sets it.
pub(super) struct DefaultValue {
    /// Where it is from.
    pub(super) source: &'static str,
    /// The value, in the form of a recipe.
    pub(super) value: Value,
    /// The recipe's mode, if it does not use the key.
    pub(super) unused_in: Option<Mode>,
}

impl DefaultValue {
    fn new(source: &'static str, value: Value) -> Self {
        Self { source, value, unused_in: None }
    }
}

/// Returns the default of a path; `None` if it has none.
pub(super) fn default(loaded: &ValidRecipe, path: &KeyPath) -> Option<DefaultValue> {
    let keys: Vec<&str> = path.keys().iter().map(String::as_str).collect();
    match keys.as_slice() {
        ["components", name, "values", rest @ ..] => {
            let value = chart_value(loaded, name, rest.iter().copied())?;
            Some(DefaultValue::new(OF_CHART, value.clone()))
        }
        ["components", ..] => Some(DefaultValue::new(OF_CATALOG, of_model(loaded, path)?)),
        ["rollout", key @ ("gpuDriver" | "ofedDriver"), section, rest @ ..] => {
            let driver = loaded.recipe.rollout.drivers().find(|driver| driver.key == *key)?;
            let unused = !is_used(&driver, section, rest);
            let found = match (*section, rest) {
                ("policy", [_, ..]) => of_policy(loaded, &driver, rest),
                ("preflight", [check]) => of_check(&driver, check),
                _ => general(loaded, path, &keys),
            };
            Some(DefaultValue { unused_in: unused.then_some(driver.mode), ..found? })
        }
        _ => general(loaded, path, &keys),
    }
}

/// Returns whether the driver's mode uses a key below one of its sections.
fn is_used(driver: &DriverRollout, section: &str, rest: &[&str]) -> bool {
    match section {
        "policy" => rest.first().is_none_or(|key| modes::uses(driver.key, key, driver.mode)),
        "preflight" => driver.mode.tasks().contains(&Task::Preflight),
        "operatorUpgrade" => driver.mode == Mode::Assist,
        _ => true,
    }
}

/// Returns the default in the model, in the schema, or in the hook chart.
fn general(loaded: &ValidRecipe, path: &KeyPath, keys: &[&str]) -> Option<DefaultValue> {
    let value = of_model(loaded, path)
        .or_else(|| of_schema(keys).cloned())
        .or_else(|| of_hook_chart(path, keys))?;
    Some(DefaultValue::new(OF_HOOK, value))
}

/// Returns the default of a key of a driver's upgrade policy.
fn of_policy(loaded: &ValidRecipe, driver: &DriverRollout, keys: &[&str]) -> Option<DefaultValue> {
    let rollout = &loaded.recipe.rollout;
    let is_gpu = driver.key == "gpuDriver";
    let policy = if is_gpu {
        serde_json::to_value(rollout.gpu_driver.policy.with_defaults(Driver::Gpu))
    } else {
        serde_json::to_value(rollout.ofed_driver.as_ref()?.policy.with_defaults())
    };
    let value = keys.iter().try_fold(&policy.ok()?, |value, key| value.get(key))?.clone();
    let key = keys.first()?;
    if is_of_hook(driver, key) {
        return Some(DefaultValue::new(OF_HOOK, value));
    }
    if !is_gpu {
        return Some(DefaultValue::new(OF_NETWORK_OPERATOR, value));
    }
    Some(match of_chart_policy(loaded, keys) {
        // The chart has other names for keys of a step.
        Some(step) if step.is_object() => DefaultValue::new(OF_CHART, value),
        Some(value) => DefaultValue::new(OF_CHART, value),
        // The catalog does not have the chart's version, or the recipe does not deploy the chart.
        None => DefaultValue::new(OF_HOOK, value),
    })
}

/// Returns whether the hook applies a key of the policy. NVIDIA's controller applies the others.
fn is_of_hook(driver: &DriverRollout, key: &str) -> bool {
    let is_own = modes::KEYS.iter().any(|(own, _)| *own == key);
    let is_applied = match driver.mode {
        Mode::Observe | Mode::Assist => false,
        Mode::Steer => ["maxParallelUpgrades", "maxUnavailable"].contains(&key),
        Mode::Drive => true,
    };
    is_own || is_applied || !modes::uses(driver.key, key, driver.mode)
}

/// Returns the default of the GPU Operator's chart for a key of the policy.
fn of_chart_policy(loaded: &ValidRecipe, keys: &[&str]) -> Option<Value> {
    let (own, rest) = keys.split_first()?;
    let (chart, _) = rollout::POLICY.iter().find(|(_, known)| known == own)?;
    let rest = rest.iter().map(|key| if *key == "timeout" { "timeoutSeconds" } else { *key });
    let path = ["driver", "upgradePolicy", *chart].into_iter().chain(rest);
    let value = chart_value(loaded, GPU_OPERATOR, path)?;
    if keys.last() == Some(&"timeout") {
        Some(Duration::from_secs(value.as_u64()?).to_string().into())
    } else {
        Some(value.clone())
    }
}

/// Returns the default severity of a check.
fn of_check(driver: &DriverRollout, name: &str) -> Option<DefaultValue> {
    let check = PreflightCheck::ALL.into_iter().find(|check| check.name() == name)?;
    let level = match CheckStrictness::default().severity(check, driver.mode)? {
        CheckSeverity::Blocking => CheckLevel::Block,
        CheckSeverity::Warning => CheckLevel::Warn,
    };
    Some(DefaultValue::new(OF_HOOK, serde_json::to_value(level).ok()?))
}

/// Returns the default of a value of a component's chart.
fn chart_value<'k>(
    loaded: &ValidRecipe,
    name: &str,
    keys: impl IntoIterator<Item = &'k str>,
) -> Option<&'static Value> {
    let component = catalog::component(name)?;
    let asked = loaded.recipe.components.iter().find(|component| component.name == name)?;
    let number = asked.version.as_deref().unwrap_or(&component.default_version);
    let defaults = component.default_values(component.version(number)?)?;
    catalog::lookup_keys(defaults, keys)
}

/// Returns the value in the merged recipe, whose types have defaults.
fn of_model(loaded: &ValidRecipe, path: &KeyPath) -> Option<Value> {
    let recipe = serde_json::to_value(&loaded.recipe).ok()?;
    path.keys().iter().try_fold(&recipe, step).cloned()
}

/// Follows one key of a path; a key of a list is a component's name.
fn step<'a>(value: &'a Value, key: &String) -> Option<&'a Value> {
    match value {
        Value::Array(items) => {
            items.iter().find(|item| item.get("name").and_then(Value::as_str) == Some(key))
        }
        Value::Object(map) => map.get(key),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Returns the default in the schema, which also has those that a merged recipe leaves out.
fn of_schema(keys: &[&str]) -> Option<&'static Value> {
    let (last, parents) = keys.split_last()?;
    let parent = parents.iter().try_fold(TypeShape::recipe(), |shape, key| shape.property(key))?;
    parent.default_of(last)
}

/// Returns the default in the hook chart's values, for sections that have the same keys there.
fn of_hook_chart(path: &KeyPath, keys: &[&str]) -> Option<Value> {
    let ["rollout", "metrics" | "admissionPolicy", ..] = keys else { return None };
    let (name, text) =
        catalog::hook_chart::FILES.iter().find(|(name, _)| *name == "values.yaml")?;
    let mut sources = SourceTexts::default();
    let text = SourceText { name: (*name).to_owned(), text: (*text).to_owned() };
    let source = sources.add(text);
    let values = parse(&sources, source).ok()?;
    values.get_path(path).map(YamlNode::to_json)
}
