//! Configurations of the device plugin from the outside: the plugin's verdicts, and what is said beside them.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use gpu_rollout::device_plugin::check::{Report, Target, check_text};
use gpu_rollout::device_plugin::environment::{Chart, Environment};
use gpu_rollout::device_plugin::version::PluginVersion;
use gpu_rollout::text::diagnostic::Diagnostics;
use gpu_rollout::text::source::{Source, Sources};

mod device_plugin {
    mod any_text;
    mod command;
    mod library;
    mod rules;
    mod vectors;
}

/// Checks a text.
fn check(text: &str, version: PluginVersion, environment: Environment) -> (Report, Sources) {
    let mut sources = Sources::default();
    let source = sources.add(Source { name: "config.yaml".to_owned(), text: text.to_owned() });
    let report = check_text(&sources, source, &Target { version, environment });
    (report, sources)
}

/// The environment of a chart whose values say nothing.
fn environment(chart: Chart, version: PluginVersion) -> Environment {
    chart.environment(version, &|_| None)
}

/// What people read of a report.
fn told((report, sources): (Report, Sources)) -> String {
    let list = report.findings.into_iter().map(|finding| finding.diagnostic).collect();
    Diagnostics { sources, list }.render_plain()
}
