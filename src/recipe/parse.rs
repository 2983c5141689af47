//! Text → tree, for recipes.

use crate::text::diagnostic::Diagnostic;
use crate::text::parse::{self, Words};
use crate::text::source::{SourceId, Sources};
use crate::text::tree::Node;

const WORDS: Words = Words {
    document: "a recipe",
    second_document: "a recipe is one document: remove everything from `---` on, or make it a recipe of its own and name it in `extends`",
};

/// Reads the source as one YAML document.
///
/// # Errors
/// See [`parse::parse`].
pub fn parse(sources: &Sources, source: SourceId) -> Result<Node, Diagnostic> {
    parse::parse(sources, source, WORDS)
}
