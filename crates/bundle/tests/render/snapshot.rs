//! Reviewable texts of each recipe's bundles. The files that all deployers share are in one
//! snapshot for each recipe. A deployer's own files are complete for the recipe `base`; for every
//! other recipe one snapshot has their unified diffs against those of `base`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use bundle::BundleTree;
use catalog::{self, hook_chart};
use contract::digest::sha256;
use deployer::{BundleFile, DEPLOYERS, Deployer};
use regex::Regex;
use similar::TextDiff;

use super::library::{REPOSITORY, bundle, bundle_from, bundle_of, is_hook_chart, recipe};
use super::parity::REGISTRY;

/// The recipe whose files are shown completely.
const BASE: &str = "base";

/// Whether every deployer writes this file: those of the releases' folders, and the recipe. `first`
/// is some deployer's bundle.
fn is_shared(file: &BundleFile, first: &BundleTree) -> bool {
    let is_common =
        file.path.as_bytes().first().is_some_and(u8::is_ascii_digit) || file.path == "recipe.yaml";
    is_common && first.get(&file.path).is_some()
}

/// Facts about a file that its path does not show. The hook chart has tests of its own and is in
/// the same repository: its copies are only named, so that an edit there leaves the snapshots
/// unchanged.
fn note(file: &BundleFile) -> &'static str {
    match file {
        BundleFile { path, .. }
            if hook_chart::FILES.iter().any(|(file, _)| is_hook_chart(path, file)) =>
        {
            " (copy of charts/gpu-rollout)"
        }
        BundleFile { executable: true, .. } => " (executable)",
        BundleFile { .. } => "",
    }
}

/// What is shown of a file. CRDs are the vendor's: their digest says whether they changed.
fn shown(file: &BundleFile) -> String {
    let text = std::str::from_utf8(&file.content).unwrap();
    if note(file).contains("copy") {
        String::new()
    } else if file.path.contains("-crds/templates/") {
        format!("sha256 {}\n", sha256(&file.content))
    } else if file.path == "checksums.txt" {
        format!("{} lines\n", text.lines().count())
    } else {
        text.to_owned()
    }
}

/// A whole file under its path.
fn section(file: &BundleFile) -> String {
    format!("# file: {}{}\n{}\n", file.path, note(file), shown(file))
}

/// Returns the path without the position numbers of releases:
/// `releases/003-x.yaml` is `releases/x.yaml`.
fn without_numbers(path: &str) -> String {
    let plain = |part: &str| match part.split_once('-') {
        Some((number, name))
            if number.len() == 3 && number.bytes().all(|byte| byte.is_ascii_digit()) =>
        {
            name.to_owned()
        }
        Some(_) | None => part.to_owned(),
    };
    path.split('/').map(plain).collect::<Vec<_>>().join("/")
}

/// The files of `bundle` that only its deployer writes, with the same release at the same key in
/// every recipe. `first` is a bundle of the same recipe for another deployer.
fn own_files(bundle: &BundleTree, first: &BundleTree) -> BTreeMap<String, BundleFile> {
    let files: Vec<&BundleFile> = bundle.files().filter(|file| !is_shared(file, first)).collect();
    let by_key: BTreeMap<String, BundleFile> =
        files.iter().map(|file| (without_numbers(&file.path), (*file).clone())).collect();
    assert_eq!(by_key.len(), files.len(), "the paths of two files differ only in numbers");
    by_key
}

/// Returns the files that only `deployer` writes for a recipe, rendered with the name `base`,
/// because the name is in dozens of lines.
fn own_files_as_base(name: &str, deployer: Deployer) -> BTreeMap<String, BundleFile> {
    let mut recipe = recipe(name);
    BASE.clone_into(&mut recipe.metadata.name);
    own_files(&bundle_of(&recipe, deployer, REPOSITORY), &bundle(name, DEPLOYERS[0]))
}

/// Returns the text to compare. The digest of `recipe.yaml`, which is shown completely, would
/// change all diffs with each edit of `base`.
fn compared(file: &BundleFile) -> String {
    Regex::new("sha256: [0-9a-f]{64}")
        .unwrap()
        .replace(&shown(file), "sha256: [the digest of recipe.yaml]")
        .into_owned()
}

/// Returns the differences from `base` in the files of `deployer`.
fn changes(name: &str, deployer: Deployer) -> String {
    differences(deployer, &own_files_as_base(BASE, deployer), &own_files_as_base(name, deployer))
}

/// Returns the differences in the files of `deployer`: removed and added files, and a unified diff
/// of each changed one.
fn differences(
    deployer: Deployer,
    before: &BTreeMap<String, BundleFile>,
    after: &BTreeMap<String, BundleFile>,
) -> String {
    let keys: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let mut text = format!("## {deployer}\n\n");
    for key in keys {
        match (before.get(key), after.get(key)) {
            (Some(old), None) => writeln!(text, "# removed file: {}\n", old.path).unwrap(),
            (None, Some(new)) => {
                write!(text, "# added {}", section(new).trim_start_matches("# ")).unwrap();
            }
            (Some(old), Some(new)) => {
                let headings = [old, new].map(|file| format!("{}{}", file.path, note(file)));
                let (from, to) = (compared(old), compared(new));
                if headings[0] != headings[1] || from != to {
                    let diff = TextDiff::from_lines(&from, &to)
                        .unified_diff()
                        .header(&headings[0], &headings[1])
                        .to_string();
                    writeln!(text, "# changed file: {}\n{diff}", new.path).unwrap();
                }
            }
            (None, None) => {}
        }
    }
    text
}

fn assert_snapshot(name: &str, text: &str) {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("snapshots");
    settings.add_filter("hookChart: [0-9a-f]{64}", "hookChart: [the digest of charts/gpu-rollout]");
    settings.add_filter(r"0\.1\.0\+d[0-9a-f]{12}", "[version of charts/gpu-rollout]");
    settings.add_filter("renderedBy: gpu-rollout [0-9.]+", "renderedBy: gpu-rollout [version]");
    settings.bind(|| insta::assert_snapshot!(name, text));
}

#[test]
fn shared_files_of_every_recipe() {
    for name in catalog::recipe_names() {
        let first = bundle(name, DEPLOYERS[0]);
        let shared = |tree: &BundleTree| -> Vec<String> {
            tree.files().filter(|file| is_shared(file, &first)).map(section).collect()
        };
        for deployer in DEPLOYERS {
            assert_eq!(
                shared(&bundle(name, *deployer)),
                shared(&first),
                "{name}: {deployer} writes the releases' folders as the others do"
            );
        }
        assert_snapshot(name, &shared(&first).concat());
    }
}

#[test]
fn base_is_complete_for_every_deployer() {
    for deployer in DEPLOYERS {
        let files = own_files(&bundle(BASE, *deployer), &bundle(BASE, DEPLOYERS[0]));
        let mut files: Vec<&BundleFile> = files.values().collect();
        files.sort_by_key(|file| &file.path);
        let text: Vec<String> = files.into_iter().map(section).collect();
        assert_snapshot(&format!("{BASE}-{deployer}"), &text.concat());
    }
}

/// From a registry, Argo CD reads the values of vendors' charts differently than from Git.
#[test]
fn argocd_bundle_in_registry_differs_as_shown() {
    let deployer: Deployer = "argocd".parse().unwrap();
    let first = bundle(BASE, DEPLOYERS[0]);
    let files = own_files(&bundle(BASE, deployer), &first);
    let pushed = own_files(&bundle_from(BASE, deployer, REGISTRY), &first);
    assert_snapshot("base-argocd-registry-changes", &differences(deployer, &files, &pushed));
}

#[test]
fn every_recipe_differs_from_base_as_shown() {
    for name in catalog::recipe_names().filter(|name| *name != BASE) {
        let text: Vec<String> = DEPLOYERS.iter().map(|deployer| changes(name, *deployer)).collect();
        assert_snapshot(&format!("{name}-changes"), &text.concat());
    }
}
