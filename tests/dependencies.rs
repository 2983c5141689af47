//! What the program is built from: licenses and second versions, held against `deny.toml` without cargo-deny.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use serde_json::Value;

mod dependencies {
    pub(crate) mod spdx;
}

const DENY: &str = include_str!("../deny.toml");

/// The lines of a list in `deny.toml`.
fn list(key: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("{key} = [");
    DENY.lines().skip_while(move |line| *line != start).skip(1).take_while(|line| *line != "]").map(str::trim)
}

/// The first text in quotes of a line.
fn quoted(line: &str) -> &str {
    line.split('"').nth(1).unwrap()
}

/// Every package that is compiled for Linux on either architecture, tests included.
fn packages() -> Vec<Value> {
    let mut packages = BTreeMap::new();
    for target in list_inline("targets") {
        let output = Command::new(env!("CARGO"))
            .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", target])
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let mut metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
        for package in metadata["packages"].as_array_mut().unwrap() {
            packages.insert(package["id"].to_string(), package.take());
        }
    }
    packages.into_values().collect()
}

/// A list that stands in one line.
fn list_inline(key: &str) -> impl Iterator<Item = &'static str> {
    let start = format!("{key} = [");
    let line = DENY.lines().find(|line| line.starts_with(&start)).unwrap();
    line.split('"').skip(1).step_by(2)
}

#[test]
fn every_license_is_allowed_and_every_allowed_one_is_used() {
    let allowed: BTreeSet<&str> = list("allow").map(quoted).collect();
    let mut used = BTreeSet::new();
    let mut findings = Vec::new();
    for package in packages() {
        let license = package["license"].as_str().unwrap_or_default();
        match dependencies::spdx::choose(license, &allowed) {
            Some(chosen) => used.extend(chosen),
            None => findings.push(format!("{} {}: `{license}` is not allowed by deny.toml", package["name"], package["version"])),
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    assert_eq!(used, allowed.into_iter().map(str::to_owned).collect(), "deny.toml allows what nothing uses");
}

#[test]
fn a_second_version_has_its_reason() {
    let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for package in packages() {
        let (name, version) = (package["name"].as_str().unwrap(), package["version"].as_str().unwrap());
        versions.entry(name.to_owned()).or_default().insert(version.to_owned());
    }
    let mut skips: BTreeSet<&str> = list("skip").map(quoted).collect();
    let mut findings = Vec::new();
    for (name, versions) in versions.iter().filter(|(_, versions)| versions.len() > 1) {
        let skipped = |version: &String| skips.iter().find(|skip| is_of(skip, name, version)).copied();
        let skipped: Vec<Option<&str>> = versions.iter().map(skipped).collect();
        if skipped.iter().filter(|skip| skip.is_none()).count() > 1 {
            findings.push(format!("{name} has versions {versions:?}: use one, or give deny.toml a reason"));
        }
        for skip in skipped.into_iter().flatten() {
            skips.remove(skip);
        }
    }
    assert!(findings.is_empty(), "\n{}\n", findings.join("\n"));
    assert!(skips.is_empty(), "deny.toml skips what is not there twice: {skips:?}");
}

/// `name@1.2` covers 1.2 and every 1.2.x.
fn is_of(skip: &str, name: &str, version: &str) -> bool {
    let Some((skipped, start)) = skip.split_once('@') else { return false };
    skipped == name && version.strip_prefix(start).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

#[test]
fn nothing_that_is_banned_is_there() {
    let names: BTreeSet<String> = packages().iter().map(|package| package["name"].as_str().unwrap().to_owned()).collect();
    let banned: Vec<&str> = list("deny").map(quoted).filter(|name| names.contains(*name)).collect();
    assert!(banned.is_empty(), "deny.toml bans {banned:?}");
    assert!(list("deny").count() > 0);
}

/// Everything comes from one registry: what a mirror or an air gap replaces.
#[test]
fn there_is_one_source() {
    let sources: BTreeSet<String> = packages().iter().filter_map(|package| package["source"].as_str().map(str::to_owned)).collect();
    assert!(sources.len() == 1 && sources.iter().all(|source| source.starts_with("registry+")), "{sources:?}");
}
