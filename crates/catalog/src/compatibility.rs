//! What does not go together: the table `bundles/compatibility.yaml`, and how it is read. Who judges by it is `recipe/rules/`.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use serde::Deserialize;
use serde_json::Value;

/// One line of the table: where all of `when` holds, all of `needs` must hold; without `needs`, `when` itself is what must not be.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompatibilityRule {
    /// Its name.
    pub name: String,
    /// How bad it is.
    pub level: CompatibilityLevel,
    /// What makes it matter.
    pub when: Vec<RecipeFact>,
    /// What must be, then.
    #[serde(default)]
    pub needs: Vec<RecipeFact>,
    /// What is wrong, in one sentence without a period.
    pub message: String,
    /// What to do.
    pub hint: String,
    /// Where that is known from.
    pub source: String,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum CompatibilityLevel {
    /// It cannot work.
    Error,
    /// It works only together with something that the recipe does not show.
    Warning,
}

/// Something about a recipe that is true, false or not known.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub enum RecipeFact {
    /// The recipe deploys a component like this.
    Component(ComponentFact),
    /// A component, or another one's sub-chart of that name, runs.
    Runs(String),
    /// All Kubernetes versions that the recipe is for are in this range.
    Kubernetes(VersionRange),
    /// The driver that the GPU operator installs is in this range.
    GpuDriver(VersionRange),
    /// The recipe itself says so: dotted paths and values.
    Recipe(BTreeMap<String, Value>),
}

/// Versions from one on, and before another.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct VersionRange {
    /// The first one that belongs to it.
    pub from: Option<String>,
    /// The first one that no longer does.
    pub before: Option<String>,
}

/// A component of the recipe.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ComponentFact {
    /// Its name.
    pub name: String,
    /// The first version of its chart that is meant.
    #[serde(default)]
    pub from: Option<String>,
    /// The first one that is not.
    #[serde(default)]
    pub before: Option<String>,
    /// Values as they are installed, as dotted paths.
    #[serde(default)]
    pub values: BTreeMap<String, Value>,
    /// Values that are not installed, as dotted paths.
    #[serde(default)]
    pub except: BTreeMap<String, Value>,
    /// Keys that maps have: the map's dotted path, and the key.
    #[serde(default)]
    pub keys: BTreeMap<String, String>,
}

/// The table.
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
    use crate::{component, lookup};

    #[test]
    fn the_table_speaks_of_what_there_is() {
        let mut names: Vec<&str> = rules().iter().map(|rule| rule.name.as_str()).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), rules().len(), "two rules of one name");
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
                            "{name}: a range of everything"
                        );
                    }
                    RecipeFact::Recipe(paths) => assert!(!paths.is_empty(), "{name}"),
                }
            }
        }
    }

    /// Some version of the chart has each value.
    fn check(rule: &str, fact: &ComponentFact) {
        let known =
            component(&fact.name).unwrap_or_else(|| panic!("{rule}: no component {}", fact.name));
        for bound in fact.from.iter().chain(&fact.before) {
            assert!(
                known.compare(bound, &known.default_version).is_some(),
                "{rule}: {bound} is no version"
            );
        }
        for path in fact.values.keys().chain(fact.except.keys()).chain(fact.keys.keys()) {
            let open = |version: &crate::model::ComponentVersion| {
                let all = version.open_keys.iter().chain(&version.further_keys);
                all.into_iter().any(|open| path.starts_with(open.as_str()))
            };
            let has = |version: &crate::model::ComponentVersion| {
                let defaults = known.defaults(Some(version));
                let parent = path.rsplit_once('.').map_or("", |(parent, _)| parent);
                lookup(defaults, path).is_some()
                    || lookup(defaults, parent).is_some_and(|map| map == &serde_json::json!({}))
            };
            assert!(
                known.versions.iter().any(|version| has(version) || open(version)),
                "{rule}: {} has no `{path}`",
                fact.name
            );
        }
    }
}
