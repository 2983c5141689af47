//! Reads the text files of a bundle's directory.

use std::path::{Path, PathBuf};

use super::directory::{BundleDirectory, texts};
use super::error::BundleError;
use super::info::RECIPE;
use parity::TextFiles;

/// Reads every text file below `directory`, rendered or not. Omits files that are not text.
///
/// # Errors
/// It is not a bundle or has another format, or a path in it cannot be read or is not a regular
/// file.
pub fn read(directory: &Path) -> Result<TextFiles, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    bundle.check_format()?;
    bundle.complete_contents().map(texts)
}

/// Returns the path of the recipe that the bundle in `directory` was rendered from.
///
/// # Errors
/// It is not a bundle or has another format, or its recipe is not a regular file.
pub fn recipe_path(directory: &Path) -> Result<PathBuf, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    bundle.check_format()?;
    bundle.open_file(RECIPE)?;
    Ok(directory.join(RECIPE))
}
