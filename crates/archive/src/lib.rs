//! Archives (`tar`, compressed with gzip) as pure functions. The same files give the same bytes, on
//! every machine and at every time. What comes from an untrusted source is unpacked in memory, within
//! limits.

use std::collections::BTreeMap;
use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use tar::{Archive, Builder, EntryType, Header};

use contract::visible;

/// A file of an archive.
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

/// The files of an archive by path, with `/` between the parts.
pub type ArchiveFiles = BTreeMap<String, ArchiveFile>;

/// The limits of an archive from an untrusted source.
#[derive(Clone, Copy, Debug)]
pub struct ArchiveLimits {
    /// The largest size in bytes, compressed and unpacked.
    pub bytes: u64,
    /// The largest number of files.
    pub files: usize,
}

/// Why an archive cannot be unpacked.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// It has another format, or is damaged.
    #[error("it is not a `tar` archive compressed with gzip: {0}")]
    Format(#[from] io::Error),
    /// It is too large.
    #[error("it has more than {} MiB", .0 >> 20)]
    Size(u64),
    /// It has too many files.
    #[error("it has more than {0} files")]
    Count(usize),
    /// A path is absolute, leads out of the archive, or is not text.
    #[error("it has the path `{0}`, and only plain paths below its root are accepted")]
    Path(String),
    /// A file that Git could take for a part of a repository, whose settings name programs to run.
    #[error("`{0}` in it could be a part of a Git repository")]
    Git(String),
    /// A link, a device or another special file.
    #[error("`{0}` in it is not a regular file")]
    Kind(String),
    /// Two files have the same path.
    #[error("it has `{0}` twice")]
    Twice(String),
}

/// Returns the files with their paths below `folder`.
pub fn below(folder: &str, files: ArchiveFiles) -> ArchiveFiles {
    files.into_iter().map(|(path, file)| (format!("{folder}/{path}"), file)).collect()
}

/// Returns whether Git could take the file at `path` for a part of a repository. An unpacked
/// repository is dangerous: Git runs the programs that its settings name, even for `git status`.
pub fn may_be_git(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or(path);
    // A directory with the file `HEAD` may be a repository of any name.
    path.split('/').any(|part| is_like(part, ".git") || is_like(part, "git~1"))
        || is_like(name, "HEAD")
}

/// Returns whether a file system may take `part` for `name`. Some ignore case, dots and spaces at
/// the end, and characters that are not visible.
fn is_like(part: &str, name: &str) -> bool {
    let plain: String = part.chars().filter(char::is_ascii).collect();
    plain.trim_end_matches(['.', ' ']).eq_ignore_ascii_case(name)
}

/// Returns the archive of `files`, sorted by path. It contains no times and no owners, and of the
/// permissions only whether a file is executable.
///
/// # Errors
/// A path is absolute, is empty or contains `..`.
pub fn tar_gz(files: &ArchiveFiles) -> io::Result<Vec<u8>> {
    tar_gz_at(files, 0)
}

/// Returns the archive as [`tar_gz`] does, with files that were modified at `seconds` since 1970.
///
/// # Errors
/// As for [`tar_gz`].
pub fn tar_gz_at(files: &ArchiveFiles, seconds: u64) -> io::Result<Vec<u8>> {
    // Without a builder, the header of the compressed data has neither a name nor a time.
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(&tar(files, seconds)?)?;
    encoder.finish()
}

fn tar(files: &ArchiveFiles, seconds: u64) -> io::Result<Vec<u8>> {
    let mut builder = Builder::new(Vec::new());
    for (path, file) in files {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_size(file.content.len() as u64);
        header.set_mode(if file.executable { 0o755 } else { 0o644 });
        header.set_uid(0);
        header.set_gid(0);
        header.set_mtime(seconds);
        builder.append_data(&mut header, path, file.content.as_slice())?;
    }
    builder.into_inner()
}

/// Returns the files of an archive from an untrusted source. Nothing is written to disk.
///
/// # Errors
/// See [`ArchiveError`].
pub fn unpack(archive: &[u8], limits: ArchiveLimits) -> Result<ArchiveFiles, ArchiveError> {
    let mut unpacked = Vec::new();
    // Of all members, as other programs read it.
    MultiGzDecoder::new(archive).take(limits.bytes + 1).read_to_end(&mut unpacked)?;
    if unpacked.len() as u64 > limits.bytes {
        return Err(ArchiveError::Size(limits.bytes));
    }
    let mut files = ArchiveFiles::new();
    for entry in Archive::new(unpacked.as_slice()).entries()? {
        let mut entry = entry?;
        let kind = entry.header().entry_type();
        // The paths of the files name the directories too.
        if kind == EntryType::Directory {
            continue;
        }
        let path = plain_path(&entry.path_bytes())?;
        if kind != EntryType::Regular {
            return Err(ArchiveError::Kind(path));
        }
        if may_be_git(&path) {
            return Err(ArchiveError::Git(path));
        }
        let executable = entry.header().mode()? & 0o100 != 0;
        let mut content = Vec::new();
        entry.read_to_end(&mut content)?;
        if files.insert(path.clone(), ArchiveFile { content, executable }).is_some() {
            return Err(ArchiveError::Twice(path));
        }
        if files.len() > limits.files {
            return Err(ArchiveError::Count(limits.files));
        }
    }
    Ok(files)
}

/// Returns a path below the root of an archive.
fn plain_path(bytes: &[u8]) -> Result<String, ArchiveError> {
    let text = String::from_utf8_lossy(bytes);
    let is_plain = text.as_bytes() == bytes
        && text.split('/').all(|part| !matches!(part, "" | "." | ".."))
        && !text.contains(char::is_control);
    if is_plain {
        Ok(text.into_owned())
    } else {
        Err(ArchiveError::Path(visible::line(&text).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use contract::digest::sha256;

    const LIMITS: ArchiveLimits = ArchiveLimits { bytes: 1 << 20, files: 3 };

    fn files(list: &[(&str, &str, bool)]) -> ArchiveFiles {
        let file = |(path, text, executable): &(&str, &str, bool)| {
            let content = text.as_bytes().to_vec();
            ((*path).to_owned(), ArchiveFile { content, executable: *executable })
        };
        list.iter().map(file).collect()
    }

    /// Returns an archive of one entry, whose path is written without checks.
    fn hostile(path: &[u8], kind: EntryType, link: &str) -> Vec<u8> {
        let mut header = Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(0);
        header.set_mode(0o644);
        header.as_old_mut().name[..path.len()].copy_from_slice(path);
        header.as_old_mut().linkname[..link.len()].copy_from_slice(link.as_bytes());
        header.set_cksum();
        let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
        builder.append(&header, io::empty()).unwrap();
        builder.into_inner().unwrap().finish().unwrap()
    }

    #[test]
    fn archive_has_pinned_bytes() {
        let long = format!("{}/values.yaml", "a".repeat(120));
        let files = files(&[
            ("b/deploy.sh", "#!/bin/sh\n", true),
            ("a.txt", "text\n", false),
            (&long, "k: v\n", false),
        ]);
        assert_eq!(
            sha256(&tar(&files, 0).unwrap()),
            "b868ef1dfeb1ca55208de7ee912cd6a194cbc6b6fef1a95ee491205faa462b24"
        );
        let archive = tar_gz(&files).unwrap();
        // No name, no time, and an unknown operating system.
        assert_eq!(archive[..10], [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 2, 255]);
        assert_eq!(archive, tar_gz(&files).unwrap());
    }

    #[test]
    fn unpacked_files_are_those_that_were_packed() {
        let long = format!("{}/values.yaml", "a".repeat(150));
        let packed =
            files(&[("x/y.sh", "#!/bin/sh\n", true), ("a", "", false), (&long, "1", false)]);
        assert_eq!(unpack(&tar_gz(&packed).unwrap(), LIMITS).unwrap(), packed);
    }

    #[test]
    fn paths_out_of_the_archive_are_not_packed() {
        for path in ["", "/etc/passwd", "../a", "a/../../b"] {
            assert!(tar_gz(&files(&[(path, "", false)])).is_err(), "{path}");
        }
    }

    #[test]
    fn paths_out_of_the_archive_are_refused() {
        for path in ["../a", "a/../../b", "/etc/passwd", "./a", "a//b", "a\nb"] {
            let archive = hostile(path.as_bytes(), EntryType::Regular, "");
            assert!(matches!(unpack(&archive, LIMITS), Err(ArchiveError::Path(_))), "{path:?}");
        }
        let archive = hostile(b"a\xff", EntryType::Regular, "");
        assert!(matches!(unpack(&archive, LIMITS), Err(ArchiveError::Path(_))));
    }

    #[test]
    fn only_regular_files_are_unpacked() {
        for kind in [EntryType::Symlink, EntryType::Link, EntryType::Char, EntryType::Fifo] {
            let archive = hostile(b"a", kind, "/etc/passwd");
            assert!(matches!(unpack(&archive, LIMITS), Err(ArchiveError::Kind(_))), "{kind:?}");
        }
        assert!(unpack(&hostile(b"a/", EntryType::Directory, ""), LIMITS).unwrap().is_empty());
    }

    /// Regression: Git ran what the settings in a pulled bundle named.
    #[test]
    fn git_repository_is_not_unpacked() {
        for path in [
            ".git",
            ".git/config",
            "a/.GIT/config",
            ".git./config",
            ".git . /config",
            "GIT~1/config",
            ".g\u{200c}it/config",
            "a/HEAD",
        ] {
            let archive = hostile(path.as_bytes(), EntryType::Regular, "");
            let found = unpack(&archive, LIMITS);
            assert!(matches!(found, Err(ArchiveError::Git(_))), "{path:?}: {found:?}");
        }
        let others =
            files(&[".gitignore", ".github/a", "clusters/head/git"].map(|path| (path, "", false)));
        assert_eq!(unpack(&tar_gz(&others).unwrap(), LIMITS).unwrap(), others);
    }

    #[test]
    fn limits_hold_for_the_unpacked_content() {
        let zeros = "0".repeat(2 << 20);
        let large = tar_gz(&files(&[("a", &zeros, false)])).unwrap();
        assert!(large.len() < 1 << 16);
        assert!(matches!(unpack(&large, LIMITS), Err(ArchiveError::Size(_))));
        let many = files(&["a", "b", "c", "d"].map(|path| (path, "", false)));
        assert!(matches!(unpack(&tar_gz(&many).unwrap(), LIMITS), Err(ArchiveError::Count(3))));
    }

    #[test]
    fn damaged_archive_is_an_error() {
        let archive = tar_gz(&files(&[("a", "text", false)])).unwrap();
        for damaged in [&archive[..20], &archive[..archive.len() - 1], b"text".as_slice()] {
            assert!(matches!(unpack(damaged, LIMITS), Err(ArchiveError::Format(_))));
        }
        let twice = {
            let mut builder = Builder::new(GzEncoder::new(Vec::new(), Compression::fast()));
            for _ in 0..2 {
                let mut header = Header::new_gnu();
                header.set_size(0);
                header.set_mode(0o644);
                builder.append_data(&mut header, "a", io::empty()).unwrap();
            }
            builder.into_inner().unwrap().finish().unwrap()
        };
        assert!(matches!(unpack(&twice, LIMITS), Err(ArchiveError::Twice(_))));
    }
}
