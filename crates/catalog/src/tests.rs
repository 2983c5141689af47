use std::collections::BTreeMap;

use serde_json::json;

use super::*;

#[test]
fn every_component_is_readable() {
    assert!(component_names().count() <= SLOTS);
    let mut repositories: BTreeMap<&str, &str> = BTreeMap::new();
    for name in component_names() {
        let component = component(name).unwrap();
        assert_eq!(component.name, name);
        assert!(
            component.version(&component.default_version).is_some(),
            "{name}: its default version is not in the catalog"
        );
        for after in &component.after {
            assert!(
                super::component(after).is_some(),
                "{name} comes after `{after}`, which is not in the catalog"
            );
        }
        assert!(!component.versions.is_empty());
        for version in &component.versions {
            let repository = component.repository_in(&version.version);
            let url = *repositories.entry(&repository.name).or_insert(&repository.url);
            assert_eq!(
                url, repository.url,
                "the name {} stands for two repositories",
                repository.name
            );
            let crds = version
                .crds
                .iter()
                .chain(version.optional_crds.iter().flat_map(|optional| &optional.crds));
            let crds = crds.chain(version.custom_resources.iter().map(|resource| &resource.crd));
            for crd in crds {
                let path = format!("components/{name}/{}/{crd}", version.version);
                assert!(file(&path).is_some(), "{path} is missing");
            }
            assert_eq!(
                component.read_keys(version).is_some(),
                component.default_values(version).is_some(),
                "{name} {}",
                version.version
            );
            for shared in &version.shared_crds {
                let owner = super::component(&shared.component).unwrap().version(&shared.version);
                assert!(
                    owner.is_some_and(|owner| !owner.crds.is_empty()),
                    "{name}: {} {}",
                    shared.component,
                    shared.version
                );
            }
            assert!(
                version.nested.iter().all(|nested| super::component(&nested.component).is_some()
                    && !nested.conditions.is_empty())
            );
        }
    }
}

/// The versions of NVIDIA's charts that clusters run, and NFD's that these charts contain.
#[test]
fn catalog_has_the_versions_of_nvidias_charts() {
    let expected: [(&str, &[&str]); 5] = [
        ("gpu-operator", &["v25.10.1", "v26.3.1", "v26.3.2", "v26.3.3", "v26.7.0"]),
        ("network-operator", &["24.1.1", "24.7.1", "25.1.0", "26.1.2", "26.4.1"]),
        ("nvidia-device-plugin", &["0.17.4", "0.18.2", "0.19.3", "0.20.0"]),
        ("nvidia-dra-driver-gpu", &["25.8.1", "25.12.0", "0.4.0", "0.4.1"]),
        ("node-feature-discovery", &["0.18.2", "0.18.3", "0.19.0"]),
    ];
    for (name, versions) in expected {
        let component = component(name).unwrap();
        let known: Vec<&str> =
            component.versions.iter().map(|version| version.version.as_str()).collect();
        assert_eq!(known, versions, "{name}");
        for version in &component.versions {
            assert!(component.default_values(version).is_some(), "{name} {}", version.version);
        }
    }
}

#[test]
fn default_values_are_fresh() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/components");
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

/// What a check needs of a schema: without texts for people and defaults.
fn trimmed(schema: &Value) -> Value {
    match schema {
        Value::Object(map) => {
            let is_kept = |key: &str, value: &Value| match key {
                "description" => !value.is_string(),
                "default" => value.is_object(),
                _ => {
                    !key.starts_with("x-kubernetes-list-") && !key.starts_with("x-kubernetes-map-")
                }
            };
            let kept = map.iter().filter(|(key, value)| is_kept(key, value));
            Value::Object(kept.map(|(key, value)| (key.clone(), trimmed(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(trimmed).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => schema.clone(),
    }
}

#[test]
fn schemas_are_fresh() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../bundles/components");
    for component in component_names().filter_map(component) {
        for version in &component.versions {
            let folder = root.join(&component.name).join(&version.version);
            for resource in &version.custom_resources {
                let crd: Value =
                    yaml::from_str(&std::fs::read_to_string(folder.join(&resource.crd)).unwrap())
                        .unwrap();
                assert_eq!(crd["spec"]["names"]["kind"], resource.kind);
                let served = &crd["spec"]["versions"][0];
                assert_eq!(
                    format!(
                        "{}/{}",
                        crd["spec"]["group"].as_str().unwrap(),
                        served["name"].as_str().unwrap()
                    ),
                    resource.api_version
                );
                let schema = trimmed(&served["schema"]["openAPIV3Schema"]["properties"]["spec"]);
                let expected = format!("{}\n", serde_json::to_string(&schema).unwrap());
                let file = folder.join("schemas").join(format!("{}.json", resource.kind));
                if std::env::var_os("UPDATE").is_some() {
                    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
                    std::fs::write(&file, &expected).unwrap();
                }
                let found = std::fs::read_to_string(&file).unwrap_or_default();
                assert!(
                    found == expected,
                    "{} is stale: run the tests with UPDATE=1",
                    file.display()
                );
                if std::env::var_os("UPDATE").is_none() {
                    assert_eq!(component.schema(version, resource), Some(schema));
                }
            }
        }
    }
}

#[test]
fn each_crd_has_one_owner() {
    let mut owners: BTreeMap<String, &str> = BTreeMap::new();
    for name in component_names() {
        let component = component(name).unwrap();
        for version in &component.versions {
            for path in version
                .crds
                .iter()
                .chain(version.optional_crds.iter().flat_map(|optional| &optional.crds))
            {
                for defined in crd_names(
                    file(&format!("components/{name}/{}/{path}", version.version)).unwrap(),
                ) {
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
    let documents = text
        .split("\n---\n")
        .filter(|document| document.contains("kind: CustomResourceDefinition"));
    documents
        .map(|document| {
            yaml::from_str::<Value>(document.trim_start_matches("---")).unwrap()["metadata"]["name"]
                .as_str()
                .unwrap()
                .to_owned()
        })
        .collect()
}

#[test]
fn sub_chart_crds_come_unless_owner_brings_them() {
    let operator = component("gpu-operator").unwrap();
    let version = operator.version("v26.3.1").unwrap();
    let owners = |values: Value, present: &[&str]| -> Vec<&str> {
        operator
            .crds(version, values.as_object().unwrap(), present)
            .into_iter()
            .map(|crd| crd.owner)
            .collect()
    };
    assert_eq!(
        owners(json!({}), &["gpu-operator"]),
        ["gpu-operator", "gpu-operator", "node-feature-discovery"]
    );
    assert_eq!(
        owners(json!({"nfd": {"enabled": false}}), &["gpu-operator"]),
        ["gpu-operator", "gpu-operator"]
    );
    assert_eq!(
        owners(json!({}), &["gpu-operator", "node-feature-discovery"]),
        ["gpu-operator", "gpu-operator"]
    );
}

fn keys_of<'a>(component: &'a CatalogComponent, version: &str) -> &'a keys::ChartKeys {
    keys::ChartKeys::of_version(component, component.version(version).unwrap()).unwrap()
}

#[test]
fn keys_know_what_the_chart_reads() {
    let operator = component("gpu-operator").unwrap();
    let keys = keys_of(operator, "v26.3.1");
    assert_eq!(
        keys.places_of("maxParallelUpgrades"),
        [["driver", "upgradePolicy", "maxParallelUpgrades"]]
    );
    assert!(keys.child("driver").unwrap().child("useOpenKernelModules").is_none());
    assert!(keys.reads("dcgmExporter.config.data") && !keys.reads("dcgmExporter.config.file"));
    assert!(keys.child("daemonsets").unwrap().child("labels").unwrap().is_open());
}

/// A value that the chart does not read would never be checked.
#[test]
fn unquoted_values_are_read_by_their_charts() {
    let mut checked = 0;
    for component in component_names().filter_map(component) {
        for version in &component.versions {
            for value in &version.unquoted_values {
                let keys = keys_of(component, &version.version);
                for path in value.conditions.keys().chain([&value.path]) {
                    let name = format!("{} {}", component.name, version.version);
                    assert!(keys.reads(path), "{name}: {path}");
                    checked += 1;
                }
            }
        }
    }
    assert!(checked > 0);
}

/// A driver manager with a known mistake is replaced without waiting for the next chart.
#[test]
fn gpu_operator_2433_the_driver_managers_version_can_be_set() {
    let operator = component("gpu-operator").unwrap();
    for version in &operator.versions {
        let version = &version.version;
        let keys = keys_of(operator, version);
        assert!(
            keys.child("driver").unwrap().child("manager").unwrap().child("version").is_some(),
            "{version}"
        );
    }
}

#[test]
fn nested_charts_follow_helms_conditions() {
    let nested = |name: &str, version: &str, values: Value| -> Vec<&str> {
        let component = component(name).unwrap();
        let nested =
            component.nested(component.version(version).unwrap(), values.as_object().unwrap());
        nested.into_iter().map(|nested| nested.component.as_str()).collect()
    };
    let discovery = ["node-feature-discovery"];
    assert_eq!(nested("gpu-operator", "v26.3.1", json!({})), discovery);
    assert_eq!(nested("gpu-operator", "v26.3.1", json!({"nfd": {"enabled": false}})), [""; 0]);
    assert_eq!(nested("nvidia-device-plugin", "0.20.0", json!({})), [""; 0]);
    assert_eq!(
        nested("nvidia-device-plugin", "0.20.0", json!({"gfd": {"enabled": true}})),
        discovery
    );
    assert_eq!(
        nested(
            "nvidia-device-plugin",
            "0.20.0",
            json!({"gfd": {"enabled": true}, "nfd": {"enabled": false}})
        ),
        [""; 0]
    );
}

#[test]
fn crds_of_a_switch_come_with_it() {
    let operator = component("network-operator").unwrap();
    let version = operator.version("26.4.1").unwrap();
    let names = |values: Value| -> Vec<&str> {
        operator
            .crds(version, values.as_object().unwrap(), &[])
            .into_iter()
            .map(|crd| crd.name)
            .collect()
    };
    assert!(!names(json!({})).iter().any(|name| name.contains("sriov")));
    assert!(
        names(json!({"sriovNetworkOperator": {"enabled": true}}))
            .contains(&"sriovnetwork.openshift.io_sriovnetworks.yaml")
    );
    assert!(
        names(json!({"nfd": {"enabled": false}})).contains(&"nfd-api-crds.yaml"),
        "its NodeFeatureRule needs them"
    );
    assert!(
        !names(json!({"nfd": {"enabled": false, "deployNodeFeatureRules": false}}))
            .contains(&"nfd-api-crds.yaml")
    );
}
