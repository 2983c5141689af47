//! Parses a text into a tree.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::Number;

use super::diagnostic::Diagnostic;
use super::source::{SourceId, SourceSpan, SourceTexts, byte_at};
use super::tree::{MapEntry, YamlNode, YamlValue};
use yaml::{self, Location, Spanned};

/// The maximum number of nodes in a document with expanded aliases: ten times the default values of
/// the largest chart. With a tree of this size, even comparing every key with every other is fast.
const MAX_NODES: usize = 20_000;
/// Words that some YAML parsers read as a boolean or null unless they are quoted.
const WORDS_OF_YAML_1_1: [&str; 11] =
    ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", ""];

/// The words for a kind of document in messages.
#[derive(Clone, Copy, Debug)]
pub struct DocumentWords {
    /// The kind of document with its article, such as `a recipe`.
    pub document: &'static str,
    /// The hint about a second document.
    pub second_document: &'static str,
}

/// A leniently parsed document, in which a map has all its entries, including those with a
/// duplicate key.
#[derive(Clone, Debug)]
pub struct LenientDocument {
    /// The first document.
    pub node: YamlNode,
    /// The start of a second document, if there is one.
    pub second_document: Option<SourceSpan>,
}

/// Parses the source as one YAML document.
///
/// # Errors
/// The text is not YAML, has duplicate keys or a second document, is too large after expanding its
/// aliases, has keys that are not plain strings, or has numbers that would lose digits.
pub fn parse(
    sources: &SourceTexts,
    source: SourceId,
    words: DocumentWords,
) -> Result<YamlNode, Diagnostic> {
    let text = &sources.get(source).text;
    no_nul(text, source, words)?;
    let raw: Spanned<RawYaml> = yaml::from_str_limited(text, MAX_NODES)
        .map_err(|error| explain(&error, text, source, words))?;
    YamlConverter { text, source, strict: true }.node(raw)
}

/// Parses the first document of the source as YAML 1.1 parsers do, which also read `y` and `n` as
/// booleans.
///
/// # Errors
/// The first document is not YAML, or is too large after expanding its aliases.
pub fn parse_leniently(
    sources: &SourceTexts,
    source: SourceId,
    words: DocumentWords,
) -> Result<LenientDocument, Diagnostic> {
    let text = &sources.get(source).text;
    no_nul(text, source, words)?;
    let convert = YamlConverter { text, source, strict: false };
    let explain = |error: &yaml::Error| explain(error, text, source, words);
    match yaml::first_document(text, MAX_NODES) {
        Ok(raw) => Ok(LenientDocument { node: convert.node(raw)?, second_document: None }),
        Err(yaml::Error::MultipleDocuments { location, .. }) => {
            let second = origin(&location, text, source);
            let first = text.get(..second.start).unwrap_or_default();
            let first = first.rfind("\n---").map_or(first, |end| &first[..=end]);
            let raw = yaml::first_document(first, MAX_NODES).map_err(|error| explain(&error))?;
            Ok(LenientDocument { node: convert.node(raw)?, second_document: Some(second) })
        }
        Err(error) => Err(explain(&error)),
    }
}

fn no_nul(text: &str, source: SourceId, words: DocumentWords) -> Result<(), Diagnostic> {
    let Some(byte) = text.find('\0') else { return Ok(()) };
    Err(Diagnostic::error("the text contains a NUL character")
        .at(SourceSpan { source, start: byte, end: byte + 1 })
        .hint(format!("{} is plain text: save it as UTF-8", words.document)))
}

/// A parsed value before the checks.
enum RawYaml {
    Null,
    Bool(bool),
    Number(Number),
    String(String),
    List(Vec<Spanned<Self>>),
    Map(Vec<(Spanned<String>, Spanned<Self>)>),
}

struct YamlConverter<'a> {
    text: &'a str,
    source: SourceId,
    strict: bool,
}

impl YamlConverter<'_> {
    fn node(&self, raw: Spanned<RawYaml>) -> Result<YamlNode, Diagnostic> {
        let origin = self.origin(&raw.defined);
        let value = match raw.value {
            RawYaml::Null => YamlValue::Null,
            RawYaml::Bool(flag) => YamlValue::Bool(flag),
            RawYaml::Number(number) => self.number(number, origin)?,
            RawYaml::String(text) => self.string(text, origin),
            RawYaml::List(items) => YamlValue::List(
                items.into_iter().map(|item| self.node(item)).collect::<Result<_, _>>()?,
            ),
            RawYaml::Map(entries) => YamlValue::Map(
                entries
                    .into_iter()
                    .map(|(key, value)| self.entry(key, value))
                    .collect::<Result<_, _>>()?,
            ),
        };
        Ok(YamlNode { value, origin })
    }

    fn entry(&self, key: Spanned<String>, value: Spanned<RawYaml>) -> Result<MapEntry, Diagnostic> {
        let key_origin = self.origin(&key.defined);
        let written = self.text.get(key_origin.range()).unwrap_or_default();
        if self.strict
            && written == key.value
            && WORDS_OF_YAML_1_1.contains(&written.to_ascii_lowercase().as_str())
        {
            return Err(Diagnostic::error(format!(
                "some YAML parsers read the key `{written}` as a boolean or null"
            ))
            .at(key_origin)
            .hint(format!("quote it: `\"{written}\":`")));
        }
        Ok(MapEntry { key: key.value, key_origin, node: self.node(value)? })
    }

    /// Converts a string. `y` and `n` are booleans in YAML 1.1; a recipe keeps them as written.
    fn string(&self, text: String, origin: SourceSpan) -> YamlValue {
        let plain = !self.strict && self.text.get(origin.range()) == Some(&text);
        match text.as_str() {
            "y" | "Y" if plain => YamlValue::Bool(true),
            "n" | "N" if plain => YamlValue::Bool(false),
            _ => YamlValue::String(text),
        }
    }

    /// Converts a number. Refuses an integer that is too large for every integer type: the parser
    /// has converted it to a float, and it lost digits.
    fn number(&self, number: Number, origin: SourceSpan) -> Result<YamlValue, Diagnostic> {
        let written = self.text.get(origin.range()).unwrap_or_default();
        if self.strict
            && number.is_f64()
            && written.len() > 15
            && written.bytes().all(|byte| byte.is_ascii_digit())
        {
            return Err(Diagnostic::error(format!(
                "the number `{written}` has too many digits to be kept exactly"
            ))
            .at(origin)
            .hint(format!("quote it if it is a string: `\"{written}\"`")));
        }
        Ok(YamlValue::Number(number))
    }

    fn origin(&self, location: &Location) -> SourceSpan {
        origin(location, self.text, self.source)
    }
}

/// Converts a location, which has bytes if the parser knows them, and otherwise characters.
fn origin(location: &Location, text: &str, source: SourceId) -> SourceSpan {
    let bytes = location.span().byte_offset().zip(location.span().byte_len());
    let (start, length) = bytes
        .and_then(|(start, length)| usize::try_from(start).ok().zip(usize::try_from(length).ok()))
        .unwrap_or_else(|| {
            let line = usize::try_from(location.line()).unwrap_or(usize::MAX);
            (byte_at(text, line, usize::try_from(location.column()).unwrap_or(usize::MAX)), 0)
        });
    let start = start.min(text.len());
    // The span of a block scalar includes its last line break, which is not shown.
    let end = start
        + text
            .get(start..(start + length).min(text.len()))
            .map_or(0, |stretch| stretch.trim_end().len());
    SourceSpan { source, start, end }
}

/// Converts an error of the parser into a finding.
#[expect(
    clippy::wildcard_enum_match_arm,
    reason = "the parser's enum grows with its versions; most kinds keep the parser's own message"
)]
fn explain(error: &yaml::Error, text: &str, source: SourceId, words: DocumentWords) -> Diagnostic {
    let mut error = error.without_snippet();
    while let yaml::Error::AliasError { error: inner, .. } = error {
        error = inner;
    }
    let (message, hint) = match error {
        yaml::Error::MultipleDocuments { .. } => {
            ("a second document starts here".to_owned(), words.second_document)
        }
        yaml::Error::DuplicateMappingKey { key, .. } => (
            key.as_ref()
                .map_or_else(|| "duplicate key".to_owned(), |key| format!("duplicate key `{key}`")),
            "keep one of them",
        ),
        yaml::Error::Budget { .. }
        | yaml::Error::AliasReplayLimitExceeded { .. }
        | yaml::Error::AliasReplayStackDepthExceeded { .. } => (
            format!(
                "the document exceeds the limits of {} (nodes, depth, aliases)",
                words.document
            ),
            "use fewer aliases (`*name`) and less nesting",
        ),
        yaml::Error::UnknownAnchor { .. } => (
            "the alias names an anchor that does not exist".to_owned(),
            "define the anchor before the alias (`&name`), or quote the string if it starts with `*`",
        ),
        yaml::Error::NonFiniteFloat { value, .. } => {
            (format!("`{value}` is not a finite number"), "quote it if it is a string")
        }
        yaml::Error::Unexpected { expected: "string scalar", .. } => {
            ("a key must be a plain string".to_owned(), "lists and maps cannot be keys")
        }
        other => (
            format!("this is not YAML: {}", without_place(&yaml::message(other))),
            "check indentation, brackets and quotes around this place",
        ),
    };
    let diagnostic = Diagnostic::error(message).hint(hint);
    match error.location() {
        Some(location) => diagnostic.at(origin(&location, text, source)),
        None => diagnostic.at(SourceSpan { source, start: 0, end: 0 }),
    }
}

/// Removes the place from a parser's message, because the excerpt shows it.
fn without_place(message: &str) -> &str {
    message.rfind(" at line ").map_or(message, |index| &message[..index])
}

impl<'de> Deserialize<'de> for RawYaml {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RawVisitor)
    }
}

struct RawVisitor;

impl<'de> Visitor<'de> for RawVisitor {
    type Value = RawYaml;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("YAML that JSON can express")
    }

    fn visit_unit<E>(self) -> Result<RawYaml, E> {
        Ok(RawYaml::Null)
    }

    fn visit_bool<E>(self, flag: bool) -> Result<RawYaml, E> {
        Ok(RawYaml::Bool(flag))
    }

    fn visit_i64<E>(self, number: i64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.into()))
    }

    fn visit_u64<E>(self, number: u64) -> Result<RawYaml, E> {
        Ok(RawYaml::Number(number.into()))
    }

    fn visit_f64<E: serde::de::Error>(self, number: f64) -> Result<RawYaml, E> {
        Number::from_f64(number)
            .map(RawYaml::Number)
            .ok_or_else(|| E::custom("not a finite number"))
    }

    fn visit_str<E>(self, text: &str) -> Result<RawYaml, E> {
        Ok(RawYaml::String(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<RawYaml, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(RawYaml::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<RawYaml, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(RawYaml::Map(entries))
    }

    fn visit_bytes<E: serde::de::Error>(self, _bytes: &[u8]) -> Result<RawYaml, E> {
        Err(E::custom("binary values are not supported"))
    }
}
