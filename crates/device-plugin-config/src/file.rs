//! Checks a file that contains a configuration or a ConfigMap with configurations.

use serde_json::{Value, json};

use super::check::{CheckTarget, ConfigReport, WORDS, check_text, newer_plugin};
use super::config_map;
use super::environment::PluginChart;
use super::rule::{ConfigFinding, ConfigRule};
use super::selection::{self, LABEL, SelectedConfig};
use diagnostics::diagnostic::{Diagnostic, Severity};
use diagnostics::parse::parse_leniently;
use diagnostics::source::{SourceId, SourceText, SourceTexts};
use diagnostics::tree::{MapEntry, YamlNode};

mod report;

/// The input for the check of a file.
#[derive(Clone, Copy, Debug)]
pub struct FileCheck<'a> {
    /// The plugin to check for.
    pub target: &'a CheckTarget,
    /// The chart that deploys the plugin, if it is known.
    pub chart: Option<PluginChart>,
    /// The configuration for nodes without a label.
    pub default: Option<&'a str>,
}

/// The result of the check of a file.
#[derive(Clone, Debug)]
pub struct FileReport {
    name: String,
    version: String,
    chart: Option<PluginChart>,
    /// Each configuration, with its name in the ConfigMap; a plain file has no names.
    configs: Vec<(Option<String>, ConfigReport)>,
    /// The configuration of a node without the label.
    without_label: Option<Value>,
    /// Findings about the file as a whole.
    findings: Vec<ConfigFinding>,
}

/// Why a file is not checked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileCheckError {
    /// Only a ConfigMap has several configurations, of which one can be the default.
    #[error("`--default` applies only to a ConfigMap, and `{0}` is one configuration")]
    DefaultOfConfig(String),
}

/// Checks a file.
///
/// # Errors
/// A default is named, and the file is one configuration.
pub fn check(
    sources: &mut SourceTexts,
    id: SourceId,
    question: &FileCheck<'_>,
) -> Result<FileReport, FileCheckError> {
    let mut answer = FileReport {
        name: sources.get(id).name.clone(),
        version: question.target.version.to_string(),
        chart: question.chart,
        configs: Vec::new(),
        without_label: None,
        findings: newer_plugin(question.target.version).into_iter().collect(),
    };
    let document = parse_leniently(sources, id, WORDS).ok().map(|document| document.node);
    match document {
        Some(node) if config_map::is_config_map(&node) => {
            config_maps(sources, &node, question, &mut answer);
        }
        Some(node) if node.get("kind").is_some() && node.get("apiVersion").is_some() => {
            answer.findings.push(other_kind(&node));
        }
        Some(_) if question.default.is_some() => {
            return Err(FileCheckError::DefaultOfConfig(answer.name));
        }
        Some(_) | None => {
            answer.configs.push((None, check_text(sources, id, question.target)));
        }
    }
    Ok(answer)
}

fn other_kind(node: &YamlNode) -> ConfigFinding {
    let kind = node.get("kind");
    let name = kind.and_then(YamlNode::text).unwrap_or_default();
    let hint = match name {
        "Recipe" => "`gpu-rollout recipe check` checks its configurations",
        _ => "use the file of a configuration, or the manifest of one ConfigMap",
    };
    let place = kind.map_or(node.origin, |kind| kind.origin);
    ConfigRule::Refused
        .finding(format!(
            "this is an object of kind `{name}`, not a configuration of the device plugin"
        ))
        .at(place)
        .hint(hint)
}

fn config_maps(
    sources: &mut SourceTexts,
    node: &YamlNode,
    question: &FileCheck<'_>,
    answer: &mut FileReport,
) {
    let entries = config_map::entries(node);
    for entry in entries {
        if let Some(why) = selection::unusable(&entry.key) {
            ConfigRule::Selection
                .finding(format!(
                    "no node label can select the configuration `{}`: {why}",
                    entry.key
                ))
                .at(entry.key_origin)
                .hint("rename the key")
                .report(&mut answer.findings);
        }
        let Some(text) = entry.node.text() else {
            ConfigRule::Refused
                .finding(format!("`data.{}` is not a string", entry.key))
                .at(entry.key_origin)
                .report(&mut answer.findings);
            continue;
        };
        let name = format!("{}, data.{}", answer.name, entry.key);
        let source = sources.add(SourceText { name, text: text.to_owned() });
        answer
            .configs
            .push((Some(entry.key.clone()), check_text(sources, source, question.target)));
    }
    if let Some(binary) = node.entry("binaryData") {
        let finding = ConfigRule::Refused.finding("configurations in `binaryData` are not checked");
        answer.findings.push(finding.at(binary.key_origin).hint("write them into `data`"));
    }
    select(node, entries, question, answer);
}

/// Determines the configuration of a node without the label, if the chart is known.
fn select(
    node: &YamlNode,
    entries: &[MapEntry],
    question: &FileCheck<'_>,
    answer: &mut FileReport,
) {
    let Some(chart) = question.chart else {
        if let Some(default) =
            question.default.filter(|default| !entries.iter().any(|entry| entry.key == *default))
        {
            ConfigRule::Selection
                .finding(format!("the default `{default}` is not one of the configurations"))
                .report(&mut answer.findings);
        }
        return;
    };
    let names: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
    let choice = selection::without_label(chart, &names, question.default);
    let place = node.entry("data").map_or(node.origin, |data| data.key_origin);
    match &choice {
        SelectedConfig::Config(_) => {}
        SelectedConfig::Fails(reason) => ConfigRule::Selection
            .finding(format!(
                "on nodes without the label `{LABEL}`, the plugin does not start: {reason}"
            ))
            .at(place)
            .hint("name one with `--default`, as in the chart's values")
            .report(&mut answer.findings),
        SelectedConfig::Empty => {
            selection::no_default(&names).at(place).report(&mut answer.findings);
        }
    }
    answer.without_label = Some(match choice {
        SelectedConfig::Config(name) => json!({"config": name}),
        SelectedConfig::Empty => json!({"config": null}),
        SelectedConfig::Fails(reason) => json!({"error": reason}),
    });
}

impl FileReport {
    /// Whether the file can be deployed.
    pub fn is_ok(&self) -> bool {
        let is_fine = |finding: &ConfigFinding| finding.diagnostic.severity == Severity::Warning;
        self.findings.iter().all(is_fine) && self.configs.iter().all(|(_, report)| report.is_ok())
    }

    /// Returns all findings.
    pub fn into_diagnostics(self) -> Vec<Diagnostic> {
        let configs = self.configs.into_iter().flat_map(|(_, report)| report.findings);
        self.findings.into_iter().chain(configs).map(|finding| finding.diagnostic).collect()
    }
}
