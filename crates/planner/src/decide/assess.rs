//! The needs of one node, from the observed state of the node and the fleet, and from the memory.

use std::sync::Arc;

use crate::node::{DriverStatus, PluginBase, is_driver_node};
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use contract::record::{MOST_STEPS, RecordedStep};
use contract::task::Task;
use nvidia_upgrade::state::ControllerState;

use super::inputs::FleetInputs;
use super::node_draft::NodeDraft;
use super::operands;
use super::paused_nodes::{heed_end, paused_before};
use super::{modes, refused_node};
use crate::drive_upgrade::record::UpgradeRecord;
use crate::drive_upgrade::start_limits::ThrottledNode;

pub(super) mod plugins;

use plugins::PluginNeed;

/// The needs of a node, and the assessment of its upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeAssessment {
    /// Whether the node belongs to the run.
    pub(super) is_member: bool,
    /// Whether it uses the driver of its operating system image.
    pub(super) has_own_driver: bool,
    pub(super) needs: NodeNeeds,
    /// A refused write, if NVIDIA's controller upgrades the node: the reason for which it waits, if
    /// it waits at all.
    pub(super) refused: Option<Arc<Reason>>,
    pub(super) upgrade: UpgradeStanding,
}

/// The needs of a node apart from its upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeNeeds {
    /// The needs of the DRA kubelet plugins.
    pub(super) dra: Vec<PluginNeed>,
    /// The needs of the device plugin.
    pub(super) device: Vec<PluginNeed>,
    /// The requested key of the device plugin's configuration, if the ConfigMap does not contain
    /// it.
    pub(super) missing_config: Option<String>,
    /// The reason of driver and toolkit.
    driver: Option<Reason>,
    /// The reason of the other operands.
    operands: Option<Reason>,
}

/// The assessment of a node's upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
pub(super) struct UpgradeStanding {
    /// The properties for the limits. `None`: the limits do not count it.
    pub(super) throttled: Option<ThrottledNode>,
    /// Whether it failed, and is not retried.
    pub(super) given_up: bool,
    /// Whether it is given up because its new driver did not start, or failed its checks.
    pub(super) has_failed_proof: bool,
    /// Whether its new driver has failed in this deployment, even if it is retried.
    pub(super) has_failed_driver: bool,
    /// Whether it failed an acceptance test with its old driver in this deployment, and keeps that
    /// driver.
    pub(super) has_failed_test: bool,
    /// Whether it failed with its new driver, and is retried.
    pub(super) is_retried: bool,
    /// Whether it has the driver that it had, and its upgrade has not started.
    pub(super) is_old: bool,
    /// Whether it counts in the steps of the proof: it belongs to the run, limits count it, and it
    /// has a driver pod or is being upgraded.
    pub(super) proves: bool,
    /// Whether its upgrade has not started, and it does not have the new driver: it has the one
    /// that it had, or no driver pod.
    pub(super) is_unstarted: bool,
    /// Whether the run waited for it, and no longer does.
    pub(super) ends: bool,
    pub(super) turn: UpgradeTurn,
}

/// The next step for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpgradeTurn {
    /// Its upgrade needs no step.
    Over,
    /// Its upgrade waits.
    Waits(Arc<Reason>),
    /// It waits for needs apart from its upgrade.
    Left,
    /// It may be started; the number of earlier attempts.
    Candidate(u32),
    /// Its upgrade is in progress, and continues after its plugins are handled; its record.
    UnderWay(Arc<UpgradeRecord>),
}

impl UpgradeTurn {
    /// Creates the step of an upgrade that waits for this reason.
    pub(super) fn waits(reason: UpgradeReason) -> Self {
        Self::Waits(Reason::Upgrading(reason).into())
    }

    /// Returns the record of an upgrade in progress.
    pub(super) fn record(&self) -> Option<&Arc<UpgradeRecord>> {
        if let Self::UnderWay(record) = self { Some(record) } else { None }
    }
}

impl UpgradeStanding {
    pub(super) fn with(turn: UpgradeTurn) -> Self {
        Self {
            throttled: None,
            given_up: false,
            has_failed_proof: false,
            has_failed_driver: false,
            has_failed_test: false,
            is_retried: false,
            is_old: false,
            proves: false,
            is_unstarted: false,
            ends: false,
            turn,
        }
    }

    /// Returns whether it counts in the steps of the proof as a node that has the new driver, or is
    /// getting it.
    pub(super) fn has_reached(&self) -> bool {
        self.proves && !self.is_old
    }
}

/// Assesses a node.
pub(super) fn assess(draft: &mut NodeDraft<'_>) -> NodeAssessment {
    let (fleet, node) = (draft.fleet, draft.node);
    let is_member = draft.is_member();
    heed_end(draft);
    let needs = NodeNeeds::of(draft);
    let left = needs.first(fleet);
    let decides = fleet.settings.mode.decides();
    if !decides && is_member {
        follow_state(draft);
    }
    let upgrade = modes::assess(draft, left.as_ref());
    NodeAssessment {
        is_member,
        has_own_driver: fleet
            .operands
            .as_ref()
            .is_some_and(|operands| operands.has_own_driver(node)),
        refused: if fleet.has(Task::Drive) { None } else { refused_node::instead(draft) },
        needs,
        upgrade,
    }
}

impl NodeNeeds {
    fn of(draft: &mut NodeDraft<'_>) -> Self {
        let (fleet, node) = (draft.fleet, draft.node);
        let status = fleet
            .operands
            .as_ref()
            .filter(|_| is_driver_node(node, fleet.settings.driver))
            .map(|operands| operands.status(node));
        let (base, driver): (Option<PluginBase>, Option<Reason>) = match status {
            None => (None, None),
            Some(DriverStatus::Current(base)) => (Some(base), None),
            Some(DriverStatus::Finishing(base, reason)) => (Some(base), Some(reason)),
            Some(DriverStatus::Skipped(base)) => (
                base.filter(|base| base.served_since.is_some()),
                Some(Reason::Skipped { label: fleet.traits.skip_label }),
            ),
            // The node's plugins are replaced after its driver anyway, or the driver must be
            // handled first.
            Some(DriverStatus::Waiting(reason)) => {
                // The node for which a rolling update waits depends on the others.
                draft.effects.depends_on_others |= matches!(reason, Reason::ToolkitOutdated { .. });
                return Self {
                    driver: Some(paused_before(fleet, node, reason)),
                    ..Self::default()
                };
            }
        };
        let dra = base.as_ref().map(|base| plugins::dra(draft, base)).unwrap_or_default();
        let missing_config =
            plugins::missing_config(draft).filter(|_| fleet.restarts).map(str::to_owned);
        let device =
            if fleet.restarts { plugins::device(draft, base.as_ref()) } else { Vec::new() };
        let operands =
            if driver.is_none() || fleet.has(Task::Drive) { operands::fault(draft) } else { None };
        Self { dra, device, missing_config, driver, operands }
    }

    /// Returns whether there is a stale plugin.
    pub(super) fn is_stale(&self) -> bool {
        self.dra.iter().chain(&self.device).any(|need| matches!(need, PluginNeed::Stale(_)))
    }

    /// Returns the first reason, before it is known which stale plugins are replaced.
    pub(super) fn first(&self, fleet: &FleetInputs<'_>) -> Option<Arc<Reason>> {
        let reason = |need: &PluginNeed| match need {
            PluginNeed::Waits(reason) => reason.clone(),
            PluginNeed::Stale(stale) => stale.queued(0, 0),
        };
        self.reason(self.dra.first().map(reason), self.device.first().map(reason), fleet)
            .map(Arc::new)
    }

    /// Returns the first reason. `dra`, `device`: the reason of the first of the plugins.
    pub(super) fn reason(
        &self,
        dra: Option<Reason>,
        device: Option<Reason>,
        fleet: &FleetInputs<'_>,
    ) -> Option<Reason> {
        // A tolerated problem of the DRA driver must not hide a later reason.
        let (dra, tolerated) = match dra {
            Some(reason) if fleet.tolerates(&reason) => (None, Some(reason)),
            dra => (dra, None),
        };
        dra.or(device)
            .or_else(|| self.driver.clone())
            .or_else(|| self.operands.clone())
            .or(tolerated)
    }
}

/// Records the states that NVIDIA's controller sets on a node, from the start of its upgrade.
fn follow_state(draft: &mut NodeDraft<'_>) {
    let label = draft.node.labels.get(draft.traits().state_label).map_or("", String::as_str);
    let steps = draft.record().map_or(&[][..], |record| &record.steps);
    let started = !steps.is_empty() || ControllerState::from_label(Some(label)).is_busy();
    let known = steps.last().is_some_and(|step| step.state == label);
    if label.is_empty() || !started || known || steps.len() >= MOST_STEPS {
        return;
    }
    // Without a decision before this one, it is unknown when the controller set the state.
    let or_earlier = !draft.fleet.memory.assessed.is_observed;
    let step = RecordedStep { state: label.to_owned(), at: draft.now(), or_earlier };
    draft.change_record(|record| record.steps.push(step));
}
