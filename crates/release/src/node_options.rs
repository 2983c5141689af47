//! Adds node selectors and tolerations to all components, in every key that their charts have for
//! them.
//!
//! They are added instead of set. Helm merges a selector's labels anyway, and a list that replaces
//! the chart's own would lose the taints that its pods tolerate already.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::chosen::ChosenComponent;
use super::values::set;
use catalog::model::NestedComponent;
use catalog::nested::is_within;
use catalog::{self, lookup};
use recipe::model::{ClusterPlatform, NodeScheduling, PodScheduling, SchedulingPart};

/// Returns the command-line option of a part.
fn flag(part: &SchedulingPart) -> String {
    format!(
        "--{}-node-{}",
        part.group,
        if part.key == "tolerations" { "toleration" } else { "selector" }
    )
}

/// Adds `wanted` to the values of all components that have a key for it. Values that cannot be
/// changed become notes.
pub(super) fn add(wanted: &NodeScheduling, chosen: &mut [ChosenComponent<'_>]) -> Vec<String> {
    let mut notes = Vec::new();
    for part in wanted.parts() {
        let flag = flag(&part);
        let mut is_taken = false;
        let mut without: Vec<&str> = Vec::new();
        for choice in chosen.iter_mut() {
            let (off, known) = (choice.off(), choice.scheduling());
            let places = part.places(known);
            let paths = enabled(part.paths(known), &off);
            is_taken |= !paths.is_empty();
            // A chart without such keys has no such pods, unless its keys are unknown.
            let has_such_pods = !enabled(&places.node_selector, &off).is_empty()
                || !enabled(&places.tolerations, &off).is_empty()
                || choice.asked.chart.is_some();
            if paths.is_empty() && has_such_pods {
                without.push(choice.name());
            }
            notes.extend(add_part(&part, &paths, choice));
        }
        if !without.is_empty() {
            notes.push(format!(
                "`{flag}` does not apply to {}: the catalog has no key for it",
                without.join(", ")
            ));
        } else if !is_taken {
            notes.push(format!("`{flag}` has no effect: no component of the recipe has such pods"));
        }
    }
    notes.extend(chosen.iter().filter_map(|choice| made_by_the_operator(wanted, choice)));
    notes
}

/// Returns the paths that are not `off`.
fn enabled<'p>(paths: &'p [String], off: &[&str]) -> Vec<&'p str> {
    paths.iter().map(String::as_str).filter(|path| !is_within(path, off)).collect()
}

/// Adds one part to the values of one component.
fn add_part(
    part: &SchedulingPart,
    paths: &[&str],
    choice: &mut ChosenComponent<'_>,
) -> Vec<String> {
    let defaults = SchedulingDefaults::from_component(choice);
    let mut notes = Vec::new();
    for &path in paths {
        let left = if let Value::Object(labels) = &part.value {
            add_labels(&mut choice.values, path, labels)
        } else {
            add_tolerations(
                &mut choice.values,
                defaults.list(path),
                path,
                part.value.as_array().map_or(&[], Vec::as_slice),
            )
        };
        let note = |left| {
            format!("`{}`: `{left}` of {} keeps the recipe's value", flag(part), choice.known.name)
        };
        notes.extend(left.into_iter().map(note));
    }
    notes
}

/// The defaults of a chart, as far as the catalog has them.
struct SchedulingDefaults<'a> {
    own: &'static Map<String, Value>,
    /// Its sub-charts, with their defaults.
    nested: Vec<(&'a NestedComponent, &'static Map<String, Value>)>,
    /// The default tolerations of sub-charts whose values the catalog does not have, by their
    /// paths.
    other: &'a BTreeMap<String, Vec<Value>>,
}

impl<'a> SchedulingDefaults<'a> {
    fn from_component(choice: &ChosenComponent<'a>) -> Self {
        let own = choice.known.defaults(choice.details);
        let inside = |nested: &'a NestedComponent| {
            let component = catalog::component(&nested.component)?;
            let version = component.closest_version(&nested.version);
            Some((nested, component.default_values(version)?))
        };
        Self {
            own,
            nested: choice
                .known
                .closest_version(choice.version)
                .nested
                .iter()
                .filter_map(inside)
                .collect(),
            other: &choice.scheduling().default_tolerations,
        }
    }

    fn list(&self, path: &str) -> &[Value] {
        if let Some(own) = lookup(self.own, path).and_then(Value::as_array) {
            return own;
        }
        let mut below = self.nested.iter().filter_map(|(nested, values)| {
            let path = path.strip_prefix(nested.key.as_str())?.strip_prefix('.')?;
            let listed = nested.default_tolerations.get(path);
            listed.or_else(|| lookup(values, path).and_then(Value::as_array))
        });
        below.next().or_else(|| self.other.get(path)).map_or(&[], Vec::as_slice)
    }
}

/// Adds labels to the map at `path`. Returns the paths that the recipe sets to another value.
fn add_labels(
    values: &mut Map<String, Value>,
    path: &str,
    labels: &Map<String, Value>,
) -> Vec<String> {
    let mut map = match lookup(values, path) {
        None => Map::new(),
        Some(Value::Object(map)) => map.clone(),
        Some(_) => return vec![format!("values.{path}")],
    };
    let mut left = Vec::new();
    for (key, value) in labels {
        if map.entry(key.clone()).or_insert_with(|| value.clone()) != value {
            left.push(format!("values.{path}.{key}"));
        }
    }
    left.extend(set(values, path, Value::Object(map)).err().map(|path| format!("values.{path}")));
    left
}

/// Appends tolerations to those at `path`, or to the chart's own. Returns the path if the recipe
/// sets it to another type.
fn add_tolerations(
    values: &mut Map<String, Value>,
    defaults: &[Value],
    path: &str,
    tolerations: &[Value],
) -> Vec<String> {
    let mut list = match lookup(values, path) {
        Some(Value::Array(list)) => list.clone(),
        None => defaults.to_vec(),
        Some(Value::Null) => Vec::new(),
        Some(_) => return vec![format!("values.{path}")],
    };
    let new: Vec<Value> =
        tolerations.iter().filter(|toleration| !list.contains(toleration)).cloned().collect();
    if new.is_empty() {
        return Vec::new();
    }
    list.extend(new);
    set(values, path, Value::Array(list))
        .err()
        .map(|path| format!("values.{path}"))
        .into_iter()
        .collect()
}

/// Returns the note for pods that an operator creates from a custom resource: their scheduling
/// follows the resource, not the chart.
fn made_by_the_operator(wanted: &NodeScheduling, choice: &ChosenComponent<'_>) -> Option<String> {
    let kinds: Vec<&str> = choice.asked.custom_resources.keys().map(String::as_str).collect();
    (!wanted.accelerated.is_empty() && !kinds.is_empty()).then(|| {
        format!(
            "the node options do not apply to pods that {} creates from {}: set `tolerations` and `nodeAffinity` in its `customResources`",
            choice.name(),
            kinds.join(", ")
        )
    })
}

/// Returns the hook chart's `pod` for these nodes and this platform. The hook's pod may run on any
/// node.
pub(super) fn of_hook(system: &PodScheduling, platform: ClusterPlatform) -> Option<Value> {
    let mut pod = Map::new();
    if platform == ClusterPlatform::Openshift {
        // OpenShift assigns the user, and refuses pods with a user outside their namespace's range.
        pod.insert("runAsUser".to_owned(), Value::Null);
    }
    if !system.node_selector.is_empty() {
        pod.insert("nodeSelector".to_owned(), json!(system.node_selector));
    }
    if !system.tolerations.is_empty() {
        pod.insert("tolerations".to_owned(), json!(system.tolerations));
    }
    (!pod.is_empty()).then_some(Value::Object(pod))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn existing_values_stay_and_missing_are_added() {
        let taint = |key: &str| json!({"key": key, "operator": "Exists"});
        let asked = ["a", "b"].map(taint);
        for (values, expected) in [
            (json!({}), json!([taint("chart"), taint("a"), taint("b")])),
            (json!({"t": []}), json!([taint("a"), taint("b")])),
            (json!({"t": null}), json!([taint("a"), taint("b")])),
            (json!({"t": [taint("b")]}), json!([taint("b"), taint("a")])),
        ] {
            let mut values = values.as_object().unwrap().clone();
            assert_eq!(add_tolerations(&mut values, &[taint("chart")], "t", &asked), [""; 0]);
            assert_eq!(values["t"], expected);
        }
        let mut same = Map::new();
        let left = add_tolerations(&mut same, &[taint("a"), taint("b")], "t", &asked);
        assert_eq!((left, same.len()), (Vec::new(), 0), "nothing is new, so nothing is written");
        let mut odd = json!({"t": "none", "n": {"pool": "a", "zone": "b"}, "x": null})
            .as_object()
            .unwrap()
            .clone();
        assert_eq!(add_tolerations(&mut odd, &[], "t", &asked), ["values.t"]);
        let labels = json!({"pool": "b", "zone": "b", "team": "c"}).as_object().unwrap().clone();
        assert_eq!(add_labels(&mut odd, "n", &labels), ["values.n.pool"]);
        assert_eq!(add_labels(&mut odd, "x", &labels), ["values.x"]);
        assert_eq!(
            json!(odd),
            json!({"t": "none", "n": {"pool": "a", "zone": "b", "team": "c"}, "x": null})
        );
    }
}
