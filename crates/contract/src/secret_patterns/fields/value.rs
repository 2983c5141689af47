//! The value after the name of a field.

use std::ops::Range;

use crate::secret_patterns::{window, window_before};

/// How far the longest quoted value may reach.
const LONGEST_QUOTED: usize = 64 * 1024;

/// What is between name and value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// `=` and its variants: the value follows.
    Equals,
    /// A colon directly before the value, as in dumps of programs.
    Colon,
    /// A colon and a space, as in YAML and in sentences.
    ColonSpace,
    /// Only a space, as after options.
    Space,
}

/// A value.
#[derive(Clone, Debug)]
pub(super) struct FoundValue<'a> {
    /// The whole text.
    pub(super) text: &'a str,
    /// The range of the value, without quotes.
    pub(super) range: Range<usize>,
    /// How sure it is that this is the value.
    pub(super) evidence: Evidence,
}

/// How sure it is that a text is the value of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Evidence {
    /// The syntax says so.
    Stated,
    /// The name is the first word of its line or of an entry in braces, and the value the last one.
    Entry,
    /// It is the next word, perhaps in a sentence.
    Sentence,
}

/// How far a value without quotes reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// One word.
    Word,
    /// One word, or all of them if the name starts its line.
    Phrase,
    /// The rest of the line.
    Line,
}

/// Where a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NamePlace {
    /// At the start of its line.
    Line,
    /// At the start of an entry in braces.
    Entry,
    /// Behind other words.
    Sentence,
}

impl FoundValue<'_> {
    pub(super) fn text(&self) -> &str {
        &self.text[self.range.clone()]
    }
}

/// Returns the separator after a name that ends at `end`, and where it ends. Quotes around the name
/// are part of it.
pub(super) fn separator(text: &str, end: usize) -> Option<(Separator, usize)> {
    let mut at = end;
    while let Some(quote) = ["\\", "\"", "'", "`", "]", "%22", "&quot;"]
        .iter()
        .find(|quote| text[at..].starts_with(**quote) && at - end < 16)
    {
        at += quote.len();
    }
    // The index of an item.
    if let Some((index, _)) = text[at..].strip_prefix('[').and_then(|rest| rest.split_once(']'))
        && index.len() <= 3
        && index.bytes().all(|byte| byte.is_ascii_digit())
    {
        at += index.len() + 2;
    }
    let is_quoted = at > end;
    let spaces = |at: usize| {
        text[at..].bytes().take_while(|byte| matches!(byte, b' ' | b'\t')).count().min(64)
    };
    let before = spaces(at);
    at += before;
    let (separator, length) = [
        ("=>", Separator::Equals),
        (":=", Separator::Equals),
        ("==", Separator::Space),
        ("=", Separator::Equals),
        ("%3D", Separator::Equals),
        ("%3A", Separator::Equals),
        ("::", Separator::ColonSpace),
        (":", Separator::Colon),
        ("->", Separator::Equals),
    ]
    .into_iter()
    .find(|(written, _)| text[at..].starts_with(written))
    .map(|(written, separator)| (separator, written.len()))?;
    if separator == Separator::Space {
        return None;
    }
    at += length;
    let after = spaces(at);
    at += after;
    let separator = match separator {
        Separator::Colon if is_quoted => Separator::Equals,
        Separator::Colon if after > 0 || text[at..].starts_with('\n') => Separator::ColonSpace,
        other => other,
    };
    Some((separator, at))
}

/// Returns the value that starts at `start`.
pub(super) fn value(
    text: &str,
    start: usize,
    separator: Separator,
    place: NamePlace,
    extent: Extent,
) -> Option<FoundValue<'_>> {
    let found = |range: Range<usize>, evidence: Evidence| {
        (!range.is_empty()).then_some(FoundValue { text, range, evidence })
    };
    if let Some(range) = quoted(text, start) {
        return found(range, Evidence::Stated);
    }
    let line = window(text, start, super::FAR).split(['\n', '\r']).next().unwrap_or_default();
    if line.starts_with('[') {
        let is_structure = line[1..].trim_start().starts_with('{');
        let end = line.find(']').unwrap_or(line.len());
        let range = inside_quotes(text, start + 1..start + end);
        return if is_structure { None } else { found(range, Evidence::Stated) };
    }
    if ["{", "(", "map[", "&{"].iter().any(|structure| line.starts_with(structure)) {
        return None;
    }
    let is_block = matches!(line.trim_end(), "|" | "|-" | "|+" | ">" | ">-" | ">+");
    if is_block && separator == Separator::ColonSpace {
        return found(block(text, start, line.len()), Evidence::Stated);
    }
    if extent == Extent::Line {
        // In a command, quotes are around the header.
        let before =
            window_before(text, start, super::NEAR).rsplit('\n').next().unwrap_or_default();
        let is_open = |quote: &char| before.matches(*quote).count() % 2 == 1;
        let quote = ['"', '\''].into_iter().find(is_open);
        let line = text[start..].split(['\n', '\r']).next().unwrap_or_default();
        let end = quote.and_then(|quote| line.find(quote));
        return found(
            start..start + line[..end.unwrap_or(line.len())].trim_end().len(),
            Evidence::Stated,
        );
    }
    let word = &line[..bare_length(line)];
    if separator == Separator::ColonSpace && place != NamePlace::Line && is_next_name(word) {
        return None;
    }
    let behind = line[word.len()..].trim_start();
    let is_last = behind.is_empty() || behind.starts_with(['#', ',', '}', ')', ']']);
    let has_more = behind.starts_with(|one: char| one.is_alphanumeric()) && !line.contains('=');
    if place == NamePlace::Line && extent == Extent::Phrase && has_more {
        let end = line.find(" #").unwrap_or(line.len());
        return found(start..start + line[..end].trim_end().len(), Evidence::Entry);
    }
    // A word that is longer than the window.
    let more =
        if word.len() + 4 > super::FAR { bare_length(&text[start + word.len()..]) } else { 0 };
    if more > 0 {
        return found(start..start + word.len() + more, Evidence::Stated);
    }
    let evidence = match separator {
        Separator::Equals | Separator::Colon | Separator::Space => Evidence::Stated,
        Separator::ColonSpace if place != NamePlace::Sentence && is_last => Evidence::Entry,
        Separator::ColonSpace => Evidence::Sentence,
    };
    found(start..start + word.trim_end_matches(['.', ':', '!', '?']).len(), evidence)
}

/// Returns whether a word is the name of the next field in a dump, because the field before is
/// empty: `{Password: User:me}`.
fn is_next_name(word: &str) -> bool {
    word.split_once(':').is_some_and(|(name, _)| {
        name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric())
    })
}

/// Returns the content of a quoted value that starts at `start`: until its quote, or until the end
/// of the line if the quote is missing.
fn quoted(text: &str, start: usize) -> Option<Range<usize>> {
    let rest = &text[start..];
    let prefix = rest.len() - rest.trim_start_matches(['b', 'r', 'f', 'u', 'L', '@', '\\']).len();
    let quote = ["\"", "'", "`", "%22", "&quot;"]
        .iter()
        .find(|quote| rest[prefix..].starts_with(**quote))?;
    let is_escaped = rest[..prefix].ends_with('\\');
    // The letters are prefixes of strings in some languages.
    if prefix > 1 && !is_escaped {
        return None;
    }
    let content = start + prefix + quote.len();
    let mut end = content;
    let inside = window(text, content, LONGEST_QUOTED);
    let line_end = content + inside.find('\n').unwrap_or(inside.len());
    while let Some(at) = text[end..line_end].find(*quote) {
        let at = end + at;
        let backslashes = text[content..at].len() - text[content..at].trim_end_matches('\\').len();
        if is_escaped || backslashes % 2 == 0 {
            let inner = if is_escaped { at - backslashes } else { at };
            return Some(content..inner);
        }
        end = at + quote.len();
    }
    Some(content..line_end)
}

/// Returns a range without quotes at both ends.
fn inside_quotes(text: &str, range: Range<usize>) -> Range<usize> {
    let content = &text[range.clone()];
    let start = content.len() - content.trim_start_matches(['"', '\'', ' ', '\\']).len();
    let inner = content[start..].trim_end_matches(['"', '\'', ' ', '\\']).len();
    range.start + start..range.start + start + inner
}

/// Returns the lines of a block scalar, which are indented more than the line of its name.
fn block(text: &str, start: usize, length: usize) -> Range<usize> {
    let line = text[..start].rfind('\n').map_or(0, |newline| newline + 1);
    let indent = |line: &str| line.len() - line.trim_start_matches([' ', '-']).len();
    let own = indent(&text[line..start]);
    let body = (start + length + 1).min(text.len());
    let mut end = body;
    for line in text[body..].split_inclusive('\n') {
        if !line.trim().is_empty() && line.len() - line.trim_start().len() <= own {
            break;
        }
        end += line.len();
    }
    body..body + text[body..end].trim_end().len()
}

/// Returns the length of a value without quotes.
fn bare_length(line: &str) -> usize {
    let is_end = |one: char| one.is_whitespace() || "\"'`,;&)]}<>|\\".contains(one);
    let end = line.find(is_end).unwrap_or(line.len());
    line.find("%26").or_else(|| line.find("%22")).map_or(end, |encoded| encoded.min(end))
}
