//! `ARCHITECTURE.md` shows all crates with the dependencies in their manifests, and the source
//! files, tests and paths that pages and `CODEOWNERS` name exist.

use std::collections::BTreeSet;
use std::path::Path;

use super::links::pages;
use super::traps::tests;
use crate::{cells, root};

/// The file with the paths that certain users must review.
const OWNERS: &str = ".github/CODEOWNERS";
/// Pages that name tests, without a test of their own.
const NAMING_TESTS: [&str; 2] = ["SECURITY.md", "docs/how-to/upgrade-gpu-rollout.md"];

/// Returns the names of the folders of all crates.
fn crates() -> BTreeSet<String> {
    std::fs::read_dir(root("crates"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect()
}

/// Returns the crates of this repository in a crate's dependencies.
fn dependencies(name: &str) -> Vec<String> {
    let manifest = std::fs::read_to_string(root("crates").join(name).join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap();
    let section = rest.split("\n[").next().unwrap();
    let keys = section.lines().filter_map(|line| line.split(['.', ' ']).next());
    let ours = crates();
    keys.filter(|key| ours.contains(*key)).map(str::to_owned).collect()
}

#[test]
fn architecture_shows_each_crate_with_its_dependencies() {
    let page = std::fs::read_to_string(root("ARCHITECTURE.md")).unwrap();
    let mut missing = crates();
    for row in
        page.lines().filter(|line| line.starts_with("| `")).map(cells).filter(|row| row.len() == 3)
    {
        let name = row[0].trim_matches('`');
        if !missing.remove(name) {
            continue;
        }
        let shown: Vec<&str> = row[2].split(", ").filter(|word| *word != "nothing").collect();
        assert_eq!(shown, dependencies(name), "ARCHITECTURE.md: `{name}`");
    }
    assert!(missing.is_empty(), "ARCHITECTURE.md does not show {missing:?}");
}

/// Resolves a path as written in pages: from the root, or from `crates/` without `src/`.
fn exists(path: &str) -> bool {
    let in_crate = path
        .split_once('/')
        .is_some_and(|(name, rest)| root("crates").join(name).join("src").join(rest).exists());
    in_crate || root(path).exists() || root("src").join(path).exists()
}

#[test]
fn source_files_that_pages_name_exist() {
    let mut findings = Vec::new();
    for page in pages() {
        let text = std::fs::read_to_string(root(&page)).unwrap();
        for word in text.split('`').skip(1).step_by(2) {
            let is_source = Path::new(word).extension().is_some_and(|ending| ending == "rs")
                && word.contains('/');
            // Pages name the source files of other projects by repository, or by path in it.
            if is_source
                && !(word.contains(['<', ' ', '*'])
                    || word.contains("NAME")
                    || word.starts_with("foo/"))
                && !exists(word)
            {
                findings.push(format!("{page}: there is no `{word}`"));
            }
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
}

/// Whether a word in backticks is the name of a test.
fn is_test(word: &str) -> bool {
    let is_name = |character: char| character.is_ascii_lowercase() || character == '_';
    word.matches('_').count() > 2 && word.chars().all(is_name)
}

#[test]
fn tests_that_pages_name_exist() {
    let mut known = BTreeSet::new();
    for folder in ["crates", "src", "tests"] {
        tests(&root(folder), &mut known);
    }
    for page in NAMING_TESTS {
        let text = std::fs::read_to_string(root(page)).unwrap();
        let named: Vec<&str> =
            text.split('`').skip(1).step_by(2).filter(|word| is_test(word)).collect();
        assert!(!named.is_empty(), "{page} names no test");
        for name in named {
            assert!(known.contains(name), "{page}: there is no test `{name}`");
        }
    }
}

#[test]
fn code_owners_name_existing_paths() {
    let text = std::fs::read_to_string(root(OWNERS)).unwrap();
    for line in text.lines().filter(|line| line.starts_with('/')) {
        let path = line.split(' ').next().unwrap_or_default().trim_start_matches('/');
        assert!(root(path).exists(), "{OWNERS}: there is no `{path}`");
    }
}
