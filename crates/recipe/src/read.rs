//! Reads recipes from files and standard input, with a size limit. A file that another file names
//! must be below a directory that the user allows.

use std::io::Read;
use std::path::{Component, Path, PathBuf};

use crate::regular_file::open_regular;

/// The largest recipe in bytes. Real recipes have a page or two of text.
pub const SIZE_LIMIT: u64 = 1 << 20;
/// More bytes than most recipes and values files have.
const USUAL_SIZE: usize = 16 << 10;

/// Source of recipe texts. Tests use maps.
pub trait TextReader {
    /// Returns the text of a file.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn file(&mut self, path: &str) -> Result<String, ReadError>;

    /// Returns the text of a file that another file names. It must be a regular file below
    /// `directory`, also if one of them is behind a link.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn file_below(&mut self, directory: &str, path: &str) -> Result<String, ReadError> {
        if is_below(Path::new(directory), Path::new(path)) {
            self.file(path)
        } else {
            Err(ReadError::Outside)
        }
    }

    /// Returns the text on standard input.
    ///
    /// # Errors
    /// See [`ReadError`].
    fn standard_input(&mut self) -> Result<String, ReadError>;

    /// Returns whether there is a directory at `path`.
    fn is_directory(&self, _path: &str) -> bool {
        false
    }
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
    /// Named by another file, and not below an allowed directory.
    #[error("outside the allowed directories")]
    Outside,
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
    fn from_io(error: std::io::Error) -> Self {
        if error.kind() == std::io::ErrorKind::NotFound {
            Self::Missing
        } else {
            Self::Other(error)
        }
    }

    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Directory => Some("name the recipe's file in the directory"),
            Self::TooLarge => Some("check that this is the right file; recipes are much smaller"),
            Self::NotUtf8 { .. } | Self::Utf16 => Some("save it as UTF-8"),
            Self::Missing | Self::Outside | Self::Other(_) => None,
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
        read_limited(std::fs::File::open(path).map_err(ReadError::from_io)?)
    }

    fn file_below(&mut self, directory: &str, path: &str) -> Result<String, ReadError> {
        read_below(&[directory], path)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        read_limited(std::io::stdin().lock())
    }

    fn is_directory(&self, path: &str) -> bool {
        Path::new(path).is_dir()
    }
}

/// Reads a file below one of the directories. A link in one of them may lead into another.
fn read_below(directories: &[&str], path: &str) -> Result<String, ReadError> {
    // The path alone decides first, so that an error does not reveal which other files exist.
    if !directories.iter().any(|directory| is_below(Path::new(directory), Path::new(path))) {
        return Err(ReadError::Outside);
    }
    let path = std::fs::canonicalize(path).map_err(ReadError::from_io)?;
    // A directory that does not exist contains no file.
    let mut real = directories.iter().filter_map(|directory| std::fs::canonicalize(directory).ok());
    if !real.any(|directory| path.starts_with(directory)) {
        return Err(ReadError::Outside);
    }
    if path.is_dir() {
        return Err(ReadError::Directory);
    }
    read_limited(open_regular(&path).map_err(ReadError::from_io)?)
}

/// The file system, where files may also name files below more directories.
#[derive(Debug, Default)]
pub struct AllowedDirectoriesReader {
    /// The directories that are allowed in addition to the one that a file belongs to.
    pub allowed: Vec<String>,
}

impl TextReader for AllowedDirectoriesReader {
    fn file(&mut self, path: &str) -> Result<String, ReadError> {
        FileSystemReader.file(path)
    }

    fn file_below(&mut self, directory: &str, path: &str) -> Result<String, ReadError> {
        let allowed = self.allowed.iter().map(String::as_str);
        let directories: Vec<&str> = std::iter::once(directory).chain(allowed).collect();
        read_below(&directories, path)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        FileSystemReader.standard_input()
    }

    fn is_directory(&self, path: &str) -> bool {
        FileSystemReader.is_directory(path)
    }
}

/// Returns whether `path` is below `directory`, judged by their texts alone.
fn is_below(directory: &Path, path: &Path) -> bool {
    match (without_dots(directory), without_dots(path)) {
        (Some(directory), Some(path)) => path.starts_with(&directory) && path != directory,
        _ => false,
    }
}

/// Returns the absolute path without `.` and `..`; `None` if the current directory is unknown.
fn without_dots(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for part in std::path::absolute(path).ok()?.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            Component::CurDir => {}
            Component::Prefix(_) | Component::RootDir | Component::Normal(_) => {
                plain.push(part.as_os_str());
            }
        }
    }
    Some(plain)
}

/// Reads at most one byte more than [`SIZE_LIMIT`]. Drops a byte order mark.
///
/// # Errors
/// The text is too large or not UTF-8, or the reader fails.
pub fn read_limited(reader: impl Read) -> Result<String, ReadError> {
    // Most files take one or two reads. Without a capacity, the first one is of 32 bytes.
    let mut bytes = Vec::with_capacity(USUAL_SIZE);
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
    // Texts are kept for the excerpts of messages.
    text.shrink_to_fit();
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn path_below_directory_is_told_from_others() {
        for (directory, path) in [
            (".", "a.yaml"),
            ("team", "team/a.yaml"),
            ("team/.", "./team/x/../a.yaml"),
            ("/", "/a"),
        ] {
            assert!(is_below(Path::new(directory), Path::new(path)), "{directory} {path}");
        }
        for (directory, path) in [
            (".", "../a.yaml"),
            ("team", "teams/a.yaml"),
            ("team", "team/../a.yaml"),
            ("team", "team"),
            ("team", "/etc/passwd"),
            ("..", "../../a"),
        ] {
            assert!(!is_below(Path::new(directory), Path::new(path)), "{directory} {path}");
        }
    }
}
