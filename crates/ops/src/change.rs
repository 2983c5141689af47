//! Requests of people about single nodes (skip, unskip, retry). Pure: the patches, and what each one means.

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

/// What is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NodeRequest {
    /// The node is left on its driver.
    Skip,
    /// Its turn may come again.
    Unskip,
    /// A failed node is tried again.
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

/// A pod that is deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeletedPod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// UID of the object: another one of its name stays.
    pub uid: String,
}

/// One node's part of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestedChange {
    /// The node is changed.
    Patch {
        /// How.
        patch: Box<NodePatch>,
        /// What that means, for people.
        text: String,
    },
    /// Its driver pod is deleted, and only then the node is changed.
    Restart {
        /// The pod that goes.
        pod: DeletedPod,
        /// How the node is changed, if it is.
        patch: Option<Box<NodePatch>>,
        /// What that means, for people.
        text: String,
    },
    /// There is nothing to change.
    Nothing {
        /// Why.
        text: String,
    },
}

/// What the request changes on one node of a rollout.
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

/// Whether the node is being upgraded: its skip label has no effect then.
fn is_begun(node: &ObservedNode, traits: &DriverTraits) -> bool {
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
        return nothing(format!("it has the label {}=true already", traits.skip_label));
    }
    let mut change = NodePatch::for_node(node);
    change.labels.insert(traits.skip_label.to_owned(), Some("true".to_owned()));
    if held {
        // The hook's hold becomes the request of a person: it will not take it off.
        change.annotations.insert(traits.hold.to_owned(), None);
    }
    let late = if is_begun(node, traits) {
        "; it is being upgraded now, and that is finished first"
    } else {
        ""
    };
    patch(
        change,
        format!("label {}=true: it stays on its {} driver{late}", traits.skip_label, traits.device),
    )
}

fn unskip(node: &ObservedNode, driver: Driver) -> RequestedChange {
    let traits = driver.traits();
    if let Some(hold::HoldPurpose::OperatorUpgrade(hold)) =
        hold::HoldPurpose::from_node(node, driver)
    {
        let change = hold.change();
        return nothing(format!(
            "release {} holds it while the operator is upgraded {change}; the hook after the operator's release releases it, or `gpu-rollout abort`",
            hold.release
        ));
    }
    if hold::is_held(node, driver) {
        return nothing("the hook holds it (mode steer), and lets go of it when its turn comes");
    }
    if !node.labels.contains_key(traits.skip_label) {
        return nothing(format!("it has no label {}", traits.skip_label));
    }
    let mut change = NodePatch::for_node(node);
    change.labels.insert(traits.skip_label.to_owned(), None);
    patch(change, format!("label {} goes: its turn comes like any other's", traits.skip_label))
}

fn retry_ours(snapshot: &RolloutSnapshot, node: &ObservedNode) -> RequestedChange {
    let traits = snapshot.settings.driver.traits();
    let failed = match read(node, traits) {
        NodeRecordState::Record(record) => record.state == UpgradeState::UpgradeFailed,
        NodeRecordState::Newer(version) => {
            return nothing(format!(
                "it carries a record of version {version}: use a newer gpu-rollout"
            ));
        }
        NodeRecordState::Nothing | NodeRecordState::Broken => false,
    };
    let outdated = DriverOperands::new(&snapshot.observed, snapshot.settings.driver)
        .driver_pod(node)
        .is_some_and(|pod| !pod.newest);
    if !failed && !outdated {
        return nothing("it has not failed, and its driver is the one that is asked for");
    }
    if node.annotations.get(traits.requested).is_some_and(|value| value == "true") {
        return nothing("it is asked for already");
    }
    let mut change = NodePatch::for_node(node);
    change.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
    let when = if snapshot.phase().has_job() {
        "the hook tries it again as soon as limits allow"
    } else {
        "it is tried again when the bundle is deployed"
    };
    let cordon = if node.unschedulable && !is_ours(node, traits) {
        "; it stays cordoned, as somebody wanted it"
    } else {
        ""
    };
    patch(change, format!("annotation {}=true: {when}{cordon}", traits.requested))
}

fn is_ours(node: &ObservedNode, traits: &DriverTraits) -> bool {
    matches!(read(node, traits), NodeRecordState::Record(record) if record.cordoned)
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
    // The controller takes a driver that is up to date for one that fails while its count of restarts is high, however often it is
    // asked; a new pod has none, and the failed node ends by itself when that one is ready.
    let broken = DriverOperands::new(&snapshot.observed, snapshot.settings.driver)
        .driver_pod(node)
        .filter(|driver| {
            driver.newest
                && !driver.pod.ready
                && !driver.pod.deleting
                && state == VendorState::Failed
        })
        .filter(|driver| driver.pod.trouble.is_some() || driver.pod.unready_restarts > 0)
        .map(|driver| DeletedPod {
            namespace: driver.pod.namespace.clone(),
            name: driver.pod.name.clone(),
            uid: driver.pod.uid.clone(),
        });
    let mut change = NodePatch::for_node(node);
    if broken.is_none() {
        change.labels.insert(
            traits.state_label.to_owned(),
            Some(VendorState::UpgradeRequired.label().to_owned()),
        );
    }
    // Times that were noted for the last attempt would end the next one at once.
    for noted in [traits.wait_start, traits.validation_start] {
        if node.annotations.contains_key(noted) {
            change.annotations.insert(noted.to_owned(), None);
        }
    }
    if given_up {
        change.annotations.insert(traits.requested.to_owned(), Some("true".to_owned()));
    }
    match broken {
        Some(pod) => RequestedChange::Restart {
            text: format!(
                "pod {}/{} is deleted: when the new one is ready, the operator goes on",
                pod.namespace, pod.name
            ),
            pod,
            patch: (!change.labels.is_empty() || !change.annotations.is_empty())
                .then(|| Box::new(change)),
        },
        None => patch(
            change,
            format!(
                "label {}={}: the operator takes it again",
                traits.state_label,
                VendorState::UpgradeRequired.label()
            ),
        ),
    }
}
