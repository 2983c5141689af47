//! What users write: recipes, configurations, arguments of commands, and logs.

use std::str::FromStr;

use contract::count::Count;
use contract::duration::Duration;
use contract::selector::Selector;
use contract::{secret_patterns, visible};
use deployer::BundleSource;
use device_plugin_config::check::{CheckTarget, check_text};
use device_plugin_config::environment::PluginEnvironment;
use device_plugin_config::version::PluginVersion;
use diagnostics::path::KeyPath;
use diagnostics::source::{SourceText, SourceTexts};
use recipe::overrides::ValueOverride;
use recipe::read::{ReadError, TextReader};
use release::hook_image::HookImage;
use release::mirror::RegistryMirror;
use release::sources::RepositoryOverride;
use serde_json::Value;

/// Parses YAML, and checks that what is written is read as the same.
pub(crate) fn yaml(text: &str) {
    if let Ok(value) = yaml::from_str_limited::<Value>(text, 10_000) {
        let written = yaml::to_string(&value).expect("JSON can be written");
        let read: Value = yaml::from_str(&written).expect("what is written can be read");
        assert_eq!(read, value, "{written}");
    }
    drop(yaml::first_document::<Value>(text, 10_000));
    let read: String = yaml::from_str(&yaml::quoted(text)).expect("a quoted text can be read");
    assert_eq!(read, text);
}

/// A reader of one text, which every file has.
struct OneText<'t>(&'t str);

impl TextReader for OneText<'_> {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Ok(self.0.to_owned())
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.to_owned())
    }
}

/// Loads a recipe, with itself as every file that it names, and prints its findings.
pub(crate) fn recipe(text: &str) {
    match recipe::load::load("recipe.yaml", &[], &mut OneText(text)) {
        Ok(recipe) => drop(recipe.warnings.render_plain()),
        Err(findings) => drop(findings.render_plain()),
    }
}

/// Checks a configuration of the device plugin.
pub(crate) fn device_plugin(text: &str) {
    let mut sources = SourceTexts::default();
    let id = sources.add(SourceText { name: "config.yaml".to_owned(), text: text.to_owned() });
    let target =
        CheckTarget { version: PluginVersion::NEWEST, environment: PluginEnvironment::default() };
    drop(check_text(&sources, id, &target).verdict.to_json());
}

/// Parses arguments of commands. What is displayed is parsed as the same.
pub(crate) fn arguments(text: &str) {
    if let Ok(duration) = Duration::from_str(text) {
        assert_eq!(Duration::from_str(&duration.to_string()).ok(), Some(duration));
    }
    if let Ok(count) = Count::from_str(text) {
        assert_eq!(Count::from_str(&count.to_string()).ok(), Some(count));
    }
    if let Ok(selector) = Selector::from_str(text) {
        assert_eq!(Selector::from_str(&selector.to_string()).ok(), Some(selector));
    }
    if let Ok(path) = KeyPath::from_str(text) {
        assert_eq!(KeyPath::from_str(&path.to_string()).ok(), Some(path));
    }
    drop(ValueOverride::from_str(text));
    drop(HookImage::from_str(text));
    drop(RegistryMirror::from_str(text));
    drop(RepositoryOverride::from_str(text));
}

/// Parses a source of bundles: a line with the URL, one with the revision, and the path. What is
/// stored is parsed as the same.
pub(crate) fn addresses(text: &str) {
    let mut lines = text.splitn(3, '\n');
    let mut part = || lines.next().unwrap_or_default();
    let (url, revision, path) = (part(), part(), part());
    match BundleSource::new(url, revision, path) {
        Ok(source) => {
            let read = BundleSource::new(&source.url, &source.revision, &source.path);
            assert_eq!(read, Ok(source));
        }
        Err(error) => drop((error.to_string(), error.part(), error.hint())),
    }
}

/// Removes secrets, and makes hidden characters visible.
pub(crate) fn redaction(text: &str) {
    let mut last = 0;
    for range in secret_patterns::find_secrets(text) {
        assert!(last <= range.start && range.start < range.end, "{range:?}");
        assert!(text.get(range.clone()).is_some(), "{range:?} splits a character");
        last = range.end;
    }
    drop(secret_patterns::redact(text));
    let shown = visible::line(text);
    assert!(!shown.chars().any(visible::is_hidden), "{shown:?}");
    drop(visible::json(text));
}
