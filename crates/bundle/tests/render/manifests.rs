//! Bundles with manifests: the recipe's own templates.

use bundle::{BundleTree, verify, write};
use deployer::{DEPLOYERS, Deployer};
use parity::read_facts;
use serde_json::{Value, json};

use super::injection::read;
use super::library::{REPOSITORY, bundle_of};
use super::parity::files;

/// Returns the GPU Operator with one manifest and its values.
fn operator(template: &str, values: &Value) -> Value {
    json!({
        "name": "gpu-operator",
        "version": "v26.3.3",
        "manifests": {"own.yaml": {"when": "after", "template": template}},
        "manifestValues": values,
    })
}

fn rendered(components: &[Value], deployer: Deployer) -> BundleTree {
    let recipe = json!({
        "apiVersion": "gpu-rollout.dev/v1",
        "kind": "Recipe",
        "metadata": {"name": "manifests"},
        "cluster": {"gpuNodes": 4},
        "rollout": {"gpuDriver": {"version": "580.126.20"}},
        "components": components,
    });
    bundle_of(&read(&recipe).unwrap().recipe, deployer, REPOSITORY)
}

/// Returns `Chart.yaml` of the manifests, which has the version.
fn chart(tree: &BundleTree) -> String {
    let is_it = |path: &str| path.ends_with("-gpu-operator-manifests/Chart.yaml");
    let file = tree.files().find(|file| is_it(&file.path)).unwrap();
    String::from_utf8(file.content.to_vec()).unwrap()
}

/// Regression: a hook has only the values of manifests, and a changed template did not change them.
#[test]
fn changed_manifest_fires_the_hook() {
    let (before, after) = ("kind: ConfigMap", "kind: ConfigMap\ndata: {}");
    for deployer in DEPLOYERS {
        let trigger = |template: &str| {
            let tree = rendered(&[operator(template, &json!({"text": "x"}))], *deployer);
            let facts = read_facts(&files(&tree)).unwrap();
            facts.releases["gpu-operator-post"].hook.as_ref().unwrap().trigger.clone()
        };
        assert_eq!(trigger(before), trigger(before), "{deployer}");
        assert_ne!(trigger(before), trigger(after), "{deployer}");
    }
}

/// Regression: Flux keeps a chart of the same version, and Helm merges new values over those in it.
/// A removed value stayed in effect.
#[test]
fn trap_flux_keeps_values_that_a_cached_chart_has() {
    let flux: Deployer = "flux".parse().unwrap();
    let version = |values: &Value| chart(&rendered(&[operator("kind: ConfigMap", values)], flux));
    let (before, after) = (json!({"kept": "x", "removed": "x"}), json!({"kept": "x"}));
    assert_eq!(version(&before), version(&before));
    assert_ne!(version(&before), version(&after));
}

/// Regression: `bundle verify` took every release whose name starts like that of a component for a
/// part of the component, which its hook must share.
#[test]
fn component_named_after_another_one_is_not_its_part() {
    let quota = json!({
        "name": "gpu-operator-quota",
        "namespace": "quota",
        "manifests": {"own.yaml": {"when": "after", "template": "kind: ResourceQuota"}},
        "manifestValues": {"text": "x"},
    });
    let components = [operator("kind: ConfigMap", &json!({"text": "x"})), quota];
    for deployer in DEPLOYERS {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        write(&rendered(&components, *deployer), &output, false).unwrap();
        assert_eq!(verify(&output).unwrap(), [], "{deployer}");
    }
}
