//! Verifies that a bundle on disk is unchanged and consistent.

use std::fmt;
use std::path::Path;

use super::checksums::{self, CHECKSUMS};
use super::directory::{BundleDirectory, EntryKind};
use super::error::BundleError;
use super::promises;
use contract::visible;

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
        let path = visible::line(self.path());
        match self {
            Self::Changed(_) => write!(formatter, "changed: {path}"),
            Self::Missing(_) => write!(formatter, "missing: {path}"),
            Self::Added(_) => write!(formatter, "added: {path}"),
            Self::NoFile(_) => write!(formatter, "no file: {path}"),
            Self::Checksums(line) => {
                write!(formatter, "changed: {path}: line {line} is not a rendered line")
            }
            Self::Promise { reason, .. } => {
                write!(formatter, "broken: {path}: {}", visible::line(reason))
            }
        }
    }
}

/// Checks a bundle against its checksums, and for consistency. Returns no findings if it is
/// unchanged and consistent.
///
/// # Errors
/// The directory is not a bundle, has another format, has no checksums, or cannot be read.
pub fn verify(directory: &Path) -> Result<Vec<BundleFinding>, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    // Findings would call its files broken. If the file cannot be read, that is a finding.
    if let Err(error @ BundleError::OtherFormat { .. }) = bundle.check_format() {
        return Err(error);
    }
    if bundle.kind(CHECKSUMS).is_none() {
        return Err(BundleError::Incomplete { directory: directory.to_owned(), file: CHECKSUMS });
    }
    let mut findings = Vec::new();
    match checksums::read(&String::from_utf8_lossy(&bundle.read(CHECKSUMS)?)) {
        Err(line) => findings.push(BundleFinding::Checksums(line)),
        Ok(list) => {
            for (path, digest) in &list {
                findings.extend(compare(&bundle, directory, path, digest)?);
            }
            let added = bundle
                .files()
                .filter(|path| *path != CHECKSUMS && !list.contains_key(path.as_str()));
            findings.extend(added.cloned().map(BundleFinding::Added));
        }
    }
    findings.extend(promises::broken(&bundle));
    findings.sort_by(|first, second| first.path().cmp(second.path()).then(first.cmp(second)));
    Ok(findings)
}

fn compare(
    bundle: &BundleDirectory,
    directory: &Path,
    path: &str,
    digest: &str,
) -> Result<Option<BundleFinding>, BundleError> {
    match bundle.kind(path) {
        None => Ok(Some(BundleFinding::Missing(path.to_owned()))),
        Some(EntryKind::Directory | EntryKind::Other) => {
            Ok(Some(BundleFinding::NoFile(path.to_owned())))
        }
        // No rendered file is so large.
        Some(EntryKind::TooLarge) => Ok(Some(BundleFinding::Changed(path.to_owned()))),
        Some(EntryKind::File) => {
            let found = checksums::sha256_of(bundle.open_file(path)?)
                .map_err(|error| BundleError::read(&directory.join(path), error))?;
            Ok((found != digest).then(|| BundleFinding::Changed(path.to_owned())))
        }
    }
}
