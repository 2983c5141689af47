//! A path in a document: `components.gpu-operator.values.driver.version`. Items of lists are
//! identified by their `name`, or by their number if they have none. A dot inside a key is written
//! `\.`.

use std::fmt;
use std::str::FromStr;

/// The maximum number of keys: the maximum nesting of a document.
const MAX_KEYS: usize = yaml::MAX_DEPTH;

/// A path of keys from the top of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyPath(Vec<String>);

/// Why a text is not a [`KeyPath`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyPathError {
    /// `a..b`, a leading or a trailing dot.
    #[error("`{0}` has an empty key")]
    EmptyKey(String),
    /// The path has more keys than a document can be deep.
    #[error("a path has at most {MAX_KEYS} keys")]
    TooLong,
    /// A backslash at the end, or before a character other than a dot or backslash.
    #[error("`{0}` has a backslash that escapes neither a dot nor a backslash")]
    Escape(String),
}

impl KeyPath {
    /// Returns the keys.
    pub fn keys(&self) -> &[String] {
        &self.0
    }

    /// Returns the path of `key` below this one.
    #[must_use]
    pub fn child(&self, key: impl Into<String>) -> Self {
        let mut keys = self.0.clone();
        keys.push(key.into());
        Self(keys)
    }

    /// Returns what `visit` returns for the path of `key` below this one. A walk through a document
    /// then copies each key once, not all keys above it as well.
    pub fn within<R>(&mut self, key: impl Into<String>, visit: impl FnOnce(&mut Self) -> R) -> R {
        self.0.push(key.into());
        let result = visit(self);
        self.0.pop();
        result
    }

    /// Returns the last key.
    pub fn last(&self) -> Option<&str> {
        self.0.last().map(String::as_str)
    }

    /// Returns the path without its first `count` keys.
    #[must_use]
    pub fn below(&self, count: usize) -> Self {
        Self(self.0.iter().skip(count).cloned().collect())
    }

    /// Returns whether the path has exactly these keys; for comparing with literals.
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
    fn path_is_the_same_after_a_visit_below_it() {
        let mut path = KeyPath::default();
        let inner = path.within("a", |path| path.within("b", |path| path.to_string()));
        assert_eq!((inner.as_str(), path), ("a.b", KeyPath::default()));
    }

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
