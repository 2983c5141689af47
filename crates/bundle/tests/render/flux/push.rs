//! Tests of the artifacts of a bundle for Flux, and of unpacking a bundle from its artifact.

use std::path::{Path, PathBuf};

use archive::ArchiveFile;
use bundle::package::{PackedBundle, pack, unpack};
use bundle::{BundleError, write};
use deployer::flux::{CHARTS, chart_tag};
use tempfile::TempDir;

use super::URLS;
use crate::render::library;

const RECIPE: &str = "eks-gb200-training";
/// The bundle's directory in the artifact.
const ROOT: &str = "bundles/eks-gb200-training/flux";

/// Writes the bundle for a source of one of [`URLS`] into its own directory.
fn written(url: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    write(&library::bundle_from(RECIPE, "flux".parse().unwrap(), url), &output, false).unwrap();
    (directory, output)
}

fn packed(url: &str) -> PackedBundle {
    let (_directory, output) = written(url);
    pack(&output).unwrap()
}

#[test]
fn each_chart_is_pushed_once_without_settings() {
    let packed = packed(URLS[1]);
    let names: Vec<&str> = packed.charts.iter().map(|chart| chart.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gpu-rollout-namespaces",
            "gpu-operator-crds",
            "gpu-rollout",
            "nvidia-dra-driver-gpu-crds"
        ]
    );
    for chart in &packed.charts {
        let root = format!("{}/", chart.name);
        let files: Vec<&str> =
            chart.files.keys().filter_map(|path| path.strip_prefix(&root)).collect();
        assert_eq!(files.len(), chart.files.len(), "{}", chart.name);
        assert!(files.contains(&"Chart.yaml") && !files.contains(&"rollout.yaml"), "{files:?}");
        let metadata: serde_json::Value = serde_json::from_slice(&chart.metadata).unwrap();
        assert_eq!(metadata["version"], chart.version.as_str());
    }
}

/// Only one of the two charts would get into the registry.
#[test]
fn edit_of_one_of_several_same_charts_is_refused() {
    let (_directory, output) = written(URLS[1]);
    let text = output.join("005-gpu-operator-post/README.md");
    std::fs::write(&text, "mine\n").unwrap();
    let error = pack(&output).unwrap_err();
    assert!(matches!(&error, BundleError::OtherChart { chart, .. } if chart == "gpu-rollout"));
}

/// Otherwise Flux would wait for a chart that does not exist.
#[test]
fn sources_name_exactly_the_pushed_charts() {
    let packed = packed(URLS[1]);
    let mut pushed: Vec<(String, String)> = packed
        .charts
        .iter()
        .map(|chart| (format!("{}/{CHARTS}/{}", URLS[1], chart.name), chart_tag(&chart.version)))
        .collect();
    let sources =
        packed.files.iter().filter(|(path, _)| path.starts_with(&format!("{ROOT}/sources/")));
    let mut named: Vec<(String, String)> = sources
        .filter_map(|(_, file)| {
            let text = std::str::from_utf8(&file.content).unwrap();
            let object: serde_json::Value = yaml::from_str(text).unwrap();
            let url = object["spec"]["url"].as_str()?.to_owned();
            let tag = object["spec"]["ref"]["tag"].as_str()?.to_owned();
            url.starts_with(URLS[1]).then_some((url, tag))
        })
        .collect();
    pushed.sort();
    named.sort();
    named.dedup();
    assert_eq!(pushed, named);
}

#[test]
fn bundle_from_git_has_neither_charts_nor_path() {
    let packed = packed(URLS[0]);
    assert!(packed.charts.is_empty() && packed.registry.is_none());
    assert!(packed.files.contains_key("kustomization.yaml"));
}

#[test]
fn unpacked_bundle_is_the_one_that_was_packed() {
    for url in URLS {
        let expected = library::bundle_from(RECIPE, "flux".parse().unwrap(), url);
        let unpacked = unpack(Path::new("oci://a/b:v1"), packed(url).files).unwrap();
        assert_eq!(unpacked.tree, expected, "{url}");
        assert_eq!(
            (unpacked.identity.recipe.as_str(), unpacked.identity.deployer.as_str()),
            (RECIPE, "flux")
        );
    }
}

#[test]
fn edits_are_packed_and_unpacked() {
    let (directory, output) = written(URLS[1]);
    let (values, notes) = (output.join("004-gpu-operator/values.yaml"), output.join("notes.md"));
    std::fs::write(&values, "edited: true\n").unwrap();
    std::fs::write(&notes, "mine\n").unwrap();
    let unpacked = unpack(Path::new("oci://a/b:v1"), pack(&output).unwrap().files).unwrap();
    let copy = directory.path().join("copy");
    write(&unpacked.tree, &copy, false).unwrap();
    assert_eq!(bundle::verify(&copy).unwrap(), bundle::verify(&output).unwrap());
    std::fs::write(&notes, b"\xff").unwrap();
    assert!(matches!(pack(&output), Err(BundleError::File { .. })));
    std::fs::remove_file(&notes).unwrap();
    std::os::unix::fs::symlink(&values, &notes).unwrap();
    assert!(matches!(pack(&output), Err(BundleError::File { .. })));
}

#[test]
fn hostile_artifact_is_refused() {
    let place = Path::new("oci://a/b:v1");
    let file = |path: &str, content: Vec<u8>| (path.to_owned(), ArchiveFile::new(content));
    let found = |more: Vec<(String, ArchiveFile)>, missing: &str| {
        let mut files = packed(URLS[1]).files;
        files.retain(|path, _| !path.ends_with(missing));
        files.extend(more);
        unpack(place, files).unwrap_err().to_string()
    };
    let nothing = "/no such file";
    insta::assert_snapshot!(
        [
            found(vec![], "/bundle-info.yaml"),
            found(vec![], "/checksums.txt"),
            found(vec![file("outside", vec![])], nothing),
            found(vec![file(&format!("{ROOT}/a"), vec![0xff])], nothing),
            found(vec![file(&format!("{ROOT}/a"), vec![b'a'; (8 << 20) + 1])], nothing),
            found(vec![file(&format!("{ROOT}/{}a", "a/".repeat(32)), vec![])], nothing)
                .replace(&"a/".repeat(32), "…/"),
            found(vec![file(&format!("{ROOT}/bundle-info.yaml"), b"kind: Other\n".to_vec())], "/bundle-info.yaml"),
        ]
        .join("\n"),
        @r"
    `oci://a/b:v1` is not a bundle: it has no `bundle-info.yaml`
    the bundle `oci://a/b:v1` is incomplete: `checksums.txt` is missing
    `oci://a/b:v1/outside` is not a valid file of a bundle: it is not in the directory of the bundle
    `oci://a/b:v1/bundles/eks-gb200-training/flux/a` is not a valid file of a bundle: not a text file
    `oci://a/b:v1/bundles/eks-gb200-training/flux/a` is not a valid file of a bundle: larger than any file of a bundle
    `oci://a/b:v1/bundles/eks-gb200-training/flux/…/a` is not a valid file of a bundle: its directories are more than 32 deep
    `oci://a/b:v1/bundles/eks-gb200-training/flux/bundle-info.yaml` is not a valid file of a bundle: it names no recipe and deployer
    "
    );
}
