//! Packs files into a gzipped tar archive. The same files give the same bytes, on any machine.

use std::collections::BTreeMap;
use std::io;

use flate2::Compression;
use flate2::write::GzEncoder;
use tar::{Builder, EntryType, Header};

/// One file of an archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ArchiveFile {
    /// The content.
    pub content: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

impl ArchiveFile {
    /// Creates a file that is not executable.
    pub fn new(content: impl Into<Vec<u8>>) -> Self {
        Self { content: content.into(), executable: false }
    }
}

/// Returns the archive of `files`, by path. They are sorted, belong to root, and have the mode 644
/// or 755. Neither they nor the archive itself have a time.
///
/// # Errors
/// A path is absolute, is empty or contains `..`.
pub fn tar_gz(files: &BTreeMap<String, ArchiveFile>) -> io::Result<Vec<u8>> {
    tar_gz_at(files, 0)
}

/// Returns the archive as [`tar_gz`] does, with files that were modified at `seconds` since 1970.
///
/// # Errors
/// As for [`tar_gz`].
pub fn tar_gz_at(files: &BTreeMap<String, ArchiveFile>, seconds: u64) -> io::Result<Vec<u8>> {
    // Without further settings, the header has no name and no time.
    let mut archive = Builder::new(GzEncoder::new(Vec::new(), Compression::best()));
    for (path, file) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(file.content.len() as u64);
        header.set_mode(if file.executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(seconds);
        archive.append_data(&mut header, path, file.content.as_slice())?;
    }
    archive.into_inner()?.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;
    use tar::Archive;

    use super::*;

    fn files(files: &[(&str, &str, bool)]) -> BTreeMap<String, ArchiveFile> {
        let file = |(path, text, executable): &(&str, &str, bool)| {
            let file = ArchiveFile { executable: *executable, ..ArchiveFile::new(*text) };
            ((*path).to_owned(), file)
        };
        files.iter().map(file).collect()
    }

    #[test]
    fn archive_has_what_was_packed_and_nothing_of_the_machine() {
        let long = format!("{}/file", "folder".repeat(30));
        let input = [("b/run.sh", "#!/bin/sh\n", true), ("a", "text", false), (&long, "", false)];
        let packed = tar_gz(&files(&input)).unwrap();
        assert_eq!(packed, tar_gz(&files(&[input[2], input[0], input[1]])).unwrap());
        // RFC 1952: no optional fields, no time, best compression, unknown operating system.
        assert_eq!(packed[3..10], [0, 0, 0, 0, 0, 2, 255]);
        let mut found = Vec::new();
        let mut archive = Archive::new(GzDecoder::new(packed.as_slice()));
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let mut text = String::new();
            entry.read_to_string(&mut text).unwrap();
            let header = entry.header();
            assert_eq!(
                (header.uid().unwrap(), header.gid().unwrap(), header.mtime().unwrap()),
                (0, 0, 0)
            );
            let path = entry.path().unwrap().to_str().unwrap().to_owned();
            found.push((path, text, header.mode().unwrap()));
        }
        let expected =
            [("a", "text", 0o644), ("b/run.sh", "#!/bin/sh\n", 0o755), (&long, "", 0o644)]
                .map(|(path, text, mode)| (path.to_owned(), text.to_owned(), mode));
        assert_eq!(found, expected);
    }

    #[test]
    fn paths_outside_the_archive_are_refused() {
        for path in ["", "/etc/passwd", "../a", "a/../../b"] {
            assert!(tar_gz(&files(&[(path, "", false)])).is_err(), "{path}");
        }
    }
}
