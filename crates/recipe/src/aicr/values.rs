//! Reads the values files of AICR's data directory.

use super::components::ComponentReference;
use super::order::OrderedComponent;
use super::{AicrOptions, errors};
use crate::parse::parse;
use crate::read::{ReadError, TextReader};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::{SourceSpan, SourceText, SourceTexts};
use diagnostics::tree::YamlNode;

/// The values files of one component.
#[derive(Clone, Debug, Default)]
pub(super) struct ComponentValues {
    /// `components/<name>/values.yaml`, which AICR reads before every other values file of the
    /// component.
    pub(super) base: Option<YamlNode>,
    /// The file that the recipe names.
    pub(super) named: Option<YamlNode>,
}

/// Reads values files and reports problems.
pub(super) struct ValuesFileReader<'a> {
    pub(super) options: &'a AicrOptions,
    pub(super) reader: &'a mut dyn TextReader,
    pub(super) sources: &'a mut SourceTexts,
    pub(super) findings: &'a mut Vec<Diagnostic>,
    /// Whether the missing directory was reported already.
    pub(super) is_told: bool,
}

impl ValuesFileReader<'_> {
    /// Reads the values files of a component.
    pub(super) fn read_component(&mut self, ordered: &OrderedComponent<'_>) -> ComponentValues {
        let reference = &ordered.reference;
        let Some(file) = reference.get("valuesFile") else { return ComponentValues::default() };
        let Some(path) = file.text() else { return ComponentValues::default() };
        let Some(data) = self.directory(reference, file.origin) else {
            return ComponentValues::default();
        };
        if path.starts_with('/') || path.split('/').any(|part| part == "..") {
            self.findings.push(outside(path).at(file.origin));
            return ComponentValues::default();
        }
        let base = format!("components/{}/values.yaml", reference.name);
        let base = if path == base { None } else { self.read(&data, &base, None) };
        ComponentValues { base, named: self.read(&data, path, Some(file.origin)) }
    }

    fn directory(
        &mut self,
        reference: &ComponentReference<'_>,
        origin: SourceSpan,
    ) -> Option<String> {
        if self.options.data.is_none() && !self.is_told {
            self.is_told = true;
            Diagnostic::error(format!(
                "the values of `{}` are in a file of AICR's data directory, and `--data` is missing",
                reference.name
            ))
            .at(origin)
            .hint("add `--data DIR`: the directory of AICR that contains `components/` (in its repository: `recipes`)")
            .report(self.findings);
        }
        self.options.data.clone()
    }

    /// Parses a file. Only a file that the recipe names (`origin`) must exist.
    fn read(&mut self, data: &str, path: &str, origin: Option<SourceSpan>) -> Option<YamlNode> {
        let name = format!("{}/{path}", data.trim_end_matches('/'));
        let text = match (self.reader.file_below(data, &name), origin) {
            (Ok(text), _) => text,
            (Err(ReadError::Outside), origin) => {
                let finding = outside(path);
                self.findings.push(origin.map_or(finding.clone(), |origin| finding.at(origin)));
                return None;
            }
            // AICR does not require the general file either.
            (Err(ReadError::Missing), None) => return None,
            (Err(error), origin) => {
                let finding = Diagnostic::error(format!("cannot read `{name}`: {error}"));
                let finding = origin.map_or(finding.clone(), |origin| finding.at(origin));
                self.findings.push(finding.maybe_hint(error.hint().map(str::to_owned)).hint(format!(
                    "`--data {data}` must be the directory of AICR that contains `components/`, of the version that created this recipe"
                )));
                return None;
            }
        };
        let source = self.sources.add(SourceText { name, text });
        self.sources.mark_foreign(source);
        let before = errors(self.findings);
        match parse(self.sources, source) {
            Ok(node) if node.is_null() => None,
            Ok(node) if node.is_map() => Some(node),
            Ok(node) => {
                Diagnostic::error(format!("values: expected a map, found {}", node.kind()))
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
        .hint("values files are relative to the directory of `--data`, and links must stay in it")
}
