//! What one node needs, by itself: from what is seen of it and of the fleet, and what is remembered of it.

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
use super::others::paused_before;
use super::{modes, refused_writes};
use crate::drive_upgrade::start_limits::ThrottledNode;

pub(super) mod plugins;

use plugins::PluginNeed;

/// What a node needs, and the assessment of its upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NodeAssessment {
    /// The run is about it.
    pub(super) is_member: bool,
    /// It keeps the driver of its own image.
    pub(super) has_own_driver: bool,
    pub(super) needs: NodeNeeds,
    /// A refused write, where NVIDIA's controller acts: what it waits for, if it waits at all.
    pub(super) refused: Option<Arc<Reason>>,
    pub(super) upgrade: UpgradeStanding,
}

/// What a node needs apart from its upgrade.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct NodeNeeds {
    /// Of the DRA kubelet plugins.
    pub(super) dra: Vec<PluginNeed>,
    /// Of the device plugin.
    pub(super) device: Vec<PluginNeed>,
    /// The key of the device plugin's configuration that it asks for and that is not there.
    pub(super) missing_config: Option<String>,
    /// Of driver and toolkit.
    driver: Option<Reason>,
    /// Of the other operands.
    operands: Option<Reason>,
}

/// The assessment of a node's upgrade.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UpgradeStanding {
    /// What limits see of it. `None`: they do not count it.
    pub(super) throttled: Option<ThrottledNode>,
    /// It failed, and is not tried again.
    pub(super) given_up: bool,
    /// The run has waited for it, and does no more.
    pub(super) ends: bool,
    pub(super) turn: UpgradeTurn,
}

/// What comes next for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum UpgradeTurn {
    /// Its upgrade needs nothing.
    Over,
    /// Its upgrade waits.
    Waits(Arc<Reason>),
    /// It waits for what it needs apart from its upgrade.
    Left,
    /// It may be started; how often it has been before.
    Candidate(u32),
    /// It is under way, and goes on once its plugins are seen to.
    UnderWay,
}

impl UpgradeTurn {
    /// Its upgrade waits for this.
    pub(super) fn waits(reason: UpgradeReason) -> Self {
        Self::Waits(Reason::Upgrading(reason).into())
    }
}

impl UpgradeStanding {
    pub(super) fn with(turn: UpgradeTurn) -> Self {
        Self { throttled: None, given_up: false, ends: false, turn }
    }
}

/// Assesses a node.
pub(super) fn assess(draft: &mut NodeDraft<'_>) -> NodeAssessment {
    let (fleet, node) = (draft.fleet, draft.node);
    let is_member = draft.is_member();
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
        refused: if fleet.has(Task::Drive) { None } else { refused_writes::instead(draft) },
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
            // With its driver the node's plugins are replaced anyway, or the driver is what has to be seen to first.
            Some(DriverStatus::Waiting(reason)) => {
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

    /// Whether there is a stale plugin.
    pub(super) fn is_stale(&self) -> bool {
        self.dra.iter().chain(&self.device).any(|need| matches!(need, PluginNeed::Stale(_)))
    }

    /// What is waited for first, as long as it is not known which stale plugins are replaced.
    pub(super) fn first(&self, fleet: &FleetInputs<'_>) -> Option<Arc<Reason>> {
        let reason = |need: &PluginNeed| match need {
            PluginNeed::Waits(reason) => reason.clone(),
            PluginNeed::Stale(stale) => stale.queued(0, 0),
        };
        self.reason(self.dra.first().map(reason), self.device.first().map(reason), fleet)
            .map(Arc::new)
    }

    /// What is waited for first. `dra`, `device`: what the first of the plugins waits for.
    pub(super) fn reason(
        &self,
        dra: Option<Reason>,
        device: Option<Reason>,
        fleet: &FleetInputs<'_>,
    ) -> Option<Reason> {
        // What the settings tolerate of the DRA driver must not hide what is still to come.
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

/// Notes the states through which NVIDIA's controller leads a node, from the start of its upgrade on.
fn follow_state(draft: &mut NodeDraft<'_>) {
    let label = draft.node.labels.get(draft.traits().state_label).map_or("", String::as_str);
    let steps = draft.record().map_or(&[][..], |record| &record.steps);
    let begun = !steps.is_empty() || ControllerState::from_label(Some(label)).is_busy();
    let known = steps.last().is_some_and(|step| step.state == label);
    if label.is_empty() || !begun || known || steps.len() >= MOST_STEPS {
        return;
    }
    let step = RecordedStep { state: label.to_owned(), at: draft.now() };
    draft.change_record(|record| record.steps.push(step));
}
