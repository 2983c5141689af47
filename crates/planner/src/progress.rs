//! The progress of a rollout: the stage of each node, the use of the limits, and the estimated end
//! of the rollout. `gpu-rollout status`, `doctor` and the hook's metrics all use it, so that they
//! agree.

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;
use strum::{EnumCount, IntoStaticStr, VariantArray};

use contract::driver::Driver;
use contract::policy::Policy;
use contract::record::{NodeOutcome, NodeRecord};
use contract::settings::Settings;

use super::drive_upgrade::record::read;
use super::node::driver_nodes;
use super::policies::{NodePool, NodePools, controller_pace};
use super::reason::upgrade::UpgradeReason;
use super::reason::{Reason, Wait};
use super::time::after;
use super::waits::Waits;
use nvidia_upgrade::state::ControllerState;
use observed::named::Named;
use observed::{Observed, ObservedNode};

mod node_forecast;
mod rollout_eta;

pub use node_forecast::{FleetProgress, NodeForecast, RolloutPace, ends};
pub use rollout_eta::{NoEta, rollout_eta};

/// The stage of a node in a rollout.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    JsonSchema,
    EnumCount,
    VariantArray,
    IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
#[serde(rename_all = "kebab-case")]
pub enum NodeStage {
    /// Its upgrade has failed, and needs manual action.
    Failed,
    /// Its upgrade has started and not ended.
    InProgress,
    /// It waits for its upgrade, or for something else that it needs.
    Pending,
    /// It was not assessed, because the whole fleet waits.
    Unknown,
    /// It is left unchanged, for a reason that the policy tolerates.
    Deferred,
    /// It matches the settings.
    Done,
}

impl NodeStage {
    /// Every stage.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the name in tables, and the value of the label `stage` of metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the stage of a node from its wait, its outcome and its upgrade state. `assessed`:
    /// whether the decision assessed nodes.
    pub fn from_wait(
        wait: Option<&Wait>,
        outcome: Option<NodeOutcome>,
        state: Option<&str>,
        assessed: bool,
    ) -> Self {
        match (wait, outcome) {
            _ if outcome == Some(NodeOutcome::Failed)
                || wait.is_some_and(|wait| is_given_up(&wait.reason)) =>
            {
                Self::Failed
            }
            (Some(_), Some(NodeOutcome::Deferred)) => Self::Deferred,
            (None, Some(_)) => Self::Done,
            // A node that joined during the run has no outcome.
            (None, None) if assessed => Self::Done,
            (None, None) => Self::Unknown,
            (Some(_), _) if is_started(state) => Self::InProgress,
            (Some(_), _) => Self::Pending,
        }
    }
}

fn is_given_up(reason: &Reason) -> bool {
    matches!(
        reason,
        Reason::UpgradeFailed { .. }
            | Reason::WriteRefused { .. }
            | Reason::Upgrading(UpgradeReason::Failed { .. } | UpgradeReason::Retry { .. })
    )
}

/// Returns the node's upgrade state: gpu-rollout's if there is one, otherwise NVIDIA's.
pub fn state(node: &ObservedNode, driver: Driver) -> Option<String> {
    let traits = driver.traits();
    if let Some(record) = read(node, traits).record() {
        return Some(record.state.name().to_owned());
    }
    node.labels.get(traits.state_label).filter(|state| !state.is_empty()).cloned()
}

/// Returns whether the upgrade of a node in this state has started and not ended.
pub fn is_started(state: Option<&str>) -> bool {
    let state = ControllerState::from_label(state);
    !state.is_idle() && state != ControllerState::Failed
}

/// The results of a decision about the nodes of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct DecidedNodes<'a> {
    /// All waits.
    pub waits: &'a Waits,
    /// Reasons for which nodes, or the fleet, failed or were deferred.
    pub ended: &'a Waits,
    /// The outcome of each node that has one.
    pub outcomes: &'a Named<NodeOutcome>,
    /// The record of each node of the run, with the steps of its upgrade.
    pub records: &'a Named<NodeRecord>,
    /// Whether nodes were assessed: they are not while the whole fleet waits.
    pub assessed: bool,
}

impl<'a> DecidedNodes<'a> {
    /// Returns the reasons for which the whole fleet waits, or for which the run ended. The quiet
    /// period is not one of them.
    pub fn fleet_waits(self) -> impl Iterator<Item = Wait> + 'a {
        self.waits
            .iter()
            .chain(self.ended.iter())
            .filter(|wait| wait.node.is_none() && !matches!(*wait.reason, Reason::Quiet { .. }))
    }

    /// Returns the progress of the nodes of the rollout, sorted by name: those that need the
    /// driver, and those that wait for a reason.
    pub fn progress(self, observed: &'a Observed, driver: Driver) -> Vec<NodeProgress<'a>> {
        let own = self
            .waits
            .iter()
            .chain(self.ended.iter())
            .filter_map(|wait| Some((wait.node.clone()?, wait)));
        let mut own: BTreeMap<Arc<str>, Wait> = own.collect();
        let mut nodes: BTreeMap<&str, &ObservedNode> =
            driver_nodes(observed, driver).map(|node| (node.name.as_str(), node)).collect();
        nodes.extend(own.keys().filter_map(|name| {
            let node = observed.nodes.get(name)?;
            Some((node.name.as_str(), node))
        }));
        nodes
            .into_values()
            .map(|node| self.node_progress(node, own.remove(node.name.as_str()), driver))
            .collect()
    }

    fn node_progress(
        self,
        node: &'a ObservedNode,
        own: Option<Wait>,
        driver: Driver,
    ) -> NodeProgress<'a> {
        let now_in = state(node, driver);
        let stage = NodeStage::from_wait(
            own.as_ref(),
            self.outcomes.get(&node.name).copied(),
            now_in.as_deref(),
            self.assessed,
        );
        let record = self.records.get(&node.name);
        let recorded = || record.and_then(|record| record.steps.first()).map(|step| step.at);
        NodeProgress {
            node,
            stage,
            // It is unknown when, or whether, a node that is not Ready comes back, or a driver
            // whose container fails becomes ready.
            moves: node.ready
                && own
                    .as_ref()
                    .is_some_and(|wait| wait.reason.resolves_itself() && !is_failing(wait)),
            waits_since: own.as_ref().map(|wait| wait.since),
            wait: own.or_else(|| self.fleet_waits().next().filter(|_| stage == NodeStage::Unknown)),
            started: read(node, driver.traits())
                .record()
                .map(|record| record.started)
                .or_else(recorded),
            ended: record.filter(|record| record.outcome.is_some()).and_then(|record| record.since),
            state: now_in,
        }
    }
}

/// Returns whether a node waits for a driver that fails again and again.
pub fn is_failing(wait: &Wait) -> bool {
    matches!(&*wait.reason, Reason::DriverNotReady { trouble, restarts, .. } if trouble.is_some() && *restarts > 0)
}

/// The progress of one node.
#[derive(Clone, Debug)]
pub struct NodeProgress<'a> {
    /// The node.
    pub node: &'a ObservedNode,
    /// Its stage.
    pub stage: NodeStage,
    /// Its upgrade state, with NVIDIA's names; absent if there is none.
    pub state: Option<String>,
    /// The reason for which it waits, or for its outcome. If the node was not assessed, the reason
    /// for which the whole fleet waits.
    pub wait: Option<Wait>,
    /// Whether it is Ready, and its wait can end without manual action.
    pub moves: bool,
    /// Start of its upgrade, if it is recorded.
    pub started: Option<Timestamp>,
    /// When it got its outcome, if that is recorded.
    pub ended: Option<Timestamp>,
    /// Start of its wait; `None`: unknown.
    pub waits_since: Option<Timestamp>,
}

impl NodeProgress<'_> {
    /// Returns whether the node occupies a slot. A node that was not assessed does so if its
    /// upgrade state is one of an upgrade in progress.
    fn takes_slot(&self) -> bool {
        self.stage == NodeStage::InProgress
            || self.stage == NodeStage::Unknown && is_started(self.state.as_deref())
    }

    /// Returns whether the node waits until it gets a slot.
    fn is_queued(&self) -> bool {
        self.stage == NodeStage::Pending
            && self.wait.as_ref().is_none_or(|wait| wait.reason.waits_for_turn())
    }

    /// Returns whether the node waits for a step of the proof. Nothing measures how long a step
    /// takes.
    fn waits_for_proof(&self) -> bool {
        let is_step = |reason: &Reason| matches!(reason, Reason::Upgrading(reason) if reason.waits_for_proof());
        self.wait.as_ref().is_some_and(|wait| is_step(&wait.reason))
    }

    /// Returns the start of what the pace measures. A wait that needs no slot, such as for the
    /// container toolkit, is measured from its own start. A paused upgrade starts again when its
    /// pause ends.
    fn clock_start(&self) -> Option<Timestamp> {
        if self.stage == NodeStage::Pending {
            self.waits_since.filter(|_| !self.is_queued())
        } else {
            self.started.max(self.started.and(self.paused_until()))
        }
    }

    /// Returns when the pause ends for which the node waits, if it ends by itself.
    fn paused_until(&self) -> Option<Timestamp> {
        self.wait.as_ref()?.reason.paused_until()
    }

    /// Returns whether the node failed and keeps its slot, as it does for NVIDIA's controller.
    fn keeps_slot(&self, settings: &Settings) -> bool {
        !settings.mode.decides() && self.state.as_deref() == Some(ControllerState::Failed.label())
    }

    fn is_unavailable(&self) -> bool {
        self.node.unschedulable || !self.node.ready
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, NodeStage::InProgress | NodeStage::Pending | NodeStage::Unknown)
    }
}

/// The use of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// How many nodes use it.
    pub used: usize,
    /// The limit; absent if all may.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl LimitUse {
    /// Returns the sum; without a limit if one of them has none.
    fn plus(self, other: Self) -> Self {
        Self {
            used: self.used + other.used,
            limit: self.limit.zip(other.limit).map(|(one, other)| one + other),
        }
    }

    const NONE: Self = Self { used: 0, limit: Some(0) };
}

/// The nodes of one pool.
#[derive(Debug)]
pub struct PoolProgress<'p, 'a> {
    /// The pool.
    pub pool: &'p NodePool,
    /// Its nodes.
    pub nodes: Vec<&'p NodeProgress<'a>>,
}

/// Groups the nodes by pool. Pools without nodes are missing, and so are nodes without a pool.
pub fn by_pool<'p, 'a>(
    nodes: &'p [NodeProgress<'a>],
    pools: &'p NodePools,
) -> Vec<PoolProgress<'p, 'a>> {
    let of = |pool: &'p NodePool| PoolProgress {
        pool,
        nodes: nodes
            .iter()
            .filter(|progress| {
                pools.pool_of(progress.node).is_some_and(|found| std::ptr::eq(found, pool))
            })
            .collect(),
    };
    pools.iter().map(of).filter(|of| !of.nodes.is_empty() || !pools.is_split()).collect()
}

impl PoolProgress<'_, '_> {
    /// Returns the number of nodes that occupy a slot, and the limit (`maxParallelUpgrades`). For
    /// NVIDIA's controller, a node whose upgrade failed occupies one.
    pub fn slots(&self, settings: &Settings) -> LimitUse {
        let limit = self.pool.policy.max_parallel_upgrades;
        LimitUse {
            used: self
                .nodes
                .iter()
                .filter(|progress| progress.takes_slot() || progress.keeps_slot(settings))
                .count(),
            limit: (limit > 0).then_some(limit as usize),
        }
    }

    /// Returns the number of nodes that are cordoned or not ready, and the limit
    /// (`maxUnavailable`).
    pub fn unavailable(&self) -> LimitUse {
        LimitUse {
            used: self.nodes.iter().filter(|progress| progress.is_unavailable()).count(),
            limit: self.pool.policy.max_unavailable.map(|limit| limit.resolve(self.nodes.len())),
        }
    }

    /// Returns when a slot last became free for the next node, or a node last began to wait for one.
    /// `None`: unknown.
    fn slots_free_since(&self, soak_seconds: u64) -> Option<Timestamp> {
        let queued = self.nodes.iter().filter(|progress| progress.is_queued());
        let ended = self.nodes.iter().filter_map(|progress| progress.ended);
        let freed = ended.map(|ended| after(ended, soak_seconds));
        queued.filter_map(|progress| progress.waits_since).chain(freed).max()
    }

    /// Estimates when each node will be done.
    fn foresee(
        &self,
        settings: &Settings,
        pace: RolloutPace,
        now: Timestamp,
    ) -> Vec<(String, NodeForecast)> {
        let nodes = || self.nodes.iter().copied();
        let (moving, stuck): (Vec<_>, Vec<_>) = nodes()
            .filter(|progress| progress.takes_slot())
            .partition(|progress| pace.is_expected(progress, now));
        let parallel = parallel(settings, &self.pool.policy, self.nodes.len());
        let failed = nodes()
            .filter(|progress| !progress.takes_slot() && progress.keeps_slot(settings))
            .count();
        // Unavailable nodes that do not come back use up maxUnavailable.
        let LimitUse { used, limit } = self.unavailable();
        let coming_back = moving.iter().filter(|progress| progress.is_unavailable()).count();
        let room =
            limit.map_or(parallel, |limit| limit.saturating_sub(used - coming_back)).min(parallel);
        let (soak_seconds, windows) = if settings.mode.decides() {
            (settings.upgrade.soak_seconds, &settings.upgrade.windows[..])
        } else {
            (0, &[][..])
        };
        let mut queued: Vec<(&str, Option<Timestamp>)> = nodes()
            .filter(|progress| {
                progress.is_queued() && progress.moves && !progress.waits_for_proof()
            })
            .map(|progress| (progress.node.name.as_str(), progress.paused_until()))
            .collect();
        queued.sort_by_key(|(_, paused_until)| *paused_until);
        let fleet = FleetProgress {
            moving: moving
                .into_iter()
                .filter_map(|progress| Some((progress.node.name.as_str(), progress.clock_start()?)))
                .collect(),
            queued,
            stuck: (stuck.len() + failed).max(parallel - room),
            parallel,
            free_since: self.slots_free_since(soak_seconds).unwrap_or(now),
            soak_seconds,
            windows,
        };
        let without_slot = nodes()
            .filter(|progress| {
                progress.stage == NodeStage::Pending && pace.is_expected(progress, now)
            })
            .filter_map(|progress| {
                let end = pace.end(progress.clock_start()?, now);
                Some((progress.node.name.as_str(), NodeForecast::At(end)))
            });
        ends(&fleet, pace, now)
            .into_iter()
            .chain(without_slot)
            .map(|(node, end)| (node.to_owned(), end))
            .collect()
    }
}

/// Returns the slots of all pools together.
pub fn slots(nodes: &[NodeProgress<'_>], settings: &Settings, pools: &NodePools) -> LimitUse {
    by_pool(nodes, pools)
        .iter()
        .map(|pool| pool.slots(settings))
        .fold(LimitUse::NONE, LimitUse::plus)
}

/// Returns the unavailable nodes of all pools together.
pub fn unavailable(nodes: &[NodeProgress<'_>], pools: &NodePools) -> LimitUse {
    by_pool(nodes, pools).iter().map(PoolProgress::unavailable).fold(LimitUse::NONE, LimitUse::plus)
}

/// Estimates when each node will be done, by name. A node that needs manual action, or gets no slot,
/// is missing.
pub fn foresee(
    nodes: &[NodeProgress<'_>],
    settings: &Settings,
    pools: &NodePools,
    pace: RolloutPace,
    now: Timestamp,
) -> BTreeMap<String, NodeForecast> {
    by_pool(nodes, pools).iter().flat_map(|pool| pool.foresee(settings, pace, now)).collect()
}

/// Returns how many nodes are upgraded at once.
fn parallel(settings: &Settings, policy: &Policy, nodes: usize) -> usize {
    if settings.mode.decides() {
        return settings.upgrade.fleet(nodes, settings.per_node_seconds).parallel();
    }
    controller_pace(policy, settings, nodes).parallel()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status` reported `10 done` in the middle of an upgrade, as long as the operator was not
    /// available.
    #[test]
    fn node_without_assessment_is_unknown() {
        for (outcome, state, assessed, stage) in [
            (Some(NodeOutcome::Done), None, true, NodeStage::Done),
            (Some(NodeOutcome::Done), Some("upgrade-done"), true, NodeStage::Done),
            (None, None, false, NodeStage::Unknown),
            (None, Some("upgrade-done"), false, NodeStage::Unknown),
            (None, Some("validation-required"), false, NodeStage::Unknown),
            (None, None, true, NodeStage::Done),
        ] {
            assert_eq!(
                NodeStage::from_wait(None, outcome, state, assessed),
                stage,
                "{outcome:?} in {state:?}"
            );
        }
    }
}
