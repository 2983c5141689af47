//! A file of a bundle in memory.

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFile {
    /// Path below the bundle, with `/`.
    pub path: String,
    /// The content.
    pub content: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

impl BundleFile {
    /// Creates a text file.
    pub fn text(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), content: content.into().into_bytes(), executable: false }
    }

    /// Creates an executable script.
    pub fn script(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { executable: true, ..Self::text(path, content) }
    }
}
