//! Monitoring of the hooks, with the same keys as in the hook chart's values.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use contract::omitted::is_default;

/// Monitoring of the hooks.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct RecipeMetrics {
    /// Whether each hook serves metrics (`/metrics`) while it runs.
    pub enabled: bool,
    /// The port of the hook's pod that serves the metrics. Default: 9797.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// A PodMonitor of the Prometheus Operator for each hook.
    #[serde(skip_serializing_if = "is_default")]
    pub pod_monitor: PodMonitor,
    /// A PrometheusRule with alerts for each hook.
    #[serde(skip_serializing_if = "is_default")]
    pub prometheus_rule: PrometheusRule,
    /// A ConfigMap with a Grafana dashboard, in one of the hooks' releases.
    #[serde(skip_serializing_if = "is_default")]
    pub dashboard: Dashboard,
}

/// A PodMonitor.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PodMonitor {
    /// Whether to create the PodMonitor.
    pub enabled: bool,
    /// Labels by which your Prometheus selects the PodMonitor, such as
    /// `release: kube-prometheus-stack`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"type": "string", "x-grammar": "labelValue"}))]
    pub labels: BTreeMap<String, String>,
    /// How often Prometheus scrapes the metrics, such as `30s`. Default: `15s`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(extend("x-grammar" = "interval"))]
    pub interval: Option<String>,
}

/// A PrometheusRule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct PrometheusRule {
    /// Whether to create the PrometheusRule.
    pub enabled: bool,
    /// Labels by which your Prometheus selects the PrometheusRule.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"type": "string", "x-grammar": "labelValue"}))]
    pub labels: BTreeMap<String, String>,
}

/// A ConfigMap with a dashboard.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Dashboard {
    /// Whether to create the ConfigMap.
    pub enabled: bool,
    /// Labels by which Grafana's sidecar finds the ConfigMap, in addition to
    /// `grafana_dashboard: "1"`.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"type": "string", "x-grammar": "labelValue"}))]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the ConfigMap, such as the folder that the sidecar puts the dashboard into.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("propertyNames" = {"x-grammar": "labelKey"}, "additionalProperties" = {"type": "string", "x-grammar": "text"}))]
    pub annotations: BTreeMap<String, String>,
}
