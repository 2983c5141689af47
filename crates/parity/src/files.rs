//! The files of a bundle from which facts are read.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;

use crate::ReadbackError;

/// Text by path below the bundle, with `/`. Does not contain files that are not text, because no
/// fact depends on them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TextFiles(BTreeMap<String, String>);

impl FromIterator<(String, String)> for TextFiles {
    fn from_iter<I: IntoIterator<Item = (String, String)>>(files: I) -> Self {
        Self(files.into_iter().collect())
    }
}

impl TextFiles {
    /// Returns the text of the file at `path`.
    pub fn get(&self, path: &str) -> Option<&str> {
        self.0.get(path).map(String::as_str)
    }

    /// Returns the text of a file that the deployer requires.
    ///
    /// # Errors
    /// The file is missing.
    pub fn required(&self, path: &str) -> Result<&str, ReadbackError> {
        self.get(path).ok_or_else(|| ReadbackError::Missing(path.to_owned()))
    }

    /// Returns paths and texts, in the order of their paths.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Returns the files of a folder: path below it, and text.
    pub fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.iter().filter_map(move |(path, text)| {
            Some((path.strip_prefix(folder)?.strip_prefix('/')?, text))
        })
    }

    /// Parses the file at `path` as one YAML document, if it exists.
    ///
    /// # Errors
    /// The file is not YAML, or does not have the form of `T`.
    pub fn yaml<T: DeserializeOwned>(&self, path: &str) -> Result<Option<T>, ReadbackError> {
        self.get(path).map(|text| parse(path, text)).transpose()
    }
}

/// Parses `text`, the file at `path`, as one YAML document.
///
/// # Errors
/// See [`TextFiles::yaml`].
pub(crate) fn parse<T: DeserializeOwned>(path: &str, text: &str) -> Result<T, ReadbackError> {
    yaml::from_str(text).map_err(|error| ReadbackError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })
}
