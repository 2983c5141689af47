//! Manifest files: templates of objects that AICR applies in addition to a component's chart.

use super::components::{ComponentReference, MANIFESTS};
use super::values::DataReader;
use crate::manifests::time_of;
use crate::model::ManifestTime;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::SourceSpan;
use diagnostics::tree::YamlNode;

/// The file of the data directory with the default namespaces of components.
const REGISTRY: &str = "registry.yaml";
/// The keys of a component in it that have a `defaultNamespace`.
const REGISTERED: [&str; 2] = ["helm", "manifest"];

/// A manifest file.
#[derive(Clone, Debug)]
pub(super) struct ManifestFile {
    /// Its name without the directory.
    pub(super) name: String,
    /// Where the recipe names it.
    pub(super) origin: SourceSpan,
    /// When its objects are created.
    pub(super) time: ManifestTime,
    /// Its text.
    pub(super) text: String,
}

impl DataReader<'_> {
    /// Reads the manifest files of a component. If it has no chart and the recipe names no
    /// namespace, also returns that of AICR's registry.
    pub(super) fn manifests(
        &mut self,
        reference: &ComponentReference<'_>,
    ) -> (Vec<ManifestFile>, Option<YamlNode>) {
        if self.options.without_manifests {
            return (Vec::new(), None);
        }
        let mut files: Vec<ManifestFile> = Vec::new();
        for (key, node) in reference.manifest_files() {
            let Some(file) = self.manifest(key, node, reference.name) else { continue };
            if let Some(twin) = files.iter().find(|twin| twin.name == file.name) {
                Diagnostic::error(format!(
                    "`{}` has two manifest files with the name `{}`",
                    reference.name, file.name
                ))
                .at(file.origin)
                .related(twin.origin, "first here")
                .hint("rename one of them: AICR itself would deploy only one")
                .report(self.findings);
            } else {
                files.push(file);
            }
        }
        let is_unknown = reference.get("namespace").is_none() && !reference.has_chart();
        let first = files.first().filter(|_| is_unknown).map(|file| file.origin);
        let namespace = first.and_then(|origin| self.registered(reference.name, origin));
        (files, namespace)
    }

    fn manifest(&mut self, key: &str, node: &YamlNode, component: &str) -> Option<ManifestFile> {
        let path = node.text()?;
        let data = self.directory_for(path, "the manifests", component, node.origin)?;
        let (_, text) = self.text(&data, path, Some(node.origin))?;
        let time = if key == MANIFESTS[0] { ManifestTime::Before } else { time_of(&text) };
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        Some(ManifestFile { name, origin: node.origin, time, text })
    }

    /// Returns a component's namespace in AICR's registry.
    fn registered(&mut self, component: &str, origin: SourceSpan) -> Option<YamlNode> {
        let data = self.options.data.clone()?;
        let registry = self.read(&data, REGISTRY, None)?;
        let namespace = REGISTERED.iter().find_map(|kind| {
            registry.at_keys(&["components", component, kind, "defaultNamespace"])
        })?;
        Some(YamlNode { origin, ..namespace.clone() })
    }
}
