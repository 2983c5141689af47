//! The text of a file that is written to many places: it is shared, and digested once.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use super::digest::sha256;

/// The content of a file. Clones share it. Its digest is computed at most once: a process that
/// renders many bundles writes the same charts and CRDs to all of them.
#[derive(Clone)]
pub struct FileContent(Arc<SharedContent>);

struct SharedContent {
    text: Cow<'static, str>,
    sha256: OnceLock<String>,
}

impl FileContent {
    fn new(text: Cow<'static, str>) -> Self {
        Self(Arc::new(SharedContent { text, sha256: OnceLock::new() }))
    }

    /// Returns the SHA-256 digest, as [`sha256`] does.
    pub fn sha256(&self) -> &str {
        self.0.sha256.get_or_init(|| sha256(self.0.text.as_bytes()))
    }

    /// Returns the text.
    pub fn as_str(&self) -> &str {
        &self.0.text
    }
}

impl Deref for FileContent {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.text.as_bytes()
    }
}

impl From<String> for FileContent {
    fn from(text: String) -> Self {
        Self::new(Cow::Owned(text))
    }
}

impl From<&'static str> for FileContent {
    /// Text that the program embeds is not copied.
    fn from(text: &'static str) -> Self {
        Self::new(Cow::Borrowed(text))
    }
}

impl PartialEq for FileContent {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0) || self.0.text == other.0.text
    }
}

impl Eq for FileContent {}

impl fmt::Debug for FileContent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.text.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_content_and_digest() {
        let content = FileContent::from("text");
        let clone = content.clone();
        assert_eq!(clone.sha256(), sha256(b"text"));
        assert!(std::ptr::eq(clone.sha256(), content.sha256()), "it is computed once");
        assert_eq!(content, FileContent::from("text".to_owned()));
        assert_ne!(content, FileContent::from("other"));
    }
}
