//! Opens files whose names or content others chose: only regular files, never through a link, and
//! never with a wait for a writer.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

/// Opens the regular file at `path` for reading. The last part of the path must not be a symbolic
/// link.
///
/// # Errors
/// [`io::ErrorKind::InvalidInput`] if the path is not a regular file; otherwise the error of the
/// operating system.
pub fn open_regular(path: &Path) -> io::Result<File> {
    // Before opening, because opening a device can have effects.
    require_regular(&fs::symlink_metadata(path)?)?;
    // Another process may replace the file at any time. Without a link and without waiting, what
    // is opened then is harmless.
    let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    require_regular(&file.metadata()?)?;
    Ok(file)
}

fn require_regular(about: &Metadata) -> io::Result<()> {
    if about.is_file() {
        Ok(())
    } else {
        Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"))
    }
}
