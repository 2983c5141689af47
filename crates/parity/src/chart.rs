//! Reads the facts of a chart in the bundle, for any deployer.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::ReadbackError;
use crate::facts::ChartFacts;
use crate::files::TextFiles;
use contract::chart_files::{CHART, SETTINGS, VALUES};
use contract::digest::sha256;

/// The hook chart's table of rights.
pub(crate) const RIGHTS: &str = "files/rights.yaml";

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ChartHead {
    name: Option<String>,
    version: Option<String>,
    app_version: Option<String>,
}

/// Returns the kind of the chart in `folder`: `hook`, `crds` or `manifests`.
pub(crate) fn kind(files: &TextFiles, folder: &str) -> &'static str {
    let mut templates =
        files.below(folder).filter(|(path, _)| path.starts_with("templates/")).peekable();
    if [RIGHTS, SETTINGS].iter().any(|file| files.get(&format!("{folder}/{file}")).is_some()) {
        return "hook";
    }
    let is_crd =
        |text: &str| text.lines().any(|line| line.trim_end() == "kind: CustomResourceDefinition");
    if templates.peek().is_some() && templates.all(|(_, text)| is_crd(text)) {
        "crds"
    } else {
        "manifests"
    }
}

/// Reads the chart in `folder`. A missing chart has no name, version or files.
///
/// # Errors
/// Its `Chart.yaml` cannot be read.
pub(crate) fn local(files: &TextFiles, folder: &str) -> Result<ChartFacts, ReadbackError> {
    let head: Option<ChartHead> = files.yaml(&format!("{folder}/{CHART}"))?;
    let mut chart = ChartFacts { place: folder.to_owned(), ..ChartFacts::default() };
    if let Some(head) = head {
        (chart.name, chart.version, chart.app_version) =
            (head.name, head.version, head.app_version);
    }
    let is_hook = kind(files, folder) == "hook";
    for (path, text) in files.below(folder) {
        // Values files are separate facts, except the hook chart's `values.yaml`: it contains
        // defaults, and no deployer names it.
        if path == SETTINGS || (path == VALUES && !is_hook) {
            continue;
        }
        chart.files.insert(path.to_owned(), sha256(text.as_bytes()));
    }
    for (path, text) in
        files.below(folder).filter(|(path, _)| path.starts_with("templates/") || *path == VALUES)
    {
        let found = annotations(text);
        if !found.is_empty() {
            chart.annotations.insert(path.to_owned(), found);
        }
    }
    Ok(chart)
}

/// Prefixes of annotations that Helm, Argo CD and Flux read.
const READERS: [&str; 3] = ["helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/"];

/// Finds these annotations in `text`, line by line, because a template is not YAML.
fn annotations(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.starts_with('#')) {
        let Some((key, value)) = line.split_once(": ") else { continue };
        let key = unquoted(key);
        // `helm.sh/chart` is a label with the chart of an object.
        if READERS.iter().any(|reader| key.starts_with(reader)) && key != "helm.sh/chart" {
            found.entry(key.to_owned()).or_default().push(unquoted(value.trim()).to_owned());
        }
    }
    found
}

/// Removes the quotes of a YAML scalar on one line.
pub(crate) fn unquoted(text: &str) -> &str {
    let inside = |quote: char| text.strip_prefix(quote).and_then(|text| text.strip_suffix(quote));
    inside('"').or_else(|| inside('\'')).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn annotations_are_read_from_templates() {
        let text = "metadata:\n  annotations:\n    helm.sh/hook: post-install,post-upgrade\n    # helm.sh/hook: none\n    \"helm.sh/hook-weight\": \"100\"\n  labels:\n    helm.sh/chart: {{ x }}\n";
        let found: Vec<String> = annotations(text)
            .into_iter()
            .map(|(key, values)| format!("{key}={}", values.join("|")))
            .collect();
        assert_eq!(found, ["helm.sh/hook=post-install,post-upgrade", "helm.sh/hook-weight=100"]);
    }

    #[test]
    fn a_chart_is_what_it_is_made_of() {
        let files: TextFiles = [
            ("1-a/templates/x.yaml", "kind: CustomResourceDefinition\n"),
            ("2-b/templates/x.yaml", "kind: Namespace\n"),
            ("3-c/templates/x.yaml", "kind: Job\n"),
            ("3-c/files/rights.yaml", "[]\n"),
        ]
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .into_iter()
        .collect();
        assert_eq!(
            ["1-a", "2-b", "3-c", "4-d"].map(|folder| kind(&files, folder)),
            ["crds", "manifests", "hook", "manifests"]
        );
    }
}
