//! Label selectors, as Kubernetes reads them (apimachinery `pkg/labels`): a text such as
//! `app=train,tier in (a,b),!skip`, or the `matchLabels` and `matchExpressions` of an object.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

use super::grammar::is_dns_subdomain;

/// The labels of an object.
pub trait Labeled {
    /// Returns the value of a label, if it is present.
    fn label(&self, key: &str) -> Option<&str>;
}

impl Labeled for BTreeMap<String, String> {
    fn label(&self, key: &str) -> Option<&str> {
        self.get(key).map(String::as_str)
    }
}

/// A label selector: all its requirements must hold. Without requirements, it selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selector {
    requirements: Vec<LabelRequirement>,
}

/// One requirement on one label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// The requirement on its value.
    pub operator: LabelOperator,
}

/// A requirement on the value of a label.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LabelOperator {
    /// The label is present with one of these values.
    In(BTreeSet<String>),
    /// The label is absent, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label is present.
    Exists,
    /// The label is absent.
    DoesNotExist,
    /// The value is a whole number above this limit.
    Above(i64),
    /// The value is a whole number below this limit.
    Below(i64),
}

/// Why a text is not a selector.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is not a label selector: {reason}")]
pub struct SelectorError {
    text: String,
    reason: String,
}

impl SelectorError {
    /// Returns the reason.
    pub fn reason(&self) -> &str {
        &self.reason
    }
}

impl LabelRequirement {
    fn matches(&self, labels: &impl Labeled) -> bool {
        let value = labels.label(&self.key);
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.operator {
            LabelOperator::In(values) => value.is_some_and(|value| values.contains(value)),
            LabelOperator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            LabelOperator::Exists => value.is_some(),
            LabelOperator::DoesNotExist => value.is_none(),
            LabelOperator::Above(limit) => number().is_some_and(|number| number > *limit),
            LabelOperator::Below(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}

impl Selector {
    /// Creates a selector from these requirements.
    pub fn new(requirements: Vec<LabelRequirement>) -> Self {
        Self { requirements }
    }

    /// Returns whether the selector matches these labels.
    pub fn matches(&self, labels: &impl Labeled) -> bool {
        self.requirements.iter().all(|requirement| requirement.matches(labels))
    }

    /// Returns whether it selects everything.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty()
    }

    /// Adds the requirement that `key` is not `value`: with it, NVIDIA's controller excludes pods
    /// from a drain.
    #[must_use]
    pub fn and_not(mut self, key: &str, value: &str) -> Self {
        self.requirements.push(LabelRequirement {
            key: key.to_owned(),
            operator: LabelOperator::NotIn(BTreeSet::from([value.to_owned()])),
        });
        self
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        let error = |reason: String| SelectorError { text: text.to_owned(), reason };
        if text.trim().is_empty() {
            return Ok(Self::default());
        }
        split(text)
            .map_err(error)?
            .into_iter()
            .map(|part| requirement(part.trim()).map_err(error))
            .collect::<Result<_, _>>()
            .map(Self::new)
    }
}

/// Splits at the commas outside parentheses.
fn split(text: &str) -> Result<Vec<&str>, String> {
    let (mut parts, mut begin, mut inside) = (Vec::new(), 0, false);
    for (at, letter) in text.char_indices() {
        match letter {
            '(' if inside => return Err("`(` inside `( … )`".to_owned()),
            '(' => inside = true,
            ')' if !inside => return Err("`)` without `(`".to_owned()),
            ')' => inside = false,
            ',' if !inside => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => {}
        }
    }
    if inside {
        return Err("`(` without `)`".to_owned());
    }
    parts.push(&text[begin..]);
    Ok(parts)
}

fn requirement(part: &str) -> Result<LabelRequirement, String> {
    if let Some(key) = part.strip_prefix('!') {
        return Ok(LabelRequirement {
            key: label_key(key.trim())?,
            operator: LabelOperator::DoesNotExist,
        });
    }
    if let Some((left, values)) = part.split_once('(') {
        let values = values
            .strip_suffix(')')
            .ok_or_else(|| format!("unexpected text after the `)` of `{part}`"))?;
        let values = values
            .split(',')
            .map(|value| label_value(value.trim()))
            .collect::<Result<BTreeSet<_>, _>>()?;
        let words: Vec<&str> = left.split_whitespace().collect();
        return match words.as_slice() {
            [key, "in"] => {
                Ok(LabelRequirement { key: label_key(key)?, operator: LabelOperator::In(values) })
            }
            [key, "notin"] => Ok(LabelRequirement {
                key: label_key(key)?,
                operator: LabelOperator::NotIn(values),
            }),
            _ => Err(format!("expected `KEY in (…)` or `KEY notin (…)`, found `{part}`")),
        };
    }
    let one = |value: &str| label_value(value.trim()).map(|value| BTreeSet::from([value]));
    let number = |value: &str| {
        value.trim().parse::<i64>().map_err(|_| format!("`{}` is not a whole number", value.trim()))
    };
    let (key, operator) = if let Some((key, value)) = part.split_once("!=") {
        (key, LabelOperator::NotIn(one(value)?))
    } else if let Some((key, value)) = part.split_once("==").or_else(|| part.split_once('=')) {
        (key, LabelOperator::In(one(value)?))
    } else if let Some((key, value)) = part.split_once('>') {
        (key, LabelOperator::Above(number(value)?))
    } else if let Some((key, value)) = part.split_once('<') {
        (key, LabelOperator::Below(number(value)?))
    } else {
        (part, LabelOperator::Exists)
    };
    Ok(LabelRequirement { key: label_key(key.trim())?, operator })
}

/// Returns whether a text is a label key.
pub fn is_label_key(text: &str) -> bool {
    label_key(text).is_ok()
}

/// Returns whether a text is a label value.
pub fn is_label_value(text: &str) -> bool {
    is_label_word(text)
}

/// A label key: a name of at most 63 letters, digits, `-`, `_` and `.`, with an optional DNS
/// prefix.
fn label_key(key: &str) -> Result<String, String> {
    let (prefix, name) =
        key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    let prefix_fits = prefix.is_none_or(is_dns_subdomain);
    if prefix_fits && !name.is_empty() && is_label_word(name) {
        Ok(key.to_owned())
    } else {
        Err(format!("`{key}` is not a label key"))
    }
}

fn label_value(value: &str) -> Result<String, String> {
    if is_label_word(value) {
        Ok(value.to_owned())
    } else {
        Err(format!("`{value}` is not a label value"))
    }
}

/// Empty, or at most 63 letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_label_word(word: &str) -> bool {
    let bytes = word.as_bytes();
    let ends = [bytes.first(), bytes.last()].into_iter().flatten().all(u8::is_ascii_alphanumeric);
    word.len() <= 63
        && ends
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte))
}

impl fmt::Display for Selector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, requirement) in self.requirements.iter().enumerate() {
            write!(formatter, "{}{requirement}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Display for LabelRequirement {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let join = |values: &BTreeSet<String>| {
            values.iter().map(String::as_str).collect::<Vec<_>>().join(",")
        };
        match &self.operator {
            LabelOperator::In(values) if values.len() == 1 => {
                write!(formatter, "{key}={}", join(values))
            }
            LabelOperator::In(values) => write!(formatter, "{key} in ({})", join(values)),
            LabelOperator::NotIn(values) if values.len() == 1 => {
                write!(formatter, "{key}!={}", join(values))
            }
            LabelOperator::NotIn(values) => write!(formatter, "{key} notin ({})", join(values)),
            LabelOperator::Exists => formatter.write_str(key),
            LabelOperator::DoesNotExist => write!(formatter, "!{key}"),
            LabelOperator::Above(limit) => write!(formatter, "{key}>{limit}"),
            LabelOperator::Below(limit) => write!(formatter, "{key}<{limit}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> BTreeMap<String, String> {
        text.split_whitespace()
            .filter_map(|pair| pair.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect()
    }

    #[test]
    fn selectors_select_as_kubernetes_does() {
        for (selector, text, selected) in [
            ("", "", true),
            ("app=train", "app=train tier=a", true),
            ("app==train", "app=serve", false),
            ("app!=train", "", true),
            ("tier in (a, b),!skip", "tier=b", true),
            ("tier in (a,b),!skip", "tier=b skip=true", false),
            ("tier notin (a,b)", "tier=a", false),
            ("tier notin (a,b)", "", true),
            ("tier", "tier=", true),
            ("size>3", "size=4", true),
            ("size<3", "size=x", false),
            (
                "nvidia.com/gpu-driver-upgrade-drain.skip!=true",
                "nvidia.com/gpu-driver-upgrade-drain.skip=true",
                false,
            ),
        ] {
            let parsed: Selector = selector.parse().expect(selector);
            assert_eq!(parsed.matches(&labels(text)), selected, "{selector} on {text}");
            assert_eq!(
                parsed.to_string().parse::<Selector>().expect(selector),
                parsed,
                "{selector} is written as it is read"
            );
        }
    }

    #[test]
    fn invalid_selector_is_refused_with_the_place() {
        for (selector, reason) in [
            ("app=", ""),
            ("=x", "`` is not a label key"),
            ("a b", "`a b` is not a label key"),
            ("tier in a", "`tier in a` is not a label key"),
            ("tier in (a", "without `)`"),
            ("tier of (a)", "expected `KEY in"),
            ("a=b c", "`b c` is not a label value"),
            ("a,,b", "`` is not a label key"),
            ("size>x", "not a whole number"),
        ] {
            match selector.parse::<Selector>() {
                Ok(_) => assert_eq!(reason, "", "{selector} was taken"),
                Err(error) => assert!(
                    !reason.is_empty() && error.to_string().contains(reason),
                    "{selector}: {error}"
                ),
            }
        }
    }
}
