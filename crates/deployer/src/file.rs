//! A file of a bundle, not yet written.

/// One file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleFile {
    /// Path below the bundle, with `/`.
    pub path: String,
    /// What is in it.
    pub content: Vec<u8>,
    /// Whether it is a script to be run.
    pub executable: bool,
}

impl BundleFile {
    /// A file that is read.
    pub fn text(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { path: path.into(), content: content.into().into_bytes(), executable: false }
    }

    /// A file that is run.
    pub fn script(path: impl Into<String>, content: impl Into<String>) -> Self {
        Self { executable: true, ..Self::text(path, content) }
    }
}
