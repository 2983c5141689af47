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

fn replace(file: &Path, archive: &[u8]) -> io::Result<()> {
    let mut partial = file.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let written = File::create(&partial)
        .and_then(|mut open| open.write_all(archive).and_then(|()| open.sync_all()))
        .and_then(|()| fs::rename(&partial, file));
    if written.is_err() {
        // The write error is reported. A partial file is useless, and may not exist.
        let _ = fs::remove_file(&partial);
    }
    written
}
