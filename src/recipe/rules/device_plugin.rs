//! `devicePluginConfig`: the device plugin's configurations, checked as the plugin and we would check their files.

use super::{Known, Subject};
use crate::device_plugin::check::{Target, check_node, newer_plugin};
use crate::device_plugin::environment::Chart;
use crate::device_plugin::rule::Finding;
use crate::device_plugin::selection::{self, Choice};
use crate::device_plugin::version::{PluginVersion, VersionError};
use crate::recipe::diagnostic::Diagnostic;
use crate::recipe::nearest::nearest;
use crate::recipe::source::Origin;
use crate::recipe::tree::Node;

/// The component's key.
const KEY: &str = "devicePluginConfig";

/// Checks the configurations of all components.
pub fn check(subject: &Subject<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        let Some(node) = subject.at(&["components", component.name, KEY]).filter(|node| !node.is_null()) else { continue };
        match component.name.parse::<Chart>() {
            Ok(chart) => Check { subject, component, chart, node, findings }.all(),
            Err(_) => findings.push(
                Diagnostic::error(format!("`{}` does not deploy the device plugin", component.name))
                    .at(subject.place(&["components", component.name, KEY]))
                    .hint(format!("write `{KEY}` under {}", Chart::ALL.map(|chart| format!("`{chart}`")).join(" or "))),
            ),
        }
    }
}

struct Check<'a> {
    subject: &'a Subject<'a>,
    component: &'a Known<'a>,
    chart: Chart,
    node: &'a Node,
    findings: &'a mut Vec<Diagnostic>,
}

impl Check<'_> {
    fn all(&mut self) {
        let version = self.version();
        let component = self.component;
        let value = |path: &str| component.value(&path.split('.').collect::<Vec<_>>());
        let target = Target { version, environment: self.chart.environment(version, &value) };
        let configs = self.node.get("configs").map(Node::entries).unwrap_or_default();
        for entry in configs {
            if let Some(why) = selection::unusable(&entry.key) {
                self.findings.push(
                    Diagnostic::error(format!("no node can choose the configuration `{}`: {why}", entry.key))
                        .at(entry.key_origin)
                        .hint("rename it"),
                );
            }
            let report = check_node(&entry.node, self.subject.sources, &target);
            self.findings.extend(report.findings.into_iter().map(|Finding { diagnostic, .. }| match diagnostic.place {
                Some(place) if place == entry.node.origin => diagnostic.at(entry.key_origin),
                Some(_) | None => diagnostic,
            }));
        }
        self.default(&configs.iter().map(|entry| entry.key.as_str()).collect::<Vec<_>>());
        self.set_twice();
        if self.chart == Chart::GpuOperator && component.is_on(&["devicePlugin", "enabled"]) == Some(false) {
            self.findings.push(
                Diagnostic::warning(format!(
                    "`{KEY}` has no effect: `devicePlugin.enabled` is false in the values of `{}`",
                    component.name
                ))
                .at(self.place(&[])),
            );
        }
    }

    fn place(&self, keys: &[&str]) -> Origin {
        self.subject.place(&[&["components", self.component.name, KEY][..], keys].concat())
    }

    /// The plugin's version is that of the image.
    fn version(&mut self) -> PluginVersion {
        let (path, value): (&[&str], _) = match self.chart {
            Chart::GpuOperator => (&["values", "devicePlugin", "version"], self.component.value(&["devicePlugin", "version"])),
            Chart::DevicePlugin => (&["values", "image", "tag"], self.component.value(&["image", "tag"])),
        };
        let written = value.and_then(|value| value.as_str().map(str::to_owned)).filter(|text| !text.is_empty());
        // The chart's own image has the chart's version; the operator's chart names its own.
        let own = || match self.chart {
            Chart::GpuOperator => None,
            Chart::DevicePlugin => self.subject.recipe.components.iter().find(|known| known.name == self.component.name)?.version.clone(),
        };
        let text = written.or_else(own).unwrap_or_default();
        let place = self.subject.place(&[&["components", self.component.name][..], path].concat());
        let (version, problem) = match text.parse::<PluginVersion>() {
            Ok(version) => (version, newer_plugin(version).map(|finding| finding.diagnostic)),
            Err(error @ VersionError::TooOld(_)) => {
                let message = format!("{error}; the configurations are judged like it");
                (PluginVersion::OLDEST, Some(Diagnostic::warning(message)))
            }
            Err(VersionError::Text(text)) => {
                let newest = PluginVersion::NEWEST;
                let what = if text.is_empty() { "nothing says which".to_owned() } else { format!("`{text}` does not say which") };
                let message = format!("{what} version of the device plugin is deployed: the configurations are judged like {newest}");
                (newest, Some(Diagnostic::warning(message)))
            }
        };
        self.findings.extend(problem.map(|diagnostic| diagnostic.at(place)));
        version
    }

    /// What nodes without the label get.
    fn default(&mut self, names: &[&str]) {
        if names.is_empty() {
            self.findings.push(
                Diagnostic::error(format!("`{KEY}` has no configuration")).at(self.place(&["configs"])).hint("add one below `configs`"),
            );
            return;
        }
        let default = self.node.get("default").and_then(Node::text);
        match selection::without_label(self.chart, names, default) {
            Choice::Config(_) => {}
            Choice::Empty => self.findings.push(selection::no_default(names).diagnostic.at(self.place(&[]))),
            Choice::Fails(reason) => {
                let near = default.and_then(|default| nearest(default, names.iter().copied()));
                let hint = match near {
                    Some(near) => format!("did you mean `{near}`?"),
                    None => {
                        format!("set `default` to one of {}", names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "))
                    }
                };
                self.findings.push(
                    Diagnostic::error(format!("on nodes without the label `{}` the plugin would not start: {reason}", selection::LABEL))
                        .at(self.place(&["default"]))
                        .hint(hint),
                );
            }
        }
    }

    /// The bundle makes the ConfigMap and names it to the chart.
    fn set_twice(&mut self) {
        let path: Vec<&str> = self.chart.config_path().split('.').collect();
        let Some(config) = self.component.values.and_then(|values| values.at_keys(&path)) else { return };
        for entry in config.entries().iter().filter(|entry| !entry.node.is_null() && entry.key != "fallbackStrategies") {
            self.findings.push(
                Diagnostic::error(format!(
                    "`{}.{}` in values and `{KEY}` both say which configurations there are",
                    path.join("."),
                    entry.key
                ))
                .at(entry.key_origin)
                .related(self.place(&[]), "and here")
                .hint("remove it from values: the bundle brings the ConfigMap and sets its name and default"),
            );
        }
    }
}
