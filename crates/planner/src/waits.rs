//! The waits of a decision. Clones share their content, so that a decision among many nodes costs
//! what has changed.

use super::reason::Wait;

mod node_waits;

pub use node_waits::NodeWaits;

/// Waits, in a fixed order: those of nodes by name, those of the whole fleet, and those of deferred
/// nodes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub(crate) nodes: NodeWaits,
    pub(crate) fleet: Vec<Wait>,
    pub(crate) deferred: NodeWaits,
}

impl Waits {
    /// Iterates over all waits.
    pub fn iter(&self) -> impl Iterator<Item = Wait> + Clone + '_ {
        self.nodes.iter().chain(self.fleet.iter().cloned()).chain(self.deferred.iter())
    }

    /// Iterates over the waits of the whole fleet.
    pub fn of_fleet(&self) -> impl Iterator<Item = &Wait> {
        self.fleet.iter()
    }

    /// Returns the wait of a node.
    pub fn of_node(&self, node: &str) -> Option<Wait> {
        self.nodes.get(node).or_else(|| self.deferred.get(node))
    }

    /// Returns the waits of the fleet and of nodes for another kind of reason than before.
    pub fn new_since(&self, before: &Self) -> Vec<Wait> {
        let is_new = |(place, wait): &(usize, &Wait)| {
            let known = before.fleet.get(*place);
            known.is_none_or(|known| known.reason.name() != wait.reason.name())
        };
        let fleet = self.fleet.iter().enumerate().filter(is_new).map(|(_, wait)| wait.clone());
        fleet.chain(self.nodes.new_since(&before.nodes)).collect()
    }

    /// Returns the wait at a position that exists.
    ///
    /// # Panics
    /// There are fewer waits.
    pub fn at(&self, place: usize) -> Wait {
        self.iter().nth(place).unwrap_or_else(|| panic!("no wait {place} among {}", self.len()))
    }

    /// Returns the first wait.
    pub fn first(&self) -> Option<Wait> {
        self.iter().next()
    }

    /// Returns the number of waits.
    pub fn len(&self) -> usize {
        self.nodes.len() + self.fleet.len() + self.deferred.len()
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl FromIterator<Wait> for Waits {
    fn from_iter<I: IntoIterator<Item = Wait>>(waits: I) -> Self {
        let mut all = Self::default();
        for wait in waits {
            match &wait.node {
                Some(node) => all.nodes.set(node, Some((&wait.reason, wait.since))),
                None => all.fleet.push(wait),
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use jiff::Timestamp;

    use super::*;
    use crate::reason::Reason;

    fn wait(node: Option<&str>, reason: Reason) -> Wait {
        Wait { node: node.map(Into::into), reason: Arc::new(reason), since: Timestamp::UNIX_EPOCH }
    }

    #[test]
    fn only_waits_of_another_kind_are_new() {
        let missing = |deployment: &str| Reason::OperatorMissing {
            deployment: deployment.to_owned(),
            namespace: String::new(),
        };
        let other = || Reason::PolicyApiMissing { resource: "clusterpolicies" };
        let first: Waits =
            [wait(None, missing("a")), wait(Some("b"), other()), wait(Some("a"), other())]
                .into_iter()
                .collect();
        let next: Waits =
            [wait(None, missing("b")), wait(Some("b"), missing("a")), wait(Some("c"), other())]
                .into_iter()
                .collect();
        let nodes = |now: &Waits, before: &Waits| -> Vec<Option<String>> {
            now.new_since(before)
                .into_iter()
                .map(|wait| wait.node.as_deref().map(str::to_owned))
                .collect()
        };
        let name = |name: &str| Some(name.to_owned());
        assert_eq!(nodes(&first, &Waits::default()), [None, name("a"), name("b")]);
        assert_eq!(nodes(&first, &first), []);
        assert_eq!(
            nodes(&next, &first),
            [name("b"), name("c")],
            "the same kind with other words is not new"
        );
        assert_eq!(nodes(&first, &next), [name("a"), name("b")]);
    }
}
