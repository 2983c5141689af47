//! What the controller sees when a pass begins: a node and its driver pod together are one entry (k8s-operator-libs `BuildState`).

use std::fmt;

use contract::driver::Driver;

use super::state::ControllerState;

mod build;
mod cache;
mod select;

pub use build::SnapshotInputs;
pub use cache::SnapshotCache;
pub use select::DriverSelection;

/// Everything that a pass is decided from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSnapshot<'a> {
    /// Whose names are on the nodes.
    pub driver: Driver,
    /// Nodes with their driver pods, in the order in which the controller takes them. A node with an owned and an orphaned pod is there
    /// twice.
    pub entries: Vec<NodeEntry<'a>>,
    /// Entries that are only counted: none in a full snapshot.
    pub counted: CountedEntries<'a>,
    /// Why the controller does nothing at all; it looks again after a short pause.
    pub blocked: Option<SnapshotError>,
}

/// Entries with which a pass without the maintenance-operator does nothing, whatever it does with the others.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CountedEntries<'a> {
    /// How many are done with, and available.
    pub settled: usize,
    /// How many wait for a slot and get none.
    pub pending: usize,
    /// The nodes of the pending ones, in the order of their names.
    pub pending_nodes: Vec<&'a str>,
}

/// What a pass has to do with an entry, as far as that entry alone tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryClass {
    /// Nothing: it is done with, and takes nothing from the limits.
    Settled,
    /// To start it when there is a slot for it; its place among the others tells when.
    Pending,
    /// The pass decides.
    Open,
}

/// A node and its driver pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEntry<'a> {
    /// The node.
    pub node: &'a str,
    /// The state that its label stands for.
    pub state: ControllerState,
    /// The label as it is.
    pub label: &'a str,
    /// Cordoned.
    pub unschedulable: bool,
    /// The Ready condition. `None`: there is none, which counts as available.
    pub ready: Option<bool>,
    /// The skip label; only `true` skips.
    pub skip: Option<&'a str>,
    /// The NVIDIADriver that owns the node.
    pub owner: Option<&'a str>,
    /// The annotations that are read.
    pub notes: NodeAnnotations<'a>,
    /// The driver pod.
    pub pod: SnapshotDriverPod<'a>,
    /// The validator's pods on the node, in order.
    pub validators: Vec<ValidatorPod<'a>>,
    /// Pods that the policy waits for and that run or are about to.
    pub jobs: usize,
    /// The NodeMaintenance of the controller's name for the node.
    pub maintenance: Option<MaintenanceObject<'a>>,
}

/// Annotations of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAnnotations<'a> {
    /// The driver pod waits with loading the driver, unless this is empty.
    pub safe_load: Option<&'a str>,
    /// It was cordoned before; any value counts.
    pub initially_unschedulable: bool,
    /// Unix seconds since when jobs are waited for.
    pub wait_start: Option<&'a str>,
    /// Unix seconds since when the validator is waited for.
    pub validation_start: Option<&'a str>,
    /// An upgrade is asked for, if it is `true`.
    pub requested: Option<&'a str>,
    /// The maintenance-operator is at work; any value counts.
    pub requestor: bool,
}

/// A driver pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SnapshotDriverPod<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// UID of the object.
    pub uid: &'a str,
    /// Its revision compared with its DaemonSet's.
    pub revision: PodRevision,
    /// Being deleted.
    pub deleting: bool,
    /// Phase `Running`.
    pub running: bool,
    /// There are container statuses, and all of them are ready.
    pub containers_ready: bool,
    /// The most restarts of a container that is not ready, init containers included.
    pub unready_restarts: i32,
    /// What is wrong with a container.
    pub trouble: Option<&'a str>,
    /// `DRIVER_CONFIG_DIGEST` of the pod.
    pub digest: Option<&'a str>,
    /// The same of its DaemonSet's template.
    pub template_digest: Option<&'a str>,
}

/// The revision of a driver pod compared with its DaemonSet's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodRevision {
    /// Of its newest revision.
    #[default]
    Newest,
    /// Of an older one.
    Older,
    /// It has no owner.
    Orphaned,
    /// The pod does not say of which it is: an error wherever it is read.
    NoHash,
    /// The DaemonSet has no revision: an error wherever it is read.
    NoRevision,
}

/// A pod of the validator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ValidatorPod<'a> {
    /// Its name.
    pub name: &'a str,
    /// It runs, there are container statuses, and all of them are ready.
    pub ready: bool,
}

/// The pods on a node that use the device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeDevicePods {
    /// How many there are.
    pub wanted: usize,
    /// How many of them may be evicted under the policy.
    pub evictable: usize,
}

/// A NodeMaintenance object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceObject<'a> {
    /// Who made it.
    pub requestor: &'a str,
    /// Who joined.
    pub additional: Vec<&'a str>,
    /// Reason of the condition `Ready`.
    pub reason: Option<&'a str>,
    /// Being deleted.
    pub deleting: bool,
}

/// Why the controller gives up before it looks at any node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "kinds",
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(BuildErrorKind), vis(pub), derive(strum::EnumIter))
)]
pub enum SnapshotError {
    /// A DaemonSet has not as many pods as it wants.
    #[error("daemonset/{daemon_set} needs {desired} pods, but has {owned}{}", EntryPositions { missing, surplus })]
    PodCount {
        /// The DaemonSet.
        daemon_set: String,
        /// `status.desiredNumberScheduled`
        desired: i32,
        /// Pods that it owns.
        owned: i32,
        /// Nodes that it wants to have one, and that have none.
        missing: Vec<String>,
        /// Nodes with one that are not there, that it does not select, or whose taints it does not tolerate.
        surplus: Vec<String>,
    },
    /// The node of a driver pod is not there.
    #[error("pod/{pod} is on node/{node}, which does not exist")]
    NodeMissing {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// A driver pod is on no node though it is not `Pending`.
    #[error("pod/{pod} is not Pending, but has no node")]
    NoNode {
        /// The pod.
        pod: String,
    },
}

struct EntryPositions<'a> {
    missing: &'a [String],
    surplus: &'a [String],
}

impl fmt::Display for EntryPositions<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.missing.is_empty() {
            write!(formatter, "; none on {}", self.missing.join(", "))?;
        }
        if !self.surplus.is_empty() {
            write!(formatter, "; one too many on {}", self.surplus.join(", "))?;
        }
        Ok(())
    }
}

impl NodeEntry<'_> {
    /// Cordoned, or known not to be Ready.
    pub fn is_unavailable(&self) -> bool {
        self.unschedulable || self.ready == Some(false)
    }

    /// The user's label keeps it from being started.
    pub fn is_skipped(&self) -> bool {
        self.skip == Some("true")
    }

    /// Somebody asks for an upgrade.
    pub fn is_requested(&self) -> bool {
        self.notes.requested == Some("true")
    }

    /// What a pass has to do with it. A pod whose revision cannot be told is an error that ends the pass.
    pub fn class(&self) -> EntryClass {
        let is_available = !self.is_unavailable() && !self.is_requested();
        let needs_none = || {
            matches!(self.pod.revision, PodRevision::Newest | PodRevision::Orphaned)
                && !self.waits_for_safe_load()
        };
        if self.state == ControllerState::Done && is_available && needs_none() {
            EntryClass::Settled
        } else if self.state == ControllerState::UpgradeRequired
            && is_available
            && !self.is_skipped()
        {
            EntryClass::Pending
        } else {
            EntryClass::Open
        }
    }

    /// The driver pod waits with loading the driver.
    pub fn waits_for_safe_load(&self) -> bool {
        self.notes.safe_load.is_some_and(|value| !value.is_empty())
    }
}

impl<'a> UpgradeSnapshot<'a> {
    /// The entry of a node, if it has one; a counted node has none.
    pub fn entry(&self, node: &str) -> Option<&NodeEntry<'a>> {
        self.entries.iter().find(|entry| entry.node == node)
    }

    /// The nodes of one NVIDIADriver, where all have their entry. What blocks one blocks all.
    #[must_use]
    pub fn owned_by(&self, owner: &str) -> Self {
        let entries =
            self.entries.iter().filter(|entry| entry.owner == Some(owner)).cloned().collect();
        Self {
            driver: self.driver,
            entries,
            counted: CountedEntries::default(),
            blocked: self.blocked.clone(),
        }
    }
}
