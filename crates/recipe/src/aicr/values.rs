//! Reads the files of AICR's data directory.

use super::components::ComponentReference;
use super::manifest_files::ManifestFile;
use super::{AicrOptions, errors};
use crate::parse::parse;
use crate::read::{ReadError, TextReader};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::{SourceSpan, SourceText, SourceTexts};
use diagnostics::tree::YamlNode;

/// The files of one component.
#[derive(Clone, Debug, Default)]
pub(super) struct ComponentFiles {
    /// `components/<name>/values.yaml`, which AICR reads before every other values file of the
    /// component.
    pub(super) base: Option<YamlNode>,
    /// The values file that the recipe names.
    pub(super) named: Option<YamlNode>,
    /// The manifest files.
    pub(super) manifests: Vec<ManifestFile>,
    /// The namespace of a component without a chart, if the recipe does not name it.
    pub(super) namespace: Option<YamlNode>,
}

/// Reads files and reports problems.
pub(super) struct DataReader<'a> {
    pub(super) options: &'a AicrOptions,
    pub(super) reader: &'a mut dyn TextReader,
    pub(super) sources: &'a mut SourceTexts,
    pub(super) findings: &'a mut Vec<Diagnostic>,
    /// Whether the missing directory was reported already.
    pub(super) is_told: bool,
}

impl DataReader<'_> {
    /// Reads the files of a component.
    pub(super) fn read_component(&mut self, reference: &ComponentReference<'_>) -> ComponentFiles {
        let (base, named) = self.values(reference).unwrap_or_default();
        let (manifests, namespace) = self.manifests(reference);
        ComponentFiles { base, named, manifests, namespace }
    }

    /// Reads the values files of a component: the general one, and the one that the recipe names.
    fn values(
        &mut self,
        reference: &ComponentReference<'_>,
    ) -> Option<(Option<YamlNode>, Option<YamlNode>)> {
        let file = reference.get("valuesFile")?;
        let path = file.text()?;
        let data = self.directory_for(path, "the values", reference.name, file.origin)?;
        let base = format!("components/{}/values.yaml", reference.name);
        let base = if path == base { None } else { self.read(&data, &base, None) };
        Some((base, self.read(&data, path, Some(file.origin))))
    }

    /// Returns the data directory, if `path` is below it.
    pub(super) fn directory_for(
        &mut self,
        path: &str,
        what: &str,
        component: &str,
        origin: SourceSpan,
    ) -> Option<String> {
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            self.findings.push(outside(path).at(origin));
            return None;
        }
        if self.options.data.is_none() && !self.is_told {
            self.is_told = true;
            Diagnostic::error(format!(
                "{what} of `{component}` are in a file of AICR's data directory, and `--data` is missing"
            ))
            .at(origin)
            .hint("add `--data DIR`: the directory of AICR that contains `components/` (in its repository: `recipes`)")
            .report(self.findings);
        }
        self.options.data.clone()
    }

    /// Reads a file: its name, and its text. Only a file that the recipe names (`origin`) must exist.
    pub(super) fn text(
        &mut self,
        data: &str,
        path: &str,
        origin: Option<SourceSpan>,
    ) -> Option<(String, String)> {
        let name = format!("{}/{path}", data.trim_end_matches('/'));
        match (self.reader.file_below(data, &name), origin) {
            (Ok(text), _) => Some((name, text)),
            (Err(ReadError::Outside), origin) => {
                let finding = outside(path);
                self.findings.push(origin.map_or(finding.clone(), |origin| finding.at(origin)));
                None
            }
            // AICR does not require the general file either.
            (Err(ReadError::Missing), None) => None,
            (Err(error), origin) => {
                let finding = Diagnostic::error(format!("cannot read `{name}`: {error}"));
                let finding = origin.map_or(finding.clone(), |origin| finding.at(origin));
                self.findings.push(finding.maybe_hint(error.hint().map(str::to_owned)).hint(format!(
                    "`--data {data}` must be the directory of AICR that contains `components/`, of the version that created this recipe"
                )));
                None
            }
        }
    }

    /// Parses a file with a map.
    pub(super) fn read(
        &mut self,
        data: &str,
        path: &str,
        origin: Option<SourceSpan>,
    ) -> Option<YamlNode> {
        let (name, text) = self.text(data, path, origin)?;
        let source = self.sources.add(SourceText { name, text });
        self.sources.mark_foreign(source);
        let before = errors(self.findings);
        match parse(self.sources, source) {
            Ok(node) if node.is_null() => None,
            Ok(node) if node.is_map() => Some(node),
            Ok(node) => {
                Diagnostic::error(format!("expected a map, found {}", node.kind()))
                    .at(node.origin)
                    .report(self.findings);
                None
            }
            Err(finding) => {
                self.findings.push(finding);
                None
            }
        }
        .filter(|_| errors(self.findings) == before)
    }
}

fn outside(path: &str) -> Diagnostic {
    Diagnostic::error(format!("`{path}` is outside the data directory"))
        .hint("the files of a recipe are relative to the directory of `--data`, and links must stay in it")
}
