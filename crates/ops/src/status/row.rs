//! Creates the status row of a node.

use schemars::JsonSchema;
use serde::Serialize;

use contract::settings::Reroll;
use nvidia_upgrade::ControllerState;
use observed::selects;
use observed::{ObservedDaemonSet, ObservedNode};
use planner::dra_plugin::{DraPluginStatus as PluginStatus, DraPlugins};
use planner::drive_upgrade::state::UpgradeState;
use planner::node::{DriverOperands, DriverStatus as NodeStatus, PluginBase};
use planner::progress::NodeProgress;
use planner::reason::Wait;
use planner::spec::driver_daemon_sets;

use super::super::hold_status::HoldStatus;
use super::super::image::{running, version};
use super::super::observe::RolloutSnapshot;
use super::super::wait_start::{WaitStart, WaitStartSources};
use super::{NodeRow, waiting};

/// The condition of the DRA kubelet plugin of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum PluginCondition {
    /// The plugin serves the loaded driver.
    Fresh,
    /// The plugin is missing, is not ready, or has not published its devices.
    NotServing,
    /// The plugin serves a driver that is no longer loaded.
    Stale,
}

impl PluginCondition {
    /// Returns the name for tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::NotServing => "not serving",
            Self::Stale => "stale",
        }
    }
}

/// Returns what happens to a node in a state of NVIDIA's or gpu-rollout's.
pub fn state_meaning(state: &str) -> &'static str {
    if state == UpgradeState::Lifted.name() {
        return "released to NVIDIA's controller";
    }
    ControllerState::from_label(Some(state)).meaning()
}

pub(super) fn row(
    snapshot: &RolloutSnapshot,
    sources: &WaitStartSources<'_>,
    progress: &NodeProgress<'_>,
) -> NodeRow {
    let NodeProgress { node, stage, ref state, ref wait, .. } = *progress;
    let operands = sources.operands;
    let driver = snapshot.settings.driver;
    let pod = operands.driver_pod(node);
    let waiting = |wait: &Wait| {
        if wait.node.is_some() {
            waiting::node(snapshot, sources, progress, wait)
        } else {
            waiting::fleet(snapshot, wait)
        }
    };
    let wanted = wanted(snapshot, node);
    let running = pod.as_ref().and_then(|pod| running(pod.pod, driver));
    NodeRow {
        node: node.name.clone(),
        stage,
        state: state.clone(),
        cordoned: node.unschedulable,
        not_ready: (!node.ready).then_some(WaitStart { at: node.ready_since, by: None }),
        driver_now: running,
        driver_wanted: wanted.map(version),
        driver_current: pod.as_ref().is_none_or(|pod| pod.newest),
        driver_ready: pod.as_ref().map_or(wanted.is_none(), |pod| pod.pod.ready),
        plugin: plugin(snapshot, operands, node),
        held: HoldStatus::find(snapshot, node),
        waiting: wait.as_ref().map(waiting),
        end: None,
    }
}

/// Returns the requested driver image of the node.
fn wanted<'a>(snapshot: &'a RolloutSnapshot, node: &ObservedNode) -> Option<&'a str> {
    let traits = snapshot.settings.driver.traits();
    let of = |daemon_set: &'a ObservedDaemonSet| {
        let own = daemon_set.images.get(traits.container);
        own.or_else(|| daemon_set.images.values().next().filter(|_| traits.container.is_empty()))
            .map(String::as_str)
    };
    let mut selecting = driver_daemon_sets(&snapshot.observed, snapshot.settings.driver)
        .into_iter()
        .filter(|one| selects(&one.node_selector, &node.labels));
    selecting.find_map(of)
}

/// Returns the condition of the node's worst plugin, or `None` if it has no plugin or its driver is
/// not current yet.
fn plugin(
    snapshot: &RolloutSnapshot,
    operands: &DriverOperands<'_>,
    node: &ObservedNode,
) -> Option<PluginCondition> {
    let base: PluginBase = match operands.status(node) {
        NodeStatus::Current(base) | NodeStatus::Finishing(base, _) => base,
        NodeStatus::Skipped(base) => base?,
        NodeStatus::Waiting(_) => return None,
    };
    let plugins = DraPlugins::new(&snapshot.observed);
    let condition =
        |daemon_set| match plugins.on_node(node, daemon_set, &base, false, Reroll::Auto, true)? {
            PluginStatus::Serving(_) => Some(PluginCondition::Fresh),
            PluginStatus::Stale { .. } => Some(PluginCondition::Stale),
            PluginStatus::Waiting(_) => Some(PluginCondition::NotServing),
        };
    plugins.daemon_sets().filter_map(condition).max()
}
