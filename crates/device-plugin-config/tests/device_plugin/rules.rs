//! Tests of the stricter rules: each file in `bad` has a finding of the rule in its name, each file
//! in `good` has none.

use std::collections::BTreeSet;
use std::path::Path;

use device_plugin_config::check::{ConfigReport, newer_plugin};
use device_plugin_config::environment::{PluginChart, PluginEnvironment};
use device_plugin_config::rule::ConfigRule;
use device_plugin_config::version::PluginVersion;
use diagnostics::source::SourceTexts;

use crate::{check, environment, told};

/// A version or a chart between name and ending determines what the file is checked for.
fn check_file(path: &Path) -> (ConfigReport, SourceTexts) {
    let text = std::fs::read_to_string(path).unwrap();
    let name = path.file_stem().unwrap().to_str().unwrap();
    let target = name.split_once('.').map_or("", |(_, target)| target);
    let version = target.parse().unwrap_or(PluginVersion::NEWEST);
    let environment = target
        .parse::<PluginChart>()
        .map_or_else(|_| PluginEnvironment::default(), |chart| environment(chart, version));
    check(&text, version, environment)
}

#[test]
fn bad_configurations() {
    insta::glob!("bad/*.yaml", |path| {
        let (report, sources) = check_file(path);
        let name = path.file_name().unwrap().to_str().unwrap();
        let about = |rule: ConfigRule| name.starts_with(rule.about().name);
        assert!(
            report.findings.iter().any(|finding| about(finding.rule)),
            "{name} does not show its rule: {:?}",
            report.findings
        );
        let verdict = serde_json::to_string_pretty(&report.verdict.to_json()).unwrap();
        let ships = report.is_ok();
        let text = format!("{}\n\nships: {ships}\nverdict: {verdict}", told((report, sources)));
        insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
            insta::assert_snapshot!("bad", text);
        });
    });
}

#[test]
fn good_configurations() {
    insta::glob!("good/*.yaml", |path| {
        assert_eq!(told(check_file(path)), "", "{}", path.display());
    });
}

/// Rules about whole files are shown by the tests of the command.
#[test]
fn every_rule_has_its_bad_file() {
    let files: Vec<String> =
        std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device_plugin/bad"))
            .unwrap()
            .map(|file| file.unwrap().file_name().into_string().unwrap())
            .collect();
    let of_files = [ConfigRule::Selection, ConfigRule::NoDefault, ConfigRule::NewerPlugin];
    for rule in ConfigRule::ALL.into_iter().filter(|rule| !of_files.contains(rule)) {
        assert!(
            files.iter().any(|file| file.starts_with(rule.about().name)),
            "no file shows `{}`",
            rule.about().name
        );
    }
}

#[test]
fn rules_have_names_of_their_own() {
    let names: BTreeSet<&str> = ConfigRule::ALL.into_iter().map(|rule| rule.about().name).collect();
    assert_eq!(names.len(), ConfigRule::ALL.len());
}

#[test]
fn only_plugins_newer_than_known_are_distinguished() {
    assert!(newer_plugin("0.20.1".parse().unwrap()).is_some());
    assert!(PluginVersion::PROVEN.into_iter().all(|version| newer_plugin(version).is_none()));
}
