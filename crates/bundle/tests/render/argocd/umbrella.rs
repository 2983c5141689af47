//! Tests of the umbrella chart: with real Helm, it creates the same Applications as `argocd`
//! writes.

use std::path::Path;
use std::process::Command;

use bundle::write;
use serde_json::Value;

use super::{REPOSITORY, scenes};
use crate::render::helm::{helm, program};
use crate::render::library;
use crate::render::tools::tool;

/// The bundle of a recipe for `argocd-helm`, on disk.
fn written(name: &str, directory: &Path) -> std::path::PathBuf {
    let bundle = directory.join("bundle");
    write(&library::bundle(name, "argocd-helm".parse().unwrap()), &bundle, false).unwrap();
    bundle
}

const SETTINGS: [&str; 3] = [
    "--set=repoURL=https://git.example.com/fleet.git",
    "--set=targetRevision=v1.2.0",
    "--set=path=/clusters/a/",
];

fn by_name(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| format!("{}/{}", object["kind"], object["metadata"]["name"]));
    objects
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn umbrella_makes_same_applications_with_helm_3() {
    each(&tool("helm3"));
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn umbrella_makes_same_applications_with_helm_4() {
    each(&tool("helm4"));
}

fn each(program: &Path) {
    assert!(SETTINGS[0].ends_with(REPOSITORY));
    for (name, scene) in catalog::recipe_names().zip(scenes()) {
        let directory = tempfile::tempdir().unwrap();
        let bundle = written(name, directory.path());
        let mut arguments = vec!["template", "gpu", ".", "--namespace", "argocd"];
        arguments.extend(SETTINGS);
        let found: Vec<Value> =
            serde_yaml::from_multiple(&helm(program, &bundle, &arguments)).unwrap();
        let is_of_the_root = |object: &Value| {
            let name = object["metadata"]["name"].as_str().unwrap();
            name == scene.name && object["kind"] == "Application"
                || name == format!("{}-root", scene.name)
        };
        let expected: Vec<Value> =
            scene.objects().into_iter().filter(|object| !is_of_the_root(object)).collect();
        assert_eq!(by_name(found), by_name(expected), "{name}");
        let mut arguments = vec!["lint", "--strict", "."];
        arguments.extend(SETTINGS);
        helm(program, &bundle, &arguments);
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn trap_argocd_helm_the_package_holds_no_component() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = written("base", directory.path());
    helm(
        program(),
        &bundle,
        &["package", ".", "--destination", directory.path().to_str().unwrap()],
    );
    let package = std::fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().path());
    let package = package
        .into_iter()
        .find(|path| path.extension().is_some_and(|extension| extension == "tgz"))
        .unwrap();
    let shown = helm(program(), &bundle, &["show", "all", package.to_str().unwrap()]);
    assert!(shown.contains("repoURL"), "{shown}");
    let files = Command::new("tar").arg("tzf").arg(&package).output().unwrap();
    let files = String::from_utf8(files.stdout).unwrap();
    assert!(files.contains("base/templates/project.yaml"), "{files}");
    assert!(
        files.lines().all(|file| !file.contains("/0") || file.starts_with("base/templates/")),
        "{files}"
    );
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn trap_argocd_helm_missing_values_are_named() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = written("base", directory.path());
    let run = |settings: &[&str]| {
        let output = Command::new(program())
            .current_dir(&bundle)
            .args(["template", "gpu", "."])
            .args(settings)
            .output()
            .unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8(text).unwrap())
    };
    for (settings, expected) in [
        (&["--set=targetRevision=main"][..], "repoURL is empty"),
        (&["--set=repoURL=https://git.example.com/a"], "targetRevision is empty"),
        (
            &["--set=repoURL=oci://example.com/a", "--set=targetRevision=main"],
            "repoURL is an OCI registry",
        ),
        (&["--set=repoUrl=https://git.example.com/a"], "repoUrl"),
        (&["--set=repoURL=https://git.example.com/a", "--set=targetRevision=1"], "targetRevision"),
    ] {
        let (succeeded, text) = run(settings);
        assert!(!succeeded && text.contains(expected), "{settings:?}: {text}");
    }
    let (succeeded, text) = run(&[
        "--set=repoURL=https://git.example.com/a",
        "--set=targetRevision=main",
        "--set-literal=path={{ .Release.Name }}",
    ]);
    assert!(
        succeeded && text.contains("\"{{ .Release.Name }}/001-gpu-rollout-namespaces\""),
        "{text}"
    );
    let (succeeded, text) = run(&[
        "--set=repoURL=https://git.example.com/a",
        "--set=targetRevision=main",
        "--set=createProject=false",
    ]);
    assert!(succeeded && !text.contains("AppProject"), "{text}");
}
