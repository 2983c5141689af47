//! Checks a configuration: the plugin's verdict, and stricter rules.

use serde_json::{Value, json};

use super::effective::{EffectiveConfig, InvalidConfig, effective};
use super::environment::PluginEnvironment;
use super::keys;
use super::lint::{self, expected};
use super::model::SettingValue;
use super::read::{ConfigReading, ReadProblem, read, refusal};
use super::rule::{ConfigFinding, ConfigRule};
use super::version::PluginVersion;
use diagnostics::diagnostic::Severity;
use diagnostics::nearest::did_you_mean;
use diagnostics::parse::{DocumentWords, parse_leniently};
use diagnostics::source::{SourceId, SourceSpan, SourceTexts};
use diagnostics::tree::YamlNode;

/// The words for messages about a configuration file.
pub(super) const WORDS: DocumentWords = DocumentWords {
    document: "a configuration of the device plugin",
    second_document: "a configuration is one document: write each one into its own file, or its own key of the ConfigMap",
};

/// The plugin's verdict about a configuration.
#[derive(Clone, Debug, PartialEq)]
pub enum PluginVerdict {
    /// The plugin starts with these settings.
    Ok(Box<EffectiveConfig>),
    /// The plugin cannot read the file, with its message.
    ParseError(String),
    /// The plugin does not start, with its message.
    ValidateError(String),
}

impl PluginVerdict {
    /// Returns the verdict as JSON, with the stage that is reached.
    pub fn to_json(&self) -> Value {
        match self {
            Self::Ok(effective) => json!({"stage": "ok", "effective": effective}),
            Self::ParseError(message) => json!({"stage": "parse-error", "error": message}),
            Self::ValidateError(message) => json!({"stage": "validate-error", "error": message}),
        }
    }
}

/// The plugin and the environment to check for.
#[derive(Clone, Debug)]
pub struct CheckTarget {
    /// The plugin's version.
    pub version: PluginVersion,
    /// The plugin's environment.
    pub environment: PluginEnvironment,
}

/// The result of the check of one configuration.
#[derive(Clone, Debug)]
pub struct ConfigReport {
    /// The plugin's own verdict.
    pub verdict: PluginVerdict,
    /// The findings, in the order of the text.
    pub findings: Vec<ConfigFinding>,
}

impl ConfigReport {
    /// Whether the configuration can be used.
    pub fn is_ok(&self) -> bool {
        self.findings.iter().all(|finding| finding.diagnostic.severity == Severity::Warning)
    }
}

/// Returns the finding for a plugin whose verdicts are unknown.
pub fn newer_plugin(version: PluginVersion) -> Option<ConfigFinding> {
    let known = PluginVersion::NEWEST;
    let message = format!(
        "the device plugin {version} is treated like {known}, the newest version with known verdicts"
    );
    (version > known).then(|| ConfigRule::NewerPlugin.finding(message))
}

/// Checks a text.
pub fn check_text(sources: &SourceTexts, source: SourceId, target: &CheckTarget) -> ConfigReport {
    let document = match parse_leniently(sources, source, WORDS) {
        Ok(document) => document,
        Err(diagnostic) => {
            let verdict = PluginVerdict::ParseError(refusal(&format!(
                "unmarshal error: error converting YAML to JSON: {}",
                diagnostic.message
            )));
            return ConfigReport {
                verdict,
                findings: vec![ConfigFinding { rule: ConfigRule::Refused, diagnostic }],
            };
        }
    };
    let mut report = check_node(&document.node, sources, target);
    if let Some(second) = document.second_document {
        ConfigRule::SecondDocument
            .finding(
                "a second document starts here; the plugin accepts it, and reads only the first",
            )
            .at(second)
            .hint(WORDS.second_document)
            .report(&mut report.findings);
    }
    report
}

/// Checks a tree, for configurations inside other documents.
pub fn check_node(node: &YamlNode, sources: &SourceTexts, target: &CheckTarget) -> ConfigReport {
    let CheckTarget { version, environment } = target;
    let reading = read(node, *version);
    let mut findings = Vec::new();
    findings
        .extend(reading.all_problems().map(|problem| refused(problem, node, sources, *version)));
    let started = effective(&reading.config, *version, environment);
    if let Err(invalid) = &started {
        findings.push(no_start(invalid, node, &reading, target));
    }
    let verdict = match (reading.refusal(), started) {
        (Some(message), _) => PluginVerdict::ParseError(message),
        (None, Err(invalid)) => PluginVerdict::ValidateError(invalid.message),
        (None, Ok(effective)) => PluginVerdict::Ok(Box::new(effective)),
    };
    lint::lint(
        &lint::LintTarget {
            node,
            sources,
            config: &reading.config,
            version: *version,
            environment,
        },
        &mut findings,
    );
    findings
        .sort_by_key(|finding| finding.diagnostic.place.map(|place| (place.source, place.start)));
    ConfigReport { verdict, findings }
}

fn refused(
    problem: &ReadProblem,
    node: &YamlNode,
    sources: &SourceTexts,
    version: PluginVersion,
) -> ConfigFinding {
    let written = sources.written(problem.origin);
    let hint = if problem.message.contains("of type bool") {
        let bare = written.trim_matches(['"', '\'']);
        ["true", "false"].contains(&bare).then(|| format!("remove the quotes: `{bare}`"))
    } else if problem.message.contains("of type string")
        && !written.is_empty()
        && !written.starts_with(['{', '['])
    {
        Some(format!("quote it to write a string: `\"{written}\"`"))
    } else if problem.message.contains("of type int") {
        let bare = written.trim_matches(['"', '\'']);
        bare.parse::<i64>().is_ok().then(|| format!("remove the quotes: `{bare}`"))
    } else if problem.message.contains("number of replicas") {
        Some(
            "to not share a resource, remove its entry; otherwise set at least two replicas"
                .to_owned(),
        )
    } else if problem.message.contains("resource name '") {
        Some(
            "device names are `nvidia.com/gpu` and `nvidia.com/mig-<profile>`; in profiles, write `.` for `+`: `mig-1g.10gb.me`"
                .to_owned(),
        )
    } else {
        None
    };
    let place = if problem.origin.range().is_empty() {
        key_of(node, problem.origin)
    } else {
        problem.origin
    };
    ConfigRule::Refused
        .finding(format!("the device plugin {version} refuses this: {}", problem.message))
        .at(place)
        .maybe_hint(hint)
}

/// Returns the position of the key of a map or a list, whose content would be too long for a
/// message.
fn key_of(node: &YamlNode, origin: SourceSpan) -> SourceSpan {
    for entry in node.entries() {
        if entry.node.origin == origin {
            return entry.key_origin;
        }
        let inner = key_of(&entry.node, origin);
        if inner != origin {
            return inner;
        }
    }
    node.items()
        .iter()
        .map(|item| key_of(item, origin))
        .find(|found| *found != origin)
        .unwrap_or(origin)
}

fn no_start(
    invalid: &InvalidConfig,
    node: &YamlNode,
    reading: &ConfigReading,
    CheckTarget { version, environment }: &CheckTarget,
) -> ConfigFinding {
    let key = keys::key(invalid.path);
    let variable = environment.first(key.environment);
    let hint = match (invalid.path, variable) {
        (keys::MPS_ROOT, _) => "the charts set it themselves: name your chart (`--chart gpu-operator`, `--chart nvidia-device-plugin`), or set `flags.mpsRoot: /run/nvidia/mps`".to_owned(),
        (_, Some(variable)) if variable.value.is_empty() => {
            format!("{} sets `{}` to an empty string, which the plugin treats as set: remove it there, or write `null`", variable.because, variable.name)
        }
        (_, Some(variable)) => format!("`{}={}` comes from {}", variable.name, variable.value, variable.because),
        (keys::MIG_STRATEGY, None) if reading.config.mps.is_some() => "with MPS, the strategy must be `none` or `single`".to_owned(),
        (keys::IMEX_CHANNELS, None) => "the only channel is 0: `channelIDs: [0]`".to_owned(),
        (_, None) => word_hint(key, reading),
    };
    let place = invalid.origin.or_else(|| {
        Some(node.at_keys(&["sharing", "mps"])?.origin).filter(|_| invalid.path == keys::MPS_ROOT)
    });
    let place = place.map_or(node.origin, |place| {
        if place.range().is_empty() { key_of(node, place) } else { place }
    });
    ConfigRule::NoStart
        .finding(format!(
            "the device plugin {version} does not start with this: {}",
            invalid.message
        ))
        .at(place)
        .hint(hint)
}

/// Returns the hint for an unknown word: a similar word, or a list instead of a string with commas.
fn word_hint(key: &keys::ConfigKey, reading: &ConfigReading) -> String {
    let texts = match reading.config.value(key.path) {
        Some(SettingValue::Text(text)) => std::slice::from_ref(text),
        Some(SettingValue::Texts(texts)) => texts,
        Some(SettingValue::Switch(_) | SettingValue::Wholes(_) | SettingValue::Sleep(_)) | None => {
            &[]
        }
    };
    let wrong =
        texts.iter().map(String::as_str).find(|text| !key.words.contains(text)).unwrap_or_default();
    let parts: Vec<&str> = wrong.split(',').map(str::trim).collect();
    if parts.len() > 1 && parts.iter().all(|part| key.words.contains(part)) {
        return format!("in a file, write several values as a list: `[{}]`", parts.join(", "));
    }
    did_you_mean(wrong, key.words.iter().copied())
        .unwrap_or_else(|| format!("expected one of {}", expected(key)))
}
