//! `docs/metrics.md` has the table of `crates/contract/src/metrics.rs` (`UPDATE=1` updates it) and
//! every alert. Alerts and dashboard of the hook chart use only existing metrics and labels.

use std::collections::BTreeSet;
use std::fmt::Write;

use contract::metrics::{ALL, COMMON, MetricKind, MetricSource};
use planner::reason::{NO_TIME_LEFT, OUTSIDE_WINDOW};
use serde_json::Value;

use crate::{generated, root};

const PAGE: &str = "docs/metrics.md";
const ALERTS: &str = include_str!("../../charts/gpu-rollout/files/alerts.yaml");
const DASHBOARD: &str = include_str!("../../charts/gpu-rollout/files/dashboard.json");

/// The metric of kube-state-metrics that the alerts use, with the labels that they select.
const FOREIGN: (&str, [&str; 3]) = ("kube_job_failed", ["namespace", "job_name", "condition"]);

#[test]
fn the_table_is_that_of_the_program() {
    let mut expected =
        "\n| Metric | Type | Labels | What it says |\n|---|---|---|---|\n".to_owned();
    for metric in ALL {
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        let place = if metric.source == MetricSource::Report {
            " (`gpu-rollout report -o metrics`)"
        } else {
            ""
        };
        writeln!(
            expected,
            "| `{}` | {} | {} | {}{place} |",
            metric.sample_name(),
            metric.kind.name(),
            labels.join(", "),
            metric.help
        )
        .unwrap();
    }
    expected.push('\n');
    generated(PAGE, "crates/contract/src/metrics.rs", &expected);
}

/// Regression: an alert called nodes failed, and advised to retry them, that only waited for the next
/// maintenance window.
#[test]
fn alert_of_failed_nodes_excludes_nodes_that_were_not_started() {
    let excluded = format!("reason!~\"{NO_TIME_LEFT}|{OUTSIDE_WINDOW}\"");
    assert!(ALERTS.contains(&excluded), "{excluded}");
}

#[test]
fn metric_names_have_units_and_are_unique() {
    let names: BTreeSet<&str> = ALL.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), ALL.len());
    for metric in ALL {
        assert!(metric.name.starts_with("gpu_rollout_"), "{}", metric.name);
        let is_time = metric.help.contains("Unix time") || metric.help.contains("Duration");
        assert_eq!(
            is_time,
            metric.name.ends_with("_seconds"),
            "{}: a time is in seconds, and nothing else is",
            metric.name
        );
        assert!(
            !metric.name.ends_with("_total"),
            "{}: the ending of counters is added",
            metric.name
        );
        assert!(
            !metric.labels.contains(&"node") || metric.kind == MetricKind::Gauge,
            "{}: a node's name makes no counter",
            metric.name
        );
        assert!(metric.labels.iter().all(|label| !COMMON.contains(label)), "{}", metric.name);
    }
}

/// Returns the expressions of the alerts, by name.
fn alerts() -> Vec<(String, String)> {
    let file: Value = yaml::from_str(ALERTS).unwrap();
    let rules = file["groups"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|group| group["rules"].as_array().unwrap());
    rules
        .map(|rule| {
            (rule["alert"].as_str().unwrap().to_owned(), rule["expr"].as_str().unwrap().to_owned())
        })
        .collect()
}

/// Returns the expressions of the dashboard, by panel.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(DASHBOARD).unwrap();
    let mut all = Vec::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        let title = panel["title"].as_str().unwrap();
        for target in panel["targets"].as_array().unwrap() {
            all.push((title.to_owned(), target["expr"].as_str().unwrap().to_owned()));
        }
    }
    let variables = dashboard["templating"]["list"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|variable| variable["type"] == "query");
    all.extend(
        variables.map(|variable| {
            ("variables".to_owned(), variable["query"].as_str().unwrap().to_owned())
        }),
    );
    all
}

#[test]
fn alerts_and_dashboard_name_only_existing_metrics() {
    let word = regex::Regex::new(r"[a-z][a-z0-9_]*").unwrap();
    let selector = regex::Regex::new(r"([a-z][a-z0-9_]*)\{([^}]*)\}").unwrap();
    let label = regex::Regex::new(r"([a-z_]+)\s*(?:=|!=|=~|!~)\s*").unwrap();
    let known = |name: &str| {
        ALL.into_iter().find(|metric| {
            metric.sample_name() == name
                || format!("{}_bucket", metric.name) == name && metric.kind == MetricKind::Histogram
        })
    };
    for (place, expression) in alerts().into_iter().chain(panels()) {
        for name in word
            .find_iter(&expression)
            .map(|name| name.as_str())
            .filter(|name| name.starts_with("gpu_rollout_"))
        {
            assert!(
                known(name).is_some_and(|metric| metric.source == MetricSource::Hook),
                "{place}: `{name}` is not a metric of the hook"
            );
        }
        for found in selector.captures_iter(&expression) {
            let labels: Vec<&str> = if &found[1] == FOREIGN.0 {
                FOREIGN.1.to_vec()
            } else {
                let metric = known(&found[1]).unwrap_or_else(|| panic!("{place}: {}", &found[1]));
                metric.labels.iter().chain(&COMMON).copied().collect()
            };
            for used in label.captures_iter(&found[2]) {
                assert!(
                    labels.contains(&&used[1]),
                    "{place}: `{}` has no label `{}`",
                    &found[1],
                    &used[1]
                );
            }
        }
    }
}

#[test]
fn every_alert_is_documented_with_a_command() {
    let page = std::fs::read_to_string(root(PAGE)).unwrap();
    let file: Value = yaml::from_str(ALERTS).unwrap();
    let (_, table) = page.split_once("\n## Alerts\n").unwrap();
    let found: Vec<&str> =
        table.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect();
    let names: Vec<String> = alerts().into_iter().map(|(name, _)| name).collect();
    assert_eq!(found, names);
    for rule in file["groups"][0]["rules"].as_array().unwrap() {
        for key in ["summary", "description", "runbook"] {
            assert!(
                rule["annotations"][key].as_str().is_some_and(|text| !text.is_empty()),
                "{rule}"
            );
        }
        assert!(
            ["warning", "critical"].contains(&rule["labels"]["severity"].as_str().unwrap()),
            "{rule}"
        );
    }
}
