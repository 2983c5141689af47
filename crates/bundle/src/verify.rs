//! Verifies that a bundle on disk is unchanged and consistent.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::Path;

use super::checksums::{self, CHECKSUMS};
use super::error::BundleError;
use super::info::INFO;
use super::promises;

/// One finding about a bundle.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum BundleFinding {
    /// A file differs from `checksums.txt`.
    Changed(String),
    /// A file is missing.
    Missing(String),
    /// A file that was not rendered.
    Added(String),
    /// A path that should be a file is not a file.
    NoFile(String),
    /// `checksums.txt` itself is invalid at this line.
    Checksums(usize),
    /// The deployer's files are inconsistent, regardless of the checksums.
    Promise {
        /// The file to check.
        path: String,
        /// What is wrong.
        reason: String,
    },
}

impl BundleFinding {
    /// Returns the file that the finding is about.
    pub fn path(&self) -> &str {
        match self {
            Self::Changed(path)
            | Self::Missing(path)
            | Self::Added(path)
            | Self::NoFile(path)
            | Self::Promise { path, .. } => path,
            Self::Checksums(_) => CHECKSUMS,
        }
    }
}

impl fmt::Display for BundleFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(path) => write!(formatter, "changed: {path}"),
            Self::Missing(path) => write!(formatter, "missing: {path}"),
            Self::Added(path) => write!(formatter, "added: {path}"),
            Self::NoFile(path) => write!(formatter, "no file: {path}"),
            Self::Checksums(line) => {
                write!(formatter, "changed: {CHECKSUMS}: line {line} is not a rendered line")
            }
            Self::Promise { path, reason } => write!(formatter, "broken: {path}: {reason}"),
        }
    }
}

/// Checks a bundle against its checksums, and for consistency. Returns no findings if it is
/// unchanged and consistent.
///
/// # Errors
/// The directory is not a bundle, or cannot be read.
pub fn verify(directory: &Path) -> Result<Vec<BundleFinding>, BundleError> {
    let found = walk(directory)?;
    for file in [INFO, CHECKSUMS] {
        if !found.contains(file) {
            return Err(BundleError::NoBundle { directory: directory.to_owned(), file });
        }
    }
    let mut findings = Vec::new();
    match checksums::read(&String::from_utf8_lossy(&read(&directory.join(CHECKSUMS))?)) {
        Err(line) => findings.push(BundleFinding::Checksums(line)),
        Ok(list) => {
            for (path, digest) in &list {
                findings.extend(compare(directory, path, digest)?);
            }
            findings.extend(
                found
                    .iter()
                    .filter(|path| *path != CHECKSUMS && !list.contains_key(*path))
                    .cloned()
                    .map(BundleFinding::Added),
            );
        }
    }
    findings.extend(promises::broken(directory));
    findings.sort_by(|first, second| first.path().cmp(second.path()).then(first.cmp(second)));
    Ok(findings)
}

fn compare(
    directory: &Path,
    path: &str,
    digest: &str,
) -> Result<Option<BundleFinding>, BundleError> {
    let full = directory.join(path);
    let error = |source| BundleError::read(&full, source);
    match fs::symlink_metadata(&full) {
        Err(missing)
            if matches!(missing.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            Ok(Some(BundleFinding::Missing(path.to_owned())))
        }
        Err(other) => Err(error(other)),
        Ok(about) if !about.is_file() => Ok(Some(BundleFinding::NoFile(path.to_owned()))),
        Ok(_) => {
            let found = fs::File::open(&full).and_then(checksums::sha256_of).map_err(error)?;
            Ok((found != digest).then(|| BundleFinding::Changed(path.to_owned())))
        }
    }
}

/// Returns every path below `directory` that is not a directory, except those in `.git`.
pub(super) fn walk(directory: &Path) -> Result<BTreeSet<String>, BundleError> {
    let mut found = BTreeSet::new();
    let mut waiting = vec![(directory.to_owned(), String::new())];
    while let Some((folder, prefix)) = waiting.pop() {
        let error = |source| BundleError::read(&folder, source);
        for entry in fs::read_dir(&folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            if !entry.file_type().map_err(error)?.is_dir() {
                found.insert(path);
            } else if path != ".git" {
                waiting.push((entry.path(), format!("{path}/")));
            }
        }
    }
    Ok(found)
}

/// Returns the content of every file below `directory`.
pub(super) fn read_files(directory: &Path) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
    walk(directory)?
        .into_iter()
        .map(|path| read(&directory.join(&path)).map(|content| (path, content)))
        .collect()
}

fn read(path: &Path) -> Result<Vec<u8>, BundleError> {
    fs::read(path).map_err(|source| BundleError::read(path, source))
}
