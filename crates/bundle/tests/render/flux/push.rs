//! Tests of `push.sh` with fake Helm and Flux programs that only record their arguments.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use bundle::write;
use tempfile::TempDir;

use crate::render::library;

/// `helm show` finds the charts in `there`; `helm package` records its arguments.
const HELM: &str = r#"#!/bin/sh
here=$(dirname "$0")
printf 'helm' >> "$here/calls"
for word in "$@"; do printf ' <%s>' "$word" >> "$here/calls"; done
printf '\n' >> "$here/calls"
case $1 in
  show) grep -qxF "$3" "$here/there" ;;
  package) (cd "$2" && find . -maxdepth 1 -type f | sort | sed 's/^/  packed /') >> "$here/calls" ;;
  push) ! grep -qx push "$here/failing" ;;
esac
"#;
const FLUX: &str = r#"#!/bin/sh
here=$(dirname "$0")
printf 'flux' >> "$here/calls"
for word in "$@"; do printf ' <%s>' "$word" >> "$here/calls"; done
printf '\n' >> "$here/calls"
[ "$1" != push ] || (cd "$5" && find . -name kustomization.yaml | sed 's/^/  pushed /') >> "$here/calls"
"#;

struct Scene {
    directory: TempDir,
    bundle: PathBuf,
}

impl Scene {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("it's a/bundle");
        write(
            &library::bundle_from("eks-gb200-training", "flux".parse().unwrap(), super::URLS[1]),
            &bundle,
            false,
        )
        .unwrap();
        let scene = Self { directory, bundle };
        for (name, text) in
            [("helm", HELM), ("flux", FLUX), ("calls", ""), ("there", ""), ("failing", "")]
        {
            fs::write(scene.path(name), text).unwrap();
            fs::set_permissions(scene.path(name), fs::Permissions::from_mode(0o755)).unwrap();
        }
        fs::create_dir(scene.path("tmp")).unwrap();
        scene
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.run_script(&self.bundle.join("push.sh"), arguments)
    }

    fn run_script(&self, script: &Path, arguments: &[&str]) -> Output {
        let mut command = Command::new("sh");
        command.arg(script).args(arguments).current_dir("/");
        command
            .env("HELM", self.path("helm"))
            .env("FLUX", self.path("flux"))
            .env("TMPDIR", self.path("tmp"));
        command.output().unwrap()
    }

    /// Returns the recorded calls, with a placeholder for the script's temporary directory, which
    /// must be removed.
    fn calls(&self) -> String {
        assert_eq!(fs::read_dir(self.path("tmp")).unwrap().count(), 0, "nothing is left over");
        let calls = fs::read_to_string(self.path("calls")).unwrap();
        let prefix = format!("{}/", self.path("tmp").display());
        let mut text = String::new();
        for (index, part) in calls.split(&prefix).enumerate() {
            let rest = if index == 0 {
                part
            } else {
                part.trim_start_matches(|character: char| {
                    character.is_ascii_alphanumeric() || character == '.'
                })
            };
            text.extend([if index == 0 { "" } else { "STAGE" }, rest]);
        }
        text
    }
}

#[test]
fn push_through_link_sends_its_own_bundle() {
    let scene = Scene::new();
    assert!(scene.run(&[]).status.success());
    let direct = scene.calls();
    fs::write(scene.path("calls"), "").unwrap();
    symlink(scene.bundle.join("push.sh"), scene.path("link")).unwrap();
    let output = scene.run_script(&scene.path("link"), &[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(scene.calls(), direct);
}

#[test]
fn push_sends_each_chart_once_before_bundle() {
    let scene = Scene::new();
    let output = scene.run(&[]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    // The hook chart has its own version, and a digest that every edit there changes.
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"0\.1\.0\+d[0-9a-f]{12}", "[version of charts/gpu-rollout]");
    settings.bind(|| insta::assert_snapshot!(scene.calls(), @r#"
    helm <version>
    flux <--version>
    helm <show> <chart> <oci://registry.example.com/gpu/charts/gpu-rollout-namespaces> <--version> <1.0.0+d4273ea3388cc>
    helm <package> <STAGE/gpu-rollout-namespaces> <--destination> <STAGE>
      packed ./Chart.yaml
    helm <push> <STAGE/gpu-rollout-namespaces-1.0.0+d4273ea3388cc.tgz> <oci://registry.example.com/gpu/charts>
    helm <show> <chart> <oci://registry.example.com/gpu/charts/gpu-operator-crds> <--version> <26.7.0+d9cd78a1bd1e3>
    helm <package> <STAGE/gpu-operator-crds> <--destination> <STAGE>
      packed ./Chart.yaml
    helm <push> <STAGE/gpu-operator-crds-26.7.0+d9cd78a1bd1e3.tgz> <oci://registry.example.com/gpu/charts>
    helm <show> <chart> <oci://registry.example.com/gpu/charts/gpu-rollout> <--version> <[version of charts/gpu-rollout]>
    helm <package> <STAGE/gpu-rollout> <--destination> <STAGE>
      packed ./.helmignore
      packed ./Chart.yaml
      packed ./README.md
      packed ./values.schema.json
      packed ./values.yaml
    helm <push> <STAGE/gpu-rollout-[version of charts/gpu-rollout].tgz> <oci://registry.example.com/gpu/charts>
    helm <show> <chart> <oci://registry.example.com/gpu/charts/nvidia-dra-driver-gpu-crds> <--version> <25.12.0+d742923e1a5d6>
    helm <package> <STAGE/nvidia-dra-driver-gpu-crds> <--destination> <STAGE>
      packed ./Chart.yaml
    helm <push> <STAGE/nvidia-dra-driver-gpu-crds-25.12.0+d742923e1a5d6.tgz> <oci://registry.example.com/gpu/charts>
    flux <push> <artifact> <oci://registry.example.com/gpu:main> <--path> <STAGE/bundle> <--source> <gpu-rollout> <--revision> <main> <--reproducible>
      pushed ./bundles/eks-gb200-training/flux/kustomization.yaml
    "#));
}

#[test]
fn push_leaves_an_existing_chart_alone() {
    let scene = Scene::new();
    fs::write(scene.path("there"), "oci://registry.example.com/gpu/charts/gpu-rollout\n").unwrap();
    let output = scene.run(&["--plain-http", "--tag=v1"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let calls = scene.calls();
    assert!(
        !calls.contains("gpu-rollout-0.1.0")
            && calls.contains("<--plain-http>")
            && calls.contains("<--insecure-registry>"),
        "{calls}"
    );
    assert!(calls.contains("<oci://registry.example.com/gpu:v1>"), "{calls}");
}

#[test]
fn push_failure_stops_before_the_bundle() {
    let scene = Scene::new();
    fs::write(scene.path("failing"), "push\n").unwrap();
    let output = scene.run(&[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(
        String::from_utf8(output.stderr)
            .unwrap()
            .starts_with("error: cannot push chart gpu-rollout-namespaces\nhint: ")
    );
    assert!(!scene.calls().contains("artifact"));
    for arguments in [&["--tag"][..], &["--tga", "x"], &["x"], &["--tag="]] {
        assert_eq!(scene.run(arguments).status.code(), Some(2), "{arguments:?}");
    }
}

#[test]
fn the_script_is_clean_for_shellcheck() {
    let scene = Scene::new();
    // Not every machine has it; the lint step of the continuous integration does.
    let Ok(output) = Command::new("shellcheck")
        .args(["--shell=sh", "push.sh"])
        .current_dir(&scene.bundle)
        .output()
    else {
        return;
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
