//! The programs that are pinned for the tests.

use std::path::PathBuf;
use std::process::Command;

/// One of them; built if it is not there yet.
pub(crate) fn tool(name: &str) -> PathBuf {
    let output = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/tools/build.sh"))
        .arg(name)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    PathBuf::from(String::from_utf8(output.stdout).unwrap().trim()).join(name)
}
