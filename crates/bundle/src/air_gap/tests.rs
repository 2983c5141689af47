//! Tests of the content of air-gap archives.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use tempfile::TempDir;

use super::*;
use crate::{BundleError, BundleInput, build, write};
use archive::tar_gz;
use catalog::hook_chart;
use recipe::load::load;
use recipe::read::FileSystemReader;
use release::{EmbeddedCatalog, PlanOptions, plan};

/// The version of the GPU Operator in the recipe of most tests.
const VERSION: &str = "v26.7.0";

/// Writes the bundle of a recipe of the library for Helm into its own directory.
fn bundle(name: &str, options: &PlanOptions) -> (TempDir, PathBuf) {
    let recipe = load(name, &[], &mut FileSystemReader).unwrap().recipe;
    let plan = plan(&recipe, &EmbeddedCatalog, options).unwrap();
    let tree = build(BundleInput {
        recipe: &recipe,
        plan: &plan,
        options,
        deployer: "helm".parse().unwrap(),
        hook_chart: hook_chart::contents(),
        source: None,
    });
    let directory = tempfile::tempdir().unwrap();
    let output = directory.path().join("out");
    write(&tree.unwrap(), &output, false).unwrap();
    (directory, output)
}

fn package(name: &str, version: &str, values: &str) -> Vec<u8> {
    let chart = format!("name: {name}\nversion: {version}\n");
    let files = [("Chart.yaml", chart.as_str()), ("values.yaml", values)];
    let file = |(file, text): (&str, &str)| (format!("{name}/{file}"), ArchiveFile::new(text));
    tar_gz(&files.into_iter().map(file).collect()).unwrap()
}

/// Writes a package of each chart of a bundle, into files whose names start with `prefix`.
fn fill(bundle: &Path, folder: &Path, prefix: &str) {
    fs::create_dir_all(folder).unwrap();
    let info = BundleDirectory::open(bundle).unwrap().info().unwrap();
    for release in info.releases.iter().filter(|release| release.kind == "upstream") {
        let name = release.chart.as_deref().unwrap().rsplit('/').next().unwrap();
        let version = release.version.as_deref().unwrap();
        let path = folder.join(format!("{prefix}{}.tgz", release.name));
        fs::write(path, package(name, version, "")).unwrap();
    }
}

fn nodes() -> NodeKinds {
    NodeKinds {
        systems: vec!["ubuntu22.04".to_owned(), "rhel9".to_owned()],
        architectures: vec!["amd64".to_owned()],
        kernels: vec!["6.8.0-60-generic".to_owned()],
    }
}

/// Returns the lines of a text of an archive, without the hook's image, which no registry has.
fn lines<'a>(archive: &'a AirGapArchive, path: &str) -> BTreeSet<&'a str> {
    let text = std::str::from_utf8(&archive.files[path].content).unwrap();
    text.lines().filter(|line| !line.starts_with("gpu-rollout:")).collect()
}

/// The bundle names only the mirror. Its sources are the images of the bundle without a mirror.
#[test]
fn every_mirrored_image_has_its_source() {
    let mirror = PlanOptions {
        registry_mirrors: vec!["mirror.example.com/gpu".parse().unwrap()],
        ..PlanOptions::default()
    };
    for name in catalog::recipe_names() {
        let (directory, mirrored) = bundle(name, &mirror);
        let charts = directory.path().join("charts");
        fill(&mirrored, &charts, "");
        let mirrored = air_gap(&mirrored, &charts, &nodes()).unwrap();
        let (_directory, plain) = bundle(name, &PlanOptions::default());
        let plain = air_gap(&plain, &charts, &nodes()).unwrap();
        let copies = lines(&mirrored, COPIES).into_iter();
        let (from, to): (BTreeSet<&str>, BTreeSet<&str>) =
            copies.map(|line| line.split_once(' ').unwrap()).unzip();
        assert_eq!(from, lines(&plain, IMAGES), "{name}");
        assert_eq!(to, lines(&mirrored, IMAGES), "{name}");
        // Without a mirror, the names are paths below the registry of the user.
        let below = lines(&plain, COPIES).into_iter();
        let below: Vec<String> =
            below.map(|line| line.replacen(' ', " mirror.example.com/gpu/", 1)).collect();
        assert_eq!(below, lines(&mirrored, COPIES).into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn same_bundle_and_charts_give_the_same_bytes() {
    let (first, one) = bundle("eks-gb200-training", &PlanOptions::default());
    let (second, other) = bundle("eks-gb200-training", &PlanOptions::default());
    fill(&one, &first.path().join("charts"), "");
    // A copy without modes, and a folder with copies, other names and other charts.
    let script = other.join("deploy.sh");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o600)).unwrap();
    let charts = second.path().join("charts");
    fill(&other, &charts, "my-");
    fill(&other, &charts, "copy-");
    fs::write(charts.join("other.tgz"), package("other", "1.0.0", "")).unwrap();
    fs::write(charts.join("notes.txt"), "mine").unwrap();
    let one = air_gap(&one, &first.path().join("charts"), &nodes()).unwrap();
    let other = air_gap(&other, &charts, &nodes()).unwrap();
    assert_eq!(tar_gz(&one.files).unwrap(), tar_gz(&other.files).unwrap());
    assert!(one.files["bundle/deploy.sh"].executable);
    let charts: Vec<&String> =
        one.files.keys().filter(|path| path.starts_with("charts/")).collect();
    assert_eq!(
        charts,
        [
            "charts/aws-efa-k8s-device-plugin-v0.5.3.tgz",
            "charts/gpu-operator-v26.7.0.tgz",
            "charts/nvidia-dra-driver-gpu-25.12.0.tgz"
        ]
    );
}

#[test]
fn every_missing_or_ambiguous_chart_is_named_at_once() {
    let (directory, bundle) = bundle("eks-gb200-training", &PlanOptions::default());
    let charts = directory.path().join("charts");
    let refused = || {
        let found = air_gap(&bundle, &charts, &nodes());
        let Err(AirGapError::Charts { problems, commands, .. }) = found else {
            panic!("{found:?}")
        };
        (problems, commands)
    };
    let (problems, commands) = refused();
    assert_eq!((problems.len(), commands.len()), (3, 4), "{problems:?} {commands:?}");
    fill(&bundle, &charts, "");
    // The name of the file is right, and the chart in it is not.
    let operator = charts.join(format!("gpu-operator-{VERSION}.tgz"));
    fs::rename(charts.join("gpu-operator.tgz"), charts.join("aside")).unwrap();
    fs::write(&operator, package("gpu-operator", "v26.3.3", "")).unwrap();
    fs::write(charts.join("z.tgz"), package("nvidia-dra-driver-gpu", "25.12.0", "a: 1")).unwrap();
    fs::write(charts.join("page.tgz"), "<!doctype html>").unwrap();
    let (problems, commands) = refused();
    let [wrong, twice, page] = problems.as_slice() else { panic!("{problems:?}") };
    assert_eq!(
        wrong,
        "gpu-operator v26.7.0 is missing; `gpu-operator-v26.7.0.tgz` is gpu-operator v26.3.3"
    );
    assert_eq!(
        twice,
        "`nvidia-dra-driver-gpu.tgz` and `z.tgz` are both nvidia-dra-driver-gpu 25.12.0, and differ"
    );
    assert!(page.starts_with("`page.tgz` is not used: not a complete gzip file"), "{page}");
    let command = format!(
        "helm pull gpu-operator --repo https://helm.ngc.nvidia.com/nvidia --version {VERSION} --destination {}",
        charts.display()
    );
    assert_eq!(commands, [command]);
    // Only what is missing matters.
    fs::rename(charts.join("aside"), operator).unwrap();
    fs::remove_file(charts.join("z.tgz")).unwrap();
    assert_eq!(air_gap(&bundle, &charts, &nodes()).unwrap().charts, 3);
}

#[test]
fn edited_or_unclear_bundle_is_refused() {
    let (directory, output) = bundle("eks-gb200-training", &PlanOptions::default());
    let charts = directory.path().join("charts");
    fill(&output, &charts, "");
    let refused = |nodes: &NodeKinds| air_gap(&output, &charts, nodes).unwrap_err();
    assert!(matches!(refused(&NodeKinds::default()), AirGapError::UnknownNodes(_)));
    let added = output.join("notes.md");
    fs::write(&added, "mine").unwrap();
    let edited = refused(&nodes());
    let AirGapError::Edited { edits, .. } = edited else { panic!("{edited:?}") };
    assert_eq!(edits, ["added: notes.md"]);
    fs::remove_file(added).unwrap();
    let other = air_gap(directory.path(), &charts, &nodes());
    assert!(matches!(other, Err(AirGapError::Bundle(BundleError::NoBundle { .. }))));
}

/// Regression: unpacking an archive replaced the user's own `README.md`.
#[test]
fn archive_has_one_folder_of_its_own() {
    let (directory, output) = bundle("base", &PlanOptions::default());
    let charts = directory.path().join("charts");
    fill(&output, &charts, "");
    assert_eq!(air_gap(&output, &charts, &nodes()).unwrap().folder, "base-air-gap");
    for path in ["", ".", "..", "a/../../b", "/etc"] {
        assert_eq!(folder(path), "bundle-air-gap", "{path}");
    }
}

#[test]
fn page_of_a_signed_bundle_checks_the_signature() {
    let (directory, output) = bundle("base", &PlanOptions::default());
    let charts = directory.path().join("charts");
    fill(&output, &charts, "");
    let page = || {
        let archive = air_gap(&output, &charts, &nodes()).unwrap();
        String::from_utf8(archive.files[README].content.clone()).unwrap()
    };
    let check = "\ngpu-rollout bundle verify bundle";
    let unsigned = page();
    assert!(unsigned.contains(&format!("{check}\n```\n")), "{unsigned}");
    fs::write(output.join(SIGNATURE), "{}").unwrap();
    let signed = page();
    assert!(signed.contains(&format!("{check} --key cosign.pub\n```\n")), "{signed}");
    assert!(signed.contains("`cosign.pub` is the public key"), "{signed}");
}
