//! The program accepts every recipe that a page shows.

use std::io::Write;
use std::process::{Command, Stdio};

use super::links::pages;
use crate::root;

/// Returns the YAML blocks of a page that are complete recipes.
fn recipes(page: &str) -> Vec<String> {
    let blocks = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks
        .filter(|block| block.starts_with("apiVersion: gpu-rollout.dev/v1\n"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn recipes_of_pages_are_valid() {
    let mut seen = 0;
    for page in pages() {
        for recipe in recipes(&std::fs::read_to_string(root(&page)).unwrap()) {
            seen += 1;
            let mut check = Command::new(env!("CARGO_BIN_EXE_gpu-rollout"));
            let mut check = check
                .args(["recipe", "check", "-"])
                .stdin(Stdio::piped())
                .stderr(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            check.stdin.take().unwrap().write_all(recipe.as_bytes()).unwrap();
            let output = check.wait_with_output().unwrap();
            assert!(
                output.status.success(),
                "{page}:\n{recipe}\n{}",
                String::from_utf8_lossy(&output.stderr)
            );
        }
    }
    assert!(seen >= 3, "only {seen} recipes were found");
}
