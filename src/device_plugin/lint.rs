//! What is wrong with a configuration that the plugin takes without a word.

use super::environment::Environment;
use super::keys::{self, Key, Kind};
use super::model::{Config, SettingValue, Sleep};
use super::rule::{Finding, Rule};
use super::version::PluginVersion;
use crate::text::source::Sources;
use crate::text::tree::Node;

mod sharing;
mod structure;

/// Less sleep than this is no pause.
const SHORTEST_SLEEP_SECONDS: f64 = 1.0;

/// What a configuration is judged for.
pub(super) struct Subject<'a> {
    pub(super) node: &'a Node,
    pub(super) sources: &'a Sources,
    pub(super) config: &'a Config,
    pub(super) version: PluginVersion,
    pub(super) environment: &'a Environment,
}

/// Judges a configuration.
pub(super) fn lint(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    structure::check(subject, findings);
    sharing::check(subject, findings);
    settings(subject, findings);
}

fn settings(subject: &Subject<'_>, findings: &mut Vec<Finding>) {
    for (path, setting) in &subject.config.settings {
        let key = keys::key(path);
        let at = |finding: Finding| finding.with(|diagnostic| diagnostic.at(setting.origin));
        if let SettingValue::Sleep(sleep) = setting.value {
            findings.extend(short_sleep(key, sleep, subject.sources.written(setting.origin)).map(at));
        }
        if setting.value == SettingValue::Texts(Vec::new()) && *path == keys::DEVICE_LIST_STRATEGY {
            findings.push(
                at(Finding::new(
                    Rule::NoDeviceList,
                    format!("`{}` is an empty list: the plugin accepts it and tells no container about its devices", key.name()),
                ))
                .with(|diagnostic| diagnostic.hint("name a strategy, or remove the key: the default is `envvar`")),
            );
        }
        findings.extend(replaced(subject, key, &setting.value).map(at));
    }
}

fn short_sleep(key: &Key, sleep: Sleep, written: &str) -> Option<Finding> {
    match sleep {
        Sleep::Nanoseconds(_) => Some(
            Finding::new(
                Rule::ShortSleep,
                format!("`{}: {written}` has no unit: the plugin accepts it and takes it for nanoseconds", key.name()),
            )
            .with(|diagnostic| diagnostic.hint(format!("write the unit: `{written}s`"))),
        ),
        Sleep::Seconds(seconds) if seconds < SHORTEST_SLEEP_SECONDS => Some(
            Finding::new(
                Rule::ShortSleep,
                format!(
                    "`{}: {written}` is less than a second: GPU feature discovery accepts it and looks at the node without a pause",
                    key.name()
                ),
            )
            .with(|diagnostic| diagnostic.hint("write `60s`, the default")),
        ),
        Sleep::Seconds(_) | Sleep::Infinite => None,
    }
}

/// A variable that says something else than the file. It may even hide that the file alone would be refused.
fn replaced(subject: &Subject<'_>, key: &Key, value: &SettingValue) -> Option<Finding> {
    let variable = subject.environment.first(key.environment)?;
    let says_the_same = match value {
        SettingValue::Text(text) => *text == variable.value,
        SettingValue::Switch(flag) => flag.to_string() == variable.value,
        SettingValue::Texts(texts) => texts.join(",") == variable.value,
        SettingValue::Wholes(wholes) => wholes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",") == variable.value,
        SettingValue::Sleep(_) => false,
    };
    if says_the_same {
        return None;
    }
    Some(
        Finding::new(
            Rule::Replaced,
            format!("`{}` has no effect: the environment says `{}={}` ({})", key.path, variable.name, variable.value, variable.because),
        )
        .with(|diagnostic| diagnostic.hint("set it where the environment comes from, or remove it here")),
    )
}

/// What a key's value should be, for hints.
pub(super) fn expected(key: &Key) -> String {
    let what = match key.kind {
        Kind::Map => "a map",
        Kind::Maps => "a list of maps",
        Kind::Text => "a text",
        Kind::Switch => "`true` or `false`",
        Kind::Whole => "a whole number",
        Kind::Wholes => "a list of whole numbers",
        Kind::Texts => "a word or a list of words",
        Kind::Duration => "a duration such as `60s`",
        Kind::Devices => "`all`",
    };
    if key.words.is_empty() { what.to_owned() } else { key.words.iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ") }
}
