//! Charts that contain other components, and what values disable in a chart. Each component runs
//! once, even if several charts contain it.

use serde_json::{Map, Value};

use super::lookup;
use super::model::{CatalogComponent, NestedComponent};

/// A component of a recipe, with its values.
#[derive(Clone, Copy, Debug)]
pub struct HostComponent<'a> {
    /// The component.
    pub component: &'a CatalogComponent,
    /// Its version.
    pub version: &'a str,
    /// Its values.
    pub values: &'a Map<String, Value>,
}

/// A sub-chart that would run a component twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicateSubchart<'a> {
    /// The component whose chart contains it.
    pub host: &'a str,
    /// The sub-chart.
    pub nested: &'a NestedComponent,
    /// The component of the recipe that runs it.
    pub runner: &'a str,
    /// Whether the values enable it explicitly.
    pub is_explicit: bool,
}

impl<'a> HostComponent<'a> {
    /// Returns the enabled components inside its chart.
    fn nested(self) -> Vec<&'a NestedComponent> {
        self.component.nested(self.component.closest_version(self.version), self.values)
    }

    /// Whether its chart runs the component, as the component itself or as a sub-chart.
    pub fn runs(self, component: &str) -> bool {
        self.component.name == component
            || self.nested().iter().any(|nested| nested.component == component)
    }

    /// Whether it comes after one of the others.
    fn comes_after(self, others: &[&str]) -> bool {
        self.component.after.iter().any(|earlier| others.contains(&earlier.as_str()))
    }
}

impl CatalogComponent {
    /// Returns what these values disable in the chart of `version`: the keys of sub-charts, and the
    /// paths whose condition does not hold.
    pub fn off(&self, version: &str, values: &Map<String, Value>) -> Vec<&str> {
        let like = self.closest_version(version);
        let on: Vec<&str> =
            self.nested(like, values).into_iter().map(|nested| nested.key.as_str()).collect();
        let nested = like.nested.iter().map(|nested| nested.key.as_str());
        let defaults = self.defaults(Some(like));
        let value = |path: &str| lookup(values, path).or_else(|| lookup(defaults, path));
        let conditional = self.conditions.keys().map(String::as_str);
        nested
            .filter(|key| !on.contains(key))
            .chain(conditional.filter(|path| !self.is_used(path, value)))
            .collect()
    }

    /// Whether no condition disables what is at a dotted path. `value` returns a value of the
    /// chart.
    pub fn is_used<'v>(&self, path: &str, value: impl Fn(&str) -> Option<&'v Value>) -> bool {
        self.conditions.get(path).is_none_or(|conditions| {
            conditions.iter().all(|(path, needed)| {
                value(path).is_none_or(|found| found.is_null() || found == needed)
            })
        })
    }
}

/// Whether a dotted path is one of `paths`, or below one.
pub fn is_within(path: &str, paths: &[&str]) -> bool {
    let is_below = |rest: &str| rest.is_empty() || rest.starts_with('.');
    paths.iter().any(|above| path.strip_prefix(*above).is_some_and(is_below))
}

/// Returns the sub-charts to disable. A component must be deployed before those that need it, so
/// the first chart with it runs it.
pub fn extras<'a>(hosts: &[HostComponent<'a>]) -> Vec<DuplicateSubchart<'a>> {
    let mut extras = Vec::new();
    for host in hosts {
        for nested in host.nested() {
            let others: Vec<HostComponent<'a>> =
                hosts.iter().copied().filter(|other| other.runs(&nested.component)).collect();
            let names: Vec<&str> =
                others.iter().map(|other| other.component.name.as_str()).collect();
            let itself = names.iter().copied().find(|name| *name == nested.component);
            let first = others
                .iter()
                .find(|other| !other.comes_after(&names))
                .map(|other| other.component.name.as_str());
            let Some(runner) = itself.or(first) else { continue };
            if runner != host.component.name {
                let switch =
                    nested.conditions.first().and_then(|switch| lookup(host.values, switch));
                let is_explicit = switch == Some(&Value::Bool(true));
                extras.push(DuplicateSubchart {
                    host: &host.component.name,
                    nested,
                    runner,
                    is_explicit,
                });
            }
        }
    }
    extras
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::component;

    fn found(hosts: &[(&str, Value)]) -> Vec<(String, String, bool)> {
        let components = hosts.iter().map(|(name, values)| {
            let component = component(name).unwrap();
            HostComponent {
                component,
                version: &component.default_version,
                values: values.as_object().unwrap(),
            }
        });
        let components: Vec<HostComponent<'_>> = components.collect();
        extras(&components)
            .into_iter()
            .map(|extra| (extra.host.to_owned(), extra.runner.to_owned(), extra.is_explicit))
            .collect()
    }

    /// A sub-chart that the catalog does not have as a component is off by a condition.
    #[test]
    fn sub_charts_are_off_by_helms_condition_or_a_value() {
        let off = |name: &str, version: &str, values: Value| -> Vec<&str> {
            let off = component(name).unwrap().off(version, values.as_object().unwrap());
            off.into_iter().filter(|path| path.contains("-operator") || *path == "nfd").collect()
        };
        let (sriov, maintenance) = ("sriov-network-operator", "maintenance-operator-chart");
        assert_eq!(off("nvidia-device-plugin", "0.20.0", json!({})), ["nfd"]);
        let discovery = json!({"gfd": {"enabled": true}});
        assert_eq!(off("nvidia-device-plugin", "0.20.0", discovery), [""; 0]);
        // This version has no maintenance operator and no value for it.
        assert_eq!(off("network-operator", "24.7.1", json!({})), [sriov]);
        assert_eq!(off("network-operator", "26.4.1", json!({})), [maintenance, sriov]);
        let on = json!({"sriovNetworkOperator": {"enabled": true}});
        assert_eq!(off("network-operator", "26.4.1", on), [maintenance]);
        for (path, expected) in [
            (sriov, true),
            ("sriov-network-operator.operator.tolerations", true),
            ("sriov-network-operator-2.operator", false),
            ("operator.tolerations", false),
        ] {
            assert_eq!(is_within(path, &[maintenance, sriov]), expected, "{path}");
        }
    }

    #[test]
    fn the_first_one_runs_it() {
        let row = |host: &str, runner: &str, is_explicit| {
            (host.to_owned(), runner.to_owned(), is_explicit)
        };
        assert_eq!(found(&[("gpu-operator", json!({}))]), []);
        let both = [("gpu-operator", json!({})), ("network-operator", json!({}))];
        assert_eq!(found(&both), [row("gpu-operator", "network-operator", false)]);
        let off =
            [("gpu-operator", json!({})), ("network-operator", json!({"nfd": {"enabled": false}}))];
        assert_eq!(found(&off), []);
        let explicit =
            [("gpu-operator", json!({"nfd": {"enabled": true}})), ("network-operator", json!({}))];
        assert_eq!(found(&explicit), [row("gpu-operator", "network-operator", true)]);
        let own = [
            ("gpu-operator", json!({})),
            ("network-operator", json!({})),
            ("node-feature-discovery", json!({})),
        ];
        let discovery = "node-feature-discovery";
        assert_eq!(
            found(&own),
            [row("gpu-operator", discovery, false), row("network-operator", discovery, false)]
        );
    }
}
