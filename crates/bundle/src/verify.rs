//! Verifies that a bundle on disk is unchanged and consistent.

use std::fmt;
use std::path::Path;

use super::checksums::{self, CHECKSUMS, SIGNATURE};
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
    /// Returns whether the parts of the bundle are no longer consistent. Other edits can be
    /// deployed.
    pub fn is_broken(&self) -> bool {
        matches!(self, Self::Promise { .. })
    }

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

    /// Returns the kind of the finding, as it is printed.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Changed(_) | Self::Checksums(_) => "changed",
            Self::Missing(_) => "missing",
            Self::Added(_) => "added",
            Self::NoFile(_) => "no file",
            Self::Promise { .. } => "broken",
        }
    }

    /// Returns what is wrong, if the kind does not say it.
    pub fn reason(&self) -> Option<String> {
        match self {
            Self::Checksums(line) => Some(format!("line {line} is not a rendered line")),
            Self::Promise { reason, .. } => Some(reason.clone()),
            Self::Changed(_) | Self::Missing(_) | Self::Added(_) | Self::NoFile(_) => None,
        }
    }
}

impl fmt::Display for BundleFinding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.kind(), visible::line(self.path()))?;
        match self.reason() {
            Some(reason) => write!(formatter, ": {}", visible::line(&reason)),
            None => Ok(()),
        }
    }
}

/// Checks a bundle against its checksums, and for consistency. Returns no findings if it is
/// unchanged and consistent. Does not check its signature.
///
/// # Errors
/// The directory is not a bundle, has another format, has no checksums, or cannot be read.
pub fn verify(directory: &Path) -> Result<Vec<BundleFinding>, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    let checksums = read_checksums(&bundle, directory)?;
    findings(&bundle, directory, &checksums)
}

/// Reads the `checksums.txt` of a bundle.
///
/// # Errors
/// It is missing or cannot be read, or the bundle has another format.
pub(super) fn read_checksums(
    bundle: &BundleDirectory,
    directory: &Path,
) -> Result<Vec<u8>, BundleError> {
    // Findings would call its files broken. If the file cannot be read, that is a finding.
    if let Err(error @ BundleError::OtherFormat { .. }) = bundle.check_format() {
        return Err(error);
    }
    if bundle.kind(CHECKSUMS).is_none() {
        return Err(BundleError::Incomplete { directory: directory.to_owned(), file: CHECKSUMS });
    }
    bundle.read(CHECKSUMS)
}

/// Returns the findings about a bundle with these checksums.
///
/// # Errors
/// A file cannot be read.
pub(super) fn findings(
    bundle: &BundleDirectory,
    directory: &Path,
    checksums: &[u8],
) -> Result<Vec<BundleFinding>, BundleError> {
    let mut findings = Vec::new();
    match checksums::read(&String::from_utf8_lossy(checksums)) {
        Err(line) => findings.push(BundleFinding::Checksums(line)),
        Ok(list) => {
            for (path, digest) in &list {
                findings.extend(compare(bundle, directory, path, digest)?);
            }
            // The signature cannot be among the files that it signs.
            let is_signature =
                |path: &str| path == SIGNATURE && bundle.kind(path) == Some(EntryKind::File);
            let added = bundle.files().filter(|path| {
                *path != CHECKSUMS
                    && !list.contains_key(path.as_str())
                    && !is_signature(path.as_str())
            });
            findings.extend(added.cloned().map(BundleFinding::Added));
        }
    }
    findings.extend(promises::broken(bundle));
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
