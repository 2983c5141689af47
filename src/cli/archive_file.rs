//! Writes the archive that a command creates: completely, or not at all.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::printer::Printer;

/// Means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Returns whether `file` exists and must not be replaced. Prints an error that names the option
/// for another file.
pub(super) fn is_taken(file: &Path, force: bool, option: &str, printer: &mut Printer) -> bool {
    let is_taken = !force && file != Path::new(STANDARD_OUTPUT) && file.exists();
    if is_taken {
        printer.error(
            &format!("`{}` already exists", file.display()),
            Some(&format!("choose another file with {option}, or replace it with --force")),
        );
    }
    is_taken
}

/// Writes the archive to `file` and returns whether it is there. Prints an error that names the
/// option for another file.
pub(super) fn write(file: &Path, archive: &[u8], option: &str, printer: &mut Printer) -> bool {
    if file == Path::new(STANDARD_OUTPUT) {
        printer.bytes(archive);
        return true;
    }
    let written = replace(file, archive);
    if let Err(error) = &written {
        printer.error(
            &format!("cannot write `{}`: {error}", file.display()),
            Some(&format!("choose another file with {option}")),
        );
    }
    written.is_ok()
}

/// The largest number of partial files of killed runs that are left next to an archive.
const MOST_PARTIAL_FILES: u32 = 100;

fn replace(file: &Path, archive: &[u8]) -> io::Result<()> {
    let (partial, mut open) = create_partial(file)?;
    let written = open
        .write_all(archive)
        .and_then(|()| open.sync_all())
        .and_then(|()| fs::rename(&partial, file));
    if written.is_err() {
        // The write error is reported. A partial file is useless.
        let _ = fs::remove_file(&partial);
    }
    written
}

/// Creates a file next to `file`. It never opens a file that is there, which may be one of the
/// user, or a link to it.
fn create_partial(file: &Path) -> io::Result<(PathBuf, File)> {
    let process = std::process::id();
    for number in 0..MOST_PARTIAL_FILES {
        let mut partial = file.as_os_str().to_owned();
        partial.push(format!(".partial-{process}-{number}"));
        match File::create_new(&partial) {
            Ok(open) => return Ok((partial.into(), open)),
            // Left by a killed run whose process had the same number.
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    /// Returns the names in a directory, sorted.
    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Regression: a file of the user with the name of the partial one was emptied.
    #[test]
    fn file_with_the_partial_name_stays() {
        let directory = tempfile::tempdir().unwrap();
        let path = |name: &str| directory.path().join(name);
        let mine = path("mine");
        fs::write(&mine, "years of work").unwrap();
        symlink("mine", path("a.tgz.partial")).unwrap();
        symlink("mine", path(&format!("a.tgz.partial-{}-0", std::process::id()))).unwrap();
        replace(&path("a.tgz"), b"archive").unwrap();
        assert_eq!(fs::read(path("a.tgz")).unwrap(), b"archive");
        assert_eq!(fs::read_to_string(&mine).unwrap(), "years of work");
        assert_eq!(names(directory.path()).len(), 4, "no partial file is left");
    }

    #[test]
    fn failed_write_leaves_no_partial_file() {
        let directory = tempfile::tempdir().unwrap();
        // A file cannot replace a directory.
        fs::create_dir(directory.path().join("a.tgz")).unwrap();
        replace(&directory.path().join("a.tgz"), b"archive").unwrap_err();
        assert_eq!(names(directory.path()), ["a.tgz"]);
    }
}
