//! Where a bundle is written: the directory, its neighbors for the time of writing, and what stands there already.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use super::info::{INFO, MARK};
use super::verify::{BundleFinding, verify};
use super::write::WriteError;

/// A directory to be written, locked against other writers until this is dropped.
#[derive(Debug)]
pub(super) struct OutputDirectory {
    /// The directory itself, without symbolic links.
    pub(super) directory: PathBuf,
    /// The new bundle, until it is complete.
    pub(super) staging: PathBuf,
    /// The old bundle, while it gives way.
    pub(super) backup: PathBuf,
    /// The `bundle-info.yaml` of what stands there and has to give way.
    pub(super) occupied: Option<String>,
    _lock: File,
}

impl OutputDirectory {
    /// Claims `output`, after looking at what is there.
    ///
    /// # Errors
    /// It is not ours to replace, or cannot be reached.
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

/// The absolute path without symbolic links; parents that are not there yet are made.
fn resolve(output: &Path) -> Result<PathBuf, WriteError> {
    match fs::symlink_metadata(output) {
        Ok(_) => {
            let directory = fs::canonicalize(output).map_err(WriteError::io(output))?;
            if !directory.is_dir() {
                return Err(WriteError::NoDirectory(directory));
            }
            // Its own shell would be left standing in a directory that is gone.
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

/// One writer at a time for all bundles in `parent`: what lies around afterwards is from one that died.
fn lock(parent: &Path) -> Result<File, WriteError> {
    let error = WriteError::io(parent);
    let lock = File::open(parent).map_err(&error)?;
    match lock.lock() {
        Ok(()) => Ok(lock),
        // Some network file systems have no locks; then two writers at once are the user's to avoid.
        Err(unsupported) if unsupported.kind() == io::ErrorKind::Unsupported => Ok(lock),
        Err(other) => Err(error(other)),
    }
}

/// Puts right what a run that died has left: its half-written bundle goes, the old one comes back if nothing took its place.
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

/// The `bundle-info.yaml` of the bundle at `directory`, if one stands there and may be replaced; an error if it may not.
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
    // An unreadable or foreign file of that name is no mark of ours.
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
