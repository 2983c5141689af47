//! Tests that any file gets a verdict.

use device_plugin_config::check::{ConfigReport, PluginVerdict};
use device_plugin_config::environment::{PluginChart, PluginEnvironment};
use device_plugin_config::keys::KEYS;
use device_plugin_config::rule::ConfigRule;
use device_plugin_config::version::PluginVersion;
use proptest::prelude::*;

use crate::{check, environment, told};

/// A refused file has a finding that says so, a good verdict has none of them; and everything can
/// be drawn.
fn holds_together(report: &ConfigReport) {
    let has = |rule: ConfigRule| report.findings.iter().any(|finding| finding.rule == rule);
    match &report.verdict {
        PluginVerdict::Ok(_) => assert!(!has(ConfigRule::Refused) && !has(ConfigRule::NoStart)),
        PluginVerdict::ParseError(_) => assert!(has(ConfigRule::Refused) && !report.is_ok()),
        PluginVerdict::ValidateError(_) => assert!(has(ConfigRule::NoStart) && !report.is_ok()),
    }
}

/// Typical values, valid and invalid.
fn value() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("null".to_owned()),
        Just("yes".to_owned()),
        Just("'true'".to_owned()),
        Just("true".to_owned()),
        Just("mixed".to_owned()),
        Just("nvidia.com/gpu".to_owned()),
        Just("mig-1g.10gb".to_owned()),
        Just("60s".to_owned()),
        Just("envvar,cdi-cri".to_owned()),
        Just("all".to_owned()),
        (-3_i64..60).prop_map(|number| number.to_string()),
        Just("2.0".to_owned()),
        Just("1e30".to_owned()),
        "[a-z./+:{ -]{0,12}".prop_map(|text| format!("{text:?}")),
    ];
    leaf.prop_recursive(5, 40, 4, |inner| {
        let names: Vec<&str> = KEYS.iter().map(device_plugin_config::keys::ConfigKey::name).collect();
        let key = prop_oneof![4 => proptest::sample::select(names).prop_map(str::to_owned), 1 => "[A-Za-z]{1,8}"];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(|items| format!("[{}]", items.join(", "))),
            prop::collection::vec((key, inner), 0..4).prop_map(|entries| {
                let entries: Vec<String> = entries.into_iter().map(|(key, value)| format!("{key}: {value}")).collect();
                format!("{{{}}}", entries.join(", "))
            }),
        ]
    })
}

proptest! {
    #[test]
    fn arbitrary_text(text in "\\PC{0,200}|[a-z:\\- \n\t\\[\\]{}&*!|>'\"#,]{0,200}") {
        let (report, sources) = check(&text, PluginVersion::NEWEST, PluginEnvironment::default());
        holds_together(&report);
        told((report, sources));
    }

    #[test]
    fn arbitrary_configurations(sharing in value(), flags in value(), whole in value()) {
        for text in [whole, format!("version: v1\nflags: {flags}\nsharing:\n  timeSlicing: {sharing}\n")] {
            for version in PluginVersion::PROVEN {
                let (report, sources) = check(&text, version, environment(PluginChart::GpuOperator, version));
                holds_together(&report);
                told((report, sources));
            }
        }
    }
}
