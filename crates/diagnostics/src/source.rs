//! Texts, and places in them.

use std::collections::BTreeSet;
use std::ops::Range;

/// All texts of one load, in the order in which they were first read.
#[derive(Clone, Debug, Default)]
pub struct SourceTexts {
    list: Vec<SourceText>,
    /// Texts that were written for another program.
    foreign: BTreeSet<SourceId>,
    /// Texts of which findings show only places.
    hidden: BTreeSet<SourceId>,
}

/// One text with its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// A file's path, `library:NAME`, `standard input`, or `--set`.
    pub name: String,
    /// The text, without a byte order mark.
    pub text: String,
}

/// The index of a text in [`SourceTexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(usize);

/// A range of bytes in a source: the place of a key or a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: usize,
    /// One past the last byte; equal to `start` for maps and lists, whose end is not needed.
    pub end: usize,
}

impl SourceSpan {
    /// Returns the range of bytes.
    pub fn range(self) -> Range<usize> {
        self.start..self.end
    }
}

impl SourceTexts {
    /// Adds a text.
    pub fn add(&mut self, source: SourceText) -> SourceId {
        self.list.push(source);
        SourceId(self.list.len() - 1)
    }

    /// Marks a text as written for another program, which has other rules.
    pub fn mark_foreign(&mut self, id: SourceId) {
        self.foreign.insert(id);
    }

    /// Hides a text: findings show places in it, but no excerpts.
    pub fn hide(&mut self, id: SourceId) {
        self.hidden.insert(id);
    }

    /// Returns whether findings show no excerpts of a text.
    pub fn is_hidden(&self, id: SourceId) -> bool {
        self.hidden.contains(&id)
    }

    /// Returns whether a text was written for another program.
    pub fn is_foreign(&self, id: SourceId) -> bool {
        self.foreign.contains(&id)
    }

    /// Returns whether any text was written for another program.
    pub fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// Returns the text with this id.
    pub fn get(&self, id: SourceId) -> &SourceText {
        &self.list[id.0]
    }

    /// Returns the text at `origin`, as written.
    pub fn written(&self, origin: SourceSpan) -> &str {
        self.get(origin.source).text.get(origin.range()).unwrap_or_default()
    }

    /// Returns line and column, from 1; columns count characters.
    pub fn line_and_column(&self, origin: SourceSpan) -> (usize, usize) {
        line_and_column(&self.get(origin.source).text, origin.start)
    }

    /// Returns the place as `name:line:column`.
    pub fn place(&self, origin: SourceSpan) -> String {
        let (line, column) = self.line_and_column(origin);
        format!("{}:{line}:{column}", self.get(origin.source).name)
    }
}

/// Returns line and column of a byte, from 1; columns count characters.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// Returns the byte of a line and a column (from 1, in characters), or the end of the text if they
/// are beyond it.
pub(super) fn byte_at(text: &str, line: usize, column: usize) -> usize {
    let line_start: usize =
        text.split_inclusive('\n').take(line.saturating_sub(1)).map(str::len).sum();
    let rest = text.get(line_start..).unwrap_or_default();
    line_start
        + rest.char_indices().nth(column.saturating_sub(1)).map_or(rest.len(), |(offset, _)| offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_count_characters() {
        let text = "a: 1\né: x\n";
        assert_eq!(line_and_column(text, text.find('x').unwrap()), (2, 4));
        assert_eq!(byte_at(text, 2, 4), text.find('x').unwrap());
        assert_eq!(byte_at(text, 9, 9), text.len());
    }
}
