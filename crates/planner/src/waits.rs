//! The waits of a decision. Clones share their content, so that a decision among many nodes costs
//! what has changed.

use std::ops::Index;
use std::sync::Arc;

use observed::named::{self, Named};

use super::reason::Wait;

/// Waits, in a fixed order: those of nodes by name, those of the whole fleet, and those of deferred
/// nodes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Waits {
    pub(crate) nodes: Named<Wait>,
    pub(crate) fleet: Vec<Wait>,
    pub(crate) deferred: Named<Wait>,
}

/// Iterator over [`Waits`].
pub type WaitsIter<'a> =
    std::iter::Chain<std::iter::Chain<NodeWaits<'a>, std::slice::Iter<'a, Wait>>, NodeWaits<'a>>;

/// Iterator over the waits of nodes.
#[derive(Clone)]
pub struct NodeWaits<'a>(named::Iter<'a, Wait>);

impl<'a> Iterator for NodeWaits<'a> {
    type Item = &'a Wait;

    fn next(&mut self) -> Option<Self::Item> {
        self.0.next().map(|(_, wait)| wait)
    }
}

impl Waits {
    /// Iterates over all waits.
    pub fn iter(&self) -> WaitsIter<'_> {
        NodeWaits(self.nodes.iter()).chain(&self.fleet).chain(NodeWaits(self.deferred.iter()))
    }

    /// Iterates over the waits of the whole fleet.
    pub fn of_fleet(&self) -> impl Iterator<Item = &Wait> {
        self.fleet.iter()
    }

    /// Returns the wait of a node.
    pub fn of_node(&self, node: &str) -> Option<&Wait> {
        self.nodes.get(node).or_else(|| self.deferred.get(node))
    }

    /// Returns the waits of the fleet and of nodes for another kind of reason than before.
    pub fn new_since(&self, before: &Self) -> Vec<&Wait> {
        let is_new = |wait: &&Wait, known: Option<&Wait>| {
            known.is_none_or(|known| known.reason.name() != wait.reason.name())
        };
        let fleet = self
            .fleet
            .iter()
            .enumerate()
            .filter(|(place, wait)| is_new(wait, before.fleet.get(*place)));
        let changed = before.nodes.differing(&self.nodes);
        let nodes = changed
            .into_iter()
            .filter_map(|name| Some((self.nodes.get(name)?, before.nodes.get(name))))
            .filter(|(wait, known)| is_new(wait, *known));
        fleet.map(|(_, wait)| wait).chain(nodes.map(|(wait, _)| wait)).collect()
    }

    /// Returns the first wait.
    pub fn first(&self) -> Option<&Wait> {
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

impl Index<usize> for Waits {
    type Output = Wait;

    /// Returns the wait at a position that exists.
    ///
    /// # Panics
    /// There are fewer waits.
    fn index(&self, place: usize) -> &Wait {
        self.iter().nth(place).unwrap_or_else(|| panic!("no wait {place} among {}", self.len()))
    }
}

/// Sets or removes the wait of a node.
pub(crate) fn set(waits: &mut Named<Wait>, name: &Arc<str>, wait: Option<&Wait>) {
    match (waits.get(name), wait) {
        (None, None) => {}
        (Some(known), Some(wait)) if Arc::ptr_eq(&known.reason, &wait.reason) && known == wait => {}
        (_, Some(wait)) => waits.insert(Arc::clone(name), wait.clone()),
        (Some(_), None) => drop(waits.remove(name)),
    }
}

impl FromIterator<Wait> for Waits {
    fn from_iter<I: IntoIterator<Item = Wait>>(waits: I) -> Self {
        let mut all = Self::default();
        for wait in waits {
            match wait.node.clone() {
                Some(node) => all.nodes.insert(node, wait),
                None => all.fleet.push(wait),
            }
        }
        all
    }
}

impl<'a> IntoIterator for &'a Waits {
    type IntoIter = WaitsIter<'a>;
    type Item = &'a Wait;

    fn into_iter(self) -> WaitsIter<'a> {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
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
