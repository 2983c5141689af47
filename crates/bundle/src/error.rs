//! Why a bundle on disk cannot be used.

use std::io;
use std::path::{Path, PathBuf};

/// Why a bundle on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// It is no bundle.
    #[error("`{}` is no bundle: it has no `{file}`", directory.display())]
    NoBundle {
        /// The directory.
        directory: PathBuf,
        /// What it lacks.
        file: &'static str,
    },
    /// It cannot be read.
    #[error("unable to read `{}`: {source}", path.display())]
    Read {
        /// What.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is not as bundles have it.
    #[error("`{}` is not as a bundle has it: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: String,
    },
}

impl BundleError {
    /// Something cannot be read.
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// A file is not as bundles have it.
    pub(super) fn file(path: &Path, reason: &impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }
}
