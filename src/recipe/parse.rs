//! Text → tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::diagnostic::Diagnostic;
use super::source::{Origin, SourceId, Sources, byte_at};
use super::tree::{Entry, Node, Value};
use crate::contract::yaml::{self, Location, Spanned};

/// Nodes that a recipe may have, aliases expanded: ten times the largest chart's default values. Nothing that is done with a tree
/// of this size takes long, even if it compares every key with every other.
const MAX_NODES: usize = 20_000;
/// What YAML parsers of different ages take for a boolean or null when it is not quoted.
const WORDS_OF_YAML_1_1: [&str; 11] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""];

/// Reads the source as one YAML document.
///
/// # Errors
/// The text is no YAML, has duplicate keys or a second document, is too large once its aliases are expanded, has keys that are no
/// plain strings or numbers that would lose digits.
pub fn parse(sources: &Sources, source: SourceId) -> Result<Node, Diagnostic> {
    let text = &sources.get(source).text;
    if let Some(byte) = text.find('\0') {
        return Err(Diagnostic::error("a NUL character stands in the text")
            .at(Origin { source, start: byte, end: byte + 1 })
            .hint("a recipe is plain text: save it as UTF-8"));
    }
    let raw: Spanned<Raw> = yaml::from_str_limited(text, MAX_NODES).map_err(|error| explain(&error, text, source))?;
    Convert { text, source }.node(raw)
}

/// What stands in the text, before the checks.
enum Raw {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

struct Convert<'a> {
    text: &'a str,
    source: SourceId,
}

impl Convert<'_> {
    fn node(&self, raw: Spanned<Raw>) -> Result<Node, Diagnostic> {
        let origin = self.origin(&raw.defined);
        let value = match raw.value {
            Raw::Null => Value::Null,
            Raw::Bool(flag) => Value::Bool(flag),
            Raw::Number(number) => self.number(number, origin)?,
            Raw::String(text) => Value::String(text),
            Raw::List(items) => Value::List(items.into_iter().map(|item| self.node(item)).collect::<Result<_, _>>()?),
            Raw::Map(entries) => Value::Map(entries.into_iter().map(|(key, value)| self.entry(key, value)).collect::<Result<_, _>>()?),
        };
        Ok(Node { value, origin })
    }

    fn entry(&self, key: Spanned<String>, value: Spanned<Raw>) -> Result<Entry, Diagnostic> {
        let key_origin = self.origin(&key.defined);
        let written = self.text.get(key_origin.range()).unwrap_or_default();
        if written == key.value && WORDS_OF_YAML_1_1.contains(&written.to_ascii_lowercase().as_str()) {
            return Err(Diagnostic::error(format!("the key `{written}` is a boolean or null for YAML parsers"))
                .at(key_origin)
                .hint(format!("quote it: `\"{written}\":`")));
        }
        Ok(Entry { key: key.value, key_origin, node: self.node(value)? })
    }

    /// An integer that no integer type holds has become a float by now, and lost digits.
    fn number(&self, number: Number, origin: Origin) -> Result<Value, Diagnostic> {
        let written = self.text.get(origin.range()).unwrap_or_default();
        if number.is_f64() && written.len() > 15 && written.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(Diagnostic::error(format!("the number `{written}` has more digits than can be kept"))
                .at(origin)
                .hint(format!("quote it if it is a text: `\"{written}\"`")));
        }
        Ok(Value::Number(number))
    }

    fn origin(&self, location: &Location) -> Origin {
        origin(location, self.text, self.source)
    }
}

/// Locations carry bytes where the parser knows them, else characters.
fn origin(location: &Location, text: &str, source: SourceId) -> Origin {
    let bytes = location.span().byte_offset().zip(location.span().byte_len());
    let (start, length) =
        bytes.and_then(|(start, length)| usize::try_from(start).ok().zip(usize::try_from(length).ok())).unwrap_or_else(|| {
            let line = usize::try_from(location.line()).unwrap_or(usize::MAX);
            (byte_at(text, line, usize::try_from(location.column()).unwrap_or(usize::MAX)), 0)
        });
    let start = start.min(text.len());
    // A block scalar's span ends behind its last line break: the break is no part of what is shown.
    let end = start + text.get(start..(start + length).min(text.len())).map_or(0, |stretch| stretch.trim_end().len());
    Origin { source, start, end }
}

/// The parser's errors in words for people who write recipes.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's enum grows with its versions; all but a few kinds are told in its own words"
)]
fn explain(error: &yaml::Error, text: &str, source: SourceId) -> Diagnostic {
    let mut error = error.without_snippet();
    while let yaml::Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let (message, hint) = match error {
        yaml::Error::MultipleDocuments { .. } => (
            "a second document starts here".to_owned(),
            "a recipe is one document: remove everything from `---` on, or make it a recipe of its own and name it in `extends`",
        ),
        yaml::Error::DuplicateMappingKey { key, .. } => (
            key.as_ref().map_or_else(
                || "this key stands twice in the same map".to_owned(),
                |key| format!("the key `{key}` stands twice in the same map"),
            ),
            "keep one of them",
        ),
        yaml::Error::Budget { .. } | yaml::Error::AliasReplayLimitExceeded { .. } | yaml::Error::AliasReplayStackDepthExceeded { .. } => (
            "the document grows beyond what a recipe may have (nodes, depth, aliases)".to_owned(),
            "write fewer aliases (`*name`) and less nesting",
        ),
        yaml::Error::UnknownAnchor { .. } => (
            "the alias names an anchor that does not exist".to_owned(),
            "define it before (`&name`), or quote the text if it is meant to start with `*`",
        ),
        yaml::Error::NonFiniteFloat { value, .. } => (format!("`{value}` is no finite number"), "quote it if it is a text"),
        yaml::Error::Unexpected { expected: "string scalar", .. } => {
            ("a key must be a plain string".to_owned(), "lists and maps cannot be keys")
        }
        other => {
            (format!("this is not YAML: {}", without_place(&other.to_string())), "check indentation, brackets and quotes around this place")
        }
    };
    let diagnostic = Diagnostic::error(message).hint(hint);
    match error.location() {
        Some(location) => diagnostic.at(origin(&location, text, source)),
        None => diagnostic.at(Origin { source, start: 0, end: 0 }),
    }
}

/// The place is shown by the excerpt.
fn without_place(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |index| &message[..index])
}

impl<'de> Deserialize<'de> for Raw {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = Raw;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("YAML that JSON can express")
    }

    fn visit_unit<E>(self) -> Result<Raw, E> {
        Ok(Raw::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<Raw, E> {
        Ok(Raw::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<Raw, E> {
        Ok(Raw::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<Raw, E> {
        Number::from_f64(number).map(Raw::Number).ok_or_else(|| E::custom("no finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<Raw, E> {
        Ok(Raw::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Raw::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Raw, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Raw::Map(entries))
    }

    fn visit_bytes<E: serde::de::Error>(self, _bytes: &[u8]) -> Result<Raw, E> {
        Err(E::custom("binary values cannot stand in a recipe"))
    }
}
