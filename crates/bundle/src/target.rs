//! The output directory of a bundle, its temporary sibling directories, and checks of existing
//! content.

use std::fs::{self, DirBuilder, File, Metadata, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};

use super::directory::read_info;
use super::error::BundleError;
use super::info::MARK;
use super::verify::verify;
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
    /// Owner and permissions of the existing directory.
    existing: Option<Metadata>,
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
        let existing = match fs::metadata(&directory) {
            Ok(existing) => Some(existing),
            Err(missing) if missing.kind() == io::ErrorKind::NotFound => None,
            Err(other) => return Err(WriteError::io(&directory)(other)),
        };
        Ok(Self { directory, staging, backup, occupied, existing, _lock: lock })
    }

    /// Creates the directory of the new bundle. It has the owner, group and permissions of the
    /// existing one from the start, so that files in it get the right group and are never more
    /// accessible.
    pub(super) fn create_staging(&self) -> io::Result<()> {
        let Some(existing) = &self.existing else { return fs::create_dir(&self.staging) };
        DirBuilder::new().mode(0o700).create(&self.staging)?;
        let created = fs::metadata(&self.staging)?;
        let differs = |found: u32, wanted: u32| (found != wanted).then_some(wanted);
        let owner = differs(created.uid(), existing.uid());
        let group = differs(created.gid(), existing.gid());
        // Only root may change the owner, and only members may set a group. Without these rights,
        // the directory belongs to the user who renders, as a new one does.
        let kept =
            chown(&self.staging, owner, group).or_else(|_| chown(&self.staging, None, group));
        let is_kept = kept.is_ok();
        // Without its group, the bit would pass on another group than before.
        let mode = existing.mode() & if is_kept { 0o7777 } else { 0o5777 };
        fs::set_permissions(&self.staging, Permissions::from_mode(mode | 0o700))
    }

    /// Sets the final permissions of the new bundle's directory, which may be read-only.
    pub(super) fn finish_staging(&self) -> io::Result<()> {
        let Some(existing) = &self.existing else { return Ok(()) };
        let mode = fs::metadata(&self.staging)?.mode();
        if mode & 0o700 == existing.mode() & 0o700 {
            return Ok(());
        }
        let mode = mode & 0o7077 | existing.mode() & 0o700;
        fs::set_permissions(&self.staging, Permissions::from_mode(mode))
    }
}

/// Returns the absolute path without symbolic links. Creates missing parents, but not those of the
/// target of a link: they may be on a volume that is not mounted.
fn resolve(output: &Path) -> Result<PathBuf, WriteError> {
    match fs::canonicalize(output) {
        Ok(directory) => {
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
            let parent = fs::canonicalize(parent).map_err(WriteError::io(parent))?;
            let directory = parent.join(name);
            // A process that dies between the two renames leaves a link that leads nowhere.
            let Ok(target) = fs::read_link(&directory) else { return Ok(directory) };
            let target = parent.join(target);
            if target.parent().is_some_and(Path::is_dir) {
                resolve(&target)
            } else {
                Err(WriteError::DanglingLink { link: output.to_owned(), target })
            }
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
    // A link that leads nowhere exists too.
    let exists = |path: &Path| fs::symlink_metadata(path).is_ok();
    if exists(staging) {
        fs::remove_dir_all(staging).map_err(WriteError::io(staging))?;
    }
    if exists(backup) {
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
    let info = read_info(directory)
        .ok()
        .and_then(|content| String::from_utf8(content).ok())
        .filter(|text| text.lines().any(|line| line == MARK));
    let Some(info) = info else {
        return Err(WriteError::Foreign { directory: directory.to_owned(), names });
    };
    if !force {
        let edits: Vec<String> = match verify(directory) {
            Ok(findings) => findings
                .iter()
                .filter(|finding| !finding.is_broken())
                .map(ToString::to_string)
                .collect(),
            Err(error @ (BundleError::Incomplete { .. } | BundleError::OtherFormat { .. })) => {
                return Err(WriteError::Unverifiable(error));
            }
            Err(unverifiable) => vec![unverifiable.to_string()],
        };
        if !edits.is_empty() {
            return Err(WriteError::Edited { directory: directory.to_owned(), edits });
        }
    }
    Ok(Some(info))
}
