//! Estimate of the time budget that the outdated nodes need under the policy in force.

use contract::budget::FleetPace;
use contract::count::Count;
use contract::settings::Settings;
use contract::task::Task;

use super::node::{DriverOperands, DriverStatus, driver_nodes};
use super::policies::{NodePools, controller_pace};
use observed::{Observed, ObservedNode};

/// Returns the time budget in seconds that the live fleet needs, overhead included; `None` if no
/// node is out of date.
pub fn budget_seconds(observed: &Observed, settings: &Settings) -> Option<u64> {
    if !settings.has(Task::Settle) {
        return None;
    }
    let operands = DriverOperands::new(observed, settings.driver);
    let is_outdated = |node: &&ObservedNode| {
        matches!(operands.status(node), DriverStatus::Waiting(_) | DriverStatus::Finishing(..))
    };
    let outdated: Vec<&ObservedNode> =
        driver_nodes(observed, settings.driver).filter(is_outdated).collect();
    if outdated.is_empty() {
        return None;
    }
    let all = driver_nodes(observed, settings.driver);
    if settings.mode.decides() {
        let fleet = settings.upgrade.fleet(all.count(), settings.per_node_seconds);
        return Some(waves(fleet, outdated.len()));
    }
    let pools = NodePools::in_force(observed, settings);
    let sizes = pools.sizes(outdated.iter().copied());
    // The nodes of different NVIDIADrivers are upgraded in parallel. Nodes without an NVIDIADriver
    // count as one more pool.
    let owned: usize = sizes.iter().map(|(_, nodes)| nodes).sum();
    let of_pools = pools.sizes(all).into_iter().filter_map(|(pool, all)| {
        let (_, outdated) = sizes.iter().find(|(other, _)| *other == pool)?;
        Some(waves(controller_pace(&pool.policy, settings, all), *outdated))
    });
    let ownerless = outdated.len() - owned;
    let of_others = (ownerless > 0)
        .then(|| waves(controller_pace(&pools.common(), settings, ownerless), ownerless));
    of_pools.chain(of_others).max()
}

/// Returns the budget for the outdated nodes: limits are shares of the whole fleet, waves consist
/// of those nodes.
fn waves(fleet: FleetPace, outdated: usize) -> u64 {
    let parallel = Count::Number(u32::try_from(fleet.parallel()).unwrap_or(u32::MAX));
    FleetPace { max_unavailable: parallel, nodes: outdated, ..fleet }.budget_seconds()
}
