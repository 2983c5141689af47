//! The reason for which a node waits or has its outcome, as the record stores it.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A reason with its text. In the record it is one string, `Name: text`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub struct RecordedReason {
    /// A constant name, as in events and metrics.
    pub name: String,
    /// The message; empty if the record lacks space.
    pub text: String,
}

impl RecordedReason {
    /// Creates a reason from its name and its message.
    pub fn new(name: &str, text: impl fmt::Display) -> Self {
        Self { name: name.to_owned(), text: text.to_string() }
    }
}

impl fmt::Display for RecordedReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)?;
        if self.text.is_empty() { Ok(()) } else { write!(formatter, ": {}", self.text) }
    }
}

impl From<String> for RecordedReason {
    fn from(text: String) -> Self {
        match text.split_once(": ") {
            Some((name, text)) => Self::new(name, text),
            None => Self { name: text, text: String::new() },
        }
    }
}

impl From<RecordedReason> for String {
    fn from(reason: RecordedReason) -> Self {
        reason.to_string()
    }
}
