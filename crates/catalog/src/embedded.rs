//! The files of `bundles/` in the binary, with the catalog's tables as JSON.

use std::sync::{LazyLock, OnceLock};

use serde_json::Value;

include!(concat!(env!("OUT_DIR"), "/bundles.rs"));

/// Returns the text of a file, by its path below `bundles/`.
pub(super) fn file(path: &str) -> Option<&'static str> {
    let index = FILES.binary_search_by(|(known, _)| (*known).cmp(path)).ok()?;
    Some(FILES[index].1)
}

/// Returns a JSON file as a value. Parses each file once, because a thousand recipes use the same
/// few.
///
/// # Panics
/// Never: a test reads every file.
pub(super) fn json(path: &str) -> Option<&'static Value> {
    static READ: LazyLock<Vec<OnceLock<Value>>> =
        LazyLock::new(|| FILES.iter().map(|_| OnceLock::new()).collect());
    let index = FILES.binary_search_by(|(known, _)| (*known).cmp(path)).ok()?;
    let read = || serde_json::from_str(FILES[index].1).ok();
    Some(READ.get(index)?.get_or_init(|| {
        read().expect("embedded files are read by the test `every_file_is_embedded_as_written`")
    }))
}

/// Returns the paths of all files, sorted.
pub(super) fn paths() -> impl Iterator<Item = &'static str> {
    FILES.iter().map(|(path, _)| *path)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn every_file_is_embedded_as_written() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles");
        for path in paths() {
            let embedded = file(path).unwrap();
            let Some(stem) = path.strip_suffix(".json") else {
                assert!(embedded == std::fs::read_to_string(root.join(path)).unwrap(), "{path}");
                continue;
            };
            let value = json(path).unwrap();
            let table = root.join(format!("{stem}.yaml"));
            if root.join(path).exists() {
                assert!(embedded == std::fs::read_to_string(root.join(path)).unwrap(), "{path}");
            } else {
                let yaml: Value = yaml::from_str(&std::fs::read_to_string(table).unwrap()).unwrap();
                assert_eq!(*value, yaml, "{path} has the same content as its YAML");
            }
        }
        assert_eq!(file("components/gpu-operator/values.json"), None);
    }
}
