//! The files in a bundle's directory. A bundle may be from an untrusted source: symbolic links are
//! not followed, only regular files are opened, and their number and sizes are limited.

use std::collections::BTreeMap;
use std::fs::{self, DirEntry};
use std::io::{self, Read as _, Take};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::checksums::{CHECKSUMS, SIGNATURE};
use super::error::BundleError;
use super::info::{API_VERSION, BundleInfo, INFO};
use archive::{ArchiveFile, ArchiveFiles};
use parity::TextFiles;
use recipe::regular_file::open_regular;

/// The largest file in bytes. The largest file of a rendered bundle has less than a tenth of it.
pub(super) const MAX_FILE: u64 = 8 << 20;
/// The largest `bundle-info.yaml` and `checksums.txt`, and the largest signature, in bytes.
pub(super) const MAX_LIST: u64 = 1 << 20;
/// The largest size of all files of a bundle together, in bytes.
pub const MAX_BYTES: u64 = 128 << 20;
/// The largest number of files and directories of a bundle.
pub const MAX_ENTRIES: usize = 20_000;
/// The largest nesting depth of directories.
pub(super) const MAX_DEPTH: usize = 32;
/// The largest number of releases. A rendered bundle has a few dozen.
const MAX_RELEASES: usize = 1_000;
/// The first characters of a script.
const SCRIPT: &[u8] = b"#!";

/// What a path in a bundle's directory is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A regular file that may be read.
    File,
    /// A directory.
    Directory,
    /// A regular file that is larger than any file of a bundle.
    TooLarge,
    /// A link, a device, a pipe, a socket, or a file whose name is not UTF-8.
    Other,
}

/// What `bundle-info.yaml` says about the format of a bundle. Another format may have other fields.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BundleFormat {
    api_version: String,
    #[serde(default)]
    rendered_by: Option<String>,
}

/// The files in a bundle's directory, without the content of `.git`.
#[derive(Debug)]
pub(super) struct BundleDirectory {
    directory: PathBuf,
    entries: BTreeMap<String, EntryKind>,
}

impl BundleDirectory {
    /// Lists the files below `directory`, which itself may be a link.
    ///
    /// # Errors
    /// It is not a bundle, it cannot be read, or it exceeds a limit (files, depth, size).
    pub(super) fn open(directory: &Path) -> Result<Self, BundleError> {
        // Before the list: another directory may have millions of files.
        match fs::symlink_metadata(directory.join(INFO)) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound && directory.exists() => {
                return Err(BundleError::NoBundle { directory: directory.to_owned(), file: INFO });
            }
            Err(error) => return Err(BundleError::read(directory, error)),
        }
        let directory = directory.to_owned();
        let entries = entries(&directory)?;
        Ok(Self { directory, entries })
    }

    /// Returns the paths that are not directories.
    pub(super) fn files(&self) -> impl Iterator<Item = &String> {
        let is_file = |kind: &EntryKind| *kind != EntryKind::Directory;
        self.entries.iter().filter(move |(_, kind)| is_file(kind)).map(|(path, _)| path)
    }

    /// Returns what `path` is; `None` if it does not exist, or is behind a link.
    pub(super) fn kind(&self, path: &str) -> Option<EntryKind> {
        self.entries.get(path).copied()
    }

    /// Opens a file that [`Self::kind`] says may be read.
    ///
    /// # Errors
    /// The file cannot be opened, or it may not be read.
    pub(super) fn open_file(&self, path: &str) -> Result<Take<fs::File>, BundleError> {
        let full = self.directory.join(path);
        match self.kind(path) {
            Some(EntryKind::File) => match open_regular(&full) {
                Ok(file) => Ok(file.take(limit(path))),
                Err(error) => Err(BundleError::read(&full, error)),
            },
            Some(EntryKind::TooLarge) => {
                Err(BundleError::file(&full, &"larger than any file of a bundle"))
            }
            Some(EntryKind::Directory | EntryKind::Other) => {
                Err(BundleError::file(&full, &"not a regular file"))
            }
            None => Err(BundleError::read(&full, io::ErrorKind::NotFound.into())),
        }
    }

    /// Returns the content of a file.
    ///
    /// # Errors
    /// As for [`Self::open_file`]; or it cannot be read.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>, BundleError> {
        let mut content = Vec::new();
        let read = self.open_file(path)?.read_to_end(&mut content);
        read.map_err(|error| BundleError::read(&self.directory.join(path), error))?;
        Ok(content)
    }

    /// Reads a YAML file.
    ///
    /// # Errors
    /// As for [`Self::read`]; or it is not valid.
    pub(super) fn yaml<T: DeserializeOwned>(&self, path: &str) -> Result<T, BundleError> {
        yaml::from_str(&String::from_utf8_lossy(&self.read(path)?))
            .map_err(|error| BundleError::file(&self.directory.join(path), &error))
    }

    /// Checks that the bundle has the format that this program reads.
    ///
    /// # Errors
    /// As for [`Self::yaml`]; or it has another format ([`BundleError::OtherFormat`]).
    pub(super) fn check_format(&self) -> Result<(), BundleError> {
        let BundleFormat { api_version, rendered_by } = self.yaml(INFO)?;
        if api_version == API_VERSION {
            return Ok(());
        }
        let rendered_by =
            rendered_by.unwrap_or_else(|| "another version of gpu-rollout".to_owned());
        Err(BundleError::OtherFormat {
            directory: self.directory.clone(),
            api_version,
            rendered_by,
        })
    }

    /// Reads `bundle-info.yaml`.
    ///
    /// # Errors
    /// As for [`Self::check_format`]; or it has too many releases.
    pub(super) fn info(&self) -> Result<BundleInfo, BundleError> {
        self.check_format()?;
        let info: BundleInfo = self.yaml(INFO)?;
        if info.releases.len() > MAX_RELEASES {
            let reason = format!("more than {MAX_RELEASES} releases");
            return Err(BundleError::file(&self.directory.join(INFO), &reason));
        }
        Ok(info)
    }

    /// Returns the content of every file that may be read, and omits all others.
    ///
    /// # Errors
    /// A file cannot be read.
    pub(super) fn contents(&self) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
        let files = self.entries.iter().filter(|(_, kind)| **kind == EntryKind::File);
        files.map(|(path, _)| Ok((path.clone(), self.read(path)?))).collect()
    }

    /// Returns the content of every file.
    ///
    /// # Errors
    /// As for [`Self::contents`]; or a path may not be read.
    pub(super) fn complete_contents(&self) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
        let mut others = self
            .entries
            .iter()
            .filter(|(_, kind)| matches!(kind, EntryKind::TooLarge | EntryKind::Other));
        match others.next() {
            Some((path, _)) => self.open_file(path).and_then(|_| self.contents()),
            None => self.contents(),
        }
    }

    /// Returns every file for an archive. Scripts are executable, whatever their permissions are:
    /// an archive must not depend on the file system that the bundle was copied to.
    ///
    /// # Errors
    /// As for [`Self::complete_contents`].
    pub(super) fn archive_files(&self) -> Result<ArchiveFiles, BundleError> {
        let file = |(path, content): (String, Vec<u8>)| {
            let executable = content.starts_with(SCRIPT);
            (path, ArchiveFile { content, executable })
        };
        Ok(self.complete_contents()?.into_iter().map(file).collect())
    }
}

/// Returns the content of the `bundle-info.yaml` in a directory, whatever else the directory
/// contains.
///
/// # Errors
/// It is missing, cannot be read, or is not a regular file.
pub(super) fn read_info(directory: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    open_regular(&directory.join(INFO))?.take(MAX_LIST).read_to_end(&mut content)?;
    Ok(content)
}

/// Returns the texts among the files, and omits what is not text.
pub(super) fn texts(contents: BTreeMap<String, Vec<u8>>) -> TextFiles {
    let text = |(path, bytes)| Some((path, String::from_utf8(bytes).ok()?));
    contents.into_iter().filter_map(text).collect()
}

/// Returns the largest size of the file at `path` in bytes.
pub(super) fn limit(path: &str) -> u64 {
    if [INFO, CHECKSUMS, SIGNATURE].contains(&path) { MAX_LIST } else { MAX_FILE }
}

fn entries(directory: &Path) -> Result<BTreeMap<String, EntryKind>, BundleError> {
    let mut found = BTreeMap::new();
    let (mut count, mut bytes) = (0, 0);
    let mut waiting = vec![(directory.to_owned(), String::new(), 0)];
    while let Some((folder, prefix, depth)) = waiting.pop() {
        let error = |source| BundleError::read(&folder, source);
        for entry in fs::read_dir(&folder).map_err(error)? {
            let entry = entry.map_err(error)?;
            let path = format!("{prefix}{}", entry.file_name().to_string_lossy());
            let kind = kind(&entry, &path).map_err(error)?;
            count += 1;
            if kind == EntryKind::File {
                bytes += entry.metadata().map_err(error)?.len();
            }
            if kind == EntryKind::Directory && path != ".git" {
                waiting.push((entry.path(), format!("{path}/"), depth + 1));
            }
            if path != ".git" || kind != EntryKind::Directory {
                found.insert(path, kind);
            }
            if bytes > MAX_BYTES {
                let reason = format!("its files have more than {} MiB", MAX_BYTES >> 20);
                return Err(BundleError::file(directory, &reason));
            }
            if count > MAX_ENTRIES || depth > MAX_DEPTH {
                let reason = format!(
                    "it has more than {MAX_ENTRIES} files, or directories more than {MAX_DEPTH} deep"
                );
                return Err(BundleError::file(directory, &reason));
            }
        }
    }
    Ok(found)
}

fn kind(entry: &DirEntry, path: &str) -> io::Result<EntryKind> {
    // Neither of them follows a link.
    let about = entry.file_type()?;
    Ok(if entry.file_name().to_str().is_none() {
        EntryKind::Other
    } else if about.is_dir() {
        EntryKind::Directory
    } else if !about.is_file() {
        EntryKind::Other
    } else if entry.metadata()?.len() > limit(path) {
        EntryKind::TooLarge
    } else {
        EntryKind::File
    })
}
