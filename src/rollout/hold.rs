//! Holds: the vendor's skip label, marked as ours, on nodes that are not to go before we let go of them (mode `steer`). A skip label that
//! is not ours is its owner's, and stays.

use crate::contract::driver::Driver;

use super::action::NodePatch;
use super::node::driver_nodes;
use super::observed::{Node, Observed};
use super::vendor::state::State;

/// The patches that put a hold on every node that needs the driver and has neither a hold nor a skip label of somebody else. A node that
/// the vendor's controller has begun with is not held: it would not heed the label.
pub fn missing(observed: &Observed, driver: Driver) -> Vec<NodePatch> {
    driver_nodes(observed, driver).filter(|node| can_be_held(node, driver)).map(|node| hold(node, driver)).collect()
}

/// Whether the skip label on the node is our hold.
pub fn is_held(node: &Node, driver: Driver) -> bool {
    let traits = driver.traits();
    node.annotations.contains_key(traits.hold) && node.labels.get(traits.skip_label).is_some_and(|value| value == "true")
}

/// Whether a hold can be put on the node.
pub fn can_be_held(node: &Node, driver: Driver) -> bool {
    let traits = driver.traits();
    let free = node.labels.get(traits.skip_label).is_none_or(|value| value != "true");
    let state = State::of(node.labels.get(traits.state_label).map(String::as_str));
    let idle = matches!(state, State::Unknown | State::Done | State::UpgradeRequired | State::Failed);
    free && idle && !node.annotations.contains_key(traits.own_record)
}

/// The patch that puts it there.
pub fn hold(node: &Node, driver: Driver) -> NodePatch {
    hold_as(node, driver, "true")
}

/// The same, and for what: mode `steer` says `true`, a pause [`super::pause::HOLD`].
pub fn hold_as(node: &Node, driver: Driver, what: &str) -> NodePatch {
    let traits = driver.traits();
    NodePatch {
        labels: [(traits.skip_label.to_owned(), Some("true".to_owned()))].into(),
        annotations: [(traits.hold.to_owned(), Some(what.to_owned()))].into(),
        ..NodePatch::of(node)
    }
}

/// The patch that takes a hold off.
pub fn released(node: &Node, driver: Driver) -> NodePatch {
    let mut patch = NodePatch::of(node);
    release(node, driver, &mut patch);
    patch
}

/// Takes a hold off, in a patch of the node: the label only if it is ours.
pub fn release(node: &Node, driver: Driver, patch: &mut NodePatch) {
    let traits = driver.traits();
    if node.annotations.contains_key(traits.hold) {
        patch.annotations.insert(traits.hold.to_owned(), None);
        if is_held(node, driver) {
            patch.labels.insert(traits.skip_label.to_owned(), None);
        }
    }
}
