//! What single recipes of the library must and must not deploy.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use recipe::load::load;
use recipe::model::Recipe;
use recipe::read::FileSystemReader;
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::{Value, json};

fn recipe(name: &str) -> Recipe {
    load(name, &[], &mut FileSystemReader).unwrap().recipe
}

fn has(recipe: &Recipe, component: &str) -> bool {
    recipe.components.iter().any(|known| known.name == component)
}

fn value(name: &str, pointer: &str) -> Option<Value> {
    let recipe = recipe(name);
    let operator = recipe.components.iter().find(|known| known.name == "gpu-operator").unwrap();
    Value::Object(operator.values.clone()).pointer(pointer).cloned()
}

/// On node pools without AKS's own driver, the image has no toolkit for the operator's driver.
#[test]
fn aks_recipe_leaves_the_toolkit_to_the_operator() {
    assert_eq!(value("aks-h100-inference", "/toolkit/enabled"), None);
    assert_eq!(value("aks-h100-inference", "/driver/enabled"), None);
}

/// Device plugins before 0.19.3 take the devices of EFA.
#[test]
fn recipes_with_efa_have_a_compatible_operator() {
    for name in catalog::recipe_names() {
        let recipe = recipe(name);
        let operator = recipe.components.iter().find(|known| known.name == "gpu-operator");
        let Some(operator) = operator.filter(|_| has(&recipe, "aws-efa")) else { continue };
        let known = catalog::component("gpu-operator").unwrap();
        let version = operator.version.as_deref().unwrap();
        assert!(known.compare(version, "v26.3.3").unwrap().is_ge(), "{name}: {version}");
    }
}

/// The chart requires an instance type of a list, and its own list is older than these instances.
#[test]
fn efa_runs_on_the_gpu_nodes_of_its_recipes() {
    let recipes: [(&str, &[&str]); 3] = [
        ("eks-gb200-inference", &["p6e-gb200.36xlarge"]),
        ("eks-gb200-training", &["p6e-gb200.36xlarge"]),
        ("eks-h100-training", &["p5.48xlarge", "p5.4xlarge"]),
    ];
    let with_efa = catalog::recipe_names().filter(|name| has(&recipe(name), "aws-efa"));
    assert_eq!(with_efa.collect::<Vec<_>>(), recipes.map(|(name, _)| name));
    let known = catalog::component("aws-efa").unwrap();
    for (name, instances) in recipes {
        let plan = plan(&recipe(name), &EmbeddedCatalog, &PlanOptions::default()).unwrap();
        let efa = plan.releases.iter().find(|release| release.name == "aws-efa").unwrap();
        let efa = efa.kind.upstream().unwrap();
        let defaults = known.defaults(known.version(&efa.version));
        let value = |path: &str| {
            let own = catalog::lookup(&efa.values, path);
            own.or_else(|| catalog::lookup(defaults, path)).unwrap()
        };
        assert_eq!(
            *value("supportedInstanceLabels.keys"),
            json!(["node.kubernetes.io/instance-type"]),
            "{name}"
        );
        assert_eq!(*value("supportedInstanceLabels.values"), json!(instances), "{name}");
        assert_eq!(
            *value("tolerations"),
            json!([{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]),
            "{name}: GPU nodes often have this taint"
        );
    }
}

/// GKE runs critical pods outside kube-system only in namespaces with such a quota.
#[test]
fn gke_recipe_brings_quota_for_critical_pods() {
    let objects = value("gke-h100-training", "/extraObjects").unwrap();
    let quota = &objects[0];
    assert_eq!(quota["kind"], "ResourceQuota");
    assert_eq!(quota["metadata"].get("namespace"), None, "it belongs into the operator's own");
    let scope = &quota["spec"]["scopeSelector"]["matchExpressions"][0];
    assert_eq!(scope["scopeName"], "PriorityClass");
    assert_eq!(scope["operator"], "In");
    assert_eq!(
        scope["values"],
        serde_json::json!(["system-node-critical", "system-cluster-critical"])
    );
}

/// The only components of the library that could use it have their webhooks switched off.
#[test]
fn no_recipe_deploys_unused_cert_manager() {
    for name in catalog::recipe_names() {
        assert!(!has(&recipe(name), "cert-manager"), "{name}");
    }
    assert!(has(&recipe("eks-gb200-training"), "aws-efa"));
}
