//! Holds: the vendor's skip label, marked as ours, on nodes that are not to go before we let go of them (mode `steer`, an upgrade of the operator,
//! a pause). A skip label that is not ours is its owner's, and stays.

use jiff::Timestamp;

use contract::driver::Driver;
use contract::settings::Settings;

use super::action::NodePatch;
use super::node::driver_nodes;
use nvidia_upgrade::state::ControllerState;
use observed::pause;
use observed::{Observed, ObservedNode};

mod operator_upgrade;

pub use operator_upgrade::{
    HoldPlan, UpgradeHold, before_operator, is_expected_to_render, operator_version,
};

/// What the annotation says in mode `steer`.
const STEER: &str = "true";

/// What holds a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldPurpose {
    /// Mode `steer`: it has not been started.
    Steer,
    /// A pause.
    Pause,
    /// An upgrade of the operator.
    OperatorUpgrade(UpgradeHold),
}

impl HoldPurpose {
    /// Of the hold on a node; `None`: it has none of ours.
    pub fn from_node(node: &ObservedNode, driver: Driver) -> Option<Self> {
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
        HoldPlan::Leave(_) => return Vec::new(),
        HoldPlan::UntilStarted => STEER.to_owned(),
        HoldPlan::UntilRendered(hold) => hold.value(),
    };
    let takes_over = |node: &ObservedNode| {
        value != STEER && HoldPurpose::from_node(node, driver) == Some(HoldPurpose::Pause)
    };
    let nodes =
        driver_nodes(observed, driver).filter(|node| can_be_held(node, driver) || takes_over(node));
    nodes.map(|node| hold_as(node, driver, &value)).collect()
}

/// Whether the skip label on the node is our hold.
pub fn is_held(node: &ObservedNode, driver: Driver) -> bool {
    let traits = driver.traits();
    node.annotations.contains_key(traits.hold) && node.labels.has(traits.skip_label, "true")
}

/// Whether a hold can be put on the node.
pub fn can_be_held(node: &ObservedNode, driver: Driver) -> bool {
    let traits = driver.traits();
    let free = !node.labels.has(traits.skip_label, "true");
    let state = ControllerState::of_node(node, traits);
    let idle = matches!(
        state,
        ControllerState::Unknown
            | ControllerState::Done
            | ControllerState::UpgradeRequired
            | ControllerState::Failed
    );
    free && idle && !node.annotations.contains_key(traits.own_record)
}

/// The patch that puts it there.
pub fn hold(node: &ObservedNode, driver: Driver) -> NodePatch {
    hold_as(node, driver, STEER)
}

/// The same, and for what: mode `steer` says `true`, a pause [`observed::pause::HOLD`], an upgrade of the operator [`UpgradeHold::value`].
pub fn hold_as(node: &ObservedNode, driver: Driver, what: &str) -> NodePatch {
    let traits = driver.traits();
    NodePatch {
        labels: [(traits.skip_label.to_owned(), Some("true".to_owned()))].into(),
        annotations: [(traits.hold.to_owned(), Some(what.to_owned()))].into(),
        ..NodePatch::for_node(node)
    }
}

/// The patch that takes a hold off.
pub fn released(node: &ObservedNode, driver: Driver) -> NodePatch {
    let mut patch = NodePatch::for_node(node);
    release(node, driver, &mut patch);
    patch
}

/// Takes a hold off, in a patch of the node: the label only if it is ours.
pub fn release(node: &ObservedNode, driver: Driver, patch: &mut NodePatch) {
    let traits = driver.traits();
    if node.annotations.contains_key(traits.hold) {
        patch.annotations.insert(traits.hold.to_owned(), None);
        if is_held(node, driver) {
            patch.labels.insert(traits.skip_label.to_owned(), None);
        }
    }
}
