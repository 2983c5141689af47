//! The nodes of a decision.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::drive_upgrade::record::belongs_to_other_hook;
use crate::memory::RunMemory;
use crate::node::DriverNodes;
use crate::reason::Reason;
use contract::driver::DriverTraits;
use contract::settings::Settings;
use contract::task::Task;
use observed::{Observed, ObservedNode};

use super::alarm::Alarm;
use super::assess::{NodeAssessment, assess};
use super::emit::outcome::NodeEnding;
use super::inputs::FleetInputs;
use super::memo::{KnownNode, Unchanged};
use super::node_draft::NodeDraft;

/// The nodes of a decision, before their assessment.
pub(super) struct Census<'a> {
    /// Sorted by name.
    pub(super) listed: Vec<ListedNode<'a>>,
    /// Other examined nodes, and whether they need the driver.
    pub(super) others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    /// Number of nodes that need the driver.
    pub(super) drivers: usize,
    /// Until when the results for nodes outside the decision are valid.
    until: Timestamp,
}

/// A node of the decision.
pub(super) struct ListedNode<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) node: &'a ObservedNode,
    pub(super) needs_driver: bool,
    /// Its previous results, if it has not changed.
    pub(super) known: Option<&'a KnownNode>,
}

impl<'a> Census<'a> {
    /// Determines the nodes of the decision.
    pub(super) fn new(
        observed: &'a Observed,
        settings: &Settings,
        memory: &RunMemory,
        devices: &DevicePlugins<'_>,
        unchanged: Option<&Unchanged<'a>>,
    ) -> Self {
        let drivers = DriverNodes::new(observed, settings.driver);
        let settles = settings.has(Task::Settle);
        let traits = settings.driver.traits();
        let identity = settings.own_daemon_set();
        let has_plugin = |node: &ObservedNode| {
            devices.pods_on(node).next().is_some() || memory.has_device_plugin_away(node)
        };
        let mut census = Self {
            listed: Vec::with_capacity(observed.nodes.len()),
            others: Vec::new(),
            drivers: 0,
            until: Timestamp::MAX,
        };
        let mut known = unchanged.map(Unchanged::nodes).into_iter().flatten().peekable();
        for (name, node) in &observed.nodes {
            while known.next_if(|(known, _)| *known < name).is_some() {}
            let known = known.next_if(|(known, _)| *known == name).map(|(_, node)| node);
            let (needs_driver, is_listed) = known.map_or_else(
                || {
                    let needs_driver = settles && drivers.contains(node);
                    (
                        needs_driver,
                        needs_driver
                            || has_plugin(node)
                            || is_started(node, traits, identity.as_deref()),
                    )
                },
                |known| (known.needs_driver, known.found.is_some()),
            );
            census.drivers += usize::from(needs_driver);
            if is_listed {
                census.listed.push(ListedNode { name, node, needs_driver, known });
            } else if let Some(known) = known {
                census.until = census.until.min(known.until);
            } else {
                census.others.push((name, node, needs_driver));
            }
        }
        census
    }

    /// Discards the previous results for this node.
    pub(super) fn forget(&mut self, name: &str) {
        if let Ok(place) = self.listed.binary_search_by(|node| (**node.name).cmp(name)) {
            self.listed[place].known = None;
        }
    }

    /// Returns the nodes.
    pub(super) fn nodes(&self) -> impl Iterator<Item = &'a ObservedNode> + Clone {
        self.listed.iter().map(|node| node.node)
    }
}

/// Returns whether the hook has started the upgrade of the node: a node that lost its device during
/// it must be released.
fn is_started(node: &ObservedNode, traits: &DriverTraits, identity: Option<&str>) -> bool {
    let started = node.annotations.contains_key(traits.own_record)
        || node.labels.contains_key(traits.own_state_label);
    started && !belongs_to_other_hook(node, traits, identity)
}

/// A node, from its assessment to its outcome.
pub(super) struct RunNode<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) node: &'a ObservedNode,
    pub(super) needs_driver: bool,
    pub(super) known: Option<&'a KnownNode>,
    /// Created when the node is assessed or an action is needed for it.
    pub(super) draft: Option<NodeDraft<'a>>,
    pub(super) assessment: Arc<NodeAssessment>,
    /// The reason for which it waits, as far as it is known.
    pub(super) reason: Option<Arc<Reason>>,
    pub(super) ending: NodeEnding,
}

impl<'a> RunNode<'a> {
    pub(super) fn draft(&mut self, fleet: &'a FleetInputs<'a>) -> &mut NodeDraft<'a> {
        self.draft.get_or_insert_with(|| {
            let mut draft = NodeDraft::new(fleet, self.node);
            // Its previous results are valid until then.
            draft.alarm.set(self.known.map_or(Timestamp::MAX, |known| known.until));
            draft
        })
    }
}

/// All nodes of the decision.
pub(super) struct RunNodes<'a> {
    pub(super) fleet: &'a FleetInputs<'a>,
    /// Sorted by name.
    pub(super) listed: Vec<RunNode<'a>>,
    /// Other examined nodes, and whether they need the driver.
    pub(super) others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    /// Other nodes for which actions are needed.
    pub(super) bystanders: BTreeMap<&'a str, NodeDraft<'a>>,
    pub(super) alarm: Alarm,
}

impl<'a> RunNodes<'a> {
    /// Assesses the nodes that have changed.
    pub(super) fn assessed(census: Census<'a>, fleet: &'a FleetInputs<'a>) -> Self {
        let mut alarm = Alarm::new(fleet.now, census.until);
        let listed =
            census.listed.into_iter().map(|ListedNode { name, node, needs_driver, known }| {
                let (draft, assessment) =
                    if let Some((assessment, _)) = known.and_then(|known| known.found.as_ref()) {
                        (None, Arc::clone(assessment))
                    } else {
                        let mut draft = NodeDraft::new(fleet, node);
                        let assessment = Arc::new(assess(&mut draft));
                        (Some(draft), assessment)
                    };
                let known = known.filter(|known| known.found.is_some());
                if let Some(known) = known {
                    alarm.set(known.until);
                }
                let reason = match known {
                    // The same value, which is quickly compared.
                    Some(known) if !assessment.needs.is_stale() => known.left.clone(),
                    Some(_) | None => assessment.needs.first(fleet),
                };
                RunNode {
                    name,
                    node,
                    needs_driver,
                    known,
                    draft,
                    assessment,
                    reason,
                    ending: NodeEnding::default(),
                }
            });
        let listed = listed.collect();
        Self { fleet, listed, others: census.others, bystanders: BTreeMap::new(), alarm }
    }

    /// Returns the index of the node of this name among the nodes of the decision.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.listed.binary_search_by(|node| (**node.name).cmp(name)).ok()
    }

    /// Returns the draft of any node.
    pub(super) fn draft(&mut self, node: &'a ObservedNode) -> &mut NodeDraft<'a> {
        let fleet = self.fleet;
        match self.place(&node.name) {
            Some(place) => self.listed[place].draft(fleet),
            None => {
                self.bystanders.entry(&node.name).or_insert_with(|| NodeDraft::new(fleet, node))
            }
        }
    }
}
