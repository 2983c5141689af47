//! Compares the keys with the lists of what the charts' templates read (`keys.json`), in both
//! directions, for every version that the catalog has.

use std::collections::BTreeSet;

use super::*;
use crate::{component, component_names, file};

/// A key that no chart reads.
const MISTYPED: &str = "notReadByAnyTemplate";

struct Subject {
    component: &'static CatalogComponent,
    version: &'static ComponentVersion,
    keys: &'static ChartKeys,
}

impl Subject {
    fn read(&self) -> Vec<&'static str> {
        self.component.read_keys(self.version).unwrap().collect()
    }

    /// Whether the catalog accepts every key below the path.
    fn is_exempt(&self, path: &str) -> bool {
        let nested = self.version.nested.iter().map(|nested| &nested.key);
        self.version.open_keys.iter().chain(nested).any(|open| is_below(path, open))
            || path == GLOBAL
    }
}

fn subjects() -> impl Iterator<Item = Subject> {
    component_names().filter_map(component).flat_map(|component| {
        component.versions.iter().filter_map(move |version| {
            let keys = ChartKeys::of_version(component, version)?;
            Some(Subject { component, version, keys })
        })
    })
}

/// Whether a path is the other one or below it.
fn is_below(path: &str, other: &str) -> bool {
    path.strip_prefix(other).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// The maps of which the templates read single keys; the empty path is the root.
fn maps<'a>(read: &[&'a str]) -> BTreeSet<&'a str> {
    let above = |path: &'a str| path.match_indices('.').map(move |(end, _)| &path[..end]);
    read.iter().flat_map(|path| above(path)).chain([""]).collect()
}

fn below(map: &str, key: &str) -> String {
    if map.is_empty() { key.to_owned() } else { format!("{map}.{key}") }
}

/// The paths of all values that are not maps.
fn leaves(value: &Value, path: &str, found: &mut Vec<String>) {
    match value.as_object().filter(|map| !map.is_empty()) {
        Some(map) => map.iter().for_each(|(key, value)| leaves(value, &below(path, key), found)),
        None => found.push(path.to_owned()),
    }
}

#[test]
fn keys_that_templates_read_are_accepted() {
    assert_eq!(subjects().count(), 22, "the versions whose keys are known");
    for subject in subjects() {
        let name = format!("{} {}", subject.component.name, subject.version.version);
        for path in subject.read() {
            let is_effective = !subject.version.ineffective_keys.iter().any(|key| key == path);
            assert_eq!(subject.keys.reads(path), is_effective, "{name}: {path}");
        }
    }
}

#[test]
fn keys_that_no_template_reads_are_refused() {
    for subject in subjects() {
        let name = format!("{} {}", subject.component.name, subject.version.version);
        let read = subject.read();
        for map in maps(&read).into_iter().filter(|map| !subject.is_exempt(map)) {
            let wrong = below(map, MISTYPED);
            assert!(!subject.keys.reads(&wrong), "{name}: {wrong}");
        }
        let mut defaults = Vec::new();
        let values = subject.component.defaults(Some(subject.version));
        leaves(&Value::Object(values.clone()), "", &mut defaults);
        for path in defaults.iter().filter(|path| !subject.is_exempt(path)) {
            let is_read = read.iter().any(|read| is_below(path, read) || is_below(read, path));
            assert_eq!(subject.keys.reads(path), is_read, "{name}: {path}");
        }
    }
}

#[test]
fn keys_of_known_sub_charts_are_checked() {
    let mut checked = 0;
    for subject in subjects() {
        for nested in &subject.version.nested {
            let sub = component(&nested.component).unwrap();
            let Some(version) = sub.version(&nested.version) else {
                assert!(subject.keys.reads(&below(&nested.key, MISTYPED)));
                continue;
            };
            let read: Vec<&str> = sub.read_keys(version).unwrap().collect();
            for path in &read {
                assert!(subject.keys.reads(&below(&nested.key, path)), "{path}");
            }
            assert!(!subject.keys.reads(&below(&nested.key, MISTYPED)));
            assert!(subject.keys.reads("global.imagePullSecrets"));
            assert!(!subject.keys.reads(&below(GLOBAL, MISTYPED)));
            checked += 1;
        }
    }
    assert_eq!(checked, 6, "all of the GPU Operator, and the newest device plugin");
}

/// A bundle promises the effect of these values. The keys of a sub-chart are known only if the
/// catalog has its version: NFD before 0.18 does not read `postDeleteCleanup`.
#[test]
fn trap_a_value_of_every_bundle_may_not_be_read() {
    let mut checked = 0;
    for subject in subjects() {
        let name = format!("{} {}", subject.component.name, subject.version.version);
        for (path, _) in subject.version.fixed_values() {
            let nested = subject.version.nested.iter().find(|nested| is_below(path, &nested.key));
            let is_known = nested.is_none_or(|nested| {
                component(&nested.component).unwrap().version(&nested.version).is_some()
            });
            assert!(is_known, "{name}: the keys below `{path}` are unknown");
            assert!(subject.keys.reads(path), "{name}: {path}");
            checked += 1;
        }
    }
    assert!(checked > 15, "{checked}");
}

/// A misspelled place of node selectors and tolerations would be written without effect.
#[test]
fn keys_for_node_scheduling_are_read() {
    for subject in subjects() {
        let name = format!("{} {}", subject.component.name, subject.version.version);
        let known = subject.component.scheduling_in(&subject.version.version);
        for paths in [&known.system, &known.accelerated] {
            for path in paths.node_selector.iter().chain(&paths.tolerations) {
                assert!(subject.keys.reads(path), "{name}: {path}");
            }
        }
    }
}

/// ClusterPolicy drops fields that its schema does not have without an error.
#[test]
fn copied_maps_have_the_fields_of_clusterpolicy() {
    let operator = component("gpu-operator").unwrap();
    for version in &operator.versions {
        let path = format!(
            "components/gpu-operator/{}/crds/nvidia.com_clusterpolicies.yaml",
            version.version
        );
        let crd: Value = yaml::from_str(file(&path).unwrap()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
        let keys = ChartKeys::of_version(operator, version).unwrap();
        for (map, fields) in version.object_fields.iter().filter(|(map, _)| keys.reads(map)) {
            let schema = map.split('.').fold(schema, |schema, key| &schema["properties"][key]);
            let known: Vec<&String> = schema["properties"].as_object().unwrap().keys().collect();
            let mut listed: Vec<&String> = fields.iter().collect();
            listed.sort_unstable();
            let mut known = known;
            known.sort_unstable();
            assert_eq!(listed, known, "{} {map}", version.version);
        }
    }
}

/// A hint that names a key which no template reads would send the user to the same error again.
#[test]
fn hints_of_obsolete_keys_name_keys_that_are_read() {
    let mut checked = 0;
    for subject in subjects() {
        for (key, hint) in &subject.version.obsolete_keys {
            let Some((_, target)) = hint.split_once("set `") else { continue };
            let target = target.split(['`', ':']).next().unwrap();
            // Keys of the recipe.
            if target.starts_with("rollout.") || ["namespace", "customResources"].contains(&target)
            {
                continue;
            }
            assert!(
                subject.keys.reads(target),
                "{} {}: {key}: {hint}",
                subject.component.name,
                subject.version.version
            );
            checked += 1;
        }
    }
    assert!(checked > 5, "{checked}");
}
