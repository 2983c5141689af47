//! Holds: NVIDIA's skip label with gpu-rollout's hold annotation, on nodes that must not start
//! before the hook releases them (mode `steer`, an upgrade of the operator, a pause). A skip label
//! without the annotation belongs to others, and stays.

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

/// Value of the annotation in mode `steer`.
const STEER: &str = "true";

/// The purpose of a hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldPurpose {
    /// Mode `steer`: the node has not been started.
    Steer,
    /// A pause.
    Pause,
    /// An upgrade of the operator.
    OperatorUpgrade(UpgradeHold),
}

impl HoldPurpose {
    /// Returns the purpose of the hold on a node; `None` if it has no hold.
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

/// Returns the patches with which task `hold` puts a hold on every node that needs the driver and
/// has neither a hold nor a skip label of others. A node that NVIDIA's controller has already
/// started gets no hold, because the controller would ignore the label. An upgrade of the operator
/// takes over the holds of a pause, because the pause may end before the new operator is the
/// leader.
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

/// Returns whether the skip label on the node is a hold.
pub fn is_held(node: &ObservedNode, driver: Driver) -> bool {
    let traits = driver.traits();
    node.annotations.contains_key(traits.hold) && node.labels.has(traits.skip_label, "true")
}

/// Returns whether a hold can be put on the node.
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

/// Returns the patch that puts a hold on the node.
pub fn hold(node: &ObservedNode, driver: Driver) -> NodePatch {
    hold_as(node, driver, STEER)
}

/// Returns the patch that puts a hold for a purpose on the node: `true` for mode `steer`,
/// [`observed::pause::HOLD`] for a pause, [`UpgradeHold::value`] for an upgrade of the operator.
pub fn hold_as(node: &ObservedNode, driver: Driver, what: &str) -> NodePatch {
    let traits = driver.traits();
    NodePatch {
        labels: [(traits.skip_label.to_owned(), Some("true".to_owned()))].into(),
        annotations: [(traits.hold.to_owned(), Some(what.to_owned()))].into(),
        ..NodePatch::for_node(node)
    }
}

/// Returns the patch that releases a hold.
pub fn released(node: &ObservedNode, driver: Driver) -> NodePatch {
    let mut patch = NodePatch::for_node(node);
    release(node, driver, &mut patch);
    patch
}

/// Releases a hold in a patch of the node: removes the label only if it is a hold.
pub fn release(node: &ObservedNode, driver: Driver, patch: &mut NodePatch) {
    let traits = driver.traits();
    if node.annotations.contains_key(traits.hold) {
        patch.annotations.insert(traits.hold.to_owned(), None);
        if is_held(node, driver) {
            patch.labels.insert(traits.skip_label.to_owned(), None);
        }
    }
}
