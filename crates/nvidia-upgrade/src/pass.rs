//! One pass of the controller (k8s-operator-libs `ApplyState`): twelve stages in a fixed order,
//! each over the nodes that were in its state when the pass started. A node makes at most one step
//! per pass. Background tasks (evictions, drains) are only started.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;

use contract::driver::DriverTraits;

use super::controller_generation::ControllerGeneration;
use super::policy_rules::PolicyRules;
use super::snapshot::{NodeEntry, PodRevision, SnapshotDriverPod, SnapshotError, UpgradeSnapshot};
use super::state::ControllerState;

mod begin;
mod finish;
mod requestor;
mod restart;
mod validate;
mod work;

pub use requestor::{Requestor, SHARED_PREFIX};
pub use restart::MOST_RESTARTS;
pub use validate::VALIDATION_SECONDS;

/// The configuration of the controller, and its memory.
#[derive(Clone, Debug)]
pub struct PassOptions {
    /// Its generation.
    pub generation: ControllerGeneration,
    /// Whether it knows which pods use the device, and evicts them.
    pub pod_deletion: bool,
    /// Whether it requires ready validator pods.
    pub validation: bool,
    /// NVIDIA's maintenance-operator is used.
    pub requestor: Option<Requestor>,
    /// The current time.
    pub now: Timestamp,
    /// Nodes whose evictions run.
    pub evicting: BTreeSet<String>,
    /// Nodes that are being drained.
    pub draining: BTreeSet<String>,
}

impl PassOptions {
    /// Creates the options of the operators of a generation.
    pub fn new(generation: ControllerGeneration, now: Timestamp) -> Self {
        let features = generation.features();
        Self {
            generation,
            pod_deletion: features.pod_deletion,
            validation: features.validation,
            requestor: None,
            now,
            evicting: BTreeSet::new(),
            draining: BTreeSet::new(),
        }
    }

    /// Adapts the options to an outside observer: a node that enters such a state wakes the
    /// controller, so its evictions or its drain are running.
    #[must_use]
    pub fn seen_from_outside(mut self, snapshot: &UpgradeSnapshot<'_>) -> Self {
        let of = |state: ControllerState| {
            snapshot
                .entries
                .iter()
                .filter(move |entry| entry.state == state)
                .map(|entry| entry.node.to_owned())
        };
        self.evicting = of(ControllerState::PodDeletionRequired).collect();
        self.draining = of(ControllerState::DrainRequired).collect();
        self
    }
}

/// A write of the controller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PassWrite {
    /// Sets the state label.
    State {
        /// The node.
        node: String,
        /// The new state.
        state: ControllerState,
    },
    /// Sets or removes an annotation of the node.
    Annotate {
        /// The node.
        node: String,
        /// The key.
        key: &'static str,
        /// The value; `None` removes it, also where it is absent.
        value: Option<String>,
    },
    /// Cordons the node.
    Cordon {
        /// The node.
        node: String,
    },
    /// Uncordons the node.
    Uncordon {
        /// The node.
        node: String,
    },
    /// Deletes a driver pod. If it is already gone, that is an error.
    DeletePod {
        /// The node.
        node: String,
        /// Namespace of the pod.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID, which the original does not check.
        uid: String,
    },
    /// Starts the eviction of the pods that use the device.
    Evict {
        /// The node.
        node: String,
    },
    /// Starts a drain; its first step is to cordon.
    Drain {
        /// The node.
        node: String,
    },
    /// Creates a NodeMaintenance; an existing one is accepted.
    CreateMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Adds itself to the requestors of a NodeMaintenance.
    JoinMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Removes itself from the requestors of a NodeMaintenance.
    LeaveMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Deletes a NodeMaintenance.
    DeleteMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
}

impl PassWrite {
    /// Returns the node.
    pub fn node(&self) -> &str {
        match self {
            Self::State { node, .. }
            | Self::Annotate { node, .. }
            | Self::Cordon { node }
            | Self::Uncordon { node }
            | Self::DeletePod { node, .. }
            | Self::Evict { node }
            | Self::Drain { node }
            | Self::CreateMaintenance { node, .. }
            | Self::JoinMaintenance { node, .. }
            | Self::LeaveMaintenance { node, .. }
            | Self::DeleteMaintenance { node, .. } => node,
        }
    }
}

impl fmt::Display for PassWrite {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { node, state } => write!(out, "{node}: {state}"),
            Self::Annotate { node, key, value: Some(value) } => {
                write!(out, "{node}: {key}={value}")
            }
            Self::Annotate { node, key, value: None } => write!(out, "{node}: {key} removed"),
            Self::Cordon { node } => write!(out, "{node}: cordon"),
            Self::Uncordon { node } => write!(out, "{node}: uncordon"),
            Self::DeletePod { node, name, .. } => write!(out, "{node}: delete pod/{name}"),
            Self::Evict { node } => write!(out, "{node}: evict"),
            Self::Drain { node } => write!(out, "{node}: drain"),
            Self::CreateMaintenance { node, name } => {
                write!(out, "{node}: create nodemaintenance/{name}")
            }
            Self::JoinMaintenance { node, name } => {
                write!(out, "{node}: join nodemaintenance/{name}")
            }
            Self::LeaveMaintenance { node, name } => {
                write!(out, "{node}: leave nodemaintenance/{name}")
            }
            Self::DeleteMaintenance { node, name } => {
                write!(out, "{node}: delete nodemaintenance/{name}")
            }
        }
    }
}

/// The result of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOutcome {
    /// The writes, in order.
    pub writes: Vec<PassWrite>,
    /// The error that ended it early.
    pub error: Option<PassError>,
    /// Errors that were only logged: the node keeps its state.
    pub swallowed: Vec<PassError>,
}

/// An error that ends a pass: later steps are skipped for all nodes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[cfg_attr(
    feature = "kinds",
    derive(strum::EnumDiscriminants),
    strum_discriminants(name(PassErrorKind), vis(pub), derive(strum::EnumIter))
)]
pub enum PassError {
    /// The pass did not start.
    #[error(transparent)]
    Build(SnapshotError),
    /// A driver pod has no revision hash.
    #[error("pod/{pod} on node/{node} has no label controller-revision-hash")]
    NoHash {
        /// The node.
        node: String,
        /// The pod.
        pod: String,
    },
    /// A DaemonSet has no ControllerRevision.
    #[error("the DaemonSet of pod/{pod} on node/{node} has no ControllerRevision")]
    NoRevision {
        /// The node.
        node: String,
        /// The pod.
        pod: String,
    },
    /// `maxUnavailable` is not a number of nodes.
    #[error("maxUnavailable is `{text}`; expected a number or a percentage")]
    MaxUnavailable {
        /// Its value.
        text: String,
    },
    /// The policy has no `drain`, not even a disabled one: the controller of gpu-operator up to
    /// v26.3 panics in every pass.
    #[error(
        "gpu-operator up to v26.3 panics if the upgrade policy has no `drain`: add `drain: {{enable: false}}` to upgradePolicy in the operator's values"
    )]
    NoDrain,
    /// Pods of a node must be deleted, but the policy has no `podDeletion`.
    #[error("node/{node} is in state pod-deletion-required, but the policy has no podDeletion")]
    NoPodDeletion {
        /// The first such node.
        node: String,
    },
    /// A start time is not a number.
    #[error("annotation {key} of node/{node} is `{value}`, which is not a time")]
    StartTime {
        /// The node.
        node: String,
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// The API server refused a write.
    #[error("the API server refused a write of NVIDIA's controller: `{write}`")]
    Refused {
        /// The write.
        write: PassWrite,
    },
}

/// Performs one pass whose writes are all accepted.
pub fn pass(
    snapshot: &UpgradeSnapshot<'_>,
    rules: &PolicyRules,
    options: &PassOptions,
) -> PassOutcome {
    pass_with(snapshot, rules, options, &mut |_| true)
}

/// Performs one pass against an API server that may refuse: `accept` answers each write, and may
/// perform it.
pub fn pass_with(
    snapshot: &UpgradeSnapshot<'_>,
    rules: &PolicyRules,
    options: &PassOptions,
    accept: &mut dyn FnMut(&PassWrite) -> bool,
) -> PassOutcome {
    let mut run = PassRun {
        snapshot,
        rules,
        options,
        accept,
        outcome: PassOutcome::default(),
        traits: snapshot.driver.traits(),
    };
    if let Err(error) = run.stages() {
        run.outcome.error = Some(error);
    }
    run.outcome
}

/// A pass in progress.
struct PassRun<'r, 'a> {
    snapshot: &'r UpgradeSnapshot<'a>,
    rules: &'r PolicyRules,
    options: &'r PassOptions,
    accept: &'r mut dyn FnMut(&PassWrite) -> bool,
    outcome: PassOutcome,
    /// The names of the driver's labels and annotations.
    traits: &'static DriverTraits,
}

impl<'r, 'a> PassRun<'r, 'a> {
    fn stages(&mut self) -> Result<(), PassError> {
        if !self.rules.auto_upgrade {
            return Ok(());
        }
        if let Some(error) = &self.snapshot.blocked {
            return Err(PassError::Build(error.clone()));
        }
        // The operators read the policy before the pass.
        if let Some(text) = &self.rules.unreadable {
            return Err(PassError::MaxUnavailable { text: text.clone() });
        }
        if self.rules.lacks_drain && self.options.generation.features().needs_drain {
            return Err(PassError::NoDrain);
        }
        begin::unknown_or_done(self, ControllerState::Unknown)?;
        begin::unknown_or_done(self, ControllerState::Done)?;
        match &self.options.requestor {
            None => begin::start(self)?,
            Some(requestor) => requestor::request(self, requestor)?,
        }
        begin::cordon(self)?;
        work::wait_for_jobs(self);
        work::pod_deletion(self)?;
        work::drain(self)?;
        if self.options.requestor.is_some() {
            requestor::maintenance(self)?;
        }
        restart::restart(self)?;
        restart::failed(self)?;
        validate::validation(self)?;
        finish::uncordon(self)?;
        if let Some(requestor) = &self.options.requestor {
            requestor::release(self, requestor)?;
        }
        Ok(())
    }

    /// Returns the entries in a state, as the pass found them. A node makes one step per pass, so
    /// the writes of the pass are not read again, unless the node has two entries
    /// ([`finish::finish`]).
    fn bucket(
        &self,
        state: ControllerState,
    ) -> impl Iterator<Item = &'r NodeEntry<'a>> + use<'r, 'a> {
        self.snapshot.entries.iter().filter(move |entry| entry.state == state)
    }

    /// Performs a write, unless it is refused.
    fn write(&mut self, write: PassWrite) -> Result<(), PassError> {
        if (self.accept)(&write) {
            self.outcome.writes.push(write);
            Ok(())
        } else {
            Err(PassError::Refused { write })
        }
    }

    fn state(&mut self, entry: &NodeEntry<'_>, state: ControllerState) -> Result<(), PassError> {
        self.write(PassWrite::State { node: entry.node.to_owned(), state })
    }

    fn annotate(
        &mut self,
        entry: &NodeEntry<'_>,
        key: &'static str,
        value: Option<String>,
    ) -> Result<(), PassError> {
        self.write(PassWrite::Annotate { node: entry.node.to_owned(), key, value })
    }

    /// Records an error that the original only logs.
    fn swallow(&mut self, result: Result<(), PassError>) {
        if let Err(error) = result {
            self.outcome.swallowed.push(error);
        }
    }
}

/// Returns whether the pod has the newest revision.
fn in_sync(entry: &NodeEntry<'_>) -> Result<bool, PassError> {
    let node = || entry.node.to_owned();
    let pod = || entry.pod.name.to_owned();
    match entry.pod.revision {
        PodRevision::Newest => Ok(true),
        PodRevision::Older | PodRevision::Orphaned => Ok(false),
        PodRevision::NoHash => Err(PassError::NoHash { node: node(), pod: pod() }),
        PodRevision::NoRevision => Err(PassError::NoRevision { node: node(), pod: pod() }),
    }
}

/// Returns whether the driver is up: newest revision, Running, all containers ready. This may also
/// be true of a pod that is being deleted.
fn is_up(entry: &NodeEntry<'_>) -> Result<bool, PassError> {
    let SnapshotDriverPod { running, containers_ready, .. } = entry.pod;
    Ok(in_sync(entry)? && running && containers_ready)
}
