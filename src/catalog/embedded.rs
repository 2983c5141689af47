//! The files of `bundles/` in the binary. Large ones are packed and are unpacked when they are first asked for: a render reads a few
//! of them, and every millisecond shows.

use std::sync::OnceLock;

include!(concat!(env!("OUT_DIR"), "/bundles.rs"));

/// What stands for one file.
enum Content {
    /// Its text.
    Plain(&'static str),
    /// Its packed text; the same for all files with the same content.
    Packed(&'static Packed),
}

/// A text that was packed when the program was built.
struct Packed {
    bytes: &'static [u8],
    text: OnceLock<String>,
}

impl Packed {
    const fn new(bytes: &'static [u8]) -> Self {
        Self { bytes, text: OnceLock::new() }
    }

    fn text(&self) -> &str {
        self.text.get_or_init(|| {
            let bytes = miniz_oxide::inflate::decompress_to_vec(self.bytes);
            let text = bytes.ok().and_then(|bytes| String::from_utf8(bytes).ok());
            text.expect("embedded files are read by the test `every_file_can_be_unpacked`")
        })
    }
}

/// The text of a file, by its path below `bundles/`.
///
/// # Panics
/// Never: a test reads every file.
pub(super) fn file(path: &str) -> Option<&'static str> {
    let index = FILES.binary_search_by(|(known, _)| (*known).cmp(path)).ok()?;
    Some(match FILES[index].1 {
        Content::Plain(text) => text,
        Content::Packed(packed) => packed.text(),
    })
}

/// The paths of all files, sorted.
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_can_be_unpacked() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles");
        for path in paths() {
            assert!(file(path).unwrap() == std::fs::read_to_string(root.join(path)).unwrap(), "{path}");
        }
        assert_eq!(file("components/gpu-operator/values.json"), None);
    }
}
