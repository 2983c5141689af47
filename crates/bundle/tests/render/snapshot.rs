//! Reviewable texts of each recipe's bundles. What all deployers share stands in one text a recipe; a deployer's own files in another,
//! of which only what the recipe changes: `base` shows them whole.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use bundle::BundleTree;
use catalog::{self, hook_chart};
use contract::digest::sha256;
use deployer::{BundleFile, DEPLOYERS};

use super::library::{bundle, is_hook_chart};

/// The recipe whose texts are complete.
const WHOLE: &str = "base";

/// Whether every deployer writes this file: those of the releases' folders, and the recipe. `first` is some deployer's bundle.
fn is_shared(file: &BundleFile, first: &BundleTree) -> bool {
    let is_common = file.path.as_bytes().first().is_some_and(u8::is_ascii_digit) || file.path == "recipe.yaml";
    is_common && first.get(&file.path).is_some()
}

/// The text for one file. CRDs are the vendor's: their digest says whether they changed. The hook chart has tests of its own and
/// stands in the same repository, so not even a digest: an edit there should not touch these snapshots.
fn shown(file: &BundleFile) -> String {
    let text = std::str::from_utf8(&file.content).unwrap();
    let mode = if file.executable { " (executable)" } else { "" };
    let content = if hook_chart::FILES.iter().any(|(path, _)| is_hook_chart(&file.path, path)) {
        return format!("# file: {} (copy of charts/gpu-rollout)\n", file.path);
    } else if file.path.contains("-crds/templates/") {
        format!("sha256 {}\n", sha256(&file.content))
    } else if file.path == "checksums.txt" {
        format!("{} lines\n", text.lines().count())
    } else {
        text.to_owned()
    };
    format!("# file: {}{mode}\n{content}", file.path)
}

/// The lines of a file that the complete text does not have; `None` if there are none.
fn changed(file: &BundleFile, whole: &BundleTree) -> Option<String> {
    let text = shown(file);
    let Some(known) = whole.get(&file.path) else { return Some(text) };
    let known = shown(known);
    let known: BTreeSet<&str> = known.lines().skip(1).collect();
    let mut lines = text.lines();
    let mut changed = format!("{} (what is not in {WHOLE})\n", lines.next().unwrap_or_default());
    let new: Vec<&str> = lines.filter(|line| !known.contains(line)).collect();
    for line in &new {
        writeln!(changed, "{line}").unwrap();
    }
    (!new.is_empty()).then_some(changed)
}

#[test]
fn every_recipe_with_every_deployer() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("snapshots");
    settings.add_filter("hookChart: [0-9a-f]{64}", "hookChart: [the digest of charts/gpu-rollout]");
    settings.add_filter(r"0\.1\.0\+d[0-9a-f]{12}", "[version of charts/gpu-rollout]");
    settings.add_filter("renderedBy: gpu-rollout [0-9.]+", "renderedBy: gpu-rollout [version]");
    let wholes: Vec<BundleTree> = DEPLOYERS.iter().map(|deployer| bundle(WHOLE, *deployer)).collect();
    settings.bind(|| {
        for name in catalog::recipe_names() {
            let first = bundle(name, DEPLOYERS[0]);
            let common = |tree: &BundleTree| -> Vec<String> { tree.files().filter(|file| is_shared(file, &first)).map(shown).collect() };
            for (deployer, whole) in DEPLOYERS.iter().zip(&wholes) {
                let bundle = bundle(name, *deployer);
                let mut text = String::new();
                for file in bundle.files().filter(|file| !is_shared(file, &first)) {
                    let own = if name == WHOLE { Some(shown(file)) } else { changed(file, whole) };
                    if let Some(own) = own {
                        writeln!(text, "{own}").unwrap();
                    }
                }
                insta::assert_snapshot!(format!("{name}-{deployer}"), text);
                assert_eq!(common(&bundle), common(&first), "{name}: {deployer} writes the releases' folders as the others do");
            }
            insta::assert_snapshot!(name, common(&first).join("\n"));
        }
    });
}
