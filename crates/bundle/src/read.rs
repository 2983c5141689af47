//! Reads the text files of a bundle's directory.

use std::path::Path;

use super::error::BundleError;
use super::verify::read_files;
use parity::TextFiles;

/// Reads every text file below `directory`, rendered or not. Omits files that are not text.
///
/// # Errors
/// A path cannot be read.
pub fn read(directory: &Path) -> Result<TextFiles, BundleError> {
    let text = |(path, bytes)| Some((path, String::from_utf8(bytes).ok()?));
    Ok(read_files(directory)?.into_iter().filter_map(text).collect())
}
