//! Whatever stands in a file, there is a verdict.

use gpu_rollout::device_plugin::check::{Report, Verdict};
use gpu_rollout::device_plugin::environment::{Chart, Environment};
use gpu_rollout::device_plugin::keys::KEYS;
use gpu_rollout::device_plugin::rule::Rule;
use gpu_rollout::device_plugin::version::PluginVersion;
use proptest::prelude::*;

use crate::{check, environment, told};

/// A refused file has a finding that says so, a good verdict has none of them; and everything can be drawn.
fn holds_together(report: &Report) {
    let has = |rule: Rule| report.findings.iter().any(|finding| finding.rule == rule);
    match &report.verdict {
        Verdict::Ok(_) => assert!(!has(Rule::Refused) && !has(Rule::NoStart)),
        Verdict::ParseError(_) => assert!(has(Rule::Refused) && !report.is_ok()),
        Verdict::ValidateError(_) => assert!(has(Rule::NoStart) && !report.is_ok()),
    }
}

/// Values as people write them, good ones and bad ones.
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
        let names: Vec<&str> = KEYS.iter().map(gpu_rollout::device_plugin::keys::Key::name).collect();
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
        let (report, sources) = check(&text, PluginVersion::NEWEST, Environment::default());
        holds_together(&report);
        told((report, sources));
    }

    #[test]
    fn arbitrary_configurations(sharing in value(), flags in value(), whole in value()) {
        for text in [whole, format!("version: v1\nflags: {flags}\nsharing:\n  timeSlicing: {sharing}\n")] {
            for version in PluginVersion::PROVEN {
                let (report, sources) = check(&text, version, environment(Chart::GpuOperator, version));
                holds_together(&report);
                told((report, sources));
            }
        }
    }
}
