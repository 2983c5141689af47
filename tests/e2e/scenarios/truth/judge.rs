//! Judges claims: counts them by name, and keeps the lies.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;

use super::facts::Facts;

/// The API server, as the story has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Server {
    Up,
    Down,
    /// It is being stopped or started: nothing is claimed.
    Changing,
}

/// An answer of the program, with what was true before and after it.
pub(super) struct Answer {
    /// What was typed.
    pub(super) line: String,
    /// The exit code; `None`: it had not ended when its time was over.
    pub(super) code: Option<i32>,
    /// What it printed.
    pub(super) document: Value,
    /// The API server meanwhile.
    pub(super) server: Server,
    /// The facts before and after, where both could be read.
    pub(super) facts: Option<(Facts, Facts)>,
    /// Metrics before and after, where a hook served some.
    pub(super) metrics: Option<(String, String)>,
}

impl Answer {
    /// The rollout that it is about.
    pub(super) fn rollout(&self) -> &Value {
        &self.document["rollouts"][0]
    }

    /// The row of each node that it has.
    pub(super) fn rows(&self) -> impl Iterator<Item = &Value> {
        let rollout = self.rollout();
        array(&rollout["nodes"]).chain(rollout.get("row"))
    }

    /// A fact that was the same before and after.
    pub(super) fn fact<T: PartialEq>(&self, of: impl Fn(&Facts) -> T) -> Option<T> {
        let (before, after) = self.facts.as_ref()?;
        let (before, after) = (of(before), of(after));
        (before == after).then_some(after)
    }
}

/// What became of the claims about some answers.
#[derive(Default)]
pub(super) struct Judge {
    /// How often each claim was judged.
    judged: BTreeMap<&'static str, usize>,
    /// Each lie: the time and object of its first occurrence, and how often it occurred.
    lies: BTreeMap<String, (Duration, String, usize)>,
    fresh: Vec<String>,
}

impl Judge {
    /// Judges a claim.
    pub(super) fn claim(&mut self, name: &'static str, holds: bool, lie: impl FnOnce() -> String) {
        *self.judged.entry(name).or_default() += 1;
        if !holds {
            self.fresh.push(format!("{name}: {}", lie()));
        }
    }

    /// Keeps the lies of an answer; the new ones are returned.
    pub(super) fn end(&mut self, at: Duration, line: &str) -> Vec<String> {
        let mut new = Vec::new();
        for lie in std::mem::take(&mut self.fresh) {
            let known = self.lies.entry(lie.clone()).or_insert_with(|| {
                new.push(lie);
                (at, line.to_owned(), 0)
            });
            known.2 += 1;
        }
        new
    }

    /// How often a claim was judged.
    pub(super) fn judged(&self, name: &str) -> usize {
        self.judged.get(name).copied().unwrap_or_default()
    }

    /// How often each claim was judged, in one line.
    pub(super) fn summary(&self) -> String {
        let counts = self.judged.iter().map(|(name, count)| format!("{name} {count}"));
        counts.collect::<Vec<_>>().join(", ")
    }

    /// The lies in the order of their first occurrence.
    pub(super) fn lies(&self) -> Vec<String> {
        let mut lies: Vec<_> = self.lies.iter().collect();
        lies.sort_by_key(|(_, (at, ..))| *at);
        lies.iter()
            .map(|(lie, (at, line, times))| {
                format!("second {:.1}, {times} times: $ {line}: {lie}", at.as_secs_f64())
            })
            .collect()
    }
}

/// The elements of an array; none where it is absent.
pub(super) fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// A text; empty where it is absent.
pub(super) fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// A number of nodes.
pub(super) fn count(value: &Value) -> Option<usize> {
    value.as_u64().and_then(|number| usize::try_from(number).ok())
}

/// A time; `None` where it is absent.
pub(super) fn time(value: &Value) -> Option<Timestamp> {
    value.as_str()?.parse().ok()
}
