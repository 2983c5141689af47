//! The controller's view at the start of a pass: a node and its driver pod are one entry
//! (k8s-operator-libs `BuildState`).

use std::fmt;

use contract::driver::Driver;

use super::state::ControllerState;

mod build;
mod cache;
mod select;

pub use build::{SnapshotInputs, SnapshotTables};
pub use cache::{SnapshotCache, SnapshotReads};
pub use select::DriverSelection;

/// The inputs of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UpgradeSnapshot<'a> {
    /// The driver, whose labels and annotations are on the nodes.
    pub driver: Driver,
    /// Nodes with their driver pods, in the controller's order. A node with an owned and an
    /// orphaned pod has two entries.
    pub entries: Vec<NodeEntry<'a>>,
    /// Nodes that are only counted: none in a full snapshot.
    pub counted: CountedEntries,
    /// Why the controller does nothing at all; it tries again after a short pause.
    pub blocked: Option<SnapshotError>,
}

/// Nodes with which a pass without the maintenance-operator does nothing, whatever it does with the
/// others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedEntries {
    /// Number of nodes that are done and available.
    pub settled: usize,
    /// Number of nodes that wait for a slot and get none.
    pub pending: usize,
    /// Number of nodes that the skip label excludes before their start.
    pub skipped: usize,
}

impl CountedEntries {
    /// Returns whether every node has an entry.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The work of a pass for an entry, as far as the entry alone shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryClass {
    /// None: the node is done, and uses up no limit.
    Settled,
    /// The node starts when a slot is free, in its order among the others.
    Pending,
    /// None: the skip label excludes the node before its start.
    Skipped,
    /// The pass decides.
    Open,
}

/// A node and its driver pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeEntry<'a> {
    /// The node.
    pub node: &'a str,
    /// The state of its label.
    pub state: ControllerState,
    /// The label's value.
    pub label: &'a str,
    /// Cordoned.
    pub unschedulable: bool,
    /// The Ready condition. `None`: there is none, which counts as available.
    pub ready: Option<bool>,
    /// The skip label; only `true` skips.
    pub skip: Option<&'a str>,
    /// The NVIDIADriver that owns the node.
    pub owner: Option<&'a str>,
    /// The annotations that the controller reads.
    pub notes: NodeAnnotations<'a>,
    /// The driver pod.
    pub pod: SnapshotDriverPod<'a>,
    /// The validator's pods on the node, in order.
    pub validators: Vec<ValidatorPod<'a>>,
    /// Number of pods that the policy waits for: Running or Pending.
    pub jobs: usize,
    /// The NodeMaintenance of the node with the controller's name.
    pub maintenance: Option<MaintenanceObject<'a>>,
}

/// Annotations of a node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeAnnotations<'a> {
    /// The driver pod waits to load the driver, unless this is empty.
    pub safe_load: Option<&'a str>,
    /// Whether it was cordoned before; any value counts.
    pub initially_unschedulable: bool,
    /// Unix time, in seconds, at which the wait for jobs started.
    pub wait_start: Option<&'a str>,
    /// Unix time, in seconds, at which the wait for the validator started.
    pub validation_start: Option<&'a str>,
    /// An upgrade is requested, if it is `true`.
    pub requested: Option<&'a str>,
    /// Whether the maintenance-operator is working on it; any value counts.
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
    /// The largest restart count of a container that is not ready, init containers included.
    pub unready_restarts: i32,
    /// The problem of a container.
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
    /// The pod has no revision hash: an error wherever it is read.
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
    /// Number of pods.
    pub wanted: usize,
    /// Number of pods that the policy allows to evict.
    pub evictable: usize,
}

/// A NodeMaintenance object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MaintenanceObject<'a> {
    /// The requestor that created it.
    pub requestor: &'a str,
    /// The requestors that joined.
    pub additional: Vec<&'a str>,
    /// Reason of the condition `Ready`.
    pub reason: Option<&'a str>,
    /// Being deleted.
    pub deleting: bool,
}

/// Why the controller stops before it processes any node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "kinds",
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(BuildErrorKind), vis(pub), derive(strum::EnumIter))
)]
pub enum SnapshotError {
    /// A DaemonSet does not have as many pods as it needs.
    #[error("daemonset/{daemon_set} needs {desired} pods, but has {owned}{}", EntryPositions { missing, surplus })]
    PodCount {
        /// The DaemonSet.
        daemon_set: String,
        /// `status.desiredNumberScheduled`
        desired: i32,
        /// Pods that it owns.
        owned: i32,
        /// Nodes that need one of its pods and have none.
        missing: Vec<String>,
        /// Nodes with one of its pods that do not exist, that it does not select, or whose taints
        /// it does not tolerate.
        surplus: Vec<String>,
    },
    /// The node of a driver pod does not exist.
    #[error("pod/{pod} is on node/{node}, which does not exist")]
    NodeMissing {
        /// The pod.
        pod: String,
        /// The node.
        node: String,
    },
    /// A driver pod is not `Pending`, but has no node.
    #[error("pod/{pod} is not Pending, but has no node")]
    NoNode {
        /// The pod.
        pod: String,
    },
}

impl SnapshotError {
    /// Returns whether a DaemonSet has pods on nodes that need none. On a node that is not Ready or
    /// has a taint, such a pod stays until a user deletes it.
    pub fn has_surplus(&self) -> bool {
        match self {
            Self::PodCount { surplus, .. } => !surplus.is_empty(),
            Self::NodeMissing { .. } | Self::NoNode { .. } => false,
        }
    }
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
    /// Returns whether it is cordoned, or known not to be Ready.
    pub fn is_unavailable(&self) -> bool {
        self.unschedulable || self.ready == Some(false)
    }

    /// Returns whether the user's skip label excludes it.
    pub fn is_skipped(&self) -> bool {
        self.skip == Some("true")
    }

    /// Returns whether an upgrade is requested.
    pub fn is_requested(&self) -> bool {
        self.notes.requested == Some("true")
    }

    /// Returns the work of a pass for it. An unknown revision of its pod is an error that ends the
    /// pass.
    pub fn class(&self) -> EntryClass {
        let is_available = !self.is_unavailable() && !self.is_requested();
        let needs_none = || {
            matches!(self.pod.revision, PodRevision::Newest | PodRevision::Orphaned)
                && !self.waits_for_safe_load()
        };
        if self.state == ControllerState::Done && is_available && needs_none() {
            EntryClass::Settled
        } else if self.state == ControllerState::UpgradeRequired && is_available {
            if self.is_skipped() { EntryClass::Skipped } else { EntryClass::Pending }
        } else {
            EntryClass::Open
        }
    }

    /// Returns whether the driver pod waits to load the driver.
    pub fn waits_for_safe_load(&self) -> bool {
        self.notes.safe_load.is_some_and(|value| !value.is_empty())
    }
}

impl<'a> UpgradeSnapshot<'a> {
    /// Returns the entry of a node, if it has one; a counted node has none.
    pub fn entry(&self, node: &str) -> Option<&NodeEntry<'a>> {
        self.entries.iter().find(|entry| entry.node == node)
    }

    /// Returns the nodes of one NVIDIADriver, if every node has its entry. An error of one blocks
    /// all.
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
