//! Compares the facts of several bundles.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::facts::{BundleFacts, NOT_EXPRESSIBLE, ReleaseFacts};
use crate::order::{self, ReleaseOrder};

/// Facts that are not compared directly: the evidence, and the order, which has its own rules.
const APART: [&str; 2] = ["evidence", "after"];

/// The name for facts about all releases.
pub const ALL: &str = "(all)";

/// A fact that differs between bundles.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FactDifference {
    /// The release.
    pub release: String,
    /// The path of the fact in the facts' JSON.
    pub fact: String,
    /// The value in each bundle, in the order of the bundles; `None` if it is absent.
    pub values: Vec<Option<Value>>,
}

/// A fact that a deployer cannot express, and that was therefore not compared.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct UnstatedFact {
    /// The deployer.
    pub deployer: String,
    /// The fact.
    pub fact: String,
    /// The reason.
    pub reason: String,
    /// The affected releases.
    pub releases: Vec<String>,
}

/// The result of a comparison.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ParityReport {
    /// Whether there are no differences.
    pub equal: bool,
    /// The differences.
    pub differences: Vec<FactDifference>,
    /// The facts that could not be compared.
    pub not_expressible: Vec<UnstatedFact>,
}

/// Compares bundles fact by fact.
pub fn compare(bundles: &[BundleFacts]) -> ParityReport {
    let names: BTreeSet<&String> =
        bundles.iter().flat_map(|bundle| bundle.releases.keys()).collect();
    let mut differences = Vec::new();
    let of_all: Vec<bool> =
        bundles.iter().map(|bundle| bundle.timeout_of_all_is_sufficient).collect();
    if of_all.iter().any(|is_sufficient| *is_sufficient != of_all[0]) {
        let values = of_all.iter().map(|is_sufficient| Some(Value::from(*is_sufficient))).collect();
        differences.push(FactDifference {
            release: ALL.to_owned(),
            fact: "timeoutOfAllIsSufficient".to_owned(),
            values,
        });
    }
    for name in names {
        let releases: Vec<Option<&ReleaseFacts>> =
            bundles.iter().map(|bundle| bundle.releases.get(name)).collect();
        if releases.iter().any(Option::is_none) {
            let values = releases
                .iter()
                .map(|release| release.map(|release| Value::from(release.kind)))
                .collect();
            differences.push(FactDifference {
                release: name.clone(),
                fact: "release".to_owned(),
                values,
            });
            continue;
        }
        if !ordered_alike(name, bundles) {
            let after =
                |release: &ReleaseFacts| release.after.releases.iter().cloned().collect::<Value>();
            let values = releases.iter().map(|release| release.map(after)).collect();
            differences.push(FactDifference {
                release: name.clone(),
                fact: "after".to_owned(),
                values,
            });
        }
        differences.extend(differing(
            name,
            &releases.iter().flatten().map(|release| leaves(release)).collect::<Vec<_>>(),
        ));
    }
    ParityReport {
        equal: differences.is_empty(),
        differences,
        not_expressible: unstated_facts(bundles),
    }
}

fn ordered_alike(name: &str, bundles: &[BundleFacts]) -> bool {
    let orders: Vec<ReleaseOrder<'_>> = bundles
        .iter()
        .map(|bundle| {
            bundle.releases.iter().map(|(name, release)| (name.as_str(), &release.after)).collect()
        })
        .collect();
    let pairs = (0..orders.len())
        .flat_map(|first| (first + 1..orders.len()).map(move |second| (first, second)));
    pairs.into_iter().all(|(first, second)| order::agree(name, &orders[first], &orders[second]))
}

/// Returns the paths whose values differ between the releases.
fn differing(name: &str, releases: &[BTreeMap<String, Value>]) -> Vec<FactDifference> {
    let facts: BTreeSet<&String> = releases.iter().flat_map(BTreeMap::keys).collect();
    let mut found = Vec::new();
    for fact in facts {
        let values: Vec<Option<&Value>> = releases.iter().map(|leaves| leaves.get(fact)).collect();
        let mut said =
            values.iter().filter(|value| value.is_none_or(|value| reason(value).is_none()));
        let first = said.next();
        if said.any(|value| Some(value) != first) {
            let values = values.into_iter().map(Option::<&Value>::cloned).collect();
            found.push(FactDifference { release: name.to_owned(), fact: fact.clone(), values });
        }
    }
    found
}

/// Returns the facts of a release by their paths.
pub fn leaves(release: &ReleaseFacts) -> BTreeMap<String, Value> {
    let mut found = BTreeMap::new();
    // serde can always write facts: maps with string keys, lists, strings, numbers and booleans.
    let mut all = serde_json::to_value(release).unwrap_or_default();
    if let Value::Object(all) = &mut all {
        all.retain(|key, _| !APART.contains(&key.as_str()));
    }
    descend(String::new(), all, &mut found);
    found
}

fn descend(path: String, value: Value, found: &mut BTreeMap<String, Value>) {
    let Some(map) =
        value.as_object().filter(|map| !map.is_empty() && !map.contains_key(NOT_EXPRESSIBLE))
    else {
        found.insert(path, value);
        return;
    };
    for (key, value) in map.clone() {
        // Keys such as file names contain dots.
        let key = if key.contains('.') { format!("[{key}]") } else { key };
        let dot = if path.is_empty() || key.starts_with('[') { "" } else { "." };
        descend(format!("{path}{dot}{key}"), value, found);
    }
}

/// Returns why a deployer cannot express a value; `None` if it can.
pub fn reason(value: &Value) -> Option<&str> {
    value.get(NOT_EXPRESSIBLE).and_then(Value::as_str)
}

fn unstated_facts(bundles: &[BundleFacts]) -> Vec<UnstatedFact> {
    let mut found: Vec<UnstatedFact> = Vec::new();
    for bundle in bundles {
        for (name, release) in &bundle.releases {
            for (fact, value) in leaves(release) {
                let Some(reason) = reason(&value) else { continue };
                let known = found.iter_mut().find(|one| {
                    one.deployer == bundle.deployer && one.fact == fact && one.reason == reason
                });
                match known {
                    Some(known) if known.releases.contains(name) => {}
                    Some(known) => known.releases.push(name.clone()),
                    None => found.push(UnstatedFact {
                        deployer: bundle.deployer.clone(),
                        fact,
                        reason: reason.to_owned(),
                        releases: vec![name.clone()],
                    }),
                }
            }
        }
    }
    found
}
