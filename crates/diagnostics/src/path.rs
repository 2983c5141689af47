//! Where something stands in a document: `components.gpu-operator.values.driver.version`. Items of lists go by
//! their `name`, without one by number, and a dot inside a key is written `\.`.

use std::fmt;
use std::str::FromStr;

/// As deep as a document may be nested.
const MAX_KEYS: usize = yaml::MAX_DEPTH;

/// Keys from the top.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<String>);

/// Why a text is no [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyPathError {
    /// `a..b`, a leading or a trailing dot.
    #[error("`{0}` has an empty key")]
    EmptyKey(String),
    /// More keys than a document can be deep.
    #[error("a path has at most {MAX_KEYS} keys")]
    TooLong,
    /// A backslash at the end or before something that needs none.
    #[error("`{0}` has a backslash that escapes neither a dot nor a backslash")]
    Escape(String),
}

impl KeyPath {
    /// The keys.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// The path of `key` below this one.
    #[must_use]
    pub fn child(&self, key: impl Into<String>) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.into());
        Self(keys)
    }

    /// The last key.
    pub fn last(&self) -> Option<&str> {
        self.0.last().map(String::as_str)
    }

    /// The path without its first `count` keys.
    #[must_use]
    pub fn below(&self, count: usize) -> Self {
        Self(self.0.iter().skip(count).cloned().collect())
    }

    /// Whether these are the keys; for comparing with literals.
    pub fn equals(&self, keys: &[&str]) -> bool {
        self.0 == keys
    }
}

impl<K: Into<String>> FromIterator<K> for KeyPath {
    fn from_iter<I: IntoIterator<Item = K>>(keys: I) -> Self {
        Self(keys.into_iter().map(Into::into).collect())
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, key) in self.0.iter().enumerate() {
            if index > 0 {
                formatter.write_str(".")?;
            }
            formatter.write_str(&key.replace('\\', "\\\\").replace('.', "\\."))?;
        }
        Ok(())
    }
}

impl FromStr for KeyPath {
    type Err = KeyPathError;

    fn from_str(text: &str) -> Result<Self, KeyPathError> {
        let mut keys = vec![String::new()];
        let mut characters = text.chars();
        while let Some(character) = characters.next() {
            match character {
                '.' => keys.push(String::new()),
                '\\' => match characters.next() {
                    Some(escaped @ ('.' | '\\')) => push(&mut keys, escaped),
                    Some(_) | None => return Err(KeyPathError::Escape(text.to_owned())),
                },
                other => push(&mut keys, other),
            }
        }
        if keys.len() > MAX_KEYS {
            return Err(KeyPathError::TooLong);
        }
        if keys.iter().any(String::is_empty) {
            Err(KeyPathError::EmptyKey(text.to_owned()))
        } else {
            Ok(Self(keys))
        }
    }
}

fn push(keys: &mut [String], character: char) {
    if let Some(key) = keys.last_mut() {
        key.push(character);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_is_read_back_as_written() {
        for text in ["a", "a.b", r"nodeSelector.nvidia\.com/gpu", r"a\\b.c"] {
            assert_eq!(text.parse::<KeyPath>().unwrap().to_string(), text);
        }
        assert_eq!(r"a.b\.c".parse::<KeyPath>().unwrap().keys(), ["a", "b.c"]);
        assert_eq!(vec!["a"; 65].join(".").parse::<KeyPath>(), Err(KeyPathError::TooLong));
        for bad in ["", ".", "a.", ".a", "a..b", r"a\", r"a\b"] {
            assert!(bad.parse::<KeyPath>().is_err(), "{bad}");
        }
    }
}
