//! Finds incompatible versions and values, by the catalog's table.

use std::cmp::Ordering;

use semver::{Version, VersionReq};

use super::{KnownComponent, RuleTarget};
use catalog::compatibility_table::{
    CompatibilityLevel, CompatibilityRule, ComponentFact, RecipeFact, VersionRange, rules,
};
use catalog::nested::{HostComponent, extras};
use contract::names::GPU_OPERATOR;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::source::SourceSpan;

/// A minor version beyond any Kubernetes release.
const LAST_MINOR: u64 = 200;

/// Checks the recipe against the table.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let check = CompatibilityCheck { subject };
    for rule in rules() {
        if rule.when.iter().all(|fact| check.holds(fact) == Some(true)) {
            let broken = rule.needs.iter().find(|fact| check.holds(fact) == Some(false));
            if rule.needs.is_empty() || broken.is_some() {
                findings.push(check.finding(rule, broken));
            }
        }
    }
}

struct CompatibilityCheck<'a> {
    subject: &'a RuleTarget<'a>,
}

impl CompatibilityCheck<'_> {
    fn finding(&self, rule: &CompatibilityRule, broken: Option<&RecipeFact>) -> Diagnostic {
        // If some of the recipe's clusters fulfill the rule, the bundle works there.
        let will_do = broken.is_some_and(|fact| self.is_possible(fact));
        let mut finding = match rule.level {
            CompatibilityLevel::Error if !will_do => Diagnostic::error(rule.message.as_str()),
            CompatibilityLevel::Error | CompatibilityLevel::Warning => {
                Diagnostic::warning(rule.message.as_str())
            }
        };
        let mut places: Vec<(SourceSpan, &str)> = Vec::new();
        for fact in rule.when.iter().chain(broken.filter(|fact| self.is_written(fact))) {
            let place = self
                .place(fact)
                .filter(|(place, _)| !places.iter().any(|(known, _)| known == place));
            places.extend(place);
        }
        let mut places = places.into_iter();
        if let Some((place, _)) = places.next() {
            finding = finding.at(place);
        }
        for (place, label) in places {
            finding = finding.related(place, label);
        }
        finding
            .lint(Lint::Incompatible)
            .hint(rule.hint.as_str())
            .hint(format!("rule `{}`, source: {}", rule.name, rule.source))
    }

    /// Whether the fact holds; `None` if the recipe does not say.
    fn holds(&self, fact: &RecipeFact) -> Option<bool> {
        match fact {
            RecipeFact::Component(fact) => self
                .subject
                .component(&fact.name)
                .map_or(Some(false), |known| self.is_like(known, fact)),
            RecipeFact::Runs(component) => Some(self.runs(component)),
            RecipeFact::Kubernetes(range) => {
                let lowest = admitted(&self.kubernetes()?).next()?;
                is_in(range, |bound| compare(&lowest, bound))
            }
            RecipeFact::GpuDriver(range) => {
                let version = self.driver()?;
                is_in(range, |bound| compare_driver(&version, bound))
            }
            RecipeFact::Recipe(paths) => Some(paths.iter().all(|(path, value)| {
                let keys: Vec<&str> = path.split('.').collect();
                self.subject.node_at(&keys).is_some_and(|node| node.to_json() == *value)
            })),
        }
    }

    /// Whether the range contains a Kubernetes version that the recipe supports.
    fn is_possible(&self, fact: &RecipeFact) -> bool {
        let RecipeFact::Kubernetes(range) = fact else { return false };
        self.kubernetes().is_some_and(|written| {
            admitted(&written)
                .any(|minor| is_in(range, |bound| compare(&minor, bound)) == Some(true))
        })
    }

    fn kubernetes(&self) -> Option<VersionReq> {
        VersionReq::parse(self.subject.recipe.cluster.kubernetes.as_deref()?).ok()
    }

    fn is_like(&self, known: &KnownComponent<'_>, fact: &ComponentFact) -> Option<bool> {
        let range = VersionRange { from: fact.from.clone(), before: fact.before.clone() };
        let mut answers = vec![is_in(&range, |bound| known.entry.compare(known.number, bound))];
        answers.extend(
            fact.values.iter().map(|(path, value)| Some(known.value(&keys(path))? == *value)),
        );
        // An unset feature gate has the driver's default, which is off for all gates that the table
        // excludes.
        answers.extend(
            fact.except
                .iter()
                .map(|(path, value)| Some(known.value(&keys(path)).as_ref() != Some(value))),
        );
        answers.extend(fact.keys.iter().map(|(path, key)| Some(self.has_key(known, path, key))));
        answers.extend(fact.runs.iter().map(|nested| Some(self.runs_inside(known, nested))));
        if answers.contains(&Some(false)) {
            return Some(false);
        }
        if answers.contains(&None) { None } else { Some(true) }
    }

    /// Whether a map has this key: as a value, or from the recipe's `nodeScheduling`.
    fn has_key(&self, known: &KnownComponent<'_>, path: &str, key: &str) -> bool {
        let value = known.value(&keys(path)).is_some_and(|map| map.get(key).is_some());
        let places = known.entry.scheduling_in(known.number);
        let groups = [("system", &places.system), ("accelerated", &places.accelerated)];
        value
            || groups.iter().any(|(group, places)| {
                let written =
                    ["components", known.name, "nodeScheduling", group, "nodeSelector", key];
                places.node_selector.iter().any(|place| place == path)
                    && self.subject.node_at(&written).is_some()
            })
    }

    /// Whether the component runs, from its own chart or from another component's.
    fn runs(&self, component: &str) -> bool {
        self.subject.hosts().any(|host| host.runs(component))
    }

    /// Whether the component's chart runs `nested` as a sub-chart. A bundle disables the sub-chart
    /// if another component runs the same.
    fn runs_inside(&self, known: &KnownComponent<'_>, nested: &str) -> bool {
        let hosts: Vec<HostComponent<'_>> = self.subject.hosts().collect();
        let is_extra = extras(&hosts)
            .iter()
            .any(|extra| extra.host == known.name && extra.nested.component == nested);
        !is_extra && hosts.iter().any(|host| host.component.name == known.name && host.runs(nested))
    }

    /// Returns the version of the driver that the GPU Operator installs; `None` for an image
    /// digest.
    fn driver(&self) -> Option<String> {
        let operator = self
            .subject
            .component(GPU_OPERATOR)
            .filter(|operator| operator.is_on(&["driver", "enabled"]) == Some(true))?;
        let own = self.subject.recipe.rollout.gpu_driver.version.clone();
        let version =
            own.or_else(|| operator.value(&["driver", "version"])?.as_str().map(str::to_owned))?;
        version.starts_with(|first: char| first.is_ascii_digit()).then_some(version)
    }

    /// Whether the recipe itself sets it.
    fn is_written(&self, fact: &RecipeFact) -> bool {
        match fact {
            RecipeFact::Component(fact) => self.written(fact).is_some(),
            RecipeFact::Recipe(paths) => {
                paths.keys().any(|path| self.subject.node_at(&keys(path)).is_some())
            }
            RecipeFact::Runs(_) | RecipeFact::Kubernetes(_) | RecipeFact::GpuDriver(_) => true,
        }
    }

    /// Returns the first value of the fact that the recipe sets.
    fn written<'f>(&self, fact: &'f ComponentFact) -> Option<&'f str> {
        let values = ["components", fact.name.as_str(), "values"];
        let mut paths = fact.values.keys().chain(fact.except.keys()).chain(fact.keys.keys());
        paths
            .find(|path| self.subject.node_at(&[&values[..], &keys(path)].concat()).is_some())
            .map(String::as_str)
    }

    /// Returns the position in the recipe that decides the fact, and a label for it.
    fn place<'f>(&self, fact: &'f RecipeFact) -> Option<(SourceSpan, &'f str)> {
        let below = |start: &[&str], path: &str| self.subject.place(&[start, &keys(path)].concat());
        Some(match fact {
            RecipeFact::Component(fact) => {
                self.subject.component(&fact.name)?;
                let component = ["components", fact.name.as_str()];
                let values = [&component[..], &["values"]].concat();
                let place = match self.written(fact) {
                    Some(path) => below(&values, path),
                    None if fact.from.is_some() || fact.before.is_some() => {
                        below(&component, "version")
                    }
                    None => self.subject.place(&component),
                };
                (place, "and here")
            }
            RecipeFact::Kubernetes(_) => {
                (below(&["cluster"], "kubernetes"), "the supported Kubernetes versions")
            }
            RecipeFact::GpuDriver(_)
                if self.subject.recipe.rollout.gpu_driver.version.is_some() =>
            {
                (below(&["rollout", "gpuDriver"], "version"), "the driver")
            }
            RecipeFact::GpuDriver(_) => {
                (below(&["components", GPU_OPERATOR, "values"], "driver.version"), "the driver")
            }
            RecipeFact::Recipe(paths) => (below(&[], paths.keys().next()?), "and here"),
            RecipeFact::Runs(_) => return None,
        })
    }
}

fn keys(path: &str) -> Vec<&str> {
    path.split('.').collect()
}

fn is_in(range: &VersionRange, compare: impl Fn(&str) -> Option<Ordering>) -> Option<bool> {
    let from =
        range.from.as_deref().map_or(Some(true), |from| compare(from).map(Ordering::is_ge))?;
    let before = range
        .before
        .as_deref()
        .map_or(Some(true), |before| compare(before).map(Ordering::is_lt))?;
    Some(from && before)
}

/// Returns the minor releases of Kubernetes 1 that a range contains, lowest first.
fn admitted(range: &VersionReq) -> impl Iterator<Item = String> {
    let patches: Vec<u64> = range
        .comparators
        .iter()
        .filter_map(|comparator| comparator.patch)
        .chain([0, u64::from(u16::MAX)])
        .collect();
    let admits = move |minor: &u64| {
        patches.iter().any(|patch| range.matches(&Version::new(1, *minor, *patch)))
    };
    (0..LAST_MINOR).filter(admits).map(|minor| format!("1.{minor}"))
}

/// Compares drivers like versions. The branch of a precompiled driver can be any version of it.
fn compare_driver(driver: &str, bound: &str) -> Option<Ordering> {
    let is_part = bound.strip_prefix(driver).is_some_and(|rest| rest.starts_with('.'));
    if is_part { None } else { compare(driver, bound) }
}

/// Compares versions number by number. `580.126.20-grid` equals `580.126.20`.
fn compare(first: &str, second: &str) -> Option<Ordering> {
    let numbers = |text: &str| -> Option<Vec<u64>> {
        text.split(['-', '+']).next()?.split('.').map(|part| part.parse().ok()).collect()
    };
    let (mut first, mut second) = (numbers(first)?, numbers(second)?);
    let length = first.len().max(second.len());
    first.resize(length, 0);
    second.resize(length, 0);
    Some(first.cmp(&second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_release_of_a_range() {
        for (range, expected) in [
            (">=1.32", Some("1.32")),
            (">1.31.4, <1.36", Some("1.31")),
            ("=1.30.2", Some("1.30")),
            ("1.33", Some("1.33")),
            ("<1", None),
        ] {
            assert_eq!(
                admitted(&VersionReq::parse(range).unwrap()).next().as_deref(),
                expected,
                "{range}"
            );
        }
    }

    #[test]
    fn drivers_are_compared_number_by_number() {
        for (first, second, expected) in [
            ("570.158.01", "570.158.1", Some(Ordering::Equal)),
            ("580.10", "580.9", Some(Ordering::Greater)),
            ("565", "565.57.01", Some(Ordering::Less)),
            ("570.86.15-grid", "570.86.15", Some(Ordering::Equal)),
            ("latest", "565", None),
        ] {
            assert_eq!(compare(first, second), expected, "{first} {second}");
        }
    }

    #[test]
    fn branches_are_unknown_versions_within_themselves() {
        for (driver, bound, expected) in [
            ("570", "570.158.01", None),
            ("575", "570.158.01", Some(Ordering::Greater)),
            ("565", "570.158.01", Some(Ordering::Less)),
            ("565", "565", Some(Ordering::Equal)),
            ("570.86.15", "570.158.01", Some(Ordering::Less)),
        ] {
            assert_eq!(compare_driver(driver, bound), expected, "{driver} {bound}");
        }
    }

    #[test]
    fn bounds_of_a_range() {
        let range = VersionRange { from: Some("2".into()), before: Some("3".into()) };
        for (version, expected) in [("1.9", false), ("2", true), ("2.9", true), ("3", false)] {
            assert_eq!(is_in(&range, |bound| compare(version, bound)), Some(expected), "{version}");
        }
        assert_eq!(is_in(&range, |_| None), None);
    }
}
