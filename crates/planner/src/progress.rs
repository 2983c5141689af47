//! How it stands with a fleet in the middle of its rollout: how far each node is, what the limits come to, and when all will probably be done.
//! What `gpu-rollout status` says and what the hook's metrics say is the same, because both ask here.

use std::collections::BTreeMap;

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::driver::Driver;
use contract::policy::Policy;
use contract::record::NodeOutcome;
use contract::settings::Settings;

use super::drive_upgrade::record::read;
use super::node::driver_nodes;
use super::policies::{NodePool, NodePools, controller_pace};
use super::reason::upgrade::UpgradeReason;
use super::reason::{Reason, Wait};
use nvidia_upgrade::state::ControllerState;
use observed::{Observed, ObservedNode};

mod forecast;

pub use forecast::{FleetProgress, RolloutPace, ends};

/// How far a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum NodeStage {
    /// It will not get there by itself.
    Failed,
    /// Somebody is at work on it.
    InProgress,
    /// It is out of date, and nobody is.
    Pending,
    /// It is left as it is, for a reason that the policy tolerates.
    Deferred,
    /// All is as asked for.
    Done,
}

impl NodeStage {
    /// Every stage.
    pub const ALL: [Self; 5] = [Self::Failed, Self::InProgress, Self::Pending, Self::Deferred, Self::Done];

    /// The word of tables, and the value of the label `stage` of metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Failed => "failed",
            Self::InProgress => "in-progress",
            Self::Pending => "pending",
            Self::Deferred => "deferred",
            Self::Done => "done",
        }
    }

    /// Of a node that waits for something, has come to an outcome, and is in a state of its upgrade.
    pub fn from_wait(wait: Option<&Wait>, outcome: Option<NodeOutcome>, state: Option<&str>) -> Self {
        match (wait, outcome) {
            _ if outcome == Some(NodeOutcome::Failed) || wait.is_some_and(|wait| is_given_up(&wait.reason)) => Self::Failed,
            (Some(_), Some(NodeOutcome::Deferred)) => Self::Deferred,
            (None, Some(_)) => Self::Done,
            // What concerns the fleet as a whole, such as an operator that is away, keeps nodes from being judged: nothing says that they are done.
            (Some(_), _) | (None, None) if is_begun(state) => Self::InProgress,
            (Some(_), _) | (None, None) => Self::Pending,
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

/// Since when the node is in progress, as far as our record tells.
fn begun_at(node: &ObservedNode, driver: Driver) -> Option<Timestamp> {
    read(node, driver.traits()).record().map(|record| record.started)
}

/// Whether somebody has begun with a node in this state.
pub fn is_begun(state: Option<&str>) -> bool {
    let state = ControllerState::from_label(state);
    !state.is_idle() && state != ControllerState::Failed
}

/// The nodes that a rollout is about: those that need the driver, and those that something is said of. In the order of their names.
pub fn nodes<'a>(observed: &'a Observed, driver: Driver, said: &BTreeMap<&str, &Wait>) -> Vec<&'a ObservedNode> {
    let mut nodes: Vec<&ObservedNode> = driver_nodes(observed, driver).collect();
    nodes.extend(said.keys().filter_map(|name| observed.nodes.get(name)));
    nodes.sort_by(|one, other| one.name.cmp(&other.name));
    nodes.dedup_by(|one, other| one.name == other.name);
    nodes
}

/// What is said of each node: what it waits for, or why it ended as it did.
pub fn by_node<'a>(waits: &'a [Wait], ended: &'a [Wait]) -> BTreeMap<&'a str, &'a Wait> {
    waits.iter().chain(ended).filter_map(|wait| Some((wait.node.as_deref()?, wait))).collect()
}

/// Whether it ends without anybody doing something about it; where it is NVIDIA's controller that does not go on, whether that does.
#[expect(clippy::wildcard_enum_match_arm, reason = "only those have the controller's own answer")]
pub fn resolves_itself(reason: &Reason) -> bool {
    let goes_on = match reason {
        Reason::DriverOutOfDate { why: Some(why), .. } | Reason::UpgradeUnfinished { why: Some(why), .. } => why.can_resolve(),
        _ => true,
    };
    reason.resolves_itself() && goes_on
}

/// How it stands with one node.
#[derive(Clone, Debug)]
pub struct NodeProgress<'a> {
    /// The node.
    pub node: &'a ObservedNode,
    /// How far it is.
    pub stage: NodeStage,
    /// Its state in the upgrade, in the vendor's words; absent: none.
    pub state: Option<String>,
    /// It gets there by itself.
    pub moves: bool,
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
        Self { used: self.used + other.used, limit: self.limit.zip(other.limit).map(|(one, other)| one + other) }
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
pub fn by_pool<'p, 'a>(stands: &'p [NodeProgress<'a>], pools: &'p NodePools) -> Vec<PoolProgress<'p, 'a>> {
    let of = |pool: &'p NodePool| PoolProgress {
        pool,
        stands: stands.iter().filter(|stand| pools.pool_of(stand.node).is_some_and(|found| std::ptr::eq(found, pool))).collect(),
    };
    pools.iter().map(of).filter(|of| !of.stands.is_empty() || !pools.is_split()).collect()
}

impl PoolProgress<'_, '_> {
    /// Nodes that take a slot, and how many may (`maxParallelUpgrades`). To NVIDIA's controller a node that it has given up is one of them.
    pub fn slots(&self, settings: &Settings) -> LimitUse {
        let failed = |stand: &NodeProgress<'_>| !settings.mode.decides() && stand.state.as_deref() == Some(ControllerState::Failed.label());
        let limit = self.pool.policy.max_parallel_upgrades;
        LimitUse {
            used: self.stands.iter().filter(|stand| stand.stage == NodeStage::InProgress || failed(stand)).count(),
            limit: (limit > 0).then_some(limit as usize),
        }
    }

    /// Nodes that are cordoned or not ready, and how many may be (`maxUnavailable`).
    pub fn unavailable(&self) -> LimitUse {
        LimitUse {
            used: self.stands.iter().filter(|stand| stand.node.unschedulable || !stand.node.ready).count(),
            limit: self.pool.policy.max_unavailable.map(|limit| limit.resolve(self.stands.len())),
        }
    }

    /// When each node will probably be done.
    fn foresee(&self, settings: &Settings, pace: RolloutPace, now: Timestamp) -> Vec<(String, Timestamp)> {
        let stands = || self.stands.iter().copied();
        let in_progress = |stand: &&NodeProgress<'_>| stand.stage == NodeStage::InProgress;
        let begun = |stand: &NodeProgress<'_>| begun_at(stand.node, settings.driver);
        let fleet = FleetProgress {
            moving: stands()
                .filter(in_progress)
                .filter(|stand| stand.moves)
                .map(|stand| (stand.node.name.as_str(), begun(stand)))
                .collect(),
            queued: stands()
                .filter(|stand| stand.stage == NodeStage::Pending && stand.moves)
                .map(|stand| stand.node.name.as_str())
                .collect(),
            stuck: stands().filter(in_progress).filter(|stand| !stand.moves).count(),
            parallel: parallel(settings, &self.pool.policy, self.stands.len()),
            soak_seconds: if settings.mode.decides() { settings.upgrade.soak_seconds } else { 0 },
        };
        ends(&fleet, pace, now).into_iter().map(|(node, end)| (node.to_owned(), end)).collect()
    }
}

/// The slots of all pools together.
pub fn slots(stands: &[NodeProgress<'_>], settings: &Settings, pools: &NodePools) -> LimitUse {
    by_pool(stands, pools).iter().map(|pool| pool.slots(settings)).fold(LimitUse::NONE, LimitUse::plus)
}

/// The unavailable nodes of all pools together.
pub fn unavailable(stands: &[NodeProgress<'_>], pools: &NodePools) -> LimitUse {
    by_pool(stands, pools).iter().map(PoolProgress::unavailable).fold(LimitUse::NONE, LimitUse::plus)
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

/// When all will probably be done. Absent: nothing is to be done; or one node, or what the whole fleet waits for (`fleet_ended`), has no end.
pub fn end(stands: &[NodeProgress<'_>], ends: &BTreeMap<String, Timestamp>, fleet_ended: bool) -> Option<Timestamp> {
    let open = stands.iter().filter(|stand| matches!(stand.stage, NodeStage::InProgress | NodeStage::Pending));
    let ends = open.map(|stand| ends.get(&stand.node.name).copied()).collect::<Option<Vec<_>>>();
    ends.and_then(|ends| ends.into_iter().max()).filter(|_| !fleet_ended)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `status` said `10 done` of a fleet in the middle of its upgrade, for as long as the operator was away.
    #[test]
    fn node_without_assessment_is_not_done() {
        for (outcome, state, stage) in [
            (Some(NodeOutcome::Done), None, NodeStage::Done),
            (Some(NodeOutcome::Done), Some("upgrade-done"), NodeStage::Done),
            (None, None, NodeStage::Pending),
            (None, Some("upgrade-done"), NodeStage::Pending),
            (None, Some("validation-required"), NodeStage::InProgress),
        ] {
            assert_eq!(NodeStage::from_wait(None, outcome, state), stage, "{outcome:?} in {state:?}");
        }
    }
}
