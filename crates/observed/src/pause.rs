//! Paused nodes. While a node is paused, the hook does not start it: it does not cordon the node,
//! evict its pods or replace its driver. Started nodes whose driver is unchanged wait. The hook
//! finishes a node whose driver is already being replaced. It restores in any case what it took
//! from a node before.

use std::borrow::Cow;

use jiff::Timestamp;

use contract::driver::Driver;
use contract::pause;
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
        };
        let pause: pause::Pause = match serde_json::from_str(text) {
            Ok(pause) => pause,
            Err(error) => return unreadable(error.to_string()),
        };
        let pause::Pause { selector, by, reason, at } = pause;
        match selector.as_deref().map(str::parse::<Selector>).transpose() {
            Ok(selector) => Self { key: key.to_owned(), selector, by, reason, at: Some(at) },
            Err(error) => unreadable(error.to_string()),
        }
    }

    /// Returns whether it applies to the node.
    pub fn covers(&self, node: &ObservedNode) -> bool {
        self.selector.as_ref().is_none_or(|selector| selector.matches(&node.labels))
    }
}

/// Returns the pause of the annotation [`pause::ANNOTATION`] on a node. Kubernetes keeps no user of
/// an annotation, so the annotation itself is named.
pub fn annotated_pause(node: &ObservedNode) -> Option<ObservedPause> {
    let value = node.annotations.get(pause::ANNOTATION).filter(|value| *value != "false")?;
    let is_reason = !matches!(value.trim(), "" | "true");
    Some(ObservedPause {
        key: pause::ANNOTATION.to_owned(),
        selector: None,
        by: format!("annotation {}", pause::ANNOTATION),
        reason: is_reason.then(|| value.trim().to_owned()),
        at: None,
    })
}

/// Returns the nodes that the annotation [`pause::ANNOTATION`] pauses, each with its pause.
pub fn annotated_nodes(
    observed: &Observed,
) -> impl Iterator<Item = (&ObservedNode, ObservedPause)> {
    observed.nodes.values().filter_map(|node| Some((node, annotated_pause(node)?)))
}

/// Returns the pause that covers a node: the oldest one with a known time, the node's annotation
/// last.
pub fn find_pause<'o>(
    observed: &'o Observed,
    node: &ObservedNode,
) -> Option<Cow<'o, ObservedPause>> {
    let covering = observed.pauses.iter().filter(|pause| pause.covers(node));
    let oldest = covering.min_by_key(|pause| (pause.at.is_none(), pause.at));
    oldest.map(Cow::Borrowed).or_else(|| annotated_pause(node).map(Cow::Owned))
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

    #[test]
    fn a_pause_covers_the_nodes_that_it_selects() {
        let pause = ObservedPause::read(
            "a",
            r#"{"selector":"pool=a","by":"sre","at":"2026-01-01T00:00:00Z","news":1}"#,
        );
        assert_eq!(
            (
                pause.by.as_str(),
                pause.covers(&node(&[("pool", "a")])),
                pause.covers(&node(&[("pool", "b")]))
            ),
            ("sre", true, false)
        );
        let fleet = ObservedPause::read("fleet", r#"{"by":"sre","at":"2026-01-01T00:00:00Z"}"#);
        assert!(fleet.covers(&node(&[])));
    }

    /// A typo must not disable the pause of a user who wanted to stop something.
    #[test]
    fn unreadable_pause_stops_the_whole_fleet() {
        for wrong in ["", "yes", "{}", r#"{"selector":"=","by":"sre","at":"2026-01-01T00:00:00Z"}"#]
        {
            let pause = ObservedPause::read("x", wrong);
            assert!(pause.covers(&node(&[])), "{wrong}");
            assert!(
                pause.reason.as_deref().is_some_and(|reason| reason.contains("cannot be read")),
                "{pause:?}"
            );
        }
    }

    #[test]
    fn the_oldest_pause_is_named() {
        let pauses = [("b", "2026-01-02T00:00:00Z"), ("a", "2026-01-01T00:00:00Z")]
            .map(|(by, at)| ObservedPause::read(by, &format!(r#"{{"by":"{by}","at":"{at}"}}"#)));
        let observed = Observed { pauses: pauses.to_vec(), ..Observed::default() };
        let found = find_pause(&observed, &node(&[]));
        assert_eq!(found.as_ref().map(|pause| pause.by.as_str()), Some("a"));
        assert_eq!(find_pause(&Observed::default(), &node(&[])), None);
    }

    #[test]
    fn annotation_pauses_its_node() {
        let paused = |value: &str| {
            let annotations = [(pause::ANNOTATION.to_owned(), value.to_owned())];
            let node = ObservedNode {
                annotations: annotations.into_iter().collect(),
                ..ObservedNode::default()
            };
            find_pause(&Observed::default(), &node).map(|pause| pause.reason.clone())
        };
        assert_eq!(paused("INC-4711"), Some(Some("INC-4711".to_owned())));
        assert_eq!(paused("true"), Some(None));
        assert_eq!(paused(""), Some(None));
        assert_eq!(paused("false"), None);
    }
}
