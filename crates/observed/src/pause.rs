//! Paused nodes. While a node is paused, the hook does not start it: it does not cordon the node,
//! evict its pods or replace its driver. Started nodes whose driver is unchanged wait. The hook
//! finishes a node whose driver is already being replaced. It restores in any case what it took
//! from a node before.
//!
//! A pause that has ended by itself pauses nothing. It stays where it is stored, so every question
//! about pauses needs the time.

use std::borrow::Cow;
use std::cmp::Reverse;

use jiff::Timestamp;

use contract::driver::Driver;
use contract::pause::{self, AnnotatedPause};
use contract::selector::Selector;

use crate::{Observed, ObservedNode};

/// The user of a pause or request where the API server does not name one.
pub const UNKNOWN_USER: &str = "an unknown user";

/// Value of the annotation [`contract::driver::DriverTraits::hold`] for the hold of a pause.
pub const HOLD: &str = "pause";

/// A pause, as it is observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedPause {
    /// Its data key.
    pub key: String,
    /// Which nodes. `None`: all.
    pub selector: Option<Selector>,
    /// Who paused them.
    pub by: String,
    /// Why.
    pub reason: Option<String>,
    /// Since when. `None`: unknown, as an annotation has no time.
    pub at: Option<Timestamp>,
    /// When it ends by itself. `None`: never.
    pub until: Option<Timestamp>,
}

impl ObservedPause {
    /// Reads the pause under a data key. An unreadable pause applies to the whole fleet, because a
    /// user wanted to stop something.
    pub fn read(key: &str, text: &str) -> Self {
        let unreadable = |why: String| Self {
            key: key.to_owned(),
            selector: None,
            by: UNKNOWN_USER.to_owned(),
            reason: Some(format!("the pause `{key}` cannot be read ({why})")),
            at: None,
            until: None,
        };
        let pause: pause::Pause = match serde_json::from_str(text) {
            Ok(pause) => pause,
            Err(error) => return unreadable(error.to_string()),
        };
        let pause::Pause { selector, by, reason, at, until } = pause;
        match selector.as_deref().map(str::parse::<Selector>).transpose() {
            Ok(selector) => Self { key: key.to_owned(), selector, by, reason, at: Some(at), until },
            Err(error) => unreadable(error.to_string()),
        }
    }

    /// Returns whether it has ended by itself.
    pub fn has_ended(&self, now: Timestamp) -> bool {
        self.until.is_some_and(|until| until <= now)
    }

    /// Returns whether it applies to the node at this time.
    pub fn covers(&self, node: &ObservedNode, now: Timestamp) -> bool {
        let is_selected =
            self.selector.as_ref().is_none_or(|selector| selector.matches(&node.labels));
        is_selected && !self.has_ended(now)
    }
}

/// Returns the pauses of the ConfigMap that have not ended.
pub fn pauses_in_force(
    observed: &Observed,
    now: Timestamp,
) -> impl Iterator<Item = &ObservedPause> {
    observed.pauses.iter().filter(move |pause| !pause.has_ended(now))
}

/// Returns the pause of the annotation [`pause::ANNOTATION`] on a node, if it has not ended.
/// Kubernetes keeps no user of an annotation, so the annotation itself is named.
pub fn annotated_pause(node: &ObservedNode, now: Timestamp) -> Option<ObservedPause> {
    let value = node.annotations.get(pause::ANNOTATION)?;
    let AnnotatedPause { reason, until } = AnnotatedPause::read(value)?;
    let pause = ObservedPause {
        key: pause::ANNOTATION.to_owned(),
        selector: None,
        by: format!("annotation {}", pause::ANNOTATION),
        reason,
        at: None,
        until,
    };
    (!pause.has_ended(now)).then_some(pause)
}

/// Returns the nodes that the annotation [`pause::ANNOTATION`] pauses, each with its pause.
pub fn annotated_nodes(
    observed: &Observed,
    now: Timestamp,
) -> impl Iterator<Item = (&ObservedNode, ObservedPause)> {
    observed.nodes.values().filter_map(move |node| Some((node, annotated_pause(node, now)?)))
}

/// Returns the pause that covers a node: the one that lasts longest; of those, the oldest one with
/// a known time, the node's annotation last. So it stays the same until its end, if the pauses stay
/// the same, and then nothing pauses the node.
pub fn find_pause<'o>(
    observed: &'o Observed,
    node: &ObservedNode,
    now: Timestamp,
) -> Option<Cow<'o, ObservedPause>> {
    let covering = observed.pauses.iter().filter(|pause| pause.covers(node, now));
    let annotated = annotated_pause(node, now).map(Cow::Owned);
    covering.map(Cow::Borrowed).chain(annotated).min_by_key(|pause| {
        (pause.until.is_some(), Reverse(pause.until), pause.at.is_none(), pause.at)
    })
}

/// Returns whether the node has the hold of a pause.
pub fn has_hold(node: &ObservedNode, driver: Driver) -> bool {
    node.annotations.get(driver.traits().hold).is_some_and(|value| value == HOLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(labels: &[(&str, &str)]) -> ObservedNode {
        ObservedNode {
            name: "gpu-0".into(),
            labels: labels
                .iter()
                .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
                .collect(),
            ..ObservedNode::default()
        }
    }

    fn annotated(value: &str) -> ObservedNode {
        let annotations = [(pause::ANNOTATION.to_owned(), value.to_owned())];
        ObservedNode { annotations: annotations.into_iter().collect(), ..ObservedNode::default() }
    }

    fn at(text: &str) -> Timestamp {
        text.parse().expect("a valid time")
    }

    const NOW: &str = "2026-01-03T00:00:00Z";

    #[test]
    fn a_pause_covers_the_nodes_that_it_selects() {
        let pause = ObservedPause::read(
            "a",
            r#"{"selector":"pool=a","by":"sre","at":"2026-01-01T00:00:00Z","news":1}"#,
        );
        let covers = |labels: &[(&str, &str)]| pause.covers(&node(labels), at(NOW));
        assert_eq!(
            (pause.by.as_str(), covers(&[("pool", "a")]), covers(&[("pool", "b")])),
            ("sre", true, false)
        );
        let fleet = ObservedPause::read("fleet", r#"{"by":"sre","at":"2026-01-01T00:00:00Z"}"#);
        assert!(fleet.covers(&node(&[]), at(NOW)));
    }

    /// A typo must not disable the pause of a user who wanted to stop something.
    #[test]
    fn unreadable_pause_stops_the_whole_fleet() {
        for wrong in [
            "",
            "yes",
            "{}",
            r#"{"selector":"=","by":"sre","at":"2026-01-01T00:00:00Z"}"#,
            r#"{"by":"sre","at":"2026-01-01T00:00:00Z","until":"2026-01-02"}"#,
        ] {
            let pause = ObservedPause::read("x", wrong);
            assert!(pause.covers(&node(&[]), at(NOW)), "{wrong}");
            assert!(
                pause.reason.as_deref().is_some_and(|reason| reason.contains("cannot be read")),
                "{pause:?}"
            );
        }
    }

    #[test]
    fn pause_ends_at_its_time() {
        let until = at("2026-01-04T00:00:00Z");
        let text = r#"{"by":"sre","at":"2026-01-01T00:00:00Z","until":"2026-01-04T00:00:00Z"}"#;
        let pause = ObservedPause::read("fleet", text);
        let observed = Observed { pauses: vec![pause], ..Observed::default() };
        let frozen = annotated("until 2026-01-04T00:00:00Z: INC-4711");
        let second = jiff::SignedDuration::from_secs(1);
        for (now, is_paused) in [(until - second, true), (until, false), (until + second, false)] {
            assert_eq!(find_pause(&observed, &node(&[]), now).is_some(), is_paused, "{now}");
            assert_eq!(pauses_in_force(&observed, now).count(), usize::from(is_paused), "{now}");
            assert_eq!(annotated_pause(&frozen, now).is_some(), is_paused, "{now}");
        }
        let pause = annotated_pause(&frozen, at(NOW)).expect("the node is paused");
        assert_eq!((pause.reason.as_deref(), pause.until), (Some("INC-4711"), Some(until)));
    }

    #[test]
    fn longest_pause_is_named_and_then_the_oldest() {
        let pause = |(by, day, until): (&str, u8, Option<u8>)| {
            let until = until.map_or_else(String::new, |day| {
                format!(r#","until":"2026-01-{day:02}T00:00:00Z""#)
            });
            let at = format!("2026-01-{day:02}T00:00:00Z");
            ObservedPause::read(by, &format!(r#"{{"by":"{by}","at":"{at}"{until}}}"#))
        };
        let annotation = "annotation gpu-rollout.dev/pause";
        for (pauses, value, named) in [
            (vec![], None, None),
            (vec![("b", 2, None), ("a", 1, None)], None, Some("a")),
            (vec![("b", 2, Some(9)), ("a", 1, Some(9))], None, Some("a")),
            (vec![("b", 2, Some(9)), ("a", 1, Some(8))], None, Some("b")),
            (vec![("b", 2, None), ("a", 1, Some(9))], None, Some("b")),
            (vec![("a", 1, Some(3))], None, None),
            (vec![("a", 1, None)], Some("INC-4711"), Some("a")),
            (vec![("a", 1, Some(9))], Some("INC-4711"), Some(annotation)),
            (vec![("a", 1, Some(9))], Some("until 2026-01-08T00:00:00Z"), Some("a")),
            (vec![("a", 1, Some(3))], Some("until 2026-01-08T00:00:00Z"), Some(annotation)),
        ] {
            let place = format!("{pauses:?}, {value:?}");
            let node = value.map_or_else(|| node(&[]), annotated);
            let pauses = pauses.into_iter().map(pause).collect();
            let observed = Observed { pauses, ..Observed::default() };
            let found = find_pause(&observed, &node, at(NOW));
            assert_eq!(found.as_ref().map(|pause| pause.by.as_str()), named, "{place}");
        }
    }

    #[test]
    fn annotation_pauses_its_node() {
        let paused = |value: &str| {
            let node = annotated(value);
            find_pause(&Observed::default(), &node, at(NOW)).map(|pause| pause.reason.clone())
        };
        assert_eq!(paused("INC-4711"), Some(Some("INC-4711".to_owned())));
        assert_eq!(paused("true"), Some(None));
        assert_eq!(paused(""), Some(None));
        assert_eq!(paused("false"), None);
        assert_eq!(paused("until 2026-01-02T00:00:00Z"), None);
    }
}
