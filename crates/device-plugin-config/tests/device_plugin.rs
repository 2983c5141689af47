//! Tests of device plugin configurations: the plugin's verdicts, and the stricter rules.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use device_plugin_config::check::{CheckTarget, ConfigReport, check_text};
use device_plugin_config::environment::{PluginChart, PluginEnvironment};
use device_plugin_config::version::PluginVersion;
use diagnostics::diagnostic::Diagnostics;
use diagnostics::source::{SourceText, SourceTexts};

mod device_plugin {
    mod any_text;
    mod rules;
    mod vectors;
}

/// Checks a text.
fn check(
    text: &str,
    version: PluginVersion,
    environment: PluginEnvironment,
) -> (ConfigReport, SourceTexts) {
    let mut sources = SourceTexts::default();
    let source = sources.add(SourceText { name: "config.yaml".to_owned(), text: text.to_owned() });
    let report = check_text(&sources, source, &CheckTarget { version, environment });
    (report, sources)
}

/// Returns the environment of a chart without values.
fn environment(chart: PluginChart, version: PluginVersion) -> PluginEnvironment {
    chart.environment(version, &|_| None)
}

/// Returns a report as text.
fn told((report, sources): (ConfigReport, SourceTexts)) -> String {
    let list = report.findings.into_iter().map(|finding| finding.diagnostic).collect();
    Diagnostics { sources, list }.render_plain()
}
