//! `charts/gpu-rollout/files` is generated from the tables in `contract/`. `UPDATE=1` updates it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use contract::acceptance::{ACCEPTANCE_NAMESPACE, ALL_GPUS_CLAIM_TEMPLATE};
use contract::budget::{MARGIN_SECONDS, SLACK_SECONDS, TERMINATION_GRACE_SECONDS};
use contract::check::{CheckLevel, PreflightCheck};
use contract::driver::Driver;
use contract::names;
use contract::record::OBJECTS;
use contract::settings::{FORMAT_VERSION, Mode};
use contract::task::{AllowedNodeChanges, RIGHTS, Task};
use serde_json::json;

const HEADER: &str =
    "# Generated from crates/contract; `UPDATE=1 cargo test --test chart` updates it.\n";

/// Returns the text of a generated file.
fn yaml(value: &impl serde::Serialize) -> String {
    format!("{HEADER}{}", serde_yaml::to_string(value).unwrap())
}

/// Compares a file with its expected content. With `UPDATE`, writes it.
fn check(name: &str, expected: &str) {
    let path: PathBuf =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/gpu-rollout/files").join(name);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, expected).unwrap();
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(found, expected, "{name} is stale: UPDATE=1 cargo test --test chart");
}

#[test]
fn rights_are_those_of_the_task_table() {
    check("rights.yaml", &yaml(&RIGHTS));
}

#[test]
fn node_changes_are_those_of_the_task_table() {
    let mut rows = Vec::new();
    for task in Task::ALL {
        for driver in Driver::ALL {
            let Some(changes) = AllowedNodeChanges::of_task(task, driver) else { continue };
            rows.push(NodeChangeRow { task, driver, changes });
        }
    }
    check("node-changes.yaml", &yaml(&rows));
}

/// A row of `node-changes.yaml`.
#[derive(serde::Serialize)]
struct NodeChangeRow {
    task: Task,
    driver: Driver,
    #[serde(flatten)]
    changes: AllowedNodeChanges,
}

#[test]
fn the_contract_is_that_of_the_program() {
    let contract = json!({
        "formatVersion": FORMAT_VERSION,
        "settingsVariable": names::SETTINGS_ENV,
        "metricsVariable": names::METRICS_ENV,
        "terminationGraceSeconds": TERMINATION_GRACE_SECONDS,
        "marginSeconds": MARGIN_SECONDS,
        "slackSeconds": SLACK_SECONDS,
        "recordObjects": OBJECTS,
        "prefix": names::PREFIX,
        "lease": names::LEASE_NAME,
        "leaseNamespace": names::LEASE_NAMESPACE,
        "coordination": names::COORDINATION,
        "unschedulableTaint": names::UNSCHEDULABLE_TAINT,
        "pauses": names::PAUSE_NAME,
        "operatorDeployments": Driver::ALL.map(|driver| (driver.traits().name, driver.traits().operator_deployment)).into_iter().collect::<BTreeMap<_, _>>(),
        "operators": {"gpu": names::GPU_OPERATOR, "ofed": names::NETWORK_OPERATOR},
        "modeTasks": Mode::ALL.map(|mode| (mode.name(), mode.tasks())).into_iter().collect::<BTreeMap<_, _>>(),
        "steps": Task::ALL.into_iter().filter(|task| task.is_step()).collect::<Vec<_>>(),
        "nicClusterPolicy": names::NIC_CLUSTER_POLICY,
        "operatorLease": names::OPERATOR_LEASE,
        "drainSkipLabels": [names::DRAIN_SKIP_LABEL, names::OFED_DRAIN_SKIP_LABEL],
        "acceptanceNamespace": ACCEPTANCE_NAMESPACE,
        "allGpusClaimTemplate": ALL_GPUS_CLAIM_TEMPLATE,
    });
    check("contract.yaml", &yaml(&contract));
}

#[test]
fn chart_and_image_have_the_programs_version() {
    let version = env!("CARGO_PKG_VERSION");
    let chart = include_str!("../../charts/gpu-rollout/Chart.yaml");
    assert!(chart.contains(&format!("\nversion: {version}\nappVersion: {version}\n")), "{chart}");
    let dockerfile = include_str!("../../Dockerfile");
    assert!(dockerfile.contains(&format!("\nARG VERSION={version}\n")), "{dockerfile}");
}

/// Helm rejects the values that the program would reject, and names the place.
#[test]
fn schema_knows_every_check_and_its_values() {
    let schema: serde_json::Value =
        serde_json::from_str(include_str!("../../charts/gpu-rollout/values.schema.json")).unwrap();
    let expected: serde_json::Map<_, _> = PreflightCheck::ALL
        .into_iter()
        .map(|check| {
            let of = if check.takes(CheckLevel::Warn) { "level" } else { "firm" };
            (check.name().to_owned(), json!({"$ref": format!("#/definitions/{of}")}))
        })
        .collect();
    assert_eq!(
        schema["properties"]["rollout"]["properties"]["preflight"]["properties"]["strictness"]["properties"],
        json!(expected)
    );
    let words = |of: &str| schema["definitions"][of]["enum"].clone();
    assert_eq!(
        (words("level"), words("firm")),
        (json!(CheckLevel::ALL), json!([CheckLevel::Block]))
    );
}

#[test]
fn schemas_of_chart_and_recipes_have_the_same_patterns() {
    let chart: serde_json::Value =
        serde_json::from_str(include_str!("../../charts/gpu-rollout/values.schema.json")).unwrap();
    let recipe: serde_json::Value = serde_json::from_str(&recipe::schema::text()).unwrap();
    for (definition, key) in [
        ("MaintenanceWindow", "windows/items"),
        ("RampShare", "ramp/items"),
        ("AcceptanceNodes", "acceptance/items/properties/nodes"),
    ] {
        let of_recipe = &recipe["$defs"][definition]["pattern"];
        assert!(of_recipe.is_string(), "{of_recipe}");
        let place = format!("/properties/rollout/properties/upgrade/properties/{key}/pattern");
        assert_eq!(chart.pointer(&place), Some(of_recipe), "{key}");
    }
}
