//! Checks the device plugin configurations in a bundle, which may have been edited.

use serde::Deserialize;
use serde_json::{Map, Value};

use super::info::{BundleInfo, ReleaseInfo};
use super::verify::BundleFinding;
use deployer::layout::VALUES;
use device_plugin_config::check::check_text;
use device_plugin_config::environment::PluginChart;
use diagnostics::diagnostic::Severity;
use diagnostics::source::{SourceText, SourceTexts};
use parity::TextFiles;
use release::device_plugin::{default_config, target};

/// A values file with objects.
#[derive(Deserialize)]
struct ObjectsFile {
    #[serde(default)]
    objects: Vec<Value>,
}

/// Returns the findings about the configurations in a bundle.
pub(super) fn broken(files: &TextFiles, info: &BundleInfo) -> Vec<BundleFinding> {
    let mut findings = Vec::new();
    for release in &info.releases {
        let Some(component) = release.component.as_deref().filter(|_| release.kind == "manifests")
        else {
            continue;
        };
        let upstream =
            info.releases.iter().find(|other| other.name == component && other.kind == "upstream");
        if let (Ok(chart), Some(upstream)) = (component.parse::<PluginChart>(), upstream) {
            findings.extend(configs(files, release, upstream, chart));
        }
    }
    findings
}

fn read<T: for<'de> Deserialize<'de>>(files: &TextFiles, folder: &str) -> Option<T> {
    // The check of the checksums already reports a file that is missing or cannot be read.
    yaml::from_str(files.get(&format!("{folder}/{VALUES}"))?).ok()
}

fn configs(
    files: &TextFiles,
    release: &ReleaseInfo,
    upstream: &ReleaseInfo,
    chart: PluginChart,
) -> Vec<BundleFinding> {
    let path = format!("{}/{VALUES}", release.folder);
    let promise =
        |path: &str, reason: String| BundleFinding::Promise { path: path.to_owned(), reason };
    let (Some(ObjectsFile { objects }), Some(values)) =
        (read(files, &release.folder), read::<Map<String, Value>>(files, &upstream.folder))
    else {
        return Vec::new();
    };
    let Some(target) =
        target(&upstream.name, upstream.version.as_deref().unwrap_or_default(), &values)
    else {
        return Vec::new();
    };
    let mut findings = Vec::new();
    for object in objects.iter().filter(|object| object["kind"] == "ConfigMap") {
        let data = object["data"].as_object().cloned().unwrap_or_default();
        for (name, text) in &data {
            let mut sources = SourceTexts::default();
            let text = text.as_str().unwrap_or_default().to_owned();
            let source = sources.add(SourceText { name: name.clone(), text });
            let errors = check_text(&sources, source, &target)
                .findings
                .into_iter()
                .map(|finding| finding.diagnostic);
            findings.extend(
                errors.filter(|diagnostic| diagnostic.severity == Severity::Error).map(
                    |diagnostic| {
                        let line =
                            diagnostic.place.map_or(1, |place| sources.line_and_column(place).0);
                        promise(
                            &path,
                            format!("configuration {name}, line {line}: {}", diagnostic.message),
                        )
                    },
                ),
            );
        }
        let default = default_config(chart, &values).unwrap_or_default();
        if !default.is_empty() && !data.contains_key(default) {
            let reason = format!(
                "the default configuration of {} is `{default}`, which `{path}` does not have",
                upstream.name
            );
            findings.push(promise(&format!("{}/{VALUES}", upstream.folder), reason));
        }
    }
    findings
}
