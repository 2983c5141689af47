//! The results of the last decision for nodes, and sums over them. A decision examines only nodes
//! that have changed, whose results have expired, or that depend on others; the sums represent the
//! rest.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::start_limits::{ThrottledFleet, ThrottledNode};
use crate::reason::Reason;
use crate::waits::NodeWaits;
use contract::record::NodeOutcome;
use observed::named::Named;

use super::assess::{NodeAssessment, UpgradeTurn};
use super::emit::outcome::NodeEnding;
use super::schedule::replacements::AwayPlugins;

/// The results for all nodes.
#[derive(Clone, Default)]
pub(super) struct KeptNodes {
    /// Nodes without actions and without changes of their record.
    pub(super) known: Named<KnownNode>,
    /// The other nodes, each with its part in the limits of the last decision.
    pub(super) unsettled: BTreeMap<Arc<str>, Option<ThrottledNode>>,
    /// Sums over the known nodes.
    pub(super) sums: NodeSums,
    /// The halt when the results were determined: because of it, the run waits for no node that has
    /// not started.
    pub(super) halt: Option<Arc<Reason>>,
    pub(super) outcomes: Named<NodeOutcome>,
    pub(super) waits: NodeWaits,
    pub(super) failures: NodeWaits,
    pub(super) deferred: NodeWaits,
}

/// The results for a node.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
pub(super) struct KnownNode {
    pub(super) needs_driver: bool,
    /// `None`: the node does not belong to the run.
    pub(super) found: Option<(Arc<NodeAssessment>, NodeEnding)>,
    /// The reason that it waited for, other than its upgrade.
    pub(super) left: Option<Arc<Reason>>,
    /// Until when the results are valid if nothing changes.
    pub(super) until: Timestamp,
    /// Whether its pods stay among those that the next decision needs.
    pub(super) keeps_focus: bool,
    /// Whether one of its plugins is unavailable because of the hook.
    pub(super) away: AwayPlugins,
    /// Whether another mode holds it.
    pub(super) is_held_by_other_mode: bool,
    /// Whether NVIDIA's controller may start it although it is paused.
    pub(super) is_free_in_pause: bool,
}

/// Sums over nodes.
#[derive(Clone, Default)]
pub(super) struct NodeSums {
    /// Number of nodes that need the driver.
    pub(super) drivers: usize,
    /// Number of nodes of the decision.
    pub(super) listed: usize,
    /// Number of nodes that belong to the run.
    pub(super) members: usize,
    /// Number of nodes with a driver of their own.
    pub(super) own_drivers: usize,
    /// Number of nodes that another mode holds.
    pub(super) held_by_other_mode: usize,
    /// Nodes with plugins that are unavailable because of the hook.
    pub(super) away: AwayPlugins,
    /// Requested configurations of the device plugin that do not exist.
    pub(super) missing_configs: BTreeMap<Arc<str>, String>,
    /// Nodes that NVIDIA's controller may start although they are paused.
    pub(super) free_in_pause: BTreeSet<Arc<str>>,
    /// Nodes whose pods the next decision needs.
    pub(super) focus: BTreeSet<Arc<str>>,
    /// Nodes that every decision examines.
    pub(super) dependent: BTreeSet<Arc<str>>,
    /// Nodes whose reason contains the wait of NVIDIA's controller, and that have no other
    /// ([`KnownNode::only_left`]).
    pub(super) asking: BTreeSet<Arc<str>>,
    /// The other nodes whose reason contains the wait of NVIDIA's controller.
    pub(super) asking_apart: BTreeSet<Arc<str>>,
    /// Nodes that may be started, with the number of earlier attempts.
    pub(super) candidates: BTreeSet<(u32, Arc<str>)>,
    /// Failed nodes that are not retried.
    pub(super) given_up: BTreeSet<Arc<str>>,
    /// Those whose new driver did not start, or failed its checks.
    pub(super) failed_proofs: BTreeSet<Arc<str>>,
    /// Nodes whose new driver has failed in this deployment, even if they are retried.
    pub(super) failed_drivers: BTreeSet<Arc<str>>,
    /// Nodes that failed an acceptance test with their old driver in this deployment.
    pub(super) failed_tests: BTreeSet<Arc<str>>,
    /// Nodes that failed with their new driver, and are retried.
    pub(super) retried: BTreeSet<Arc<str>>,
    /// Number of nodes with the driver that they had, whose upgrade has not started.
    pub(super) old: usize,
    /// Nodes that the hook upgrades now.
    pub(super) in_progress: BTreeSet<Arc<str>>,
    /// Number of nodes that count in the steps of the proof.
    pub(super) proving: usize,
    /// Number of those of them that have the new driver, or are getting it.
    pub(super) reached: usize,
    /// Nodes without the new driver whose upgrade has not started, and that may not be started.
    pub(super) unstarted: BTreeSet<Arc<str>>,
    /// The nodes that limits count.
    pub(super) throttled: ThrottledFleet,
    /// When results expire.
    expiries: BTreeSet<(Timestamp, Arc<str>)>,
}

impl KnownNode {
    /// Creates the results for a node that does not belong to the run.
    pub(super) fn of_bystander(needs_driver: bool, away: AwayPlugins, until: Timestamp) -> Self {
        Self {
            needs_driver,
            found: None,
            left: None,
            until,
            keeps_focus: false,
            away,
            is_held_by_other_mode: false,
            is_free_in_pause: false,
        }
    }

    /// Returns whether the results are valid at this time.
    pub(super) fn is_valid(&self, now: Timestamp) -> bool {
        self.until > now
    }

    /// Returns the reason for which the node waits, if it has no other reason: neither that of an
    /// upgrade of the hook, nor that of a refused write, nor an outcome.
    pub(super) fn only_left(&self) -> Option<&Arc<Reason>> {
        let (assessment, ending) = self.found.as_ref()?;
        let has_others = assessment.upgrade.turn != UpgradeTurn::Left
            || assessment.refused.is_some()
            || ending.outcome.is_some();
        self.left.as_ref().filter(|left| !has_others && left.asks_why())
    }

    /// Returns the node's part in the limits.
    pub(super) fn throttled(&self) -> Option<&ThrottledNode> {
        self.found.as_ref()?.0.upgrade.throttled.as_ref()
    }
}

impl KeptNodes {
    /// Stores the results for a node whose old results were taken.
    pub(super) fn keep(&mut self, name: &Arc<str>, known: KnownNode) {
        self.unsettled.remove(name);
        self.sums.change(name, &known, true);
        self.known.insert(Arc::clone(name), known);
    }

    /// Drops the results for a node that were just stored: the next decision examines it again.
    pub(super) fn unsettle(&mut self, name: &str) {
        if self.take(name).is_some() {
            self.known.remove(name);
        }
        self.unsettled.insert(name.into(), None);
    }

    /// Removes the results for a node from the sums, and returns them.
    pub(super) fn take(&mut self, name: &str) -> Option<KnownNode> {
        let (name, known) = self.known.entry(name)?;
        let (name, known) = (Arc::clone(name), known.clone());
        self.sums.change(&name, &known, false);
        Some(known)
    }

    /// Drops a node that no longer exists, or is not part of the decision.
    pub(super) fn drop_results(&mut self, name: &str) {
        self.unsettled.remove(name);
        self.known.remove(name);
        self.outcomes.remove(name);
        for waits in [&mut self.waits, &mut self.failures, &mut self.deferred] {
            waits.remove(name);
        }
    }

    /// Returns whether a node is part of the decision.
    pub(super) fn is_listed(&self, name: &str) -> bool {
        self.known.get(name).is_some_and(|known| known.found.is_some())
    }
}

impl NodeSums {
    /// Returns the nodes whose results have expired.
    pub(super) fn expired(&self, now: Timestamp) -> impl Iterator<Item = &Arc<str>> {
        self.expiries.iter().take_while(move |(until, _)| *until <= now).map(|(_, name)| name)
    }

    /// Returns when the next results expire.
    pub(super) fn next_expiry(&self) -> Timestamp {
        self.expiries.first().map_or(Timestamp::MAX, |(until, _)| *until)
    }

    /// Adds or removes the results for a node.
    fn change(&mut self, name: &Arc<str>, known: &KnownNode, is_added: bool) {
        let number = |sum: &mut usize, counts: bool| {
            if counts {
                *sum = if is_added { *sum + 1 } else { sum.saturating_sub(1) };
            }
        };
        let name_in = |set: &mut BTreeSet<Arc<str>>, belongs: bool| {
            if belongs {
                change(set, Arc::clone(name), is_added);
            }
        };
        if known.until < Timestamp::MAX {
            change(&mut self.expiries, (known.until, Arc::clone(name)), is_added);
        }
        number(&mut self.drivers, known.needs_driver);
        if is_added {
            self.away.add(known.away);
        } else {
            self.away.remove(known.away);
        }
        let Some((assessment, ending)) = &known.found else { return };
        let upgrade = &assessment.upgrade;
        number(&mut self.listed, true);
        number(&mut self.members, assessment.is_member);
        number(&mut self.own_drivers, assessment.has_own_driver);
        number(&mut self.held_by_other_mode, known.is_held_by_other_mode);
        name_in(&mut self.free_in_pause, known.is_free_in_pause);
        name_in(&mut self.focus, known.keeps_focus);
        name_in(&mut self.given_up, upgrade.given_up);
        name_in(&mut self.failed_proofs, upgrade.has_failed_proof);
        name_in(&mut self.failed_drivers, upgrade.has_failed_driver);
        name_in(&mut self.failed_tests, upgrade.has_failed_test);
        name_in(&mut self.retried, upgrade.is_retried);
        number(&mut self.old, upgrade.is_old);
        let record = upgrade.turn.record();
        let in_progress = record.is_some_and(|record| record.state.is_in_progress());
        name_in(&mut self.in_progress, in_progress);
        number(&mut self.proving, upgrade.proves);
        number(&mut self.reached, upgrade.has_reached());
        let is_candidate = matches!(upgrade.turn, UpgradeTurn::Candidate(_));
        name_in(&mut self.unstarted, upgrade.is_unstarted && !is_candidate);
        name_in(&mut self.dependent, upgrade.ends || assessment.needs.is_stale());
        if ending.reason.as_ref().is_some_and(|reason| reason.asks_why()) {
            let is_only = known.only_left().is_some();
            let set = if is_only { &mut self.asking } else { &mut self.asking_apart };
            change(set, Arc::clone(name), is_added);
        }
        if let UpgradeTurn::Candidate(again) = upgrade.turn {
            change(&mut self.candidates, (again, Arc::clone(name)), is_added);
        }
        if let Some(key) = &assessment.needs.missing_config {
            if is_added {
                self.missing_configs.insert(Arc::clone(name), key.clone());
            } else {
                self.missing_configs.remove(name);
            }
        }
        match &upgrade.throttled {
            Some(node) if is_added => self.throttled.add(name, node),
            Some(node) => self.throttled.remove(name, node),
            None => {}
        }
    }
}

fn change<T: Ord>(set: &mut BTreeSet<T>, value: T, is_added: bool) {
    if is_added {
        set.insert(value);
    } else {
        set.remove(&value);
    }
}
