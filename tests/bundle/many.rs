//! `gpu-rollout bundle render` with several recipes and deployers at once.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bundle::verify;
use serde_json::Value;

use super::command::{Scene, snapshot};

/// Returns a user's recipe that extends one of the library.
fn mine(name: &str, nodes: u32) -> String {
    format!(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {{name: {name}}}\nextends: [base]\ncluster: {{gpuNodes: {nodes}}}\n"
    )
}

/// Creates a directory with recipes, one of them broken, and with other files.
fn fleet() -> Scene {
    let scene = Scene::new();
    let fleet = scene.path().join("fleet");
    fs::create_dir_all(fleet.join("parts")).unwrap();
    for (file, text) in [
        ("b.yaml", mine("berlin", 4)),
        ("a.yml", mine("aachen", 8)),
        ("c.yaml", mine("celle", 2).replace("cluster", "clutser")),
        ("notes.md", "none".to_owned()),
        ("parts/common.yaml", "nothing".to_owned()),
    ] {
        fs::write(fleet.join(file), text).unwrap();
    }
    scene
}

/// Returns the path and the content of every file below a directory.
fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else {
            found.insert(path.to_str().unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn one_failing_recipe_does_not_hide_the_others() {
    let scene = fleet();
    let mut seen = scene.seen("bundle render -r fleet -r kind-dev -d helmfile -d helm -o out");
    seen += &scene.seen(
        "bundle render -r fleet/b.yaml -r fleet/a.yml -d helm -o out --set cluster.gpuNodes=3",
    );
    // The summary of one bundle was in the plural.
    fs::create_dir(scene.path().join("single")).unwrap();
    fs::write(scene.path().join("single/d.yaml"), mine("dresden", 4)).unwrap();
    seen += &scene.seen("bundle render -r single -d helm -o out");
    snapshot!("many-text", seen);
    for place in [
        "aachen/helm",
        "aachen/helmfile",
        "berlin/helm",
        "berlin/helmfile",
        "kind-dev/helm",
        "kind-dev/helmfile",
    ] {
        assert!(verify(&scene.path().join("out").join(place)).unwrap().is_empty(), "{place}");
    }
    assert!(!scene.path().join("out/celle").exists());
}

#[test]
fn programs_get_the_results_as_json() {
    let scene = fleet();
    let output = scene.run("bundle render -r fleet -d helm -o out --format json");
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(1), &b""[..]));
    let mut entries: Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<&Value> =
        entries.as_array().unwrap().iter().map(|entry| &entry["recipe"]).collect();
    assert_eq!(names, ["aachen".into(), "berlin".into(), Value::Null].iter().collect::<Vec<_>>());
    for entry in entries.as_array_mut().unwrap() {
        // The details of each release are also in `bundle-info.yaml`, which has snapshots.
        let releases: Vec<Value> = entry["releases"]
            .as_array()
            .unwrap()
            .iter()
            .map(|release| release["name"].clone())
            .collect();
        entry["releases"] = Value::Array(releases);
    }
    snapshot!("many-json", format!("{entries:#}"));
    let output = scene.run("bundle render -r base -d helm -o one --format json");
    let entries: Vec<Value> = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((entries.len(), &entries[0]["directory"]), (1, &Value::from("one")));
}

#[test]
fn conflicting_renders_are_refused() {
    let scene = fleet();
    fs::write(scene.path().join("fleet/c.yaml"), mine("berlin", 16)).unwrap();
    fs::create_dir(scene.path().join("empty")).unwrap();
    let mut seen = scene.seen("bundle render -r fleet -d helm -o twins");
    seen += &scene.seen("bundle render -r empty/ -d helm -o out");
    seen += &scene.seen("bundle render -r - -r - -d helm -o out");
    assert!(scene.run("bundle render -r base -d helm -o bundle").status.success());
    seen += &scene
        .seen("bundle render -r base -d all -o bundle --repo https://git.example.com/fleet.git");
    seen += &scene.seen("bundle render -r fleet/a.yml -d helm -o twins");
    seen += &scene.seen("bundle render -r fleet -d all -o out");
    seen += &scene.seen(
        "bundle render -r fleet -d argocd-helm -d helm -o out --repo oci://registry.example.com/fleet",
    );
    snapshot!("many-refusals", seen);
    assert_eq!(scene.names(), ["bundle", "empty", "fleet", "out", "twins"]);
    assert!(!scene.path().join("twins/berlin").exists());
}

#[test]
fn many_at_once_equal_one_after_another() {
    let scene = fleet();
    fs::remove_file(scene.path().join("fleet/c.yaml")).unwrap();
    let repository = "--repo https://git.example.com/fleet.git";
    assert!(
        scene
            .run(&format!("bundle render -r fleet -d all -o many {repository} --path clusters"))
            .status
            .success()
    );
    for name in ["aachen", "berlin"] {
        let file = if name == "aachen" { "a.yml" } else { "b.yaml" };
        for deployer in deployer::names() {
            let place = format!("{name}/{deployer}");
            let arguments = format!(
                "bundle render -r fleet/{file} -d {deployer} -o one/{place} {repository} --path clusters/{place}"
            );
            assert!(scene.run(&arguments).status.success(), "{arguments}");
            let (many, one) =
                (scene.path().join("many").join(&place), scene.path().join("one").join(&place));
            let inside = |root: &Path| -> BTreeMap<String, Vec<u8>> {
                files(root)
                    .into_iter()
                    .map(|(path, content)| {
                        (path[root.to_str().unwrap().len()..].to_owned(), content)
                    })
                    .collect()
            };
            assert_eq!(inside(&many), inside(&one), "{place}");
        }
    }
}

#[test]
fn directory_gives_same_paths_for_any_recipe_count() {
    let scene = fleet();
    for file in ["b.yaml", "c.yaml"] {
        fs::remove_file(scene.path().join("fleet").join(file)).unwrap();
    }
    assert!(scene.run("bundle render -r fleet -d helm -o out").status.success());
    assert!(scene.path().join("out/aachen/helm/deploy.sh").exists());
}
