use std::collections::BTreeMap;

use serde_json::json;

use super::*;
use crate::contract::yaml;

#[test]
fn every_component_is_readable() {
    assert!(component_names().count() <= SLOTS);
    for name in component_names() {
        let component = component(name).unwrap();
        assert_eq!(component.name, name);
        assert!(component.version(&component.default_version).is_some(), "{name}: its default version is not in the catalog");
        for after in &component.after {
            assert!(super::component(after).is_some(), "{name} comes after `{after}`, which is not in the catalog");
        }
        for version in &component.versions {
            assert_eq!(component.own_crds(version).len(), version.crds.len(), "{name} {}: a CRD file is missing", version.version);
            assert!(!version.keys_complete || component.default_values(version).is_some(), "{name} {}", version.version);
        }
    }
}

#[test]
fn default_values_are_fresh() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("bundles/components");
    for name in component_names() {
        for version in &component(name).unwrap().versions {
            let folder = root.join(name).join(&version.version);
            let Ok(text) = std::fs::read_to_string(folder.join("values.yaml")) else { continue };
            let values: Value = yaml::from_str(&text).unwrap();
            let expected = format!("{}\n", serde_json::to_string(&values).unwrap());
            let file = folder.join("values.json");
            if std::env::var_os("UPDATE").is_some() {
                std::fs::write(&file, &expected).unwrap();
            }
            let found = std::fs::read_to_string(&file).unwrap_or_default();
            assert!(found == expected, "{} is stale: run the tests with UPDATE=1", file.display());
        }
    }
}

#[test]
fn each_crd_has_one_owner() {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for name in component_names() {
        let component = component(name).unwrap();
        for version in &component.versions {
            for crd in component.own_crds(version) {
                for defined in crd_names(crd.text) {
                    let owner = *owners.entry(defined.clone()).or_insert(name);
                    assert_eq!(owner, name, "{defined} has two owners");
                }
            }
        }
    }
    assert_eq!(owners.get("clusterpolicies.nvidia.com"), Some(&"gpu-operator"));
    assert_eq!(owners.get("computedomains.resource.nvidia.com"), Some(&"nvidia-dra-driver-gpu"));
    assert_eq!(owners.get("nodefeatures.nfd.k8s-sigs.io"), Some(&"node-feature-discovery"));
}

fn crd_names(text: &str) -> Vec<String> {
    let documents = text.split("\n---\n").filter(|document| document.contains("kind: CustomResourceDefinition"));
    documents
        .map(|document| {
            yaml::from_str::<Value>(document.trim_start_matches("---")).unwrap()["metadata"]["name"].as_str().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn crds_of_a_sub_chart_come_along_unless_their_owner_does() {
    let operator = component("gpu-operator").unwrap();
    let version = operator.version("v26.3.1").unwrap();
    let owners = |values: Value, present: &[&str]| -> Vec<&str> {
        operator.crds(version, values.as_object().unwrap(), present).into_iter().map(|crd| crd.owner).collect()
    };
    assert_eq!(owners(json!({}), &["gpu-operator"]), ["gpu-operator", "gpu-operator", "node-feature-discovery"]);
    assert_eq!(owners(json!({"nfd": {"enabled": false}}), &["gpu-operator"]), ["gpu-operator", "gpu-operator"]);
    assert_eq!(owners(json!({}), &["gpu-operator", "node-feature-discovery"]), ["gpu-operator", "gpu-operator"]);
}

fn keys_of(component: &Component, version: &str) -> keys::Keys {
    let version = component.version(version).unwrap();
    keys::Keys::of(version, &component.default_values(version).unwrap()).unwrap()
}

#[test]
fn keys_know_what_the_chart_reads() {
    let operator = component("gpu-operator").unwrap();
    let keys = keys_of(operator, "v26.3.1");
    assert_eq!(keys.places_of("maxParallelUpgrades"), [["driver", "upgradePolicy", "maxParallelUpgrades"]]);
    assert!(keys.child("driver").unwrap().child("useOpenKernelModules").is_none());
    assert!(keys.child("dcgmExporter").unwrap().child("config").unwrap().is_open());
    assert!(keys.child("daemonsets").unwrap().child("labels").unwrap().is_open());
}
