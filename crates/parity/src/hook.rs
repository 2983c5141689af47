//! Reads the facts of a hook release from its chart and its values.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::ReadbackError;
use crate::chart::RIGHTS;
use crate::facts::{ChartFacts, DeployerFact, HookFacts};
use crate::files::TextFiles;
use crate::values::{digest, with_defaults};
use contract::chart_files::VALUES;

/// The template of the Job.
const JOB: &str = "templates/job.yaml";
/// Relevant keys of the Job: retries, deadline, identity.
const JOB_KEYS: [&str; 12] = [
    "activeDeadlineSeconds",
    "automountServiceAccountToken",
    "backoffLimit",
    "command",
    "completions",
    "image",
    "parallelism",
    "podFailurePolicy",
    "restartPolicy",
    "serviceAccountName",
    "terminationGracePeriodSeconds",
    "ttlSecondsAfterFinished",
];

/// A row of the chart's table of rights. `why` is only a description. Every other key restricts the
/// row.
#[derive(Deserialize)]
struct RightsRow {
    /// The charts of version 0.1.0 have the key `duty`.
    #[serde(alias = "duty")]
    task: Option<String>,
    driver: Option<String>,
    when: Option<String>,
    scope: String,
    group: String,
    resource: String,
    verbs: Vec<String>,
    object: String,
}

/// Reads the hook with the chart in `folder` and with `values`.
///
/// # Errors
/// The chart's table of rights, or its default values, cannot be read.
pub(crate) fn read(
    files: &TextFiles,
    folder: &str,
    values: &Value,
    chart: &ChartFacts,
) -> Result<HookFacts, ReadbackError> {
    let defaults: Option<Value> = files.yaml(&format!("{folder}/{VALUES}"))?;
    let values = with_defaults(values, defaults.unwrap_or_default());
    let rollout = &values["rollout"];
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let tasks: Vec<String> = rollout
        .get("tasks")
        .or_else(|| rollout.get("duties"))
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .map(text)
        .collect();
    let driver = rollout["driver"].as_str();
    let rows: Vec<RightsRow> = files.yaml(&format!("{folder}/{RIGHTS}"))?.unwrap_or_default();
    // Selects the rows exactly like the chart's `_rights.tpl`.
    let counts = |row: &&RightsRow| {
        row.task.as_ref().is_none_or(|task| tasks.contains(task))
            && (row.driver.is_none() || row.driver.as_deref() == driver)
            && row.when.as_deref().is_none_or(|condition| is_met(condition, rollout))
    };
    let rights: BTreeSet<String> = rows.iter().filter(counts).map(right).collect();
    Ok(HookFacts {
        component: text(&rollout["component"]["name"]),
        component_version: text(&rollout["component"]["version"]),
        rights,
        budget_seconds: rollout["budgetSeconds"].as_u64().unwrap_or_default(),
        timeout_is_sufficient: DeployerFact::Is(false),
        trigger: digest(
            &serde_json::json!({"chart": chart.name, "version": chart.version, "values": values}),
        ),
        job: job(files.get(&format!("{folder}/{JOB}")).unwrap_or_default()),
        tasks,
    })
}

/// Returns whether the values meet the condition of a row.
fn is_met(condition: &str, rollout: &Value) -> bool {
    let policy = &rollout["upgrade"]["policy"];
    let enabled = |key: &str| policy[key]["enable"] == true;
    match condition {
        "reroll" => rollout["dra"]["reroll"] == "auto",
        "eviction" => enabled("podDeletion") || enabled("drain"),
        "hold" => rollout["mode"] != "assist" || rollout["operatorUpgrade"]["hold"] != "never",
        "acceptance" => tests(rollout).is_some_and(|tests| !tests.is_empty()),
        "acceptance-logs" => tests(rollout)
            .is_some_and(|tests| tests.iter().any(|test| test["logLines"].as_u64() > Some(0))),
        "admission-policy" => rollout["admissionPolicy"]["enabled"] == true,
        // The chart of a newer version has conditions that are unknown here.
        _ => true,
    }
}

/// Returns the acceptance tests.
fn tests(rollout: &Value) -> Option<&Vec<Value>> {
    rollout["upgrade"]["acceptance"].as_array()
}

fn right(row: &RightsRow) -> String {
    let RightsRow { task, driver: _, when: _, scope, group, resource, verbs, object } = row;
    let slash = if group.is_empty() { "" } else { "/" };
    format!(
        "{}: {scope}: {} {group}{slash}{resource} ({object})",
        task.as_deref().unwrap_or("every"),
        verbs.join(",")
    )
}

/// Returns the relevant lines of the Job's template, verbatim.
fn job(template: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (key, value) in template.lines().filter_map(|line| line.trim().split_once(':')) {
        if JOB_KEYS.contains(&key) {
            found.entry(key.to_owned()).or_default().push(value.trim().to_owned());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    const TABLE: &str = include_str!("../../../charts/gpu-rollout/files/rights.yaml");

    /// A condition that parity did not know counted as met, with whatever values.
    #[test]
    fn every_condition_of_the_charts_rights_is_known() {
        let conditions: BTreeSet<&str> =
            TABLE.lines().filter_map(|line| line.get(2..)?.strip_prefix("when: ")).collect();
        assert!(conditions.len() >= 4, "{conditions:?}");
        let nothing = json!({"mode": "assist", "operatorUpgrade": {"hold": "never"}});
        let all = json!({
            "mode": "drive", "dra": {"reroll": "auto"}, "admissionPolicy": {"enabled": true},
            "upgrade": {
                "policy": {"drain": {"enable": true}},
                "acceptance": [{"name": "a", "logLines": 20}],
            },
        });
        for condition in conditions {
            assert!(!is_met(condition, &nothing), "{condition}");
            assert!(is_met(condition, &all), "{condition}");
        }
    }
}
