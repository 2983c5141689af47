//! Parses recipe texts into trees.

use diagnostics::diagnostic::Diagnostic;
use diagnostics::parse::{self, DocumentWords};
use diagnostics::source::{SourceId, SourceTexts};
use diagnostics::tree::YamlNode;

const WORDS: DocumentWords = DocumentWords {
    document: "a recipe",
    second_document: "a recipe is one document: remove everything from `---` on, or move it into a separate recipe and name it in `extends`",
};

/// Reads the source as one YAML document.
///
/// # Errors
/// See [`parse::parse`].
pub(crate) fn parse(sources: &SourceTexts, source: SourceId) -> Result<YamlNode, Diagnostic> {
    parse::parse(sources, source, WORDS)
}
