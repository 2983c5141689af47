//! Texts, and places in them.

use std::collections::BTreeSet;
use std::ops::Range;

/// All texts of one load, in the order in which they were first read.
#[derive(Clone, Debug, Default)]
pub struct SourceTexts {
    list: Vec<SourceText>,
    /// Those that were written for another program.
    foreign: BTreeSet<SourceId>,
}

/// One text and what people call it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceText {
    /// A file's path, `library:NAME`, `standard input`, `--set`.
    pub name: String,
    /// Its text, without a byte order mark.
    pub text: String,
}

/// Which of the [`SourceTexts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SourceId(usize);

/// A stretch of bytes in a source: where a key or a value stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceSpan {
    /// The text.
    pub source: SourceId,
    /// First byte.
    pub start: usize,
    /// One past the last byte; equal to `start` for maps and lists, whose end nobody needs.
    pub end: usize,
}

impl SourceSpan {
    /// The bytes.
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

    /// Notes that a text was written for another program, whose rules are not ours.
    pub fn mark_foreign(&mut self, id: SourceId) {
        self.foreign.insert(id);
    }

    /// Whether a text was written for another program.
    pub fn is_foreign(&self, id: SourceId) -> bool {
        self.foreign.contains(&id)
    }

    /// Whether any text was.
    pub fn has_foreign(&self) -> bool {
        !self.foreign.is_empty()
    }

    /// The text with this id.
    pub fn get(&self, id: SourceId) -> &SourceText {
        &self.list[id.0]
    }

    /// What stands at `origin`, as written.
    pub fn written(&self, origin: SourceSpan) -> &str {
        self.get(origin.source).text.get(origin.range()).unwrap_or_default()
    }

    /// Line and column, from 1; columns count characters.
    pub fn line_and_column(&self, origin: SourceSpan) -> (usize, usize) {
        line_and_column(&self.get(origin.source).text, origin.start)
    }

    /// `name:line:column`.
    pub fn place(&self, origin: SourceSpan) -> String {
        let (line, column) = self.line_and_column(origin);
        format!("{}:{line}:{column}", self.get(origin.source).name)
    }
}

/// Line and column, from 1, of a byte; columns count characters.
fn line_and_column(text: &str, byte: usize) -> (usize, usize) {
    let before = text.get(..byte).unwrap_or(text);
    let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
    (before.matches('\n').count() + 1, before[line_start..].chars().count() + 1)
}

/// The byte at which a line and a column (from 1, in characters) stand; the end of the text if they are beyond it.
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
