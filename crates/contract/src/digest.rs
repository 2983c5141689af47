//! SHA-256 as text: lower-case hexadecimal digits.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

/// Returns the SHA-256 digest of `bytes`.
pub fn sha256(bytes: &[u8]) -> String {
    hex(&Sha256::digest(bytes))
}

/// Returns a digest as text.
pub fn hex(digest: &[u8]) -> String {
    digest.iter().fold(String::with_capacity(digest.len() * 2), |mut text, byte| {
        // Writing into a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
