//! One reviewable text for each recipe and deployer: the whole tree. What is copied is named, not shown.

use std::fmt::Write as _;

use gpu_rollout::catalog::hook_chart;
use gpu_rollout::contract::digest::sha256;
use gpu_rollout::deployer::File;

use super::library::{all, bundle};

/// The text for one file. CRDs are the vendor's: their digest says whether they changed. The hook chart has tests of its own and
/// stands in the same repository, so not even a digest: an edit there should not touch these snapshots.
fn shown(file: &File) -> String {
    let text = std::str::from_utf8(&file.content).unwrap();
    let is_copy = hook_chart::FILES.iter().any(|(path, _)| file.path.ends_with(&format!("-post/{path}")));
    let mode = if file.executable { " (executable)" } else { "" };
    let content = if is_copy {
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

#[test]
fn every_recipe_with_every_deployer() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_snapshot_path("snapshots");
    settings.add_filter("hookChart: [0-9a-f]{64}", "hookChart: [the digest of charts/gpu-rollout]");
    settings.add_filter(r"0\.1\.0\+d[0-9a-f]{12}", "[version of charts/gpu-rollout]");
    settings.add_filter("renderedBy: gpu-rollout [0-9.]+", "renderedBy: gpu-rollout [version]");
    settings.bind(|| {
        for (name, deployer) in all() {
            let mut text = String::new();
            for file in bundle(name, deployer).files() {
                writeln!(text, "{}", shown(file)).unwrap();
            }
            insta::assert_snapshot!(format!("{name}-{deployer}"), text);
        }
    });
}
