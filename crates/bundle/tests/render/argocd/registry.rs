//! Tests of bundles that Argo CD reads from an OCI registry.

use bundle::BundleTree;
use deployer::layout::folders;
use release::PlanOptions;
use serde_json::{Value, json};

use super::{Scene, scene};
use crate::render::crd_schema::Schemas;
use crate::render::hostile::PAYLOADS;
use crate::render::injection::read;
use crate::render::library::bundle_of;

pub(super) const REGISTRY: &str = "oci://registry.example.com/fleet";

/// Returns the bundles of every recipe.
fn scenes() -> impl Iterator<Item = Scene> {
    catalog::recipe_names()
        .map(|name| scene(name, REGISTRY, "clusters/a", &PlanOptions::default()).unwrap())
}

/// Returns a file of a bundle as text.
fn text<'a>(tree: &'a BundleTree, path: &str) -> &'a str {
    std::str::from_utf8(&tree.get(path).unwrap().content).unwrap()
}

#[test]
fn every_object_of_registry_bundle_fits_its_crd() {
    let schemas = Schemas::load("argo-cd");
    for scene in scenes() {
        for object in scene.objects() {
            let name = &object["metadata"]["name"];
            assert_eq!(schemas.judge(&object), [] as [String; 0], "{}: {name}", scene.name);
        }
    }
}

/// Argo CD would clone a source with `ref` from the registry with Git.
#[test]
fn trap_argocd_reads_values_of_other_charts_only_from_git() {
    for scene in scenes() {
        for (folder, release) in folders(&scene.plan) {
            let place = format!("{}: {folder}", scene.name);
            let application = scene.application(&folder);
            assert_eq!(application["spec"].get("sources"), None, "{place}");
            let source = &application["spec"]["source"];
            let files = source["helm"].get("valueFiles");
            if release.kind.upstream().is_some() {
                let values = source["helm"]["values"].as_str().unwrap();
                let values: Value = yaml::from_str(values).unwrap();
                assert_eq!(values, scene.read(&format!("{folder}/values.yaml")), "{place}");
                assert_eq!(files, None, "{place}");
                continue;
            }
            assert_eq!(source["repoURL"], REGISTRY, "{place}");
            assert_eq!(source["targetRevision"], "v1.2.0", "{place}");
            assert_eq!(source["path"], format!("clusters/a/{folder}"), "{place}");
            for file in files.and_then(Value::as_array).into_iter().flatten() {
                let file = file.as_str().unwrap();
                let own = format!("{folder}/{file}");
                let path = file.strip_prefix("../").unwrap_or(&own);
                assert!(scene.tree.get(path).is_some(), "{place}: {file}");
            }
        }
        for project in ["project.yaml", "root-project.yaml"] {
            let repositories = scene.read(project)["spec"]["sourceRepos"].clone();
            assert_eq!(repositories[0], REGISTRY, "{}: {project}", scene.name);
        }
    }
}

/// Argo CD stores the source that it has compared with a JSON merge patch, which drops each `null`.
/// A `valuesObject` with one would always differ from what is stored.
#[test]
fn trap_argocd_values_object_loses_null() {
    let recipe = |text: &str| {
        json!({
            "apiVersion": "gpu-rollout.dev/v1",
            "kind": "Recipe",
            "metadata": {"name": "registry"},
            "cluster": {"gpuNodes": 4},
            "rollout": {"gpuDriver": {"version": "580.126.20"}},
            "components": [
                {"name": "gpu-operator", "version": "v26.3.3"},
                {
                    "name": "queue",
                    "version": "1.2.3",
                    "namespace": "queue",
                    "chart": {"repository": "https://charts.example.com", "name": "queue"},
                    "values": {"affinity": null, "off": false, "texts": [text, {"text": text}]},
                },
            ],
        })
    };
    let mut accepted = 0;
    for payload in PAYLOADS {
        let Ok(loaded) = read(&recipe(payload)) else { continue };
        accepted += 1;
        let tree = bundle_of(&loaded.recipe, "argocd".parse().unwrap(), REGISTRY);
        let folder = tree.files().find_map(|file| file.path.strip_suffix("-queue/values.yaml"));
        let folder = format!("{}-queue", folder.unwrap());
        let application = text(&tree, &format!("apps/{folder}.yaml"));
        let application: Value = yaml::from_str(application).unwrap();
        let helm = &application["spec"]["source"]["helm"];
        assert_eq!(helm.get("valuesObject"), None);
        let copy: Value = yaml::from_str(helm["values"].as_str().unwrap()).unwrap();
        let original: Value =
            yaml::from_str(text(&tree, &format!("{folder}/values.yaml"))).unwrap();
        assert_eq!(copy, original, "{payload:?}");
        assert_eq!(copy.get("affinity"), Some(&Value::Null));
        assert_eq!(copy["texts"], json!([payload, {"text": payload}]));
    }
    assert!(accepted > PAYLOADS.len() / 2, "{accepted}");
}

#[test]
fn readme_of_registry_bundle_says_how_to_push() {
    for scene in scenes() {
        let page = text(&scene.tree, "README.md");
        for part in [
            "gpu-rollout bundle push . oci://registry.example.com/fleet:v1.2.0\n",
            "\n  type: oci\n  url: \"oci://registry.example.com/fleet\"\n",
            "Argo CD 3.1\nor later",
        ] {
            assert!(page.contains(part), "{}: {part}", scene.name);
        }
        assert!(!page.contains("commit"), "{}: nothing is committed", scene.name);
    }
}
