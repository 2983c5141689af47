//! A bundle's directory → the texts in it.

use std::path::Path;

use super::error::BundleError;
use super::verify::read_files;
use parity::TextFiles;

/// Every text below `directory`, whether it was rendered or not.
///
/// # Errors
/// Something cannot be read. A file that is no text is left out.
pub fn read(directory: &Path) -> Result<TextFiles, BundleError> {
    let text = |(path, bytes)| Some((path, String::from_utf8(bytes).ok()?));
    Ok(read_files(directory)?.into_iter().filter_map(text).collect())
}
