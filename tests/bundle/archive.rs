//! `gpu-rollout bundle archive`: what it refuses, and that its archive deploys and renders without
//! network.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use ::archive::{ArchiveFile, tar_gz};
use serde_json::Value;

use super::command::{Scene, snapshot};

const ARCHIVE: &str = "bundle archive out -o gap.tar.gz --charts charts --node-os ubuntu22.04";

/// Writes a packaged chart into the folder `charts`.
fn put_chart(scene: &Scene, name: &str, version: &str) {
    let chart = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
    let files = BTreeMap::from([(format!("{name}/Chart.yaml"), ArchiveFile::new(chart))]);
    let charts = scene.path().join("charts");
    fs::create_dir_all(&charts).unwrap();
    fs::write(charts.join(format!("{name}-{version}.tgz")), tar_gz(&files).unwrap()).unwrap();
}

/// Writes all charts of the bundle `out`. Returns the names of their files.
fn put_charts(scene: &Scene) -> Vec<String> {
    let info = fs::read_to_string(scene.path().join("out/bundle-info.yaml")).unwrap();
    let info: Value = yaml::from_str(&info).unwrap();
    let releases = info["releases"].as_array().unwrap().iter();
    let charts = releases.filter(|release| release["kind"] == "upstream").map(|release| {
        let text = |key: &str| release[key].as_str().unwrap();
        let (name, version) = (text("chart").rsplit('/').next().unwrap(), text("version"));
        put_chart(scene, name, version);
        format!("{name}-{version}.tgz")
    });
    charts.collect()
}

/// Runs a script in a directory, with this program and a Helm that only knows its version. Returns
/// its standard output.
fn shell(scene: &Scene, directory: &Path, script: &str) -> String {
    let helm = scene.path().join("helm");
    fs::write(&helm, "#!/bin/sh\necho v4.3.1\n").unwrap();
    fs::set_permissions(&helm, fs::Permissions::from_mode(0o755)).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_gpu-rollout")).parent().unwrap().to_owned();
    let others = std::env::var_os("PATH").unwrap();
    let path = std::iter::once(program).chain(std::env::split_paths(&others));
    let output = Command::new("sh")
        .args(["-euc", script])
        .current_dir(directory)
        .env("PATH", std::env::join_paths(path).unwrap())
        .env("HELM", helm)
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    let (printed, errors) = (text(output.stdout), text(output.stderr));
    assert!(output.status.success(), "{script}\n{printed}{errors}");
    printed
}

/// Unpacks the archive next to a file of the user, and runs the commands of its page that check its
/// files. Returns its folder.
fn unpack(scene: &Scene) -> PathBuf {
    let place = scene.path().join("gap");
    fs::create_dir(&place).unwrap();
    let mine = place.join("README.md");
    fs::write(&mine, "mine").unwrap();
    shell(scene, &place, "tar xzf ../gap.tar.gz");
    assert_eq!(fs::read_to_string(&mine).unwrap(), "mine");
    fs::remove_file(mine).unwrap();
    let mut entries = fs::read_dir(&place).unwrap();
    let gap = entries.next().unwrap().unwrap().path();
    assert!(entries.next().is_none(), "the archive has one folder");
    let page = fs::read_to_string(gap.join("README.md")).unwrap();
    let (_, rest) = page.split_once("```sh\nsha256sum --check ").unwrap();
    let (check, _) = rest.split_once("```").unwrap();
    shell(scene, &gap, &format!("sha256sum --check --strict {check}\ndiff -r ../../out bundle"));
    fs::canonicalize(gap).unwrap()
}

/// Returns the command of the archive's page that renders the bundle again.
fn render_command(gap: &Path) -> String {
    let page = fs::read_to_string(gap.join("README.md")).unwrap();
    let (_, rest) = page.split_once("```sh\ngpu-rollout bundle render ").unwrap();
    let (command, _) = rest.split_once("```").unwrap();
    format!("gpu-rollout bundle render {command}")
}

#[test]
fn archive_needs_an_unedited_bundle_and_all_charts() {
    let scene = Scene::new();
    scene.run("bundle render -r eks-gb200-training -d helm -o out");
    let mut seen = scene.seen("bundle archive out -o gap.tar.gz --charts charts");
    seen += &scene.seen("bundle archive out -o gap.tar.gz --charts charts --node-os ubuntu:22.04");
    seen += &scene.seen(ARCHIVE);
    let files = put_charts(&scene);
    fs::remove_file(scene.path().join("charts").join(&files[0])).unwrap();
    put_chart(&scene, "gpu-operator", "v26.3.3");
    fs::write(scene.path().join("charts/page.tgz"), "<!doctype html>").unwrap();
    seen += &scene.seen(ARCHIVE);
    put_charts(&scene);
    let notes = scene.path().join("out/notes.md");
    fs::write(&notes, "mine").unwrap();
    seen += &scene.seen(ARCHIVE);
    assert_eq!(scene.names(), ["charts", "out"], "nothing is written");
    fs::remove_file(notes).unwrap();
    seen += &scene.seen(ARCHIVE);
    seen += &scene.seen(ARCHIVE);
    assert_eq!(scene.names(), ["charts", "gap.tar.gz", "out"]);
    let printed = scene.run(&ARCHIVE.replace("gap.tar.gz", "-")).stdout;
    assert_eq!(printed, fs::read(scene.path().join("gap.tar.gz")).unwrap());
    assert!(scene.run(&format!("{ARCHIVE} --force")).status.success());
    let mut settings = insta::Settings::clone_current();
    settings.add_filter("sha256: [0-9a-f]{64}", "sha256: [digest]");
    settings.add_filter("[0-9]+ files", "[number] files");
    settings.add_filter("[0-9]+ KiB", "[size] KiB");
    settings.bind(|| snapshot!("archive", seen));
}

#[test]
fn archive_deploys_and_renders_without_network() {
    let scene = Scene::new();
    let options = "--registry-mirror registry.example.com/gpu --hook-image registry.example.com/gpu/hook:1 --image-pull-secret pull --system-node-selector pool=system --system-node-toleration dedicated=system:NoSchedule --accelerated-node-toleration spot";
    let render = format!("bundle render -r eks-gb200-training -d helm {options}");
    assert!(scene.run(&format!("{render} -o out")).status.success());
    let files = put_charts(&scene);
    assert!(scene.run(ARCHIVE).status.success());
    let gap = unpack(&scene);
    snapshot!("archive-readme", fs::read_to_string(gap.join("README.md")).unwrap());

    let printed = shell(&scene, &gap, "./bundle/deploy.sh --charts charts --dry-run");
    for file in &files {
        assert!(printed.contains(&format!(" {}/charts/{file} ", gap.display())), "{printed}");
    }
    assert!(!printed.contains("://"), "a chart is not from the archive: {printed}");

    shell(&scene, &gap, &render_command(&gap));
    let charts = format!("{}/charts", gap.display());
    let before = format!(
        "{render} -o before --chart-repository nvidia={charts} --chart-repository eks-charts={charts}"
    );
    assert!(scene.run(&before).status.success());
    shell(&scene, &gap, "diff -r ../../before rendered");
}

/// The cluster reads charts from a registry, which the bundle names before and after.
#[test]
fn archive_for_a_cluster_renders_the_same_bundle() {
    for deployer in ["flux", "argocd", "argocd-helm"] {
        let scene = Scene::new();
        let render = format!(
            "bundle render -r base -d {deployer} -o out --repo https://git.example.com/fleet.git --revision v1 --path a/b --registry-mirror registry.example.com --chart-repository nvidia=oci://registry.example.com/charts"
        );
        assert!(scene.run(&render).status.success(), "{deployer}");
        put_charts(&scene);
        assert!(scene.run(ARCHIVE).status.success(), "{deployer}");
        let gap = unpack(&scene);
        shell(&scene, &gap, &render_command(&gap));
        shell(&scene, &gap, "diff -r bundle rendered");
        let page = fs::read_to_string(gap.join("README.md")).unwrap();
        let push = "helm push charts/gpu-operator-v26.3.3.tgz oci://registry.example.com/charts\n";
        assert!(page.contains(push), "{deployer}: {page}");
    }
}
