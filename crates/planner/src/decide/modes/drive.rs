//! Mode `drive`: the upgrade machine. Every decision depends on levels: the needs of a node follow
//! from its driver pod, its pods and its record, no matter who wrote them and when.
//!
//! A node's actions are ordered, its patch before the actions that depend on it; if one fails, the
//! later ones are not performed. The hook relies on the change of a patch only after it has
//! observed it on the node.

use std::sync::Arc;

use jiff::Timestamp;

use crate::drive_upgrade::cause::{FailureCause, pause};
use crate::drive_upgrade::record::{NodeGroup, NodeRecordState, UpgradeRecord, read};
use crate::drive_upgrade::start_limits::ThrottledNode;
use crate::drive_upgrade::state::UpgradeState;
use crate::hold;
use crate::node::DriverPod;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::driver::DriverTraits;
use contract::policy::ForeignCordon;
use observed::ObservedNode;

use crate::decide::assess::{UpgradeStanding, UpgradeTurn};
use crate::decide::inputs::FleetInputs;
use crate::decide::node_draft::{NodeDraft, REPEAT_SECONDS};
use crate::decide::{accepted_nodes, other_actors, paused_nodes, refused_node};
use crate::time::after;

pub(in crate::decide) mod acceptance;
mod clear;
mod cordon;
mod end;
pub(in crate::decide) mod patch;
mod refused_driven_node;
mod release_unchanged;
pub(in crate::decide) mod start_patch;
mod turn;
mod validation;

pub(in crate::decide) use cordon::cordon_again;
pub(in crate::decide) use end::{clear_away, fail, not_retried, note_results, release_node};
pub(in crate::decide) use release_unchanged::{describe_released_unchanged, release_all_unchanged};
pub(in crate::decide) use turn::{DriveTurn, StateResult, not_terminated, unwanted};
pub(in crate::decide) use validation::{after_validation, is_otherwise_well, validation};

/// A node, with all inputs of its next step.
pub(in crate::decide) struct DrivenNode<'a> {
    pub(in crate::decide) node: &'a ObservedNode,
    /// Its driver pod, if it should have one.
    pub(in crate::decide) pod: Option<DriverPod<'a>>,
    /// Whether a driver DaemonSet should have a pod there.
    wanted: bool,
    /// The taint of the node that no driver pod tolerates.
    tainted: Option<Reason>,
    pub(in crate::decide) found: NodeRecordState,
}

impl<'a> DrivenNode<'a> {
    /// Returns the node with its record. `None`: no task settles drivers.
    pub(in crate::decide) fn of(
        fleet: &'a FleetInputs<'a>,
        node: &'a ObservedNode,
    ) -> Option<Self> {
        fleet.operands.as_ref()?;
        // The hook must not continue the record of another DaemonSet.
        let found = read(node, fleet.traits);
        let is_other = found.belongs_to_other_hook(fleet.identity.as_deref());
        Self::with_record(fleet, node, if is_other { NodeRecordState::Nothing } else { found })
    }

    /// Returns the node with its record, which was read before. `None`: no task settles drivers.
    pub(in crate::decide) fn with_record(
        fleet: &'a FleetInputs<'a>,
        node: &'a ObservedNode,
        found: NodeRecordState,
    ) -> Option<Self> {
        let operands = fleet.operands.as_ref()?;
        Some(Self {
            node,
            pod: operands.driver_pod(node),
            wanted: operands.driver_wanted(node),
            tainted: operands.tainted(node),
            found,
        })
    }

    pub(in crate::decide) fn record(&self) -> Option<&Arc<UpgradeRecord>> {
        self.found.record()
    }

    /// Returns whether this program upgrades the node. A record of a newer program takes no slot:
    /// this program never continues it, so the slot would never be free again. If the node is out
    /// of service, it counts as unavailable.
    fn in_progress(&self) -> bool {
        self.record().is_some_and(|record| record.state.is_in_progress())
    }

    /// Returns whether it has a foreign cordon.
    fn foreign_cordon(&self) -> bool {
        self.node.unschedulable && !self.record().is_some_and(|record| record.cordoned)
    }

    /// Returns whether the node's driver must be replaced, or a user requests it.
    pub(in crate::decide) fn needs_upgrade(&self, traits: &DriverTraits) -> bool {
        if !self.wanted {
            return false;
        }
        let Some(pod) = &self.pod else { return false };
        let outdated = !pod.newest && !pod.pod.deleting;
        outdated || asked_for(self.node, traits)
    }

    /// Returns whether the driver's installation is the same in the old pod and in the new
    /// template: workloads can stay.
    fn is_restart_only(&self, traits: &DriverTraits) -> bool {
        let Some(pod) = self.pod.as_ref().filter(|pod| !pod.newest && !pod.pod.orphaned) else {
            return false;
        };
        let same = pod.pod.config_digest.is_some() && pod.pod.config_digest == pod.template_digest;
        same && !asked_for(self.node, traits)
    }

    /// Returns whether the node's driver pod is the newest one, and works.
    pub(in crate::decide) fn is_current(&self) -> bool {
        self.pod.as_ref().is_some_and(DriverPod::is_current)
    }

    /// Returns whether the node still has the driver pod with which it was started, and no attempt
    /// before has changed its driver.
    pub(in crate::decide) fn has_kept_driver(&self, record: &UpgradeRecord) -> bool {
        let is_kept =
            |driver: &DriverPod<'_>| !driver.pod.deleting && turn::is_older(driver.pod, record);
        self.pod.as_ref().is_some_and(is_kept) && !record.has_changed_driver()
    }

    /// Returns whether no driver DaemonSet should have a pod on the node, and none is there. While
    /// a node is not ready, its taints may keep pods away.
    pub(in crate::decide) fn is_unwanted(&self) -> bool {
        !self.wanted && self.pod.is_none() && self.node.ready
    }
}

/// Returns whether the driver pod waits to load the driver, or a user requests an upgrade.
fn asked_for(node: &ObservedNode, traits: &DriverTraits) -> bool {
    let annotation = |key: &str| node.annotations.text(key);
    annotation(traits.safe_load).is_some_and(|value| !value.is_empty())
        || is_requested(node, traits)
}

/// Returns whether a user requests an upgrade of this node, even if it failed or is cordoned.
pub(in crate::decide) fn is_requested(node: &ObservedNode, traits: &DriverTraits) -> bool {
    node.annotations.has(traits.requested, "true")
}

/// Assesses the node's upgrade. `left`: the reason for which it waits apart from its upgrade.
pub(in crate::decide) fn assess(
    draft: &mut NodeDraft<'_>,
    left: Option<&Arc<Reason>>,
) -> UpgradeStanding {
    let Some(driven) = DrivenNode::of(draft.fleet, draft.node) else {
        return UpgradeStanding::with(UpgradeTurn::Left);
    };
    // Whether the node counts in the total of the limits. Without an operator, it is unknown where
    // a pod will be created: a node that temporarily has no pod must not make the fleet seem
    // larger.
    let is_recorded =
        driven.record().is_some() || matches!(driven.found, NodeRecordState::Newer(_));
    let counts = draft.settings().driver.has_operator() || driven.pod.is_some() || is_recorded;
    let throttled = counts.then(|| throttled(draft, &driven));
    let in_progress = throttled.as_ref().is_some_and(|node| node.in_progress);
    let given_up = is_given_up(draft, &driven);
    let is_old = !in_progress && is_old(draft, &driven);
    let has_driver = driven.pod.is_some() || is_recorded || in_progress;
    let proves = counts && has_driver && draft.is_member();
    let turn = next(draft, &driven, left);
    UpgradeStanding {
        throttled,
        given_up,
        has_failed_proof: given_up && has_failed_proof(draft, &driven),
        has_failed_driver: has_failed_driver(draft, &driven),
        has_failed_test: has_failed_test(draft, &driven),
        is_retried: !given_up && !is_old && is_retried(&driven),
        is_old,
        proves,
        is_unstarted: is_old || !in_progress && lacks_pod(&driven),
        ends: turn == UpgradeTurn::Over && draft.is_under_way(),
        turn,
    }
}

/// Returns whether the node has the driver that it had, and its upgrade has not started.
pub(in crate::decide) fn is_old(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let is_outdated = driven.pod.as_ref().is_some_and(|pod| !pod.newest);
    let is_reached = driven.record().is_some_and(|record| {
        let is_changed =
            record.failure.as_ref().is_none_or(|failure| !failure.cause.is_before_restart());
        record.state.is_in_progress() || record.digest == draft.settings().digest && is_changed
    });
    is_outdated && !is_reached
}

/// Returns whether the node should have a driver pod and has none, although the hook has not
/// started it.
pub(in crate::decide) fn lacks_pod(driven: &DrivenNode<'_>) -> bool {
    driven.wanted && driven.pod.is_none() && driven.found == NodeRecordState::Nothing
}

/// Returns whether the node's new driver did not start, or its checks failed, under this deployment.
pub(in crate::decide) fn has_failed_proof(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let record = driven.record().filter(|record| record.digest == draft.settings().digest);
    let failure = record.and_then(|record| record.failure.as_ref());
    failure.is_some_and(|failure| failure.cause.is_failed_proof())
}

/// Returns whether the new driver has failed on the node under this deployment, even if the node is
/// retried. A node that a user takes as proven does not count.
pub(in crate::decide) fn has_failed_driver(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let record = driven.record().filter(|record| record.digest == draft.settings().digest);
    let has_failed = record.is_some_and(|record| {
        record.attempts.iter().any(|(cause, count)| cause.is_failed_proof() && *count > 0)
    });
    has_failed && !accepted_nodes::is_accepted(draft, driven)
}

/// Returns whether the node failed an acceptance test with its old driver under this deployment,
/// unless a user requests it.
fn has_failed_test(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    let record = driven.record().filter(|record| record.digest == draft.settings().digest);
    let failure = record.and_then(|record| record.failure.as_ref());
    failure.is_some_and(|failure| failure.cause == FailureCause::AcceptanceFailedBefore)
        && !is_requested(driven.node, draft.traits())
}

/// Returns whether the node failed after an attempt had changed its driver, and is retried.
fn is_retried(driven: &DrivenNode<'_>) -> bool {
    let record = driven.record().filter(|record| record.state == UpgradeState::UpgradeFailed);
    record.is_some_and(|record| record.has_changed_driver())
}

/// Returns the properties of the node for the limits. A requested change that has not been observed
/// counts as done.
pub(in crate::decide) fn throttled(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
) -> ThrottledNode {
    let node = driven.node;
    let started = draft.memory.patched.as_ref().filter(|patched| patched.starts);
    // A change that admission removed from a patch may never be observed.
    let refused = draft.refused_write();
    let started = started.is_some_and(|patched| {
        refused.is_none() || draft.now() < after(patched.at, REPEAT_SECONDS)
    });
    let in_progress =
        driven.in_progress() && refused.is_none_or(|refused| !refused.stays) || started;
    let other = other_actors::other_driver(node, draft.settings().driver);
    ThrottledNode {
        in_progress,
        unavailable: in_progress || node.unschedulable || !node.ready || other.is_some(),
        group: group(draft, driven).map(|group| group.value),
    }
}

/// Returns the topology group of the node, if groups have limits. A node with a record stays in the
/// group in which it was started, unless the policy now groups nodes by another label.
pub(in crate::decide) fn group(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
) -> Option<NodeGroup> {
    let label = &draft.settings().upgrade.topology.as_ref()?.label;
    let known = driven.record().and_then(|record| record.group.as_ref());
    if let Some(known) = known.filter(|group| group.label == *label) {
        return Some(known.clone());
    }
    let value = driven.node.labels.get(label)?.clone();
    Some(NodeGroup { label: label.clone(), value })
}

/// Returns whether a failed node is not retried under this digest, unless a user requests it. A node
/// that failed a test with its old driver is deferred.
pub(in crate::decide) fn is_given_up(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> bool {
    if draft.refused_write().is_some() {
        return true;
    }
    if accepted_nodes::is_accepted(draft, driven) {
        return false;
    }
    let Some(record) = driven.record().filter(|record| record.state == UpgradeState::UpgradeFailed)
    else {
        return false;
    };
    let Some(failure) = &record.failure else { return false };
    let settings = draft.settings();
    record.digest == settings.digest
        && !failure.cause.is_refusal()
        && failure.cause != FailureCause::AcceptanceFailedBefore
        && record.attempts(failure.cause, &settings.digest) >= settings.upgrade.attempts
        && !is_requested(driven.node, draft.traits())
}

/// Returns the next step for a node.
fn next(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    left: Option<&Arc<Reason>>,
) -> UpgradeTurn {
    if driven.record().is_some() {
        // From now on, the node belongs to the run, whatever happens.
        draft.change_record(|_| {});
    }
    refused_node::heed_request(draft);
    if let Some(refused) = draft.refused_write().cloned() {
        return refused_driven_node::next(draft, driven, &refused, left);
    }
    if let Some(reason) = refused_node::tried_again(draft) {
        turn::keeps_focus(draft);
        return UpgradeTurn::Waits(reason.into());
    }
    match &driven.found {
        NodeRecordState::Newer(version) => {
            UpgradeTurn::waits(UpgradeReason::NewerRecord { version: *version })
        }
        NodeRecordState::Broken => clear_away(draft),
        NodeRecordState::Nothing => untouched(draft, driven, left),
        NodeRecordState::Record(record) if record.state == UpgradeState::UpgradeFailed => {
            failed(draft, driven, record, left)
        }
        NodeRecordState::Record(record) => {
            draft.memory.waiting_apart = None;
            UpgradeTurn::UnderWay(Arc::clone(record))
        }
    }
}

/// Returns the step of a node whose upgrade needs none.
fn over(left: Option<&Arc<Reason>>) -> UpgradeTurn {
    if left.is_some() { UpgradeTurn::Left } else { UpgradeTurn::Over }
}

/// Returns the step of a node without a record.
fn untouched(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    left: Option<&Arc<Reason>>,
) -> UpgradeTurn {
    if !driven.needs_upgrade(draft.traits()) {
        return over(left);
    }
    forbidden(draft, driven)
        .map_or(UpgradeTurn::Candidate(0), |reason| UpgradeTurn::Waits(reason.into()))
}

/// Returns the step of a node whose upgrade failed. The node is done as soon as its driver works,
/// also if a user repaired it, unless it must pass acceptance tests: only a retry runs them. It is
/// retried while it has attempts left.
fn failed(
    draft: &mut NodeDraft<'_>,
    driven: &DrivenNode<'_>,
    record: &UpgradeRecord,
    left: Option<&Arc<Reason>>,
) -> UpgradeTurn {
    let Some(failure) = &record.failure else { return clear_away(draft) };
    let settings = draft.settings();
    if driven.is_unwanted() {
        return UpgradeTurn::Waits(unwanted(draft, driven, record).into());
    }
    if accepted_nodes::is_accepted(draft, driven) {
        return UpgradeTurn::Waits(accepted_nodes::release(draft, driven, record).into());
    }
    let left = left.map(|reason| &**reason);
    if !left.is_some_and(Reason::follows_operand_rule) {
        draft.memory.waiting_apart = None;
    }
    let well = left.is_none_or(|reason| validation::is_excused(draft, reason));
    if driven.is_current()
        && well
        && (validation(draft).is_none() || validation::validator_failed_before(draft, left))
        && failure.cause != FailureCause::AcceptanceFailed
        && !acceptance::must_be_tested(draft, driven, record)
    {
        return UpgradeTurn::Waits(release_node(draft, driven, record).into());
    }
    // A user who requests the node has fixed the cause: its attempts are counted from zero. The
    // policy that refused its writes in an earlier run may have changed since.
    let same = record.digest == settings.digest
        && !is_requested(driven.node, draft.traits())
        && !failure.cause.is_refusal();
    let (attempts, limit) =
        (record.attempts(failure.cause, &settings.digest), settings.upgrade.attempts);
    let message = || failure.message.clone();
    if same && attempts >= limit {
        let cordoned = record.cordoned && driven.node.unschedulable;
        let reason = not_retried(failure.cause, message(), attempts, cordoned);
        return UpgradeTurn::Waits(reason.into());
    }
    let at = record.since.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
    if same && at > draft.now() {
        draft.alarm.set(at);
        return UpgradeTurn::waits(UpgradeReason::Retry {
            message: message(),
            attempts,
            limit,
            at,
        });
    }
    forbidden(draft, driven)
        .map_or(UpgradeTurn::Candidate(attempts + 1), |reason| UpgradeTurn::Waits(reason.into()))
}

/// Returns what forbids the node's start, apart from limits.
fn forbidden(draft: &NodeDraft<'_>, driven: &DrivenNode<'_>) -> Option<Reason> {
    let (node, traits) = (driven.node, draft.traits());
    let skipped = node.labels.has(traits.skip_label, "true");
    if skipped && !hold::is_held(node, draft.settings().driver) {
        return Some(Reason::Skipped { label: traits.skip_label });
    }
    forbidden_by_others(draft, driven)
}

/// Returns what others forbid.
pub(in crate::decide) fn forbidden_by_others(
    draft: &NodeDraft<'_>,
    driven: &DrivenNode<'_>,
) -> Option<Reason> {
    let (fleet, node) = (draft.fleet, driven.node);
    if let Some(reason) =
        paused_nodes::paused(fleet, node).or_else(|| other_actors::work_of_other_actor(fleet, node))
    {
        return Some(reason);
    }
    let asked_for = is_requested(node, fleet.traits);
    if driven.foreign_cordon()
        && fleet.settings.upgrade.foreign_cordon == ForeignCordon::Skip
        && !asked_for
    {
        return Some(Reason::Upgrading(UpgradeReason::ForeignCordon));
    }
    if !node.ready {
        return Some(Reason::NodeNotReady { since: node.ready_since });
    }
    // The existing pod may stay; it would have no successor.
    driven.tainted.clone()
}
