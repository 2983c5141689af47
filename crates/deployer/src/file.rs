//! A file of a bundle in memory.

use contract::file_content::FileContent;

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFile {
    /// Path below the bundle, with `/`.
    pub path: String,
    /// The content.
    pub content: FileContent,
    /// Whether it is executable.
    pub executable: bool,
}

impl BundleFile {
    /// Creates a text file.
    pub fn text(path: impl Into<String>, content: impl Into<FileContent>) -> Self {
        Self { path: path.into(), content: content.into(), executable: false }
    }

    /// Creates an executable script.
    pub fn script(path: impl Into<String>, content: impl Into<FileContent>) -> Self {
        Self { executable: true, ..Self::text(path, content) }
    }
}
