//! A small catalog and recipe for tests.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::catalog::PlanCatalog;
use catalog::CatalogCrd;
use catalog::model::{CatalogComponent, ComponentVersion};
use recipe::model::Recipe;

/// A catalog in memory.
pub struct CatalogFixture {
    /// The components.
    pub components: Vec<CatalogComponent>,
    /// Texts of CRDs by component and path.
    pub files: BTreeMap<(String, String), String>,
}

impl PlanCatalog for CatalogFixture {
    fn component(&self, name: &str) -> Option<&CatalogComponent> {
        self.components.iter().find(|component| component.name == name)
    }

    fn repositories(&self) -> Vec<&str> {
        vec!["jetstack", "nfd", "nvidia"]
    }

    fn crds<'a>(
        &'a self,
        component: &'a CatalogComponent,
        version: &'a ComponentVersion,
        _values: &Map<String, Value>,
        _present: &[&str],
    ) -> Vec<CatalogCrd<'a>> {
        let crd = |path: &'a String| {
            let text = &self.files[&(component.name.clone(), path.clone())];
            CatalogCrd { owner: &component.name, name: path, text }
        };
        version.crds.iter().map(crd).collect()
    }
}

/// Returns a CRD whose schema has text that looks like a Helm template.
pub fn crd(name: &str) -> String {
    format!(
        "---\napiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  annotations:\n    controller-gen.kubebuilder.io/version: v0.18.0\n  name: {name}\nspec:\n  description: 'such as {{{{ .Values.x }}}} or {{{{- y -}}}}'\n"
    )
}

/// Returns a catalog with gpu-operator, the DRA driver, NFD and cert-manager, not in deployment
/// order.
///
/// # Panics
/// The JSON does not fit the types.
pub fn catalog() -> CatalogFixture {
    let component = |value: Value| {
        serde_json::from_value::<CatalogComponent>(value)
            .expect("a component of the fixture fits the type")
    };
    let repository = json!({"name": "nvidia", "url": "https://charts.example.com/nvidia"});
    let components = vec![
        component(json!({
            "name": "nvidia-dra-driver-gpu", "description": "DRA driver", "chart": "nvidia-dra-driver-gpu", "repository": repository,
            "namespace": "nvidia-dra-driver-gpu", "podSecurity": "privileged", "after": ["gpu-operator", "cert-manager"],
            "hooks": {"post": ["settle", "reroll"]}, "defaultVersion": "25.12.0",
            "versions": [{"version": "25.12.0", "crds": ["crds/domains.yaml"]}],
        })),
        component(json!({
            "name": "gpu-operator", "description": "GPU operator", "chart": "gpu-operator", "repository": repository,
            "namespace": "gpu-operator", "podSecurity": "privileged", "after": ["node-feature-discovery"],
            "hooks": {"pre": ["preflight", "hold"], "post": ["settle", "wake", "steer", "drive", "reroll"]}, "defaultVersion": "v26.3.1",
            "versions": [
                {"version": "v25.10.1", "crds": ["crds/policies.yaml"], "bundleValues": {"operator.upgradeCRD": false}},
                {"version": "v26.3.1", "crds": ["crds/policies.yaml", "crds/features.yaml"],
                 "bundleValues": {"operator.upgradeCRD": false}},
            ],
        })),
        component(json!({
            "name": "node-feature-discovery", "description": "NFD", "chart": "node-feature-discovery",
            "repository": {"name": "nfd", "url": "oci://registry.example.com/charts"},
            "namespace": "gpu-operator", "podSecurity": "baseline", "defaultVersion": "0.18.3",
            "versions": [{"version": "0.18.3", "crds": ["crds/features.yaml"]}],
        })),
        component(json!({
            "name": "cert-manager", "description": "cert-manager", "chart": "cert-manager",
            "repository": {"name": "jetstack", "url": "https://charts.example.com/jetstack/"},
            "namespace": "cert-manager", "podSecurity": "restricted", "defaultVersion": "v1.17.2",
            "versions": [{"version": "v1.17.2", "bundleValues": {"crds.enabled": true}}],
        })),
    ];
    let files = [
        ("gpu-operator", "crds/policies.yaml", crd("clusterpolicies.nvidia.com")),
        ("gpu-operator", "crds/features.yaml", crd("nodefeatures.nfd.k8s-sigs.io")),
        ("node-feature-discovery", "crds/features.yaml", crd("nodefeatures.nfd.k8s-sigs.io")),
        ("nvidia-dra-driver-gpu", "crds/domains.yaml", crd("computedomains.resource.nvidia.com")),
    ];
    let files = files
        .into_iter()
        .map(|(component, path, text)| ((component.to_owned(), path.to_owned()), text))
        .collect();
    CatalogFixture { components, files }
}

/// Returns a recipe from JSON; the keys of `overlay` replace those of the default recipe at the top
/// level.
///
/// # Panics
/// The JSON does not fit the types.
pub fn recipe(overlay: Value) -> Recipe {
    let mut value = json!({
        "apiVersion": "gpu-rollout.dev/v1", "kind": "Recipe", "metadata": {"name": "test"}, "cluster": {"gpuNodes": 16},
        "rollout": {"gpuDriver": {"version": "580.126.20", "policy": {"maxParallelUpgrades": 4, "maxUnavailable": "25%"}, "perNode": "12m"}},
        "components": [
            {"name": "nvidia-dra-driver-gpu", "version": "25.12.0", "values": {"nvidiaDriverRoot": "/run/nvidia/driver"}},
            {"name": "gpu-operator", "version": "v26.3.1", "values": {"toolkit": {"version": "v1.19.0"}}},
        ],
    });
    if let (Value::Object(map), Value::Object(overlay)) = (&mut value, overlay) {
        map.extend(overlay);
    }
    serde_json::from_value(value).expect("the recipe of the test fits the type")
}
