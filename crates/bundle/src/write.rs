//! Writing all or nothing. The new bundle is written beside the old one; only when it is complete the old one gives way to it, with
//! two renames. A run that dies leaves the old bundle in place, or, between the two renames, beside it, where the next run finds it.
//!
//! Nothing is flushed to the disk: after a power failure `bundle verify` says whether everything arrived.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::BundleTree;
use super::info::{BundleIdentity, INFO};
use super::target::OutputDirectory;
use deployer::BundleFile;

/// Why a bundle was not written. What stood there before stands there still.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system refuses.
    #[error("unable to write `{}`: {source}", path.display())]
    Io {
        /// What could not be written.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file stands there, or the path has no name.
    #[error("`{}` is no directory that a bundle could be written to", .0.display())]
    NoDirectory(PathBuf),
    /// Other people's files stand there.
    #[error("`{}` holds files that are no bundle: {}", directory.display(), few(names))]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// What is in it.
        names: Vec<String>,
    },
    /// A bundle that was edited.
    #[error("the bundle in `{}` was edited after it was rendered, and the edits would be lost:\n  {}", directory.display(), edits.join("\n  "))]
    Edited {
        /// The directory.
        directory: PathBuf,
        /// What was edited.
        edits: Vec<String>,
    },
    /// A Git repository.
    #[error("`{}` is the top of a Git repository, which would be replaced as a whole", .0.display())]
    Repository(PathBuf),
    /// The directory that the user stands in.
    #[error("`{}` is the current directory or one above it, and is replaced as a whole", .0.display())]
    CurrentDirectory(PathBuf),
}

impl WriteError {
    /// The operating system refuses to write `path`.
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// What to do about it.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } => io_hint(source.kind()),
            Self::NoDirectory(_) | Self::Foreign { .. } => {
                Some("name a directory that is empty, holds a bundle or does not exist yet")
            }
            Self::Edited { .. } => {
                Some("move the edits into the recipe, or throw them away with --force")
            }
            Self::Repository(_) | Self::CurrentDirectory(_) => Some("name a directory inside it"),
        }
    }
}

fn io_hint(kind: io::ErrorKind) -> Option<&'static str> {
    use io::ErrorKind::{
        CrossesDevices, PermissionDenied, QuotaExceeded, ReadOnlyFilesystem, ResourceBusy,
        StorageFull,
    };
    let hints: [(&[io::ErrorKind], &str); 3] = [
        (
            &[CrossesDevices, ResourceBusy],
            "a mount point cannot be replaced; name a directory inside it",
        ),
        (&[StorageFull, QuotaExceeded], "make room, or choose another place with --output"),
        (
            &[PermissionDenied, ReadOnlyFilesystem],
            "the directory above the bundle must be writable, because the bundle is replaced as a whole",
        ),
    ];
    hints.into_iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, hint)| hint)
}

fn few(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// How it went.
#[derive(Debug, PartialEq, Eq)]
pub struct WriteSummary {
    /// Where the bundle is.
    pub directory: PathBuf,
    /// Whether a bundle stood there before.
    pub replaced: bool,
    /// What that one was, if it was of another recipe or deployer.
    pub other: Option<BundleIdentity>,
    /// The old bundle, if it could not be removed.
    pub left_over: Option<PathBuf>,
}

/// Writes `tree` to `output`. With `force` a bundle is replaced though it was edited.
///
/// # Errors
/// See [`WriteError`]; then everything is as before.
pub fn write(tree: &BundleTree, output: &Path, force: bool) -> Result<WriteSummary, WriteError> {
    write_with(tree, output, force, &mut write_file)
}

/// As [`write()`], with the part that may fail in the middle handed in.
pub(super) fn write_with(
    tree: &BundleTree,
    output: &Path,
    force: bool,
    write_file: &mut dyn FnMut(&Path, &BundleFile) -> io::Result<()>,
) -> Result<WriteSummary, WriteError> {
    let target = OutputDirectory::claim(output, force)?;
    let result = fill(tree, &target, write_file).and_then(|()| swap(tree, &target));
    if result.is_err() {
        // The first error is the one to report; what stays behind is removed by the next run.
        let _ = fs::remove_dir_all(&target.staging);
    }
    result
}

fn fill(
    tree: &BundleTree,
    target: &OutputDirectory,
    write_file: &mut dyn FnMut(&Path, &BundleFile) -> io::Result<()>,
) -> Result<(), WriteError> {
    // Errors name the path that the user knows, not the one for the time of writing.
    fs::create_dir(&target.staging).map_err(WriteError::io(&target.directory))?;
    for file in tree.files() {
        write_file(&target.staging, file)
            .map_err(WriteError::io(&target.directory.join(&file.path)))?;
    }
    Ok(())
}

/// Writes one file below `root`. Permissions are what the user's umask leaves.
fn write_file(root: &Path, file: &BundleFile) -> io::Result<()> {
    let path = root.join(&file.path);
    if let Some(folder) = path.parent() {
        fs::create_dir_all(folder)?;
    }
    let mode = if file.executable { 0o777 } else { 0o666 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(&file.content)
}

fn swap(tree: &BundleTree, target: &OutputDirectory) -> Result<WriteSummary, WriteError> {
    let OutputDirectory { directory, staging, backup, occupied: old, .. } = target;
    let occupied = old.is_some();
    let error = WriteError::io(directory);
    if occupied {
        fs::rename(directory, backup).map_err(&error)?;
    }
    if let Err(source) = fs::rename(staging, directory) {
        if occupied && let Err(second) = fs::rename(backup, directory) {
            let both = io::Error::new(
                second.kind(),
                format!("{source}; the old bundle is at `{}`: {second}", backup.display()),
            );
            return Err(error(both));
        }
        return Err(error(source));
    }
    let left_over = (occupied && fs::remove_dir_all(backup).is_err()).then(|| backup.clone());
    let other = old.as_deref().and_then(|old| other(old, tree));
    Ok(WriteSummary { directory: directory.clone(), replaced: occupied, other, left_over })
}

/// What the bundle with this `bundle-info.yaml` was, if `tree` is something else. Of an unreadable one nothing is known.
fn other(old: &str, tree: &BundleTree) -> Option<BundleIdentity> {
    let new = std::str::from_utf8(&tree.get(INFO)?.content).ok()?;
    // The usual case, in which nothing has to be read.
    if old == new {
        return None;
    }
    let old = BundleIdentity::parse(old)?;
    (Some(&old) != BundleIdentity::parse(new).as_ref()).then_some(old)
}
