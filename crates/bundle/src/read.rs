//! Reads the text files of a bundle's directory.

use std::path::{Path, PathBuf};

use super::directory::{BundleDirectory, texts};
use super::error::BundleError;
use super::info::{INFO, RECIPE};
use parity::TextFiles;

/// Reads every text file below `directory`, rendered or not. Omits files that are not text.
///
/// # Errors
/// It is not a bundle, or a path in it cannot be read or is not a regular file.
pub fn read(directory: &Path) -> Result<TextFiles, BundleError> {
    BundleDirectory::open(directory)?.complete_contents().map(texts)
}

/// Returns the path of the recipe that the bundle in `directory` was rendered from.
///
/// # Errors
/// It is not a bundle, or its recipe is not a regular file.
pub fn recipe_path(directory: &Path) -> Result<PathBuf, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    for file in [INFO, RECIPE] {
        bundle.open_file(file)?;
    }
    Ok(directory.join(RECIPE))
}
