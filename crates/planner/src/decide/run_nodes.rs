//! The nodes of a decision.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::device_plugin::DevicePlugins;
use crate::drive_upgrade::record::belongs_to_other_hook;
use crate::drive_upgrade::start_limits::ThrottledNode;
use crate::memory::RunMemory;
use crate::node::DriverNodes;
use crate::reason::{Reason, Wait};
use contract::driver::DriverTraits;
use contract::settings::Settings;
use contract::task::Task;
use observed::{Observed, ObservedNode};

use super::alarm::Alarm;
use super::assess::{NodeAssessment, assess};
use super::emit::outcome::NodeEnding;
use super::inputs::FleetInputs;
use super::kept_nodes::{KeptNodes, KnownNode};
use super::node_draft::NodeDraft;

/// The nodes that a decision examines, before their assessment.
pub(super) struct Census<'a> {
    observed: &'a Observed,
    /// Sorted by name.
    pub(super) listed: Vec<ListedNode<'a>>,
    /// Examined nodes that are not nodes of the decision, and whether they need the driver.
    pub(super) others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    /// The results for the other nodes.
    pub(super) kept: KeptNodes,
    /// Number of nodes that need the driver.
    pub(super) drivers: usize,
    /// Whether a node that limits counted is none of the decision any more.
    is_throttled_node_gone: bool,
}

/// A node of the decision.
pub(super) struct ListedNode<'a> {
    pub(super) name: &'a Arc<str>,
    pub(super) node: &'a ObservedNode,
    pub(super) needs_driver: bool,
    /// Its previous results, if it has not changed.
    known: Option<KnownNode>,
    throttled_before: ThrottledBefore,
}

impl<'a> Census<'a> {
    /// Determines the nodes of the decision, and examines all of them.
    pub(super) fn new(
        observed: &'a Observed,
        settings: &Settings,
        memory: &RunMemory,
        devices: &DevicePlugins<'_>,
        now: Timestamp,
    ) -> Self {
        let names: BTreeSet<&str> = observed.nodes.keys().map(|name| &**name).collect();
        let mut census = Self::empty(observed, KeptNodes::default());
        census.examine_changed(&names, &BTreeSet::new(), settings, memory, devices, now);
        census
    }

    /// Determines the nodes of the decision, and examines those that have changed, whose results
    /// have expired, or that depend on others.
    pub(super) fn incremental(
        observed: &'a Observed,
        settings: &Settings,
        memory: &RunMemory,
        devices: &DevicePlugins<'_>,
        now: Timestamp,
        kept: KeptNodes,
        changed: &BTreeSet<String>,
    ) -> Self {
        let mut census = Self::empty(observed, kept);
        let kept = &census.kept;
        let mut names: BTreeSet<String> = changed.clone();
        let others =
            kept.unsettled.keys().chain(kept.sums.expired(now)).chain(&kept.sums.dependent);
        names.extend(others.map(ToString::to_string));
        let names: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        let changed: BTreeSet<&str> = changed.iter().map(String::as_str).collect();
        census.examine_changed(&names, &changed, settings, memory, devices, now);
        census
    }

    fn empty(observed: &'a Observed, kept: KeptNodes) -> Self {
        Self {
            observed,
            listed: Vec::new(),
            others: Vec::new(),
            drivers: 0,
            is_throttled_node_gone: false,
            kept,
        }
    }

    /// Examines nodes. `changed`: those whose previous results do not count.
    fn examine_changed(
        &mut self,
        names: &BTreeSet<&str>,
        changed: &BTreeSet<&str>,
        settings: &Settings,
        memory: &RunMemory,
        devices: &DevicePlugins<'_>,
        now: Timestamp,
    ) {
        let drivers = DriverNodes::new(self.observed, settings.driver);
        let settles = settings.has(Task::Settle);
        let traits = settings.driver.traits();
        let identity = settings.own_daemon_set();
        let has_plugin = |node: &ObservedNode| {
            devices.pods_on(node).next().is_some() || memory.has_device_plugin_away(node)
        };
        for name in names {
            let before = self.kept.take(name);
            let throttled_before = before.as_ref().map_or_else(
                || {
                    let unsettled = self.kept.unsettled.get(*name).cloned();
                    unsettled.map_or(ThrottledBefore::Unknown, ThrottledBefore::Known)
                },
                |known| ThrottledBefore::Known(known.throttled().cloned()),
            );
            let known = before.filter(|known| known.is_valid(now) && !changed.contains(name));
            let drops = |census: &mut Self| {
                census.is_throttled_node_gone |= throttled_before.was_counted();
                census.kept.drop_results(name);
            };
            let Some((name, node)) = self.observed.nodes.entry(name) else {
                drops(self);
                continue;
            };
            let (needs_driver, is_listed) = known.as_ref().map_or_else(
                || {
                    let needs_driver = settles && drivers.contains(node);
                    let is_listed = needs_driver
                        || has_plugin(node)
                        || is_started(node, traits, identity.as_deref());
                    (needs_driver, is_listed)
                },
                |known| (known.needs_driver, known.found.is_some()),
            );
            if is_listed {
                self.listed.push(ListedNode { name, node, needs_driver, known, throttled_before });
            } else {
                drops(self);
                self.others.push((name, node, needs_driver));
            }
        }
        let examined = self.listed.iter().filter(|node| node.needs_driver).count()
            + self.others.iter().filter(|(_, _, needs_driver)| *needs_driver).count();
        self.drivers = self.kept.sums.drivers + examined;
    }

    /// Examines more nodes, whose previous results count.
    pub(super) fn examine<'n>(&mut self, names: impl IntoIterator<Item = &'n str>) {
        let before = self.listed.len();
        for name in names {
            let is_examined =
                self.listed[..before].binary_search_by(|node| (**node.name).cmp(name)).is_ok();
            if is_examined || !self.kept.is_listed(name) {
                continue;
            }
            let Some((name, node)) = self.observed.nodes.entry(name) else { continue };
            self.listed.extend(ListedNode::of_known(name, node, &mut self.kept));
        }
        self.listed.sort_by(|one, other| one.name.cmp(other.name));
    }

    /// Returns the number of nodes of the decision.
    pub(super) fn len(&self) -> usize {
        self.kept.sums.listed + self.listed.len()
    }

    /// Returns all nodes of the decision.
    pub(super) fn all(&self) -> Vec<&'a ObservedNode> {
        all_listed(self.observed, &self.kept, |name| {
            self.listed.binary_search_by(|node| (**node.name).cmp(name)).is_ok()
        })
    }
}

/// The part of a node in the limits of the last decision.
pub(super) enum ThrottledBefore {
    /// The last decision did not know the node.
    Unknown,
    /// `None`: the limits did not count it.
    Known(Option<ThrottledNode>),
}

impl ThrottledBefore {
    fn is(&self, now: Option<&ThrottledNode>) -> bool {
        matches!(self, Self::Known(before) if before.as_ref() == now)
    }

    fn was_counted(&self) -> bool {
        matches!(self, Self::Known(Some(_)))
    }
}

impl<'a> ListedNode<'a> {
    /// Returns a node of the decision with its previous results.
    fn of_known(name: &'a Arc<str>, node: &'a ObservedNode, kept: &mut KeptNodes) -> Option<Self> {
        let known = kept.take(name)?;
        let throttled_before = ThrottledBefore::Known(known.throttled().cloned());
        let needs_driver = known.needs_driver;
        Some(Self { name, node, needs_driver, known: Some(known), throttled_before })
    }
}

/// Returns all nodes of the decision. `is_examined`: whether it is one of those that are not kept.
pub(super) fn all_listed<'a>(
    observed: &'a Observed,
    kept: &KeptNodes,
    is_examined: impl Fn(&str) -> bool,
) -> Vec<&'a ObservedNode> {
    let is_listed =
        |(name, _): &(&Arc<str>, &ObservedNode)| is_examined(name) || kept.is_listed(name);
    observed.nodes.iter().filter(is_listed).map(|(_, node)| node).collect()
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
    pub(super) known: Option<KnownNode>,
    throttled_before: ThrottledBefore,
    /// Created when the node is assessed or an action is needed for it.
    pub(super) draft: Option<Box<NodeDraft<'a>>>,
    pub(super) assessment: Arc<NodeAssessment>,
    /// The reason for which it waits, as far as it is known.
    pub(super) reason: Option<Arc<Reason>>,
    pub(super) ending: NodeEnding,
}

impl<'a> RunNode<'a> {
    fn new(listed: ListedNode<'a>, fleet: &'a FleetInputs<'a>) -> Self {
        let ListedNode { name, node, needs_driver, known, throttled_before } = listed;
        let known = known.filter(|known| known.found.is_some());
        let found = known.as_ref().and_then(|known| known.found.as_ref());
        let (draft, assessment) = if let Some((assessment, _)) = found {
            (None, Arc::clone(assessment))
        } else {
            let mut draft = Box::new(NodeDraft::new(fleet, node));
            let assessment = Arc::new(assess(&mut draft));
            (Some(draft), assessment)
        };
        let reason = match &known {
            // The same value, which is quickly compared.
            Some(known) if !assessment.needs.is_stale() => known.left.clone(),
            Some(_) | None => assessment.needs.first(fleet),
        };
        let ending = NodeEnding::default();
        Self {
            name,
            node,
            needs_driver,
            known,
            throttled_before,
            draft,
            assessment,
            reason,
            ending,
        }
    }

    pub(super) fn draft(&mut self, fleet: &'a FleetInputs<'a>) -> &mut NodeDraft<'a> {
        self.draft.get_or_insert_with(|| {
            let mut draft = NodeDraft::new(fleet, self.node);
            // Its previous results are valid until then.
            if let Some(known) = &self.known {
                draft.alarm.set(known.until);
                draft.keeps_focus = known.keeps_focus;
            }
            Box::new(draft)
        })
    }
}

/// The nodes that a decision examines.
pub(super) struct RunNodes<'a> {
    pub(super) fleet: &'a FleetInputs<'a>,
    /// Sorted by name.
    pub(super) listed: Vec<RunNode<'a>>,
    /// Examined nodes that are not nodes of the decision, and whether they need the driver.
    pub(super) others: Vec<(&'a Arc<str>, &'a ObservedNode, bool)>,
    /// Other nodes for which actions are needed.
    pub(super) bystanders: BTreeMap<&'a str, NodeDraft<'a>>,
    /// The results for the other nodes.
    pub(super) kept: KeptNodes,
    pub(super) alarm: Alarm,
    is_throttled_node_gone: bool,
}

impl<'a> RunNodes<'a> {
    /// Assesses the nodes that have changed.
    pub(super) fn assessed(census: Census<'a>, fleet: &'a FleetInputs<'a>) -> Self {
        let Census { listed, others, kept, is_throttled_node_gone, .. } = census;
        let mut alarm = Alarm::new(fleet.now, kept.sums.next_expiry());
        let listed: Vec<RunNode<'a>> =
            listed.into_iter().map(|listed| RunNode::new(listed, fleet)).collect();
        listed
            .iter()
            .filter_map(|node| node.known.as_ref())
            .for_each(|known| alarm.set(known.until));
        Self {
            fleet,
            listed,
            others,
            bystanders: BTreeMap::new(),
            kept,
            alarm,
            is_throttled_node_gone,
        }
    }

    /// Returns the properties of a node for the limits. `None`: the limits do not count it.
    pub(super) fn throttled(&self, name: &str) -> Option<&ThrottledNode> {
        match self.place(name) {
            Some(place) => self.listed[place].assessment.upgrade.throttled.as_ref(),
            None => self.kept.known.get(name)?.throttled(),
        }
    }

    /// Sets the reason of a candidate that is not examined, if it is of the same kind as before, and
    /// if no record contains more than its kind. Returns whether it did.
    pub(super) fn describe_candidate(&mut self, name: &str, reason: &Arc<Reason>) -> bool {
        if self.place(name).is_some() || !self.fleet.is_only_described(reason) {
            return false;
        }
        let known = self.kept.waits.get(name).filter(|wait| wait.reason.name() == reason.name());
        let Some(Wait { node: Some(node), reason: known, since }) = known else { return false };
        if !Arc::ptr_eq(&known, reason) && known != *reason {
            self.kept.waits.set(&node, Some((reason, since)));
        }
        true
    }

    /// Returns whether all candidates that are not examined have the same reason, and have one of
    /// the same kind now, and no record contains more than its kind.
    pub(super) fn is_reason_of_all(&self, known: &Arc<Reason>, next: &Arc<Reason>) -> bool {
        if !self.fleet.is_only_described(next) || known.name() != next.name() {
            return false;
        }
        let waits = &self.kept.waits;
        let has_reason = |node: &&RunNode<'_>| {
            waits.reason(node.name).is_some_and(|reason| Arc::ptr_eq(reason, known))
        };
        let examined = self.listed.iter().filter(has_reason).count();
        // Only candidates have this reason, and a node that is none any more is examined.
        waits.waiting_for(known) - examined == self.kept.sums.candidates.len()
    }

    /// Replaces the reason of all nodes that have this one.
    pub(super) fn describe_candidates(&mut self, known: &Arc<Reason>, next: &Arc<Reason>) {
        if !Arc::ptr_eq(known, next) {
            self.kept.waits.replace(known, next);
        }
    }

    /// Examines more nodes of the decision, whose previous results count.
    pub(super) fn examine<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        let before = self.listed.len();
        for name in names {
            let is_examined =
                self.listed[..before].binary_search_by(|node| (**node.name).cmp(name)).is_ok();
            if is_examined {
                continue;
            }
            let Some((name, node)) = self.fleet.observed.nodes.entry(name) else { continue };
            let Some(listed) = ListedNode::of_known(name, node, &mut self.kept) else { continue };
            let node = RunNode::new(listed, self.fleet);
            if let Some(known) = &node.known {
                self.alarm.set(known.until);
            }
            self.listed.push(node);
        }
        self.listed.sort_by(|one, other| one.name.cmp(other.name));
    }

    /// Returns whether the limits count the same nodes as in the last decision, with the same
    /// properties.
    pub(super) fn has_same_throttled(&self) -> bool {
        let is_same = |node: &RunNode<'_>| {
            node.throttled_before.is(node.assessment.upgrade.throttled.as_ref())
        };
        !self.is_throttled_node_gone && self.listed.iter().all(is_same)
    }

    /// Returns the index of the node of this name among the examined nodes of the decision.
    pub(super) fn place(&self, name: &str) -> Option<usize> {
        self.listed.binary_search_by(|node| (**node.name).cmp(name)).ok()
    }

    /// Returns whether the node of this name is one of the decision.
    pub(super) fn is_listed(&self, name: &str) -> bool {
        self.place(name).is_some() || self.kept.is_listed(name)
    }

    /// Returns all nodes of the decision.
    pub(super) fn all(&self) -> Vec<&'a ObservedNode> {
        all_listed(self.fleet.observed, &self.kept, |name| self.place(name).is_some())
    }

    /// Returns the draft of any node.
    pub(super) fn draft(&mut self, node: &'a ObservedNode) -> &mut NodeDraft<'a> {
        let fleet = self.fleet;
        if self.place(&node.name).is_none() && self.kept.is_listed(&node.name) {
            self.examine(std::iter::once(node.name.as_str()));
        }
        match self.place(&node.name) {
            Some(place) => self.listed[place].draft(fleet),
            None => {
                self.bystanders.entry(&node.name).or_insert_with(|| NodeDraft::new(fleet, node))
            }
        }
    }
}
