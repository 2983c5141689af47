//! Reads and writes YAML. A document has the same content as in Helm, and Helm reads a written
//! document back unchanged.

use std::borrow::Cow;
use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_yaml::{MessageFormatter, UserMessageFormatter};

mod write;

pub use serde_yaml::{Error, Location, Spanned};

/// Maximum number of YAML nodes in a document after the expansion of aliases: far more than in the
/// largest file of a bundle.
const MAX_NODES: usize = 1_000_000;
/// Maximum nesting depth of a document. Recursive code over parsed documents relies on it.
pub const MAX_DEPTH: usize = 64;

/// Why a text cannot be read. The message has line and column, but no excerpt of the text.
#[derive(Debug)]
pub struct ReadError(Error);

impl fmt::Display for ReadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&message(&self.0))
    }
}

impl std::error::Error for ReadError {}

/// Returns the message of an error for users, with line and column. The parser's own message also
/// names Rust types and options of the parser.
pub fn message(error: &Error) -> String {
    error.render_with_formatter(&ForUsers)
}

/// Messages for people who can change the text, but not the program.
struct ForUsers;

impl MessageFormatter for ForUsers {
    #[expect(
        clippy::wildcard_enum_match_arm,
        reason = "the parser's enum grows with its versions; most kinds keep the parser's own message"
    )]
    fn format_message<'a>(&self, error: &'a Error) -> Cow<'a, str> {
        match error {
            Error::NullIntoString { .. } => Cow::Borrowed("expected a string, found null"),
            Error::DuplicateMappingKey { key: Some(key), .. } => {
                Cow::Owned(format!("duplicate key `{key}`"))
            }
            Error::DuplicateMappingKey { key: None, .. } => Cow::Borrowed("duplicate key"),
            other => UserMessageFormatter.format_message(other),
        }
    }
}

/// Reads one document. Duplicate keys and further documents are errors; `0644` is 420 and `yes` is
/// true, as in Helm.
///
/// # Errors
/// The text is not valid YAML, exceeds the limits above, or does not match `T`.
pub fn from_str<T: DeserializeOwned>(text: &str) -> Result<T, ReadError> {
    from_str_limited(text, MAX_NODES).map_err(ReadError)
}

/// Reads one document of untrusted text, like [`from_str`]. Refuses a document that has more than
/// `nodes` YAML nodes after the expansion of aliases.
///
/// # Errors
/// See [`from_str`]; [`message`] describes the parser's own error for users.
pub fn from_str_limited<T: DeserializeOwned>(text: &str, nodes: usize) -> Result<T, Error> {
    serde_yaml::from_str_with_options(text, read_options(nodes))
}

/// Reads the first document of untrusted text. Duplicate keys are not an error: the type of a map
/// receives all entries.
///
/// # Errors
/// See [`from_str`]; [`Error::MultipleDocuments`] with the position of the second document, if
/// there is one.
pub fn first_document<T: DeserializeOwned>(text: &str, nodes: usize) -> Result<T, Error> {
    let mut options = read_options(nodes);
    options.duplicate_keys = serde_yaml::options::DuplicateKeyPolicy::LastWins;
    serde_yaml::from_str_with_options(text, options)
}

fn read_options(nodes: usize) -> serde_yaml::Options {
    serde_yaml::options! {
        budget: serde_yaml::budget! { max_nodes: nodes, max_events: 4 * nodes, max_depth: MAX_DEPTH, max_documents: 2 },
        alias_limits: serde_yaml::alias_limits! { max_total_replayed_events: 4 * nodes },
        emit_comments: false,
        legacy_octal_numbers: true,
        with_snippet: false,
    }
}

/// Writes one document. Long strings stay on one line. Every string that any YAML parser reads as
/// another type is quoted.
///
/// # Errors
/// `value` cannot be written as YAML: it has a map with keys that are not scalars, or its
/// `Serialize` fails.
pub fn to_string(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_value(value).map(|value| write::document(&value))
}

/// Writes a value on one line, in a form that is valid anywhere in a document: strings are quoted.
///
/// # Errors
/// See [`to_string`].
pub fn to_inline(value: &impl Serialize) -> Result<String, serde_json::Error> {
    serde_json::to_value(value).map(|value| write::inline(&value))
}

/// Returns `text` as a quoted scalar on one line.
pub fn quoted(text: &str) -> String {
    write::quoted(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    #[test]
    fn numbers_and_booleans_are_read_like_helm() {
        let value: Value =
            from_str("{a: 0644, b: yes, c: 1_000, d: 580.10, e: '0644', f: ~}").unwrap();
        assert_eq!(
            value,
            json!({"a": 420, "b": true, "c": 1000, "d": 580.1, "e": "0644", "f": null})
        );
    }

    #[test]
    fn spans_are_bytes() {
        let text = "é: \"x\"\nlist: 580.10\n";
        let map: BTreeMap<String, Spanned<Value>> = from_str(text).unwrap();
        let span = map["list"].defined.span();
        assert_eq!(
            span.byte_offset().zip(span.byte_len()),
            Some((text.find("580").unwrap() as u64, 6))
        );
    }

    #[test]
    fn written_text_is_equal_in_yaml_1_1() {
        let long = "x ".repeat(200);
        let value = json!({"yes": "yes", "version": "580.10", "time": "12:30", "long": long, "multi": "a\nb\n", "list": [1, "1"]});
        let text = to_string(&value).unwrap();
        assert_eq!(from_str::<Value>(&text).unwrap(), value);
        insta::assert_snapshot!(text.replace(&long, "LONG"));
    }

    #[test]
    fn messages_do_not_address_programmers() {
        let error =
            |text: &str| from_str::<BTreeMap<String, String>>(text).unwrap_err().to_string();
        assert_eq!(error("a: x\na: y\n"), "duplicate key `a` at line 2, column 1");
        let null = error("a: x\nb: ~\n");
        assert!(null.starts_with("expected a string, found null at line 2, "), "{null}");
    }

    #[test]
    fn bombs_are_refused() {
        let level = |level: usize| {
            format!("a{level}: &a{level} [{}]", format!("*a{}, ", level - 1).repeat(10))
        };
        let levels: Vec<String> =
            std::iter::once("a0: &a0 [x, x]".to_owned()).chain((1..10).map(level)).collect();
        let bomb = levels.join("\n");
        assert!(from_str_limited::<Value>(&bomb, 10_000).is_err());
        assert!(from_str::<Value>(&"[".repeat(1000)).is_err());
        assert!(from_str::<Value>("a: 1\n---\nb: 1\n").is_err());
        assert!(from_str::<Value>("a: 1\na: 1\n").is_err());
    }
}
