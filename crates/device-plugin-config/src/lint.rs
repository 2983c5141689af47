//! Finds mistakes in a configuration that the plugin accepts silently.

use super::environment::PluginEnvironment;
use super::keys::{self, ConfigKey, ConfigKeyKind};
use super::model::{PluginConfig, SettingValue, SleepInterval};
use super::rule::{ConfigFinding, ConfigRule};
use super::version::PluginVersion;
use diagnostics::source::SourceTexts;
use diagnostics::tree::YamlNode;
use diagnostics::words::in_backticks;

mod sharing;
mod structure;

/// The shortest reasonable sleep in seconds.
const SHORTEST_SLEEP_SECONDS: f64 = 1.0;
/// The hint for a sleep that is too short in every unit.
const DEFAULT_SLEEP: &str = "write `60s`, the default";

/// The input for the rules.
pub(super) struct LintTarget<'a> {
    pub(super) node: &'a YamlNode,
    pub(super) sources: &'a SourceTexts,
    pub(super) config: &'a PluginConfig,
    pub(super) version: PluginVersion,
    pub(super) environment: &'a PluginEnvironment,
}

/// Checks a configuration with all rules.
pub(super) fn lint(subject: &LintTarget<'_>, findings: &mut Vec<ConfigFinding>) {
    structure::check(subject, findings);
    sharing::check(subject, findings);
    settings(subject, findings);
}

fn settings(subject: &LintTarget<'_>, findings: &mut Vec<ConfigFinding>) {
    for (path, setting) in &subject.config.settings {
        let key = keys::key(path);
        if let SettingValue::Sleep(sleep) = setting.value {
            findings.extend(
                short_sleep(key, sleep, subject.sources.written(setting.origin))
                    .map(|finding| finding.at(setting.origin)),
            );
        }
        if setting.value == SettingValue::Texts(Vec::new()) && *path == keys::DEVICE_LIST_STRATEGY {
            ConfigRule::NoDeviceList
                .finding(format!("`{}` is an empty list; the plugin accepts it, and passes no devices to containers", key.name()))
                .at(setting.origin)
                .hint("name a strategy, or remove the key; the default is `envvar`")
                .report(findings);
        }
        findings.extend(
            replaced(subject, key, &setting.value).map(|finding| finding.at(setting.origin)),
        );
    }
}

fn short_sleep(key: &ConfigKey, sleep: SleepInterval, written: &str) -> Option<ConfigFinding> {
    match sleep {
        SleepInterval::Nanoseconds(number) => Some(
            ConfigRule::ShortSleep
                .finding(format!("`{}: {written}` has no unit; the plugin accepts it, and reads it as nanoseconds", key.name()))
                .hint(if number < SHORTEST_SLEEP_SECONDS {
                    DEFAULT_SLEEP.to_owned()
                } else {
                    format!("add a unit: `{written}s`")
                }),
        ),
        SleepInterval::Seconds(seconds) if seconds < SHORTEST_SLEEP_SECONDS => Some(
            ConfigRule::ShortSleep
                .finding(format!(
                    "`{}: {written}` is less than a second; GPU feature discovery accepts it, and checks the node without a pause",
                    key.name()
                ))
                .hint(DEFAULT_SLEEP),
        ),
        SleepInterval::Seconds(_) | SleepInterval::Infinite => None,
    }
}

/// Reports a variable that overrides the file with another value. It may even hide that the plugin
/// would refuse the file alone.
fn replaced(
    subject: &LintTarget<'_>,
    key: &ConfigKey,
    value: &SettingValue,
) -> Option<ConfigFinding> {
    let variable = subject.environment.first(key.environment)?;
    let says_the_same = match value {
        SettingValue::Text(text) => *text == variable.value,
        SettingValue::Switch(flag) => flag.to_string() == variable.value,
        SettingValue::Texts(texts) => texts.join(",") == variable.value,
        SettingValue::Wholes(wholes) => {
            wholes.iter().map(ToString::to_string).collect::<Vec<_>>().join(",") == variable.value
        }
        SettingValue::Sleep(_) => false,
    };
    if says_the_same {
        return None;
    }
    Some(
        ConfigRule::Replaced
            .finding(format!(
                "`{}` has no effect: the environment sets `{}={}` ({})",
                key.path, variable.name, variable.value, variable.because
            ))
            .hint("set it at the source of the environment, or remove it here"),
    )
}

/// Describes the expected value of a key, for hints.
pub(super) fn expected(key: &ConfigKey) -> String {
    let what = match key.kind {
        ConfigKeyKind::Map => "a map",
        ConfigKeyKind::Maps => "a list of maps",
        ConfigKeyKind::Text => "a text",
        ConfigKeyKind::Switch => "`true` or `false`",
        ConfigKeyKind::Whole => "an integer",
        ConfigKeyKind::Wholes => "a list of integers",
        ConfigKeyKind::Texts => "a word or a list of words",
        ConfigKeyKind::Duration => "a duration such as `60s`",
        ConfigKeyKind::Devices => "`all`",
    };
    if key.words.is_empty() { what.to_owned() } else { in_backticks(key.words) }
}
