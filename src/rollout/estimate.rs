//! How long the nodes that are out of date will take, by the policy in force: is the budget enough?

use crate::contract::budget::Fleet;
use crate::contract::count::Count;
use crate::contract::duty::Duty;
use crate::contract::settings::Settings;

use super::node::{Operands, Status, driver_nodes};
use super::observed::Observed;
use super::spec::upgrade_policy;

/// The budget in seconds that the live fleet asks for, overhead included; `None` while nothing is out of date.
pub fn budget_seconds(observed: &Observed, settings: &Settings) -> Option<u64> {
    if !settings.has(Duty::Settle) {
        return None;
    }
    let operands = Operands::new(observed, settings.driver);
    let all = driver_nodes(observed, settings.driver).count();
    let outdated = driver_nodes(observed, settings.driver)
        .filter(|node| matches!(operands.status(node), Status::Waiting(_) | Status::Finishing(..)))
        .count();
    if outdated == 0 {
        return None;
    }
    // The limits are shares of the whole fleet, the waves are made of the nodes that are out of date.
    let fleet =
        if settings.mode.decides() { settings.upgrade.fleet(all, settings.per_node_seconds) } else { vendors(observed, settings, all) };
    let parallel = Count::Number(u32::try_from(fleet.parallel()).unwrap_or(u32::MAX));
    Some(Fleet { max_unavailable: parallel, nodes: outdated, ..fleet }.budget_seconds())
}

/// The fleet under the operator's own limits.
fn vendors(observed: &Observed, settings: &Settings, nodes: usize) -> Fleet {
    let policy = upgrade_policy(observed, settings.driver);
    let max_unavailable: Option<Count> = policy.and_then(|policy| policy.max_unavailable.as_ref()).and_then(|text| text.parse().ok());
    Fleet {
        nodes,
        max_parallel: policy.and_then(|policy| policy.max_parallel).unwrap_or(1),
        max_unavailable: max_unavailable.unwrap_or(Count::Percent(100)),
        per_node_seconds: settings.per_node_seconds,
        soak_seconds: 0,
    }
}
