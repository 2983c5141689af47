//! Holds: the vendor's skip label, marked as ours, on nodes that are not to go before we let go of them (mode `steer`, an upgrade of the operator,
//! a pause). A skip label that is not ours is its owner's, and stays.

use jiff::Timestamp;

use crate::contract::driver::Driver;
use crate::contract::settings::Settings;

use super::action::NodePatch;
use super::node::driver_nodes;
use super::observed::{Node, Observed};
use super::pause;
use super::vendor::state::State;

mod operator_upgrade;

pub use operator_upgrade::{BeforeOperator, UpgradeHold, before_operator, is_expected_to_render, operator_version};

/// What the annotation says in mode `steer`.
const STEER: &str = "true";

/// What holds a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Mode `steer`: it has not been started.
    Steer,
    /// A pause.
    Pause,
    /// An upgrade of the operator.
    OperatorUpgrade(UpgradeHold),
}

impl Purpose {
    /// Of the hold on a node; `None`: it has none of ours.
    pub fn of(node: &Node, driver: Driver) -> Option<Self> {
        if !is_held(node, driver) {
            return None;
        }
        if pause::has_hold(node, driver) {
            return Some(Self::Pause);
        }
        Some(UpgradeHold::read(node, driver).map_or(Self::Steer, Self::OperatorUpgrade))
    }
}

/// The patches with which task `hold` puts a hold on every node that needs the driver and has neither a hold nor a skip label of somebody else. A
/// node that the vendor's controller has begun with is not held: it would not heed the label. A pause may end before the new operator leads, so
/// that an upgrade of the operator takes its holds over.
pub fn missing(observed: &Observed, settings: &Settings, now: Timestamp) -> Vec<NodePatch> {
    let driver = settings.driver;
    let value = match before_operator(observed, settings, now) {
        BeforeOperator::Leave(_) => return Vec::new(),
        BeforeOperator::UntilStarted => STEER.to_owned(),
        BeforeOperator::UntilRendered(hold) => hold.value(),
    };
    let takes_over = |node: &Node| value != STEER && Purpose::of(node, driver) == Some(Purpose::Pause);
    let nodes = driver_nodes(observed, driver).filter(|node| can_be_held(node, driver) || takes_over(node));
    nodes.map(|node| hold_as(node, driver, &value)).collect()
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
    hold_as(node, driver, STEER)
}

/// The same, and for what: mode `steer` says `true`, a pause [`super::pause::HOLD`], an upgrade of the operator [`UpgradeHold::value`].
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
