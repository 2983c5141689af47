//! The chart's `values.yaml` and the recipe's schema have the same defaults as
//! [`Settings::default`].

use std::collections::BTreeMap;

use contract::count::Count;
use contract::duration::Duration;
use contract::policy::{DrainPolicy, PodDeletionPolicy, Policy, UpgradeSettings};
use contract::proof::{Canary, Halt};
use contract::settings::{DevicePluginSettings, DraSettings, Settings};
use serde_json::{Map, Value, json};

/// Values of the chart that are not settings of the hook, or that have no default there because
/// only a release sets them.
const OTHERS: [&str; 13] = [
    "image",
    "component.version",
    "daemonSet",
    "operatorNamespace",
    "operatorDeployment",
    "preflight.waits",
    "dra.skipAbsentNamespaces",
    "devicePlugin.namespace",
    "devicePlugin.release",
    "metrics",
    "admissionPolicy",
    "networkPolicy",
    "pod",
];

fn values() -> Value {
    let values: Value =
        serde_yaml::from_str(include_str!("../../charts/gpu-rollout/values.yaml")).unwrap();
    values["rollout"].clone()
}

/// Returns the defaults in the shape of the chart's values, in which a disabled setting is written
/// out or empty.
fn chart_defaults() -> Value {
    let settings = Settings::default();
    let UpgradeSettings { policy, topology, canary, halt, .. } = settings.upgrade.clone();
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } =
        policy;
    let DraSettings {
        reroll,
        required,
        namespaces,
        max_unavailable: dra_unavailable,
        replacement_seconds,
    } = settings.dra;
    let DevicePluginSettings {
        max_unavailable: plugins_unavailable,
        replacement_seconds: plugin_seconds,
        ..
    } = settings.device_plugin;
    assert!(
        wait_for_completion.is_none() && topology.is_none(),
        "selector and label must be empty"
    );
    assert!(canary.is_none() && halt.is_none(), "their numbers must be 0");
    let mut upgrade = json!(settings.upgrade);
    upgrade["policy"] = json!({
        "maxParallelUpgrades": max_parallel_upgrades,
        "maxUnavailable": max_unavailable,
        "waitForCompletion": {"podSelector": "", "timeoutSeconds": 0},
        "podDeletion": with(json!(PodDeletionPolicy::default()), "enable", pod_deletion.is_some()),
        "drain": with(json!(DrainPolicy::default()), "enable", drain.is_some()),
    });
    upgrade["topology"] = json!({"label": "", "maxUnavailable": 1});
    upgrade["extraConsumers"] = json!(settings.upgrade.extra_consumers);
    upgrade["windows"] = json!(settings.upgrade.windows);
    upgrade["canary"] = json!({"nodes": 0, "per": [], "soakSeconds": 0});
    upgrade["ramp"] = json!(settings.upgrade.ramp);
    upgrade["halt"] = json!({"failedProofs": 0, "failedNodes": 0});
    upgrade["acceptance"] = json!(settings.upgrade.acceptance);
    json!({
        "component": {"name": settings.component},
        "tasks": settings.tasks,
        "driver": settings.driver,
        "mode": settings.mode,
        "gate": settings.gate,
        "budgetSeconds": settings.budget_seconds,
        "perNodeSeconds": settings.per_node_seconds,
        "quietSeconds": settings.quiet_seconds,
        "graceSeconds": settings.grace_seconds,
        "tolerateNotReady": settings.tolerate_not_ready,
        "settle": settings.settle,
        "operatorUpgrade": settings.operator_upgrade,
        "clusterPolicy": settings.cluster_policy,
        "upgrade": upgrade,
        "preflight": {"strictness": settings.preflight.strictness},
        "dra": {
            "reroll": reroll,
            "required": required,
            "namespaces": namespaces,
            "maxUnavailable": dra_unavailable,
            "replacementSeconds": replacement_seconds,
        },
        "devicePlugin": {"maxUnavailable": plugins_unavailable, "replacementSeconds": plugin_seconds},
    })
}

fn with(mut object: Value, key: &str, flag: bool) -> Value {
    object[key] = json!(flag);
    object
}

/// Returns every value that is not a map, by its path. An empty map counts as a value.
fn leaves(value: &Value) -> BTreeMap<String, Value> {
    fn collect(map: &Map<String, Value>, path: &str, found: &mut BTreeMap<String, Value>) {
        for (key, value) in map {
            let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
            if let Some(below) = value.as_object().filter(|below| !below.is_empty()) {
                collect(below, &path, found);
            } else {
                found.insert(path, value.clone());
            }
        }
    }
    let mut found = BTreeMap::new();
    collect(value.as_object().unwrap(), "", &mut found);
    found
}

#[test]
fn chart_values_are_the_defaults_of_settings() {
    let is_other = |path: &str| {
        OTHERS.iter().any(|other| path == *other || path.starts_with(&format!("{other}.")))
    };
    let found: BTreeMap<String, Value> =
        leaves(&values()).into_iter().filter(|(path, _)| !is_other(path)).collect();
    assert_eq!(found, leaves(&chart_defaults()));
}

/// Returns the default of a property in its description in the schema.
fn documented(definition: &str, property: &str) -> String {
    let schema: Value = serde_json::from_str(&recipe::schema::text()).unwrap();
    let description = schema["$defs"][definition]["properties"][property]["description"]
        .as_str()
        .unwrap_or_default();
    let description = description.replace('\n', " ");
    let (_, default) = description
        .rsplit_once("efault: ")
        .unwrap_or_else(|| panic!("{definition}.{property}: `{description}`"));
    default.trim_end_matches('.').replace('`', "")
}

#[test]
fn recipe_schema_names_the_defaults_of_settings() {
    let UpgradeSettings {
        policy,
        failure_budget,
        attempts,
        soak_seconds,
        foreign_cordon,
        start_seconds,
        validation_seconds,
        ..
    } = UpgradeSettings::default();
    let time = |seconds| Duration::from_secs(seconds).to_string();
    let both = [
        ("maxParallelUpgrades", policy.max_parallel_upgrades.to_string()),
        (
            "maxUnavailable",
            policy.max_unavailable.as_ref().map(Count::to_string).unwrap_or_default(),
        ),
        ("failureBudget", failure_budget.to_string()),
        ("attempts", attempts.to_string()),
        ("soak", time(soak_seconds)),
        ("foreignCordon", json!(foreign_cordon).as_str().unwrap().to_owned()),
        ("driverStart", time(start_seconds)),
    ];
    for definition in ["RecipeUpgradePolicy", "RecipeOfedUpgradePolicy"] {
        for (property, expected) in &both {
            assert_eq!(documented(definition, property), *expected, "{definition}.{property}");
        }
    }
    assert_eq!(documented("RecipeUpgradePolicy", "validation"), time(validation_seconds));
    assert_eq!(
        documented("RecipePodDeletion", "timeout"),
        format!("{} s", PodDeletionPolicy::default().timeout_seconds)
    );
    assert_eq!(
        documented("RecipeDrain", "timeout"),
        format!("{} s", DrainPolicy::default().timeout_seconds)
    );
    let Canary { nodes, soak_seconds, .. } = Canary::default();
    assert_eq!(documented("RecipeCanary", "nodes"), nodes.to_string());
    assert_eq!(documented("RecipeCanary", "soak"), time(soak_seconds));
    assert_eq!(documented("Halt", "failedProofs"), Halt::default().failed_proofs.to_string());
    let metrics = &values()["metrics"];
    assert_eq!(documented("RecipeMetrics", "port"), metrics["port"].to_string());
    assert_eq!(
        documented("PodMonitor", "interval"),
        metrics["podMonitor"]["interval"].as_str().unwrap()
    );
}
