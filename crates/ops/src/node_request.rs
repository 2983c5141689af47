//! Requests about single nodes (skip, unskip, retry): the patches, and the meaning of each. Pure.

use contract::driver::{Driver, DriverTraits};
use contract::settings::Mode;
use contract::user_request::RequestCommand;
use nvidia_upgrade::state::ControllerState as VendorState;
use observed::ObservedNode;
use planner::action::NodePatch;
use planner::drive_upgrade::record::{NodeRecordState, read};
use planner::drive_upgrade::state::UpgradeState;
use planner::hold;
use planner::node::DriverOperands;

use super::observe::RolloutSnapshot;

/// A request about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRequest {
    /// Leave the node on its current driver.
    Skip,
    /// Undo [`Self::Skip`].
    Unskip,
    /// Retry a failed node.
    Retry,
}

impl NodeRequest {
    /// Returns the command of the request.
    pub fn command(self) -> RequestCommand {
        match self {
            Self::Skip => RequestCommand::Skip,
            Self::Unskip => RequestCommand::Unskip,
            Self::Retry => RequestCommand::Retry,
        }
    }
}

/// A pod to delete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedPod {
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// UID of the pod, so that a new pod with the same name is not deleted.
    pub uid: String,
}

/// The change that a request makes on one node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedChange {
    /// The node is patched.
    Patch {
        /// The patch.
        patch: Box<NodePatch>,
        /// The meaning of the change, for people.
        text: String,
    },
    /// The node's driver pod is deleted, and then the node is patched.
    Restart {
        /// The driver pod to delete.
        pod: DeletedPod,
        /// The patch of the node, if it needs one.
        patch: Option<Box<NodePatch>>,
        /// The meaning of the change, for people.
        text: String,
    },
    /// There is nothing to change.
    Nothing {
        /// The reason, for people.
        text: String,
    },
}

/// Returns what the request changes on one node of a rollout.
pub fn change(
    snapshot: &RolloutSnapshot,
    request: NodeRequest,
    node: &ObservedNode,
) -> RequestedChange {
    let driver = snapshot.settings.driver;
    match request {
        NodeRequest::Skip => skip(snapshot, node),
        NodeRequest::Unskip => unskip(node, driver),
        NodeRequest::Retry if snapshot.settings.mode == Mode::Drive => retry_ours(snapshot, node),
        NodeRequest::Retry => retry_vendors(snapshot, node),
    }
}

fn patch(patch: NodePatch, text: impl Into<String>) -> RequestedChange {
    RequestedChange::Patch { patch: Box::new(patch), text: text.into() }
}

fn nothing(text: impl Into<String>) -> RequestedChange {
    RequestedChange::Nothing { text: text.into() }
}

/// Returns whether the node is being upgraded. Its skip label then has no effect.
fn is_started(node: &ObservedNode, traits: &DriverTraits) -> bool {
    let vendors = VendorState::of_node(node, traits);
    let ours = match read(node, traits) {
        NodeRecordState::Record(record) => record.state.is_in_progress(),
        NodeRecordState::Newer(_) => true,
        NodeRecordState::Nothing | NodeRecordState::Broken => false,
    };
    ours || vendors.is_busy()
}

fn skip(snapshot: &RolloutSnapshot, node: &ObservedNode) -> RequestedChange {
    let traits = snapshot.settings.driver.traits();
    let labeled = node.labels.get(traits.skip_label).is_some_and(|value| value == "true");
    let held = node.annotations.contains_key(traits.hold);
    if labeled && !held {
        return nothing(format!("it already has the label {}=true", traits.skip_label));
    }
    let mut change = NodePatch::for_node(node);
    change.labels.insert(traits.skip_label.to_owned(), Some("true".to_owned()));
    if held {
        // The hook's hold becomes a user's request, which the hook does not remove.
        change.annotations.insert(traits.hold.to_owned(), None);
    }
    let late =
        if is_started(node, traits) { "; the upgrade in progress is completed first" } else { "" };
    patch(
        change,
        format!("label {}=true: it keeps its {} driver{late}", traits.skip_label, traits.device),
    )
}

fn unskip(node: &ObservedNode, driver: Driver) -> RequestedChange {
    let traits = driver.traits();
    match hold::HoldPurpose::from_node(node, driver) {
        Some(hold::HoldPurpose::OperatorUpgrade(hold)) => {
            let change = hold.change();
            return nothing(format!(
                "release {} holds it while the operator is upgraded {change}; the hook after the operator's release, or `gpu-rollout abort`, releases it",
                hold.release
            ));
        }
        Some(hold::HoldPurpose::Pause) => {
            return nothing("a pause holds it; `gpu-rollout resume` releases it");
        }
        Some(hold::HoldPurpose::Steer) => {
            return nothing(
                "the hook holds it (mode `steer`), and releases it to start its upgrade",
            );
        }
        None => {}
    }
    if !node.labels.contains_key(traits.skip_label) {
        return nothing(format!("it has no label {}", traits.skip_label));
    }
    let mut change = NodePatch::for_node(node);
    change.labels.insert(traits.skip_label.to_owned(), None);
    patch(
        change,
        format!("remove label {}: it is upgraded like all other nodes", traits.skip_label),
    )
}

fn retry_ours(snapshot: &RolloutSnapshot, node: &ObservedNode) -> RequestedChange {
    let traits = snapshot.settings.driver.traits();
    let failed = match read(node, traits) {
        NodeRecordState::Record(record) => record.state == UpgradeState::UpgradeFailed,
        NodeRecordState::Newer(version) => {
            return nothing(format!(
                "it has a record of version {version}: use a newer gpu-rollout"
            ));
        }
        NodeRecordState::Nothing | NodeRecordState::Broken => false,
    };
    let outdated = DriverOperands::new(&snapshot.observed, snapshot.settings.driver)
        .driver_pod(node)
        .is_some_and(|pod| !pod.newest);
    if !failed && !outdated {
        return nothing("it has not failed, and its driver is the requested one");
    }
    if node.annotations.get(traits.requested).is_some_and(|value| value == "true") {
        return nothing("its upgrade is already requested");
    }
    let mut change = NodePatch::for_node(node);
    change.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
    let when = if snapshot.phase().has_job() {
        "the hook retries it as soon as the limits allow"
    } else {
        "the next deployment of the bundle retries it"
    };
    let cordon = if node.unschedulable && !is_ours(node, traits) {
        "; its foreign cordon stays"
    } else {
        ""
    };
    patch(change, format!("annotation {}=true: {when}{cordon}", traits.requested))
}

fn is_ours(node: &ObservedNode, traits: &DriverTraits) -> bool {
    matches!(read(node, traits), NodeRecordState::Record(record) if record.cordoned)
}

/// Returns the node's up-to-date driver pod if it must be deleted. While its restart count is high,
/// the controller treats the driver as failing, however often an upgrade is requested. A new pod
/// has no restarts, and the failed node recovers by itself when this pod is ready.
fn broken_driver_pod(snapshot: &RolloutSnapshot, node: &ObservedNode) -> Option<DeletedPod> {
    DriverOperands::new(&snapshot.observed, snapshot.settings.driver)
        .driver_pod(node)
        .filter(|driver| driver.newest && !driver.pod.ready && !driver.pod.deleting)
        .filter(|driver| driver.pod.trouble.is_some() || driver.pod.unready_restarts > 0)
        .map(|driver| DeletedPod {
            namespace: driver.pod.namespace.clone(),
            name: driver.pod.name.clone(),
            uid: driver.pod.uid.clone(),
        })
}

fn retry_vendors(snapshot: &RolloutSnapshot, node: &ObservedNode) -> RequestedChange {
    let traits = snapshot.settings.driver.traits();
    let state = VendorState::of_node(node, traits);
    let given_up = matches!(read(node, traits), NodeRecordState::Record(record) if record.state == UpgradeState::UpgradeFailed);
    if state != VendorState::Failed && state != VendorState::Unrecognized && !given_up {
        return nothing(format!(
            "it has not failed (state: {})",
            if state.label().is_empty() { "none" } else { state.label() }
        ));
    }
    let broken = broken_driver_pod(snapshot, node).filter(|_| state == VendorState::Failed);
    // Without a state, the controller upgrades the node only if its driver is out of date.
    let next = (state != VendorState::Unrecognized || given_up)
        .then(|| VendorState::UpgradeRequired.label().to_owned());
    let mut change = NodePatch::for_node(node);
    if broken.is_none() {
        change.labels.insert(traits.state_label.to_owned(), next.clone());
    }
    change.remove_attempt_times(node, traits);
    if given_up {
        change.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
    }
    if let Some(pod) = broken {
        return RequestedChange::Restart {
            text: format!(
                "delete pod {}/{}: NVIDIA's controller continues when the new pod is ready",
                pod.namespace, pod.name
            ),
            pod,
            patch: (!change.is_empty()).then(|| Box::new(change)),
        };
    }
    let label = traits.state_label;
    let text = match next {
        Some(next) => format!("label {label}={next}: NVIDIA's controller upgrades it again"),
        None => format!(
            "remove label {label}: NVIDIA's controller determines the state of the node again"
        ),
    };
    patch(change, text)
}
