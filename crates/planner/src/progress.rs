//! The progress of a rollout: the stage of each node, the use of the limits, and when the rollout will probably be done. `gpu-rollout status`,
//! `doctor` and the hook's metrics all take it from here, so that they say the same.

use std::collections::BTreeMap;

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
use nvidia_upgrade::state::ControllerState;
use observed::named::Named;
use observed::{Observed, ObservedNode};

mod eta;
mod forecast;

pub use eta::{NoEta, rollout_eta};
pub use forecast::{FleetProgress, RolloutPace, ends};

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
    /// Its upgrade has failed and does not continue by itself.
    Failed,
    /// Its upgrade is going on.
    InProgress,
    /// It waits for its upgrade, or for something else that it needs.
    Pending,
    /// It was not assessed, because of what the whole fleet waits for.
    Unknown,
    /// It is left as it is, for a reason that the policy tolerates.
    Deferred,
    /// It is as the settings ask for.
    Done,
}

impl NodeStage {
    /// Every stage.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The word of tables, and the value of the label `stage` of metrics.
    pub fn name(self) -> &'static str {
        self.into()
    }

    /// Returns the stage of a node from what it waits for, its outcome, and its state in the upgrade. `assessed`: the decision has assessed nodes.
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
            (Some(_), _) if is_begun(state) => Self::InProgress,
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

/// The node's state: ours where there is one, else the vendor's.
pub fn state(node: &ObservedNode, driver: Driver) -> Option<String> {
    let traits = driver.traits();
    if let Some(record) = read(node, traits).record() {
        return Some(record.state.name().to_owned());
    }
    node.labels.get(traits.state_label).filter(|state| !state.is_empty()).cloned()
}

/// Whether the upgrade of a node in this state has started and not ended.
pub fn is_begun(state: Option<&str>) -> bool {
    let state = ControllerState::from_label(state);
    !state.is_idle() && state != ControllerState::Failed
}

/// What was decided about the nodes of a rollout.
#[derive(Clone, Copy, Debug)]
pub struct DecidedNodes<'a> {
    /// What is waited for.
    pub waits: &'a [Wait],
    /// Why nodes, or the fleet, have failed or are left as they are.
    pub ended: &'a [Wait],
    /// The outcome of each node that has one.
    pub outcomes: &'a Named<NodeOutcome>,
    /// The record of each node that the run is about, with the steps of its upgrade.
    pub records: &'a Named<NodeRecord>,
    /// Nodes were assessed: nothing that the whole fleet waits for prevented it.
    pub assessed: bool,
}

impl<'a> DecidedNodes<'a> {
    /// Returns what the whole fleet waits for, or why the run has ended. That everything must stay well for a while is neither.
    pub fn fleet_waits(self) -> impl Iterator<Item = &'a Wait> {
        self.waits
            .iter()
            .chain(self.ended)
            .filter(|wait| wait.node.is_none() && !matches!(*wait.reason, Reason::Quiet { .. }))
    }

    /// Returns the progress of the nodes that the rollout is about: those that need the driver, and those that wait for something, in the order of
    /// their names.
    pub fn progress(self, observed: &'a Observed, driver: Driver) -> Vec<NodeProgress<'a>> {
        let own = self
            .waits
            .iter()
            .chain(self.ended)
            .filter_map(|wait| Some((wait.node.as_deref()?, wait)));
        let own: BTreeMap<&str, &Wait> = own.collect();
        let mut nodes: BTreeMap<&str, &ObservedNode> =
            driver_nodes(observed, driver).map(|node| (node.name.as_str(), node)).collect();
        nodes.extend(own.keys().filter_map(|name| Some((*name, observed.nodes.get(name)?))));
        nodes
            .into_values()
            .map(|node| self.node_progress(node, own.get(node.name.as_str()).copied(), driver))
            .collect()
    }

    fn node_progress(
        self,
        node: &'a ObservedNode,
        own: Option<&'a Wait>,
        driver: Driver,
    ) -> NodeProgress<'a> {
        let now_in = state(node, driver);
        let stage = NodeStage::from_wait(
            own,
            self.outcomes.get(&node.name).copied(),
            now_in.as_deref(),
            self.assessed,
        );
        let wait =
            own.or_else(|| self.fleet_waits().next().filter(|_| stage == NodeStage::Unknown));
        let recorded = || {
            self.records.get(&node.name).and_then(|record| record.steps.first()).map(|step| step.at)
        };
        NodeProgress {
            node,
            stage,
            wait,
            // A node that is not Ready comes back, or not: nothing tells when.
            moves: node.ready && own.is_some_and(|wait| resolves_itself(&wait.reason)),
            started: read(node, driver.traits())
                .record()
                .map(|record| record.started)
                .or_else(recorded),
            state: now_in,
        }
    }
}

/// Whether the wait can end without manual action. Where NVIDIA's controller does not move the node, the controller's own wait decides.
#[expect(clippy::wildcard_enum_match_arm, reason = "only those have the controller's own answer")]
pub fn resolves_itself(reason: &Reason) -> bool {
    let goes_on = match reason {
        Reason::DriverOutOfDate { why: Some(why), .. }
        | Reason::UpgradeUnfinished { why: Some(why), .. } => why.can_resolve(),
        _ => true,
    };
    reason.resolves_itself() && goes_on
}

/// The progress of one node.
#[derive(Clone, Debug)]
pub struct NodeProgress<'a> {
    /// The node.
    pub node: &'a ObservedNode,
    /// Its stage.
    pub stage: NodeStage,
    /// Its state in the upgrade, in the vendor's words; absent: none.
    pub state: Option<String>,
    /// What it waits for, or why it ended as it did. Of a node that was not assessed: what the whole fleet waits for.
    pub wait: Option<&'a Wait>,
    /// It is Ready, and its wait can end without manual action.
    pub moves: bool,
    /// When its upgrade was started, as far as it is recorded.
    pub started: Option<Timestamp>,
}

impl NodeProgress<'_> {
    /// Whether the node takes a slot. A node that was not assessed does while it is in a state of an upgrade.
    fn takes_slot(&self) -> bool {
        self.stage == NodeStage::InProgress
            || self.stage == NodeStage::Unknown && is_begun(self.state.as_deref())
    }

    fn is_unavailable(&self) -> bool {
        self.node.unschedulable || !self.node.ready
    }

    fn is_open(&self) -> bool {
        matches!(self.stage, NodeStage::InProgress | NodeStage::Pending | NodeStage::Unknown)
    }
}

/// How much of a limit is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LimitUse {
    /// How many are.
    pub used: usize,
    /// How many may be; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<usize>,
}

impl LimitUse {
    /// Both together: without a limit if one of them has none.
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
    pub stands: Vec<&'p NodeProgress<'a>>,
}

/// The nodes by pool; pools without nodes are missing, and so are nodes that no pool has.
pub fn by_pool<'p, 'a>(
    stands: &'p [NodeProgress<'a>],
    pools: &'p NodePools,
) -> Vec<PoolProgress<'p, 'a>> {
    let of = |pool: &'p NodePool| PoolProgress {
        pool,
        stands: stands
            .iter()
            .filter(|stand| {
                pools.pool_of(stand.node).is_some_and(|found| std::ptr::eq(found, pool))
            })
            .collect(),
    };
    pools.iter().map(of).filter(|of| !of.stands.is_empty() || !pools.is_split()).collect()
}

impl PoolProgress<'_, '_> {
    /// Nodes that take a slot, and how many may (`maxParallelUpgrades`). To NVIDIA's controller a node that it has given up is one of them.
    pub fn slots(&self, settings: &Settings) -> LimitUse {
        let failed = |stand: &NodeProgress<'_>| {
            !settings.mode.decides()
                && stand.state.as_deref() == Some(ControllerState::Failed.label())
        };
        let limit = self.pool.policy.max_parallel_upgrades;
        LimitUse {
            used: self.stands.iter().filter(|stand| stand.takes_slot() || failed(stand)).count(),
            limit: (limit > 0).then_some(limit as usize),
        }
    }

    /// Nodes that are cordoned or not ready, and how many may be (`maxUnavailable`).
    pub fn unavailable(&self) -> LimitUse {
        LimitUse {
            used: self.stands.iter().filter(|stand| stand.is_unavailable()).count(),
            limit: self.pool.policy.max_unavailable.map(|limit| limit.resolve(self.stands.len())),
        }
    }

    /// When each node will probably be done.
    fn foresee(
        &self,
        settings: &Settings,
        pace: RolloutPace,
        now: Timestamp,
    ) -> Vec<(String, Timestamp)> {
        let stands = || self.stands.iter().copied();
        let (moving, stuck): (Vec<_>, Vec<_>) = stands()
            .filter(|stand| stand.takes_slot())
            .partition(|stand| pace.is_expected(stand, now));
        let parallel = parallel(settings, &self.pool.policy, self.stands.len());
        // Nodes that are away and do not come back take the room of maxUnavailable.
        let LimitUse { used, limit } = self.unavailable();
        let coming_back = moving.iter().filter(|stand| stand.is_unavailable()).count();
        let room =
            limit.map_or(parallel, |limit| limit.saturating_sub(used - coming_back)).min(parallel);
        let fleet = FleetProgress {
            moving: moving
                .into_iter()
                .filter_map(|stand| Some((stand.node.name.as_str(), stand.started?)))
                .collect(),
            queued: stands()
                .filter(|stand| stand.stage == NodeStage::Pending && stand.moves)
                .map(|stand| stand.node.name.as_str())
                .collect(),
            stuck: stuck.len().max(parallel - room),
            parallel,
            soak_seconds: if settings.mode.decides() { settings.upgrade.soak_seconds } else { 0 },
        };
        ends(&fleet, pace, now).into_iter().map(|(node, end)| (node.to_owned(), end)).collect()
    }
}

/// The slots of all pools together.
pub fn slots(stands: &[NodeProgress<'_>], settings: &Settings, pools: &NodePools) -> LimitUse {
    by_pool(stands, pools)
        .iter()
        .map(|pool| pool.slots(settings))
        .fold(LimitUse::NONE, LimitUse::plus)
}

/// The unavailable nodes of all pools together.
pub fn unavailable(stands: &[NodeProgress<'_>], pools: &NodePools) -> LimitUse {
    by_pool(stands, pools)
        .iter()
        .map(PoolProgress::unavailable)
        .fold(LimitUse::NONE, LimitUse::plus)
}

/// When each node will probably be done, by name. A node that does not move is missing.
pub fn foresee(
    stands: &[NodeProgress<'_>],
    settings: &Settings,
    pools: &NodePools,
    pace: RolloutPace,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    by_pool(stands, pools).iter().flat_map(|pool| pool.foresee(settings, pace, now)).collect()
}

/// How many nodes go at once.
fn parallel(settings: &Settings, policy: &Policy, nodes: usize) -> usize {
    if settings.mode.decides() {
        return settings.upgrade.fleet(nodes, settings.per_node_seconds).parallel();
    }
    controller_pace(policy, settings, nodes).parallel()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status` said `10 done` of a fleet in the middle of its upgrade, for as long as the operator was away.
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
