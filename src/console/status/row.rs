//! One node's row.

use schemars::JsonSchema;
use serde::Serialize;

use crate::contract::settings::Reroll;
use crate::rollout::node::{Base, Operands, Status as NodeStatus, selects};
use crate::rollout::observed::{DaemonSet, Node};
use crate::rollout::plugin::{Plugins, Status as PluginStatus};
use crate::rollout::reason::Wait;
use crate::rollout::spec::driver_daemon_sets;
use crate::rollout::standing::{Stage, state};

use super::super::held::Held;
use super::super::image::{running, version};
use super::super::look::Sight;
use super::super::since::Sources;
use super::{Row, outcome, waiting};

/// How the DRA kubelet plugin of a node stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Plugin {
    /// It serves what is loaded.
    Fresh,
    /// It is not there, not ready, or has not published.
    NotServing,
    /// It started before what it serves: it serves what is no longer there.
    Stale,
}

impl Plugin {
    /// The word of tables.
    pub fn name(self) -> &'static str {
        match self {
            Self::Fresh => "fresh",
            Self::NotServing => "not serving",
            Self::Stale => "stale",
        }
    }
}

pub(super) fn row(sight: &Sight, sources: &Sources<'_>, node: &Node, wait: Option<&Wait>) -> Row {
    let operands = sources.operands;
    let driver = sight.settings.driver;
    let pod = operands.driver_pod(node);
    let state = state(node, driver);
    let running = pod.as_ref().and_then(|pod| running(pod.pod, driver));
    Row {
        node: node.name.clone(),
        stage: Stage::of(wait, outcome(sight, &node.name), state.as_deref()),
        state,
        cordoned: node.unschedulable,
        driver_now: running,
        driver_wanted: wanted(sight, node).map(version),
        driver_current: pod.as_ref().is_none_or(|pod| pod.newest),
        plugin: plugin(sight, operands, node),
        held: Held::of(sight, node),
        waiting: wait.map(|wait| waiting::node(sight, sources, node, wait)),
        end: None,
    }
}

/// The driver image that is asked for on the node.
fn wanted<'a>(sight: &'a Sight, node: &Node) -> Option<&'a str> {
    let traits = sight.settings.driver.traits();
    let of = |daemon_set: &'a DaemonSet| {
        let own = daemon_set.images.get(traits.container);
        own.or_else(|| daemon_set.images.values().next().filter(|_| traits.container.is_empty())).map(String::as_str)
    };
    let mut selecting =
        driver_daemon_sets(&sight.observed, sight.settings.driver).into_iter().filter(|one| selects(&one.node_selector, &node.labels));
    selecting.find_map(of)
}

/// The worst of the node's plugins. `None`: it has none, or nothing can be said before its driver is current.
fn plugin(sight: &Sight, operands: &Operands<'_>, node: &Node) -> Option<Plugin> {
    let base: Base = match operands.status(node) {
        NodeStatus::Current(base) | NodeStatus::Finishing(base, _) => base,
        NodeStatus::Skipped(base) => base?,
        NodeStatus::Waiting(_) => return None,
    };
    let plugins = Plugins::new(&sight.observed);
    let stands = |daemon_set| match plugins.on_node(node, daemon_set, &base, false, Reroll::Auto, true)? {
        PluginStatus::Serving(_) => Some(Plugin::Fresh),
        PluginStatus::Stale { .. } => Some(Plugin::Stale),
        PluginStatus::Waiting(_) => Some(Plugin::NotServing),
    };
    plugins.daemon_sets().filter_map(stands).max()
}
