//! The objects for monitoring, and the conditions under which alerts fire, evaluated by Prometheus'
//! promtool.

use std::process::Command;

use contract::names::METRICS_ENV;
use serde_json::{Value, json};

use super::helm::{refusal, template, values};

const ALL: &str = "rollout:
  metrics:
    enabled: true
    port: 9900
    podMonitor: {enabled: true, labels: {release: prometheus, app.kubernetes.io/name: mine}}
    prometheusRule: {enabled: true, labels: {release: prometheus}}
    dashboard: {enabled: true, annotations: {grafana_folder: GPUs}}
";

/// Runs promtool, which `tests/tools/promtool.sh` finds. Returns whether it succeeded, and its
/// output.
fn promtool(arguments: &[&str]) -> (bool, String) {
    let root = env!("CARGO_MANIFEST_DIR");
    let found = Command::new(format!("{root}/tests/tools/promtool.sh")).output().unwrap();
    assert!(found.status.success(), "{}", String::from_utf8_lossy(&found.stderr));
    let program = String::from_utf8(found.stdout).unwrap();
    let output = Command::new(program.trim()).args(arguments).current_dir(root).output().unwrap();
    (
        output.status.success(),
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned(),
    )
}

#[test]
#[ignore = "needs promtool (make e2e)"]
fn alerts_fire_when_they_should_and_only_then() {
    let (passed, said) = promtool(&["test", "rules", "tests/chart/alerts.test.yaml"]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "needs helm and promtool (make e2e)"]
fn installed_rule_belongs_to_prometheus_and_this_release() {
    let file = values(ALL);
    let objects = template(&["--values", file.to_str().unwrap()]);
    let rule = objects.kind("PrometheusRule").next().unwrap();
    assert_eq!(
        (&rule["metadata"]["name"], &rule["metadata"]["labels"]["release"]),
        (&json!("post"), &json!("prometheus"))
    );
    let text = rule["spec"].to_string();
    assert!(
        !text.contains("__")
            && text.contains("job_name=\\\"post\\\"")
            && text.contains("namespace=\\\"gpu-operator\\\""),
        "{text}"
    );
    // JSON is valid YAML.
    let rendered = values(&text);
    let (passed, said) = promtool(&["check", "rules", rendered.to_str().unwrap()]);
    assert!(passed, "{said}");
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn prometheus_finds_the_port_of_the_hook() {
    let file = values(ALL);
    let objects = template(&["--values", file.to_str().unwrap()]);
    let container = &objects.pod()["containers"][0];
    assert_eq!(
        container["ports"],
        json!([{"name": "metrics", "containerPort": 9900, "protocol": "TCP"}])
    );
    assert!(
        container["env"]
            .as_array()
            .unwrap()
            .contains(&json!({"name": METRICS_ENV, "value": "9900"})),
        "{container}"
    );
    let monitor = objects.kind("PodMonitor").next().unwrap();
    assert_eq!(
        monitor["spec"]["podMetricsEndpoints"],
        json!([{"port": "metrics", "honorLabels": true, "interval": "15s"}])
    );
    let labels = &objects.job()["spec"]["template"]["metadata"]["labels"];
    for (key, value) in monitor["spec"]["selector"]["matchLabels"].as_object().unwrap() {
        assert_eq!(labels[key], *value, "{key}");
    }
    assert_eq!(
        monitor["metadata"]["labels"]["app.kubernetes.io/name"], "gpu-rollout",
        "a user's label replaced one that identifies the object"
    );
    let dashboard = objects
        .kind("ConfigMap")
        .find(|map| map["metadata"]["labels"]["grafana_dashboard"] == "1")
        .unwrap();
    assert_eq!(dashboard["metadata"]["annotations"], json!({"grafana_folder": "GPUs"}));
    let page: Value =
        serde_json::from_str(dashboard["data"]["gpu-rollout.json"].as_str().unwrap()).unwrap();
    assert_eq!(page["uid"], "gpu-rollout");
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn monitoring_objects_are_off_by_default() {
    let objects = template(&[]);
    assert!(objects.0.iter().all(|object| object["apiVersion"] != "monitoring.coreos.com/v1"));
    assert!(objects.pod()["containers"][0].get("ports").is_none());
    let message = refusal(&["--set", "rollout.metrics.podMonitor.enabled=true"]);
    assert!(message.contains("rollout.metrics.enabled: true"), "{message}");
}
