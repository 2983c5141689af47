//! Output of the check of a file, as text and as JSON.

use serde_json::{Value, json};

use super::super::check::PluginVerdict;
use super::super::effective::EffectiveConfig;
use super::super::environment::PluginChart;
use super::super::rule::ConfigFinding;
use super::super::selection::LABEL;
use super::FileReport;
use diagnostics::diagnostic::Severity;
use diagnostics::source::SourceTexts;

impl FileReport {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, report) in &self.configs {
            let name = name.as_ref().map_or_else(
                || self.name.clone(),
                |name| format!("{}, configuration {name}", self.name),
            );
            match &report.verdict {
                PluginVerdict::Ok(effective) => {
                    text.extend([
                        &*name,
                        ": the device plugin ",
                        &*self.version,
                        " starts with it\n",
                        &*summary(effective),
                    ]);
                }
                PluginVerdict::ParseError(message) | PluginVerdict::ValidateError(message) => {
                    text.extend([
                        &*name,
                        ": the device plugin ",
                        &*self.version,
                        " refuses it\n  ",
                        &**message,
                        "\n",
                    ]);
                }
            }
        }
        if let Some(without_label) = &self.without_label {
            let gets = match (&without_label["config"], &without_label["error"]) {
                (Value::String(name), _) => format!("configuration {name}"),
                (_, Value::String(reason)) => format!("the plugin does not start: {reason}"),
                _ => "the plugin's defaults".to_owned(),
            };
            text.extend(["nodes without the label ", LABEL, ": ", &*gets, "\n"]);
        }
        text
    }

    /// Returns the report as JSON.
    pub fn to_json(&self, sources: &SourceTexts) -> Value {
        let configs: Vec<Value> = self
            .configs
            .iter()
            .map(|(name, report)| json!({"name": name, "verdict": report.verdict.to_json(), "findings": list(&report.findings, sources)}))
            .collect();
        json!({
            "file": self.name,
            "pluginVersion": self.version,
            "chart": self.chart.map(PluginChart::name),
            "ok": self.is_ok(),
            "configs": configs,
            "withoutLabel": self.without_label,
            "findings": list(&self.findings, sources),
        })
    }
}

fn list(findings: &[ConfigFinding], sources: &SourceTexts) -> Vec<Value> {
    let one = |ConfigFinding { rule, diagnostic }: &ConfigFinding| {
        let place = diagnostic.place.map(|place| sources.line_and_column(place));
        json!({
            "rule": rule.about().name,
            "severity": match diagnostic.severity {
                Severity::Error => "error",
                Severity::Warning => "warning",
            },
            "message": diagnostic.message,
            "line": place.map(|(line, _)| line),
            "column": place.map(|(_, column)| column),
            "hints": diagnostic.hints,
        })
    };
    findings.iter().map(one).collect()
}

/// Returns what a node offers, line by line.
fn summary(effective: &EffectiveConfig) -> String {
    let mut rows = vec![("sharing", effective.sharing_strategy.name().to_owned())];
    if effective.advertised.is_empty() {
        let mig = match effective.mig_strategy.as_str() {
            "mixed" => ", and nvidia.com/mig-<profile>: one for each MIG device",
            "single" => " or, if MIG is enabled, for each MIG device",
            _ => "",
        };
        rows.push(("node offers", format!("nvidia.com/gpu: one for each GPU{mig}")));
    }
    for offer in &effective.advertised {
        rows.push((
            "node offers",
            format!(
                "{}: {} for each device with the name {}",
                offer.name, offer.replicas, offer.from
            ),
        ));
    }
    if !effective.advertised.is_empty() {
        rows.push(("node offers", "all other devices: once each, with their own names".to_owned()));
        let more = match effective.fail_requests_greater_than_one {
            Some(true) => "refused",
            Some(false) | None => {
                "granted, but give no larger share of a device than a request for one"
            }
        };
        rows.push(("requests for more than one", more.to_owned()));
    }
    rows.push(("MIG strategy", effective.mig_strategy.clone()));
    rows.push((
        "devices passed to containers by",
        if effective.device_list_strategy.is_empty() {
            "nothing".to_owned()
        } else {
            effective.device_list_strategy.join(", ")
        },
    ));
    rows.push(("devices named by", effective.device_id_strategy.clone()));
    rows.push((
        "device nodes passed to kubelet",
        yes_or_no(effective.pass_device_specs).to_owned(),
    ));
    rows.push(("fails if it cannot start", yes_or_no(effective.fail_on_init_error).to_owned()));
    rows.extend(
        effective
            .shared_devices_allocation_policy
            .clone()
            .map(|policy| ("shared devices allocated", policy)),
    );
    if !effective.imex.channel_ids.is_empty() {
        rows.push((
            "IMEX channel 0",
            if effective.imex.required { "required" } else { "if the node has it" }.to_owned(),
        ));
    }
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or_default();
    let lines: Vec<String> =
        rows.iter().map(|(name, value)| format!("  {name:width$}  {value}\n")).collect();
    lines.concat()
}

fn yes_or_no(flag: bool) -> &'static str {
    if flag { "yes" } else { "no" }
}
