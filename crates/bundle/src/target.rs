//! The output directory of a bundle, its temporary sibling directories, and checks of existing
//! content.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::info::{INFO, MARK};
use super::verify::{BundleFinding, verify};
use super::write::WriteError;

/// The output directory, locked against other writers until this is dropped.
#[derive(Debug)]
pub(super) struct OutputDirectory {
    /// The directory, without symbolic links.
    pub(super) directory: PathBuf,
    /// The new bundle, until it is complete.
    pub(super) staging: PathBuf,
    /// The old bundle, during the replacement.
    pub(super) backup: PathBuf,
    /// The `bundle-info.yaml` of the bundle to replace.
    pub(super) occupied: Option<String>,
    _lock: File,
}

impl OutputDirectory {
    /// Claims `output`, after checking its content.
    ///
    /// # Errors
    /// The content must not be replaced, or the directory is not accessible.
    pub(super) fn claim(output: &Path, force: bool) -> Result<Self, WriteError> {
        let directory = resolve(output)?;
        let (Some(parent), Some(name)) = (directory.parent(), directory.file_name()) else {
            return Err(WriteError::NoDirectory(directory));
        };
        let neighbor =
            |kind: &str| parent.join(format!(".{}.gpu-rollout-{kind}", name.to_string_lossy()));
        let (staging, backup) = (neighbor("new"), neighbor("old"));
        let lock = lock(parent)?;
        recover(&directory, &staging, &backup)?;
        let occupied = examine(&directory, force)?;
        Ok(Self { directory, staging, backup, occupied, _lock: lock })
    }
}

/// Returns the absolute path without symbolic links. Creates missing parents.
fn resolve(output: &Path) -> Result<PathBuf, WriteError> {
    match fs::symlink_metadata(output) {
        Ok(_) => {
            let directory = fs::canonicalize(output).map_err(WriteError::io(output))?;
            if !directory.is_dir() {
                return Err(WriteError::NoDirectory(directory));
            }
            // The user's shell would be in a deleted directory.
            if std::env::current_dir().is_ok_and(|current| current.starts_with(&directory)) {
                return Err(WriteError::CurrentDirectory(directory));
            }
            Ok(directory)
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            let parent = output
                .parent()
                .filter(|parent| !parent.as_os_str().is_empty())
                .unwrap_or(Path::new("."));
            let name =
                output.file_name().ok_or_else(|| WriteError::NoDirectory(output.to_owned()))?;
            fs::create_dir_all(parent).map_err(WriteError::io(parent))?;
            Ok(fs::canonicalize(parent).map_err(WriteError::io(parent))?.join(name))
        }
        Err(source) => Err(WriteError::io(output)(source)),
    }
}

/// Locks `parent`, so that only one process writes bundles in it. Remaining temporary directories
/// are then those of a process that died.
fn lock(parent: &Path) -> Result<File, WriteError> {
    let error = WriteError::io(parent);
    let lock = File::open(parent).map_err(&error)?;
    match lock.lock() {
        Ok(()) => Ok(lock),
        // Some network file systems have no locks. Then the user must avoid concurrent writers.
        Err(unsupported) if unsupported.kind() == io::ErrorKind::Unsupported => Ok(lock),
        Err(other) => Err(error(other)),
    }
}

/// Cleans up after a process that died: removes its incomplete bundle, and restores the old bundle
/// unless the new one is in place.
fn recover(directory: &Path, staging: &Path, backup: &Path) -> Result<(), WriteError> {
    if staging.exists() {
        fs::remove_dir_all(staging).map_err(WriteError::io(staging))?;
    }
    if backup.exists() {
        if directory.exists() {
            fs::remove_dir_all(backup).map_err(WriteError::io(backup))?;
        } else {
            fs::rename(backup, directory).map_err(WriteError::io(backup))?;
        }
    }
    Ok(())
}

/// Returns the `bundle-info.yaml` of an existing bundle at `directory`; an error if the content
/// must not be replaced.
fn examine(directory: &Path, force: bool) -> Result<Option<String>, WriteError> {
    let error = WriteError::io(directory);
    let entries = match fs::read_dir(directory) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(other) => return Err(error(other)),
    };
    let mut names = Vec::new();
    for entry in entries {
        names.push(entry.map_err(&error)?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    if names.is_empty() {
        return Ok(None);
    }
    if names.iter().any(|name| name == ".git") {
        return Err(WriteError::Repository(directory.to_owned()));
    }
    // An unreadable or foreign file of that name does not identify a bundle.
    let info = fs::read_to_string(directory.join(INFO))
        .ok()
        .filter(|text| text.lines().any(|line| line == MARK));
    let Some(info) = info else {
        return Err(WriteError::Foreign { directory: directory.to_owned(), names });
    };
    if !force {
        let edits: Vec<String> = match verify(directory) {
            Ok(findings) => findings
                .iter()
                .filter(|finding| !matches!(finding, BundleFinding::Promise { .. }))
                .map(ToString::to_string)
                .collect(),
            Err(unverifiable) => vec![unverifiable.to_string()],
        };
        if !edits.is_empty() {
            return Err(WriteError::Edited { directory: directory.to_owned(), edits });
        }
    }
    Ok(Some(info))
}
