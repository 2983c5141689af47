//! `checksums.txt`: the SHA-256 of every file, in the format of `sha256sum -c`.

use std::collections::BTreeMap;
use std::io::{self, Read};

use sha2::{Digest, Sha256};

use contract::digest::hex;
use deployer::BundleFile;

/// The file's name.
pub const CHECKSUMS: &str = "checksums.txt";
/// The name of the file's signature, which cosign writes and `bundle render` does not.
pub const SIGNATURE: &str = "checksums.txt.sigstore.json";

/// Returns the SHA-256 of all bytes of `reader`.
///
/// # Errors
/// Reading fails.
pub fn sha256_of(mut reader: impl Read) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        match reader.read(&mut buffer) {
            Ok(0) => return Ok(hex(&hasher.finalize())),
            Ok(count) => hasher.update(&buffer[..count]),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

/// Returns the list for `files`.
pub(super) fn write<'a>(files: impl Iterator<Item = &'a BundleFile>) -> String {
    lines(files.map(|file| (file.path.as_str(), file.content.sha256())))
}

/// Returns one line for each path and its digest.
pub(super) fn lines<'a>(digests: impl Iterator<Item = (&'a str, &'a str)>) -> String {
    digests.fold(String::new(), |mut text, (path, digest)| {
        text.extend([digest, "  ", path, "\n"]);
        text
    })
}

/// Reads a list. Returns the digests by path.
///
/// # Errors
/// The number of the first line that does not have the format of `write`, or whose path is not
/// allowed.
pub(super) fn read(text: &str) -> Result<BTreeMap<String, String>, usize> {
    let mut list = BTreeMap::new();
    let mut previous = String::new();
    for (index, line) in text.split_inclusive('\n').enumerate() {
        let entry = line.strip_suffix('\n').and_then(|line| line.split_once("  ")).filter(
            |(digest, path)| {
                let is_hex = digest.len() == 64
                    && digest.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
                let is_below = !path.is_empty()
                    && path.split('/').all(|part| !matches!(part, "" | "." | ".."));
                // No rendered file has such a name, and some of these paths cannot exist.
                let is_printable = !path.contains(char::is_control);
                is_hex && is_below && is_printable && *path > previous.as_str()
            },
        );
        let (digest, path) = entry.ok_or(index + 1)?;
        path.clone_into(&mut previous);
        list.insert(path.to_owned(), digest.to_owned());
    }
    Ok(list)
}
