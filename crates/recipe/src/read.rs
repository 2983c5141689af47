//! Reads recipes from files and standard input, with a size limit.

use std::io::Read;
use std::path::Path;

/// The largest recipe in bytes. Real recipes have a page or two of text.
pub const SIZE_LIMIT: u64 = 1 << 20;

/// Source of recipe texts. Tests use maps.
pub trait TextReader {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn file(&mut self, path: &str) -> Result<String, ReadError>;

    /// Returns the text on standard input.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn standard_input(&mut self) -> Result<String, ReadError>;
}

/// Why a text cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    /// No such file.
    #[error("file does not exist")]
    Missing,
    /// Not a file.
    #[error("is a directory")]
    Directory,
    /// Larger than [`SIZE_LIMIT`].
    #[error("larger than 1 MiB")]
    TooLarge,
    /// Bytes that are not text.
    #[error("not UTF-8 (byte {byte})")]
    NotUtf8 {
        /// The first offending byte, from 0.
        byte: usize,
    },
    /// A text in another encoding.
    #[error("UTF-16 instead of UTF-8")]
    Utf16,
    /// Anything else.
    #[error("{0}")]
    Other(#[from] std::io::Error),
}

impl ReadError {
    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Directory => Some("name the recipe's file in the directory"),
            Self::TooLarge => Some("check that this is the right file; recipes are much smaller"),
            Self::NotUtf8 { .. } | Self::Utf16 => Some("save it as UTF-8"),
            Self::Missing | Self::Other(_) => None,
        }
    }
}

/// The file system and the process's standard input.
#[derive(Debug, Default)]
pub struct FileSystemReader;

impl TextReader for FileSystemReader {
    fn file(&mut self, path: &str) -> Result<String, ReadError> {
        let path = Path::new(path);
        if path.is_dir() {
            return Err(ReadError::Directory);
        }
        let file = std::fs::File::open(path).map_err(|error| {
            if error.kind() == std::io::ErrorKind::NotFound {
                ReadError::Missing
            } else {
                ReadError::Other(error)
            }
        })?;
        read_limited(file)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        read_limited(std::io::stdin().lock())
    }
}

/// Reads at most one byte more than [`SIZE_LIMIT`]. Drops a byte order mark.
///
/// # Errors
/// The text is too large or not UTF-8, or the reader fails.
pub fn read_limited(reader: impl Read) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    reader.take(SIZE_LIMIT + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > SIZE_LIMIT {
        return Err(ReadError::TooLarge);
    }
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(ReadError::Utf16);
    }
    let mut text = String::from_utf8(bytes)
        .map_err(|error| ReadError::NotUtf8 { byte: error.utf8_error().valid_up_to() })?;
    if text.starts_with('\u{feff}') {
        text.remove(0);
    }
    Ok(text)
}
