//! Checks of `devicePluginConfig`: the device plugin's configurations, by the plugin's own checks
//! and by stricter rules.

use serde_json::Value;

use super::{KnownComponent, RuleTarget};
use device_plugin_config::check::{CheckTarget, check_node, newer_plugin};
use device_plugin_config::environment::PluginChart;
use device_plugin_config::rule::ConfigFinding;
use device_plugin_config::selection::{self, SelectedConfig};
use device_plugin_config::version::{PluginVersion, PluginVersionError};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::nearest::did_you_mean;
use diagnostics::source::SourceSpan;
use diagnostics::tree::YamlNode;
use diagnostics::words::in_backticks;

/// The component's key.
const KEY: &str = "devicePluginConfig";

/// Checks the configurations of all components.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        let Some(node) =
            subject.node_at(&["components", component.name, KEY]).filter(|node| !node.is_null())
        else {
            continue;
        };
        match component.name.parse::<PluginChart>() {
            Ok(chart) => {
                DevicePluginConfigCheck { subject, component, chart, node, findings }.check_all();
            }
            Err(_) => {
                Diagnostic::error(format!(
                    "`{}` does not deploy the device plugin",
                    component.name
                ))
                .at(subject.place(&["components", component.name, KEY]))
                .hint(format!(
                    "write `{KEY}` under {}",
                    PluginChart::ALL.map(|chart| format!("`{chart}`")).join(" or ")
                ))
                .report(findings);
            }
        }
    }
}

struct DevicePluginConfigCheck<'a> {
    subject: &'a RuleTarget<'a>,
    component: &'a KnownComponent<'a>,
    chart: PluginChart,
    node: &'a YamlNode,
    findings: &'a mut Vec<Diagnostic>,
}

impl DevicePluginConfigCheck<'_> {
    fn check_all(&mut self) {
        let component = self.component;
        let value = |path: &str| component.value(&path.split('.').collect::<Vec<_>>());
        let version = self.version(&value);
        let target = CheckTarget { version, environment: self.chart.environment(version, &value) };
        let configs = self.node.get("configs").map(YamlNode::entries).unwrap_or_default();
        for entry in configs {
            if let Some(why) = selection::unusable(&entry.key) {
                Diagnostic::error(format!(
                    "no node label can select the configuration `{}`: {why}",
                    entry.key
                ))
                .at(entry.key_origin)
                .hint("rename it")
                .report(self.findings);
            }
            let report = check_node(&entry.node, self.subject.sources, &target);
            self.findings.extend(report.findings.into_iter().map(
                |ConfigFinding { diagnostic, .. }| match diagnostic.place {
                    Some(place) if place == entry.node.origin => diagnostic.at(entry.key_origin),
                    Some(_) | None => diagnostic,
                },
            ));
        }
        self.default(&configs.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>());
        self.set_twice();
        if self.chart == PluginChart::GpuOperator
            && component.is_on(&["devicePlugin", "enabled"]) == Some(false)
        {
            Diagnostic::warning(format!(
                "`{KEY}` has no effect: `devicePlugin.enabled` is false in the values of `{}`",
                component.name
            ))
            .lint(Lint::NoEffect)
            .at(self.place(&[]))
            .report(self.findings);
        }
    }

    fn place(&self, keys: &[&str]) -> SourceSpan {
        self.subject.place(&[&["components", self.component.name, KEY][..], keys].concat())
    }

    /// Returns the plugin version that will read the configurations.
    fn version(&mut self, values: &dyn Fn(&str) -> Option<Value>) -> PluginVersion {
        let asked =
            self.subject.recipe.components.iter().find(|known| known.name == self.component.name);
        let chart_version = asked.and_then(|asked| asked.version.as_deref()).unwrap_or_default();
        let (version, problem) = match PluginVersion::deployed(self.chart, chart_version, values) {
            Ok(version) => (version, newer_plugin(version).map(|finding| finding.diagnostic)),
            Err(error) => {
                let nearest = PluginVersion::nearest(&error);
                let what = match &error {
                    PluginVersionError::TooOld(_) => error.to_string(),
                    PluginVersionError::Text(text) if text.is_empty() => {
                        "the version of the device plugin is unknown".to_owned()
                    }
                    PluginVersionError::Text(text) => {
                        format!("`{text}` does not identify a version of the device plugin")
                    }
                };
                (
                    nearest,
                    Some(Diagnostic::warning(format!(
                        "{what}; the configurations are checked as for {nearest}"
                    ))),
                )
            }
        };
        let path = [
            &["components", self.component.name, "values"][..],
            &PluginVersion::path(self.chart).split('.').collect::<Vec<_>>(),
        ]
        .concat();
        let place = self.subject.place(&path);
        self.findings.extend(problem.map(|diagnostic| diagnostic.at(place)));
        version
    }

    /// Checks the configuration of nodes without the label.
    fn default(&mut self, names: &[&str]) {
        if names.is_empty() {
            Diagnostic::error(format!("`{KEY}` has no configuration"))
                .at(self.place(&["configs"]))
                .hint("add one below `configs`")
                .report(self.findings);
            return;
        }
        let default = self.node.get("default").and_then(YamlNode::text);
        match selection::without_label(self.chart, names, default) {
            SelectedConfig::Config(_) => {}
            SelectedConfig::Empty => {
                self.findings.push(selection::no_default(names).diagnostic.at(self.place(&[])));
            }
            SelectedConfig::Fails(reason) => {
                let near = default.and_then(|default| did_you_mean(default, names.iter().copied()));
                let hint = near
                    .unwrap_or_else(|| format!("set `default` to one of {}", in_backticks(names)));
                Diagnostic::error(format!(
                    "on nodes without the label `{}`, the plugin would not start: {reason}",
                    selection::LABEL
                ))
                .at(self.place(&["default"]))
                .hint(hint)
                .report(self.findings);
            }
        }
    }

    /// Reports values of the chart that the bundle sets: it creates the ConfigMap, and sets its
    /// name.
    fn set_twice(&mut self) {
        let path: Vec<&str> = self.chart.config_path().split('.').collect();
        let Some(config) = self.component.values.and_then(|values| values.at_keys(&path)) else {
            return;
        };
        for entry in config
            .entries()
            .iter()
            .filter(|entry| !entry.node.is_null() && entry.key != "fallbackStrategies")
        {
            Diagnostic::error(format!("`{}.{}` in values and `{KEY}` both set the configurations", path.join("."), entry.key))
                .lint(Lint::SetTwice)
                .at(entry.key_origin)
                .related(self.place(&[]), "also set here")
                .hint("remove it from values: the bundle creates the ConfigMap, and sets its name and default")
                .report(self.findings);
        }
    }
}
