//! A bundle's directory → the texts in it.

use std::fs;
use std::path::Path;

use super::verify::{VerifyError, walk};
use deployer::readback::TextFiles;

/// Every text below `directory`, whether it was rendered or not.
///
/// # Errors
/// Something cannot be read. A file that is no text is left out.
pub fn read(directory: &Path) -> Result<TextFiles, VerifyError> {
    let mut texts = Vec::new();
    for path in walk(directory)? {
        let full = directory.join(&path);
        let bytes = fs::read(&full).map_err(|source| VerifyError::Read { path: full, source })?;
        texts.extend(String::from_utf8(bytes).ok().map(|text| (path, text)));
    }
    Ok(texts.into_iter().collect())
}
