//! All files of a bundle, in memory.

use std::collections::BTreeMap;

use super::checksums::{self, CHECKSUMS};
use deployer::BundleFile;

/// The files by path. `checksums.txt` is one of them and covers all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BundleTree(BTreeMap<String, BundleFile>);

impl BundleTree {
    /// Creates a tree from files in any order. Of two files with the same path, the later one is
    /// kept.
    pub fn new(files: impl IntoIterator<Item = BundleFile>) -> Self {
        let Self(mut files) = Self::complete(files);
        let list = checksums::write(files.values());
        files.insert(CHECKSUMS.to_owned(), BundleFile::text(CHECKSUMS, list));
        Self(files)
    }

    /// Creates a tree like [`Self::new`], from files that include `checksums.txt`.
    pub(super) fn complete(files: impl IntoIterator<Item = BundleFile>) -> Self {
        Self(files.into_iter().map(|file| (file.path.clone(), file)).collect())
    }

    /// Returns the files in the order of their paths.
    pub fn files(&self) -> impl Iterator<Item = &BundleFile> {
        self.0.values()
    }

    /// Returns the file at `path`.
    pub fn get(&self, path: &str) -> Option<&BundleFile> {
        self.0.get(path)
    }
}
