//! The table of incompatible versions and values, `bundles/compatibility.yaml`, and its format. The
//! rules in `recipe/rules/` apply it.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

/// One rule of the table. If all of `when` holds, all of `needs` must hold. Without `needs`, `when`
/// itself must not hold.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompatibilityRule {
    /// The rule's name.
    pub name: String,
    /// The severity.
    pub level: CompatibilityLevel,
    /// The facts under which the rule applies.
    pub when: Vec<RecipeFact>,
    /// The facts that must hold then.
    #[serde(default)]
    pub needs: Vec<RecipeFact>,
    /// The message, in one sentence without a period.
    pub message: String,
    /// The hint.
    pub hint: String,
    /// The source of the rule.
    pub source: String,
}

/// The severity of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CompatibilityLevel {
    /// The recipe cannot work.
    Error,
    /// The recipe works only together with something that it does not contain.
    Warning,
}

/// A fact about a recipe: true, false or unknown.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum RecipeFact {
    /// The recipe deploys a matching component.
    Component(ComponentFact),
    /// A component runs, from its own chart or as another component's sub-chart.
    Runs(String),
    /// All Kubernetes versions that the recipe supports are in this range.
    Kubernetes(VersionRange),
    /// The driver that the GPU Operator installs is in this range.
    GpuDriver(VersionRange),
    /// The recipe itself has these values, by dotted path.
    Recipe(BTreeMap<String, Value>),
}

/// A range of versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VersionRange {
    /// The first version in the range.
    pub from: Option<String>,
    /// The first version after the range.
    pub before: Option<String>,
}

/// A component of the recipe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentFact {
    /// Its name.
    pub name: String,
    /// The first matching version of its chart.
    #[serde(default)]
    pub from: Option<String>,
    /// The first version that no longer matches.
    #[serde(default)]
    pub before: Option<String>,
    /// Installed values, by dotted path.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// Values that are not installed, by dotted path.
    #[serde(default)]
    pub except: BTreeMap<String, Value>,
    /// Keys of maps: the map's dotted path, and the key.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
    /// Another component that its chart runs as a sub-chart.
    #[serde(default)]
    pub runs: Option<String>,
}

/// Returns the rules of the table.
///
/// # Panics
/// Never: a test reads it.
pub fn rules() -> &'static [CompatibilityRule] {
    static READ: OnceLock<Vec<CompatibilityRule>> = OnceLock::new();
    READ.get_or_init(|| {
        let text = super::file("compatibility.json").unwrap_or_default();
        serde_json::from_str(text)
            .expect("the embedded table is read by the test `the_table_speaks_of_what_there_is`")
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::component;
    use crate::keys::ChartKeys;

    #[test]
    fn the_table_speaks_of_what_there_is() {
        let mut names: Vec<&str> = rules().iter().map(|rule| rule.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules().len(), "two rules have the same name");
        for rule in rules() {
            let name = &rule.name;
            assert!(
                !rule.source.is_empty() && !rule.message.ends_with('.') && !rule.when.is_empty(),
                "{name}"
            );
            for fact in rule.when.iter().chain(&rule.needs) {
                match fact {
                    RecipeFact::Component(fact) => check(name, fact),
                    RecipeFact::Runs(runs) => assert!(component(runs).is_some(), "{name}: {runs}"),
                    RecipeFact::Kubernetes(range) | RecipeFact::GpuDriver(range) => {
                        assert!(
                            range.from.is_some() || range.before.is_some(),
                            "{name}: an unlimited range"
                        );
                    }
                    RecipeFact::Recipe(paths) => assert!(!paths.is_empty(), "{name}"),
                }
            }
        }
    }

    /// Checks that some version of the chart has each value.
    fn check(rule: &str, fact: &ComponentFact) {
        let known =
            component(&fact.name).unwrap_or_else(|| panic!("{rule}: no component {}", fact.name));
        for bound in fact.from.iter().chain(&fact.before) {
            assert!(
                known.compare(bound, &known.default_version).is_some(),
                "{rule}: {bound} is not a version"
            );
        }
        if let Some(runs) = &fact.runs {
            let contains = |version: &crate::model::ComponentVersion| {
                version.nested.iter().any(|nested| nested.component == *runs)
            };
            assert!(known.versions.iter().any(contains), "{rule}: {} has no {runs}", fact.name);
        }
        for path in fact.values.keys().chain(fact.except.keys()).chain(fact.keys.keys()) {
            let reads = |version: &crate::model::ComponentVersion| {
                ChartKeys::of_version(known, version).is_some_and(|keys| keys.reads(path))
            };
            assert!(known.versions.iter().any(reads), "{rule}: {} has no `{path}`", fact.name);
        }
    }
}
