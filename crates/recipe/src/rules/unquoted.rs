//! Checks of strings that the templates of a chart write without quotes. YAML reads some of them as
//! a tag, null, a boolean or a number, and the operator gets something else than the recipe sets.

use std::cmp::Ordering;

use super::rollout::is_branch;
use super::{KnownComponent, RuleTarget};
use catalog::lookup;
use catalog::model::{ComponentVersion, UnquotedValue};
use contract::grammar::shown;
use contract::names::{GPU_OPERATOR, NETWORK_OPERATOR};
use contract::selector::Selector;
use contract::settings::Mode;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::tree::YamlNode;

/// A requirement that every pod fulfills, because no pod has this label. With it in front, a
/// selector selects the same pods, and YAML reads it as a string.
const EVERY_POD: &str = "gpu-rollout.dev/none!=true";

/// Checks the strings of all components that their charts write without quotes.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        let like = component.entry.closest_version(component.number);
        for value in &like.unquoted_values {
            if is_written(component, like, value) {
                check_value(subject, component, &value.path, findings);
            }
        }
    }
}

/// Whether the templates write the value. `like` is the version of the catalog that works like the
/// recipe's.
fn is_written(
    component: &KnownComponent<'_>,
    like: &ComponentVersion,
    value: &UnquotedValue,
) -> bool {
    let defaults = component.entry.defaults(Some(like));
    value.conditions.iter().all(|(path, expected)| {
        let keys: Vec<&str> = path.split('.').collect();
        let found = component.value(&keys).or_else(|| lookup(defaults, path).cloned());
        found.as_ref() == Some(expected)
    })
}

fn check_value(
    subject: &RuleTarget<'_>,
    component: &KnownComponent<'_>,
    path: &str,
    findings: &mut Vec<Diagnostic>,
) {
    let is_selector = path.ends_with(".podSelector");
    for keys in places(subject, component.name, path) {
        let Some(text) = subject.node_at(&keys).and_then(YamlNode::text).map(str::trim) else {
            continue;
        };
        let Some(reading) = PlainReading::from_text(text) else { continue };
        // Another rule reports a text that is not a selector.
        if is_selector && text.parse::<Selector>().is_err() {
            continue;
        }
        Diagnostic::error(format!(
            "the chart `{} {}` writes `{}` without quotes, and YAML reads {}",
            component.entry.chart,
            component.number,
            shown(text),
            reading.consequence()
        ))
        .lint(Lint::Unquoted)
        .at(subject.place(&keys))
        .hint(if is_selector { selector_hint(text) } else { version_hint(component, path, text) })
        .report(findings);
    }
}

/// Returns where a recipe can set the chart's value at `path`: in values, and below `rollout`.
fn places<'p>(subject: &RuleTarget<'_>, component: &'p str, path: &'p str) -> Vec<Vec<&'p str>> {
    let in_values = ["components", component, "values"].into_iter().chain(path.split('.'));
    let mut places: Vec<Vec<&'p str>> = vec![in_values.collect()];
    let rollout = &subject.recipe.rollout;
    let (driver, mode) = match component {
        GPU_OPERATOR => ("gpuDriver", Some(rollout.gpu_driver.mode)),
        NETWORK_OPERATOR => ("ofedDriver", rollout.ofed_driver.as_ref().map(|driver| driver.mode)),
        _ => return places,
    };
    // In `drive`, the hook applies the policy, and no value of the chart has it.
    if mode == Some(Mode::Drive) && path.contains(".upgradePolicy.") {
        return places;
    }
    let own = path.split('.').skip(1);
    let own = own.map(|key| if key == "upgradePolicy" { "policy" } else { key });
    places.push(["rollout", driver].into_iter().chain(own).collect());
    places
}

fn selector_hint(text: &str) -> String {
    format!(
        "write `{EVERY_POD},{text}`: no pod has that label, so this selects the same pods; or use mode `drive`, in which the hook applies the selector"
    )
}

fn version_hint(component: &KnownComponent<'_>, path: &str, text: &str) -> String {
    let newer = quoted_since(component, path).map_or_else(String::new, |version| {
        format!("use version {version} or later of the chart; or ")
    });
    if component.name != GPU_OPERATOR {
        return format!("{newer}write the whole version, such as `24.10-0.7.0.0-0`");
    }
    // A precompiled driver has only a branch.
    let whole =
        if is_branch(text) { "" } else { "; or write the whole version, such as `580.126.20`" };
    format!(
        "{newer}if the driver is not deployed yet, remove `driver.nvidiaDriverCRD.enabled`: the version is then in ClusterPolicy, where the chart quotes it (in a running cluster, this change deletes all driver pods at once){whole}"
    )
}

/// Returns the first later version of the chart that does not write the value without quotes.
fn quoted_since(component: &KnownComponent<'_>, path: &str) -> Option<&'static str> {
    let entry = component.entry;
    let known = entry.versions.iter().find(|known| {
        let order = entry.compare(&known.version, component.number);
        order.is_some_and(Ordering::is_gt)
            && !known.unquoted_values.iter().any(|value| value.path == path)
    })?;
    let since = known.since.as_ref().unwrap_or(&known.version);
    Some(since)
}

/// What YAML reads instead of a string without quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlainReading {
    Tag,
    Null,
    Boolean,
    Number,
}

impl PlainReading {
    /// Returns how Helm's parser reads a selector or a version; `None` if it reads the same string.
    /// Other characters that are special in YAML cannot start a selector or a version.
    fn from_text(text: &str) -> Option<Self> {
        if text.starts_with('!') {
            return Some(Self::Tag);
        }
        match text.to_ascii_lowercase().as_str() {
            "null" => Some(Self::Null),
            "y" | "yes" | "on" | "true" | "n" | "no" | "off" | "false" => Some(Self::Boolean),
            lower => is_number(lower).then_some(Self::Number),
        }
    }

    /// Returns what YAML reads, and what follows.
    fn consequence(self) -> &'static str {
        match self {
            Self::Tag => {
                "its start as a tag, so the operator would get an empty or a different string"
            }
            Self::Null => "it as null, so the operator would get no string",
            Self::Boolean => "it as a boolean, which the API server refuses",
            Self::Number => "it as a number, which the API server refuses",
        }
    }
}

/// Whether Helm's parser reads a text in lower case as a number. It ignores underscores.
fn is_number(text: &str) -> bool {
    let plain = text.replace('_', "");
    let all = |digits: &str, radix: u32| {
        !digits.is_empty() && digits.chars().all(|digit| digit.is_digit(radix))
    };
    for (prefix, radix) in [("0x", 16), ("0o", 8), ("0b", 2)] {
        if let Some(digits) = plain.strip_prefix(prefix) {
            return all(digits, radix);
        }
    }
    let (mantissa, exponent) = plain.split_once('e').unwrap_or((plain.as_str(), "0"));
    let exponent = exponent.strip_prefix(['+', '-']).unwrap_or(exponent);
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    all(whole, 10) && all(exponent, 10) && (fraction.is_empty() || all(fraction, 10))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    /// The readings of Helm 4 (`fromYaml` of `v: TEXT`).
    #[test]
    fn plain_text_is_read_as_by_helm() {
        for (texts, expected) in [
            (
                &["!keep", "!a/b", "! keep", "!keep, app=x", "!tier in (a)"][..],
                Some(PlainReading::Tag),
            ),
            (&["null", "Null", "NULL"], Some(PlainReading::Null)),
            (&["y", "n", "Y", "yes", "On", "true"], Some(PlainReading::Boolean)),
            (
                &["0", "123", "580", "0644", "08", "0x1F", "0b1", "0o17", "1_000", "1__2"],
                Some(PlainReading::Number),
            ),
            (
                &["580.10", "1.", "5.", "1e3", "1E3", "5e-3", "12e03", "685_230.15"],
                Some(PlainReading::Number),
            ),
            (&["app", "app=train", "app==x", "size>3", "tier in (a,b)", "inf", "NaN", ""], None),
            (
                &[
                    "580.126.20",
                    "580-grid",
                    "2001-12-14",
                    "1e",
                    "1.5e",
                    "5E3.1",
                    "0x",
                    "0b2",
                    "0o8",
                ],
                None,
            ),
        ] {
            for text in texts {
                assert_eq!(PlainReading::from_text(text), expected, "{text}");
            }
        }
    }

    #[test]
    fn selector_of_the_hint_selects_the_same_pods() {
        let keep = BTreeMap::from([("keep".to_owned(), String::new())]);
        for text in ["!keep", "! keep", "keep", "123", "null", "!keep, !other"] {
            let better = format!("{EVERY_POD},{text}");
            assert_eq!(PlainReading::from_text(&better), None, "{better}");
            let [own, better] = [text, &better].map(|text| text.parse::<Selector>().unwrap());
            for labels in [&keep, &BTreeMap::new()] {
                assert_eq!(better.matches(labels), own.matches(labels), "{text} {labels:?}");
            }
        }
    }
}
