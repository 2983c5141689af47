//! Writes bundles atomically. The new bundle is written next to the old one. When it is complete,
//! two renames replace the old bundle. A process that dies leaves the old bundle in place, or,
//! between the renames, next to it, where the next run finds it.
//!
//! Nothing is flushed to disk. After a power failure, `bundle verify` finds missing data.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::BundleTree;
use super::error::BundleError;
use super::info::{BundleIdentity, INFO};
use super::signed::has_signature;
use super::target::OutputDirectory;
use deployer::BundleFile;

/// Why a bundle was not written. Existing content is unchanged.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    /// The operating system returns an error.
    #[error("cannot write `{}`: {source}", path.display())]
    Io {
        /// The path that cannot be written.
        path: PathBuf,
        /// The reason.
        source: io::Error,
    },
    /// The path is a file, or has no file name.
    #[error("cannot write a bundle to `{}`: not a directory", .0.display())]
    NoDirectory(PathBuf),
    /// The path is a link that leads nowhere, and not even the parent of its target exists.
    #[error("cannot write a bundle to `{}`: it is a link to `{}`, whose parent directory does not exist", link.display(), target.display())]
    DanglingLink {
        /// The link.
        link: PathBuf,
        /// Its target.
        target: PathBuf,
    },
    /// The directory contains other files.
    #[error("`{}` contains files that are not part of a bundle: {}", directory.display(), few(names))]
    Foreign {
        /// The directory.
        directory: PathBuf,
        /// The files in it.
        names: Vec<String>,
    },
    /// A bundle that was edited.
    #[error("the bundle in `{}` was edited after rendering, and the edits would be lost:\n  {}", directory.display(), edits.join("\n  "))]
    Edited {
        /// The directory.
        directory: PathBuf,
        /// The edited files.
        edits: Vec<String>,
    },
    /// A bundle that lacks the file that would show edits, or that has another format.
    #[error("{0}, so edits in it cannot be found")]
    Unverifiable(BundleError),
    /// A Git repository.
    #[error("`{}` is the top of a Git repository, and it would be replaced as a whole", .0.display())]
    Repository(PathBuf),
    /// The current directory or one of its parents.
    #[error("`{}` is the current directory or one of its parents, and it would be replaced as a whole", .0.display())]
    CurrentDirectory(PathBuf),
}

impl WriteError {
    /// Creates the error for a failed write of `path`.
    pub(super) fn io(path: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io { path: path.to_owned(), source }
    }

    /// Returns a hint for the user.
    pub fn hint(&self) -> Option<&'static str> {
        match self {
            Self::Io { source, .. } => io_hint(source.kind()),
            Self::NoDirectory(_) | Self::Foreign { .. } => {
                Some("name a directory that is empty, contains a bundle or does not exist")
            }
            Self::DanglingLink { .. } => {
                Some("create the parent directory of the target, or name another directory")
            }
            Self::Edited { .. } => Some(
                "to keep the edits, move them into the recipe; then render again with --force, which replaces the edited bundle",
            ),
            Self::Unverifiable(_) => Some(
                "move edits into the recipe, and render again with --force, which discards them",
            ),
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
        (&[StorageFull, QuotaExceeded], "free disk space, or choose another directory"),
        (
            &[PermissionDenied, ReadOnlyFilesystem],
            "the parent directory of the bundle must be writable, because the bundle is replaced as a whole",
        ),
    ];
    hints.into_iter().find(|(kinds, _)| kinds.contains(&kind)).map(|(_, hint)| hint)
}

fn few(names: &[String]) -> String {
    let shown: Vec<String> = names.iter().take(3).map(|name| format!("`{name}`")).collect();
    let more = names.len() - shown.len();
    if more == 0 { shown.join(", ") } else { format!("{} and {more} more", shown.join(", ")) }
}

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub struct WriteSummary {
    /// The bundle's directory.
    pub directory: PathBuf,
    /// Whether a bundle was replaced.
    pub replaced: bool,
    /// The identity of the replaced bundle, if it was of another recipe or deployer.
    pub other: Option<BundleIdentity>,
    /// Whether the replaced bundle had a signature. The new one has none.
    pub was_signed: bool,
    /// The old bundle, if it could not be removed.
    pub left_over: Option<PathBuf>,
}

impl WriteSummary {
    /// Returns notes about the previous bundle in the directory. `directory`: as the user named it;
    /// `new`: the bundle that was written.
    pub fn notes(&self, directory: &Path, new: &BundleIdentity) -> Vec<String> {
        let other = self.other.as_ref().map(|old| {
            format!(
                "replaced the bundle of recipe `{}` for {} in `{}` with this one of `{}` for {}",
                old.recipe,
                old.deployer,
                directory.display(),
                new.recipe,
                new.deployer
            )
        });
        let signature = self.was_signed.then(|| {
            format!("`{}` has no signature any more: sign the new bundle", directory.display())
        });
        let left_over = self.left_over.as_ref();
        let left_over =
            left_over.map(|path| format!("cannot remove the old bundle `{}`", path.display()));
        other.into_iter().chain(signature).chain(left_over).collect()
    }
}

/// Writes `tree` to `output`. With `force`, also replaces an edited bundle.
///
/// # Errors
/// See [`WriteError`]. Existing content is then unchanged.
pub fn write(tree: &BundleTree, output: &Path, force: bool) -> Result<WriteSummary, WriteError> {
    write_with(tree, output, force, &mut write_file)
}

/// Writes like [`write()`]. Tests pass a function that fails in the middle.
pub(super) fn write_with(
    tree: &BundleTree,
    output: &Path,
    force: bool,
    write_file: &mut dyn FnMut(&Path, &BundleFile) -> io::Result<()>,
) -> Result<WriteSummary, WriteError> {
    let target = OutputDirectory::claim(output, force)?;
    let result = fill(tree, &target, write_file).and_then(|()| swap(tree, &target));
    if result.is_err() {
        // Reports the first error. The next run removes remaining files.
        let _ = fs::remove_dir_all(&target.staging);
    }
    result
}

fn fill(
    tree: &BundleTree,
    target: &OutputDirectory,
    write_file: &mut dyn FnMut(&Path, &BundleFile) -> io::Result<()>,
) -> Result<(), WriteError> {
    // Errors name the user's path, not the temporary one.
    target.create_staging().map_err(WriteError::io(&target.directory))?;
    let mut folder = Path::new("");
    for file in tree.files() {
        let its_folder = Path::new(&file.path).parent().unwrap_or(folder);
        if its_folder != folder {
            folder = its_folder;
            fs::create_dir_all(target.staging.join(folder))
                .map_err(WriteError::io(&target.directory.join(folder)))?;
        }
        write_file(&target.staging, file)
            .map_err(WriteError::io(&target.directory.join(&file.path)))?;
    }
    target.finish_staging().map_err(WriteError::io(&target.directory))
}

/// Writes one file below `root`, into an existing folder. The user's umask determines its
/// permissions.
fn write_file(root: &Path, file: &BundleFile) -> io::Result<()> {
    let path = root.join(&file.path);
    let mode = if file.executable { 0o777 } else { 0o666 };
    OpenOptions::new().write(true).create_new(true).mode(mode).open(path)?.write_all(&file.content)
}

fn swap(tree: &BundleTree, target: &OutputDirectory) -> Result<WriteSummary, WriteError> {
    let OutputDirectory { directory, staging, backup, occupied: old, .. } = target;
    let occupied = old.is_some();
    let was_signed = occupied && has_signature(directory);
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
    Ok(WriteSummary {
        directory: directory.clone(),
        replaced: occupied,
        other,
        was_signed,
        left_over,
    })
}

/// Returns the identity of the bundle with this `bundle-info.yaml`, if it differs from `tree`;
/// `None` if it is unreadable.
fn other(old: &str, tree: &BundleTree) -> Option<BundleIdentity> {
    let new = std::str::from_utf8(&tree.get(INFO)?.content).ok()?;
    // The usual case, without parsing.
    if old == new {
        return None;
    }
    let old = BundleIdentity::parse(old)?;
    (Some(&old) != BundleIdentity::parse(new).as_ref()).then_some(old)
}
