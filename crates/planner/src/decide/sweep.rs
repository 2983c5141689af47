//! The nodes that a decision is about, and which of them have to be judged.

use std::sync::Arc;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::node::DriverNodes;
use crate::upgrade::record::is_anothers;
use contract::driver::DriverTraits;
use contract::task::Task;
use observed::{Observed, ObservedNode};

use super::Deciding;
use super::rest::{Since, Standing};

/// A node that the decision is about.
pub(super) struct Seen<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) node: &'a ObservedNode,
    pub(super) has_driver: bool,
    /// What the last decision found of it, if that still holds.
    pub(super) rest: Option<&'a Standing>,
}

/// All of them.
pub(super) struct Sweep<'a> {
    pub(super) since: Option<&'a Since<'a>>,
    /// In the order of their names.
    pub(super) listed: Vec<Seen<'a>>,
    /// Nodes that were looked at and are none of them, and whether they need the driver.
    pub(super) others: Vec<(&'a Arc<str>, bool)>,
    /// How many nodes need the driver.
    pub(super) drivers: usize,
}

impl Sweep<'_> {
    /// The nodes.
    pub(super) fn nodes(&self) -> impl DoubleEndedIterator<Item = &ObservedNode> + Clone {
        self.listed.iter().map(|seen| seen.node)
    }

    /// Where the node of this name is among them.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.listed.binary_search_by(|seen| (**seen.name).cmp(name)).ok()
    }

    /// The nodes that are not at rest, those among them that the decision is not about, in the order of their names.
    pub(super) fn looked_at<'o>(&self, observed: &'o Observed) -> Vec<&'o ObservedNode> {
        let listed = self.listed.iter().filter(|seen| seen.rest.is_none()).map(|seen| &**seen.name);
        let mut names: Vec<&str> = listed.chain(self.others.iter().map(|(name, _)| &***name)).collect();
        names.sort_unstable();
        names.into_iter().filter_map(|name| observed.nodes.get(name)).collect()
    }

    /// The node of this name is to be judged.
    pub(super) fn wake(&mut self, name: &str) {
        if let Some(place) = self.place(name) {
            self.listed[place].rest = None;
        }
    }
}

impl<'o> Deciding<'o> {
    /// Looks which nodes the decision is about.
    pub(super) fn sweep<'a>(&self, devices: &DevicePlugins<'_>, since: Option<&'a Since<'a>>) -> Sweep<'a>
    where
        'o: 'a,
    {
        let drivers = DriverNodes::new(self.observed, self.settings.driver);
        let settles = self.settings.has(Task::Settle);
        let traits = self.settings.driver.traits();
        let identity = self.settings.own_daemon_set();
        let mut sweep = Sweep { since, listed: Vec::with_capacity(self.observed.nodes.len()), others: Vec::new(), drivers: 0 };
        let mut known = since.map(|since| since.last.standings.iter()).into_iter().flatten().peekable();
        let mut changed = since.map(|since| since.changed.iter().copied()).into_iter().flatten().peekable();
        for (name, node) in &self.observed.nodes {
            while known.next_if(|(known, _)| is_before(known, name)).is_some() {}
            while changed.next_if(|changed| *changed < &**name).is_some() {}
            let standing = known.next_if(|(known, _)| !is_before(name, known)).map(|(_, standing)| standing);
            let has_changed = changed.next_if(|changed| *changed == &**name).is_some();
            let rest = standing.filter(|standing| !has_changed && standing.is_at_rest(self.now));
            let (has_driver, listed) = if let Some(standing) = rest {
                (standing.has_driver, standing.listed)
            } else {
                let has_driver = settles && drivers.contains(node);
                (has_driver, has_driver || self.has_plugin(node, devices) || is_begun(node, traits, identity.as_deref()))
            };
            sweep.drivers += usize::from(has_driver);
            if listed {
                sweep.listed.push(Seen { name, node, has_driver, rest });
            } else if rest.is_none() {
                sweep.others.push((name, has_driver));
            }
        }
        sweep
    }

    fn has_plugin(&self, node: &ObservedNode, devices: &DevicePlugins<'_>) -> bool {
        devices.pods_on(node).next().is_some() || self.memory.has_device_plugin_away(node)
    }
}

impl Standing {
    fn is_at_rest(&self, now: Timestamp) -> bool {
        self.rests && self.moment > now
    }
}

/// Names are mostly the very same.
fn is_before(one: &Arc<str>, other: &Arc<str>) -> bool {
    !Arc::ptr_eq(one, other) && **one < **other
}

/// Whether our upgrade of the node has begun: one that lost its device in the middle of it is to be given back.
fn is_begun(node: &ObservedNode, traits: &DriverTraits, identity: Option<&str>) -> bool {
    let begun = node.annotations.contains_key(traits.own_record) || node.labels.contains_key(traits.own_state_label);
    begun && !is_anothers(node, traits, identity)
}
