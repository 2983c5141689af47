//! Lints of a recipe of the right shape, one file for each subject. Each rule gets the merged tree,
//! whose nodes have source positions, and the typed recipe.

use serde_json::{Map, Value};

use super::model::Recipe;
use catalog::model::{CatalogComponent, ComponentVersion};
use catalog::nested::HostComponent;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::source::{SourceSpan, SourceTexts};
use diagnostics::tree::YamlNode;

mod acceptance;
pub(crate) mod advice;
pub mod cluster;
mod compatibility;
mod components;
mod custom_resources;
mod described_components;
mod device_plugin;
mod driver_crd;
mod grammar;
mod kustomize;
mod manifests;
mod metrics;
pub mod modes;
mod moved_objects;
mod node_scheduling;
pub mod ofed;
mod proof;
pub mod rollout;
mod scalars;
pub(crate) mod secrets;
mod selectors;
mod stack;
mod unquoted;
mod values;

/// Checks the recipe with every rule.
pub fn check(
    tree: &YamlNode,
    recipe: &Recipe,
    sources: &SourceTexts,
    findings: &mut Vec<Diagnostic>,
) {
    let known = recipe
        .components
        .iter()
        .filter_map(|component| KnownComponent::from_component(component, tree))
        .collect();
    let subject = RuleTarget { tree, recipe, sources, known };
    grammar::check(&subject, findings);
    cluster::check(&subject, findings);
    components::check(&subject, findings);
    rollout::check(&subject, findings);
    ofed::check(&subject, findings);
    modes::check(&subject, findings);
    proof::check(&subject, findings);
    acceptance::check(&subject, findings);
    metrics::check(&subject, findings);
    manifests::check(&subject, findings);
    kustomize::check(&subject, findings);
    selectors::check(&subject, findings);
    unquoted::check(&subject, findings);
    custom_resources::check(&subject, findings);
    node_scheduling::check(&subject, findings);
    secrets::check(&subject, findings);
    values::check(&subject, findings);
    moved_objects::check(&subject, findings);
    device_plugin::check(&subject, findings);
    stack::check(&subject, findings);
    driver_crd::check(&subject, findings);
    compatibility::check(&subject, findings);
    scalars::check(&subject, findings);
}

/// The recipe to check.
pub struct RuleTarget<'a> {
    tree: &'a YamlNode,
    recipe: &'a Recipe,
    sources: &'a SourceTexts,
    /// The recipe's components that are in the catalog.
    known: Vec<KnownComponent<'a>>,
}

impl<'a> RuleTarget<'a> {
    /// Returns the position of the value at these keys: of a map, its key; of a missing value, its
    /// nearest parent.
    fn place(&self, keys: &[&str]) -> SourceSpan {
        let mut node = self.tree;
        let mut place = node.origin;
        for key in keys {
            if let Some(entry) = node.entry(key) {
                place = if entry.node.origin.range().is_empty() {
                    entry.key_origin
                } else {
                    entry.node.origin
                };
                node = &entry.node;
            } else if let Some(item) = node.at_keys(&[key]) {
                place = item.get("name").map_or(item.origin, |name| name.origin);
                node = item;
            } else {
                break;
            }
        }
        place
    }

    /// Returns the value at these keys.
    fn node_at(&self, keys: &[&str]) -> Option<&'a YamlNode> {
        self.tree.at_keys(keys)
    }

    /// Returns the components that are in the catalog, with the values that the recipe sets.
    fn hosts(&self) -> impl Iterator<Item = HostComponent<'_>> {
        self.recipe.components.iter().filter_map(|asked| {
            let known = self.component(&asked.name)?;
            Some(HostComponent {
                component: known.entry,
                version: known.number,
                values: &asked.values,
            })
        })
    }

    fn component(&self, name: &str) -> Option<&KnownComponent<'a>> {
        self.known.iter().find(|known| known.name == name)
    }
}

/// A component of the recipe with its entry in the catalog.
struct KnownComponent<'a> {
    name: &'a str,
    entry: &'static CatalogComponent,
    /// The version that the recipe uses.
    number: &'a str,
    /// `None` if the catalog does not have this version.
    version: Option<&'static ComponentVersion>,
    values: Option<&'a YamlNode>,
    /// The chart's default values; empty if the catalog does not have them.
    defaults: &'static Map<String, Value>,
}

impl<'a> KnownComponent<'a> {
    fn from_component(
        component: &'a super::model::RecipeComponent,
        tree: &'a YamlNode,
    ) -> Option<Self> {
        let entry = catalog::component(&component.name)?;
        let number = component.version.as_deref().unwrap_or(&entry.default_version);
        let version = entry.version(number);
        let defaults = entry.defaults(version);
        let values = tree.at_keys(&["components", &component.name, "values"]);
        Some(Self { name: &component.name, entry, number, version, values, defaults })
    }

    /// Returns the value that the chart will get: the recipe's, or else the default.
    fn value(&self, path: &[&str]) -> Option<Value> {
        let written = self.values.and_then(|values| values.at_keys(path)).map(YamlNode::to_json);
        written.or_else(|| catalog::lookup(self.defaults, &path.join(".")).cloned())
    }

    /// Whether a boolean value is true; `None` if it is unknown.
    fn is_on(&self, path: &[&str]) -> Option<bool> {
        self.value(path).and_then(|value| value.as_bool())
    }
}
