//! Why a bundle on disk cannot be used.

use std::io;
use std::path::{Path, PathBuf};

use super::info::API_VERSION;
use contract::visible::line;

/// Why a bundle on disk cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The directory is not a bundle.
    #[error("`{}` is not a bundle: it has no `{file}`", directory.display())]
    NoBundle {
        /// The directory.
        directory: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// The bundle lacks a file that every bundle has.
    #[error("the bundle `{}` is incomplete: `{file}` is missing", directory.display())]
    Incomplete {
        /// The directory.
        directory: PathBuf,
        /// The missing file.
        file: &'static str,
    },
    /// The bundle has another format: another version of the program rendered it.
    #[error(
        "cannot read the bundle `{}`: expected apiVersion `{API_VERSION}`, found `{}` (rendered by {})",
        directory.display(),
        line(api_version),
        line(rendered_by)
    )]
    OtherFormat {
        /// The directory.
        directory: PathBuf,
        /// The version of its format.
        api_version: String,
        /// Name and version of the program that rendered it.
        rendered_by: String,
    },
    /// A path cannot be read.
    #[error("cannot read `{}`: {source}", path.display())]
    Read {
        /// The path.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// A file does not have the format of a bundle's file.
    #[error("`{}` is not a valid file of a bundle: {reason}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        reason: String,
    },
    /// Two releases have different charts, which would be the same one in a registry.
    #[error(
        "the chart in `{}` differs from that of another release, and has the same name and version: {} {}",
        folder.display(),
        line(chart),
        line(version)
    )]
    OtherChart {
        /// The folder of the second chart.
        folder: PathBuf,
        /// Its name.
        chart: String,
        /// Its version.
        version: String,
    },
}

impl BundleError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Incomplete { .. } => "render it again with --force",
            Self::OtherFormat { .. } => {
                "use the gpu-rollout that rendered the bundle, or render it again with this one and --force"
            }
            Self::OtherChart { .. } => {
                "put the change into the recipe and render again, or edit the charts of all releases alike, and change their `version`"
            }
            Self::NoBundle { .. } | Self::Read { .. } | Self::File { .. } => {
                "name a directory that `gpu-rollout bundle render` wrote"
            }
        }
    }

    /// Creates the error for a path that cannot be read.
    pub(super) fn read(path: &Path, source: io::Error) -> Self {
        Self::Read { path: path.to_owned(), source }
    }

    /// Creates the error for an invalid file.
    pub(super) fn file(path: &Path, reason: &impl ToString) -> Self {
        Self::File { path: path.to_owned(), reason: reason.to_string() }
    }
}
