//! One pass of the controller (k8s-operator-libs `ApplyState`): twelve stages in a fixed order, each over the nodes that were in its
//! state when the pass began. A node makes one step a pass at most. What runs in the background (evictions, drains) is only started.

use std::collections::BTreeSet;
use std::fmt;

use jiff::Timestamp;
use serde::Serialize;

use crate::contract::driver::Driver;

use super::generation::Generation;
use super::rules::Rules;
use super::snapshot::{BuildError, DriverPod, Entry, Revision, Snapshot};
use super::state::State;

mod begin;
mod finish;
mod requestor;
mod restart;
mod validate;
mod work;

pub use requestor::{Requestor, SHARED_PREFIX};
pub use restart::MOST_RESTARTS;
pub use validate::VALIDATION_SECONDS;

/// How the controller is set up, and what it holds in memory.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its releases.
    pub generation: Generation,
    /// It knows which pods use the device, and evicts them.
    pub pod_deletion: bool,
    /// It looks at validator pods.
    pub validation: bool,
    /// NVIDIA's maintenance-operator is used.
    pub requestor: Option<Requestor>,
    /// What time it is.
    pub now: Timestamp,
    /// Nodes whose evictions run.
    pub evicting: BTreeSet<String>,
    /// Nodes that are being drained.
    pub draining: BTreeSet<String>,
}

impl Options {
    /// As the operators of a generation do it.
    pub fn of(generation: Generation, now: Timestamp) -> Self {
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

    /// For somebody who looks from outside: that a node came to such a step wakes the controller, so its evictions or its drain run.
    #[must_use]
    pub fn seen_from_outside(mut self, snapshot: &Snapshot<'_>) -> Self {
        let of = |state: State| snapshot.entries.iter().filter(move |entry| entry.state == state).map(|entry| entry.node.to_owned());
        self.evicting = of(State::PodDeletionRequired).collect();
        self.draining = of(State::DrainRequired).collect();
        self
    }
}

/// Something that the controller does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "write")]
pub enum Write {
    /// Sets the state label.
    State {
        /// The node.
        node: String,
        /// The new state.
        state: State,
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
    /// Uncordons it.
    Uncordon {
        /// The node.
        node: String,
    },
    /// Deletes a driver pod. One that is gone already is an error.
    DeletePod {
        /// The node.
        node: String,
        /// Namespace of the pod.
        namespace: String,
        /// Its name.
        name: String,
        /// Its UID, which the original does not look at.
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
    /// Creates a NodeMaintenance; one that exists is fine.
    CreateMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Adds itself to the requestors of one.
    JoinMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Takes itself off them.
    LeaveMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
    /// Deletes one.
    DeleteMaintenance {
        /// The node.
        node: String,
        /// The object.
        name: String,
    },
}

impl Write {
    /// The node that it is about.
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

impl fmt::Display for Write {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::State { node, state } => write!(out, "{node}: {state}"),
            Self::Annotate { node, key, value: Some(value) } => write!(out, "{node}: {key}={value}"),
            Self::Annotate { node, key, value: None } => write!(out, "{node}: {key} removed"),
            Self::Cordon { node } => write!(out, "{node}: cordon"),
            Self::Uncordon { node } => write!(out, "{node}: uncordon"),
            Self::DeletePod { node, name, .. } => write!(out, "{node}: delete pod/{name}"),
            Self::Evict { node } => write!(out, "{node}: evict"),
            Self::Drain { node } => write!(out, "{node}: drain"),
            Self::CreateMaintenance { node, name } => write!(out, "{node}: create nodemaintenance/{name}"),
            Self::JoinMaintenance { node, name } => write!(out, "{node}: join nodemaintenance/{name}"),
            Self::LeaveMaintenance { node, name } => write!(out, "{node}: leave nodemaintenance/{name}"),
            Self::DeleteMaintenance { node, name } => write!(out, "{node}: delete nodemaintenance/{name}"),
        }
    }
}

/// What a pass did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PassOutcome {
    /// In the order in which it was done.
    pub writes: Vec<Write>,
    /// What ended it before its end.
    pub error: Option<PassError>,
    /// What went wrong and was only logged: the node stays where it is.
    pub swallowed: Vec<PassError>,
}

impl PassOutcome {
    /// The state that it gave a node.
    pub fn state_of(&self, node: &str) -> Option<State> {
        self.writes.iter().rev().find_map(|write| match write {
            Write::State { node: written, state } if written == node => Some(*state),
            Write::State { .. }
            | Write::Annotate { .. }
            | Write::Cordon { .. }
            | Write::Uncordon { .. }
            | Write::DeletePod { .. }
            | Write::Evict { .. }
            | Write::Drain { .. }
            | Write::CreateMaintenance { .. }
            | Write::JoinMaintenance { .. }
            | Write::LeaveMaintenance { .. }
            | Write::DeleteMaintenance { .. } => None,
        })
    }
}

/// What ends a pass: nothing after it is done, for no node.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize)]
#[cfg_attr(test, derive(strum::EnumDiscriminants), strum_discriminants(name(PassErrorKind), vis(pub(crate)), derive(strum::EnumIter)))]
#[serde(rename_all = "camelCase", rename_all_fields = "camelCase", tag = "kind")]
pub enum PassError {
    /// It did not begin.
    #[error(transparent)]
    Build(BuildError),
    /// A driver pod does not say of which revision it is.
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
    /// `maxUnavailable` is no number of nodes.
    #[error("maxUnavailable is `{text}`; expected a number or a percentage")]
    MaxUnavailable {
        /// What it is.
        text: String,
    },
    /// The policy has no `drain`, not even one that is switched off: the controller of gpu-operator up to v26.3 panics in every pass.
    #[error(
        "the upgrade policy has no `drain`, without which gpu-operator up to v26.3 makes no pass; add `drain: {{enable: false}}` to it"
    )]
    NoDrain,
    /// A node is to lose pods and the policy has no `podDeletion`.
    #[error("node/{node} is in pod-deletion-required and the policy has no podDeletion")]
    NoPodDeletion {
        /// The first such node.
        node: String,
    },
    /// A start time is no number.
    #[error("annotation {key} of node/{node} is `{value}`, which is no time")]
    StartTime {
        /// The node.
        node: String,
        /// The annotation.
        key: &'static str,
        /// Its value.
        value: String,
    },
    /// The API server refused something.
    #[error("refused: {write}")]
    Refused {
        /// What.
        write: Write,
    },
}

/// What one pass does if everything that it writes is accepted.
pub fn pass(snapshot: &Snapshot<'_>, rules: &Rules, options: &Options) -> PassOutcome {
    pass_with(snapshot, rules, options, &mut |_| true)
}

/// The same with an API server that may refuse: `accept` answers for each write, and performs it if it likes.
pub fn pass_with(snapshot: &Snapshot<'_>, rules: &Rules, options: &Options, accept: &mut dyn FnMut(&Write) -> bool) -> PassOutcome {
    let mut run = Run { snapshot, rules, options, accept, outcome: PassOutcome::default() };
    if let Err(error) = run.stages() {
        run.outcome.error = Some(error);
    }
    run.outcome
}

/// A pass under way.
struct Run<'r, 'a> {
    snapshot: &'r Snapshot<'a>,
    rules: &'r Rules,
    options: &'r Options,
    accept: &'r mut dyn FnMut(&Write) -> bool,
    outcome: PassOutcome,
}

impl<'r, 'a> Run<'r, 'a> {
    fn stages(&mut self) -> Result<(), PassError> {
        if !self.rules.auto_upgrade {
            return Ok(());
        }
        if let Some(error) = &self.snapshot.blocked {
            return Err(PassError::Build(error.clone()));
        }
        // The operators read the policy before they make the pass.
        if let Some(text) = &self.rules.unreadable {
            return Err(PassError::MaxUnavailable { text: text.clone() });
        }
        if self.rules.lacks_drain && self.options.generation.features().needs_drain {
            return Err(PassError::NoDrain);
        }
        self.unknown_or_done(State::Unknown)?;
        self.unknown_or_done(State::Done)?;
        match &self.options.requestor {
            None => self.start()?,
            Some(requestor) => self.request(requestor)?,
        }
        self.cordon()?;
        self.wait_for_jobs();
        self.pod_deletion()?;
        self.drain()?;
        if self.options.requestor.is_some() {
            self.maintenance()?;
        }
        self.restart()?;
        self.failed()?;
        self.validation()?;
        self.uncordon()?;
        if let Some(requestor) = &self.options.requestor {
            self.release(requestor)?;
        }
        Ok(())
    }

    /// The entries in a state, as the pass found them. A node makes one step a pass, so what the pass writes is not
    /// read again, unless the node is there twice ([`Self::finish`]).
    fn bucket(&self, state: State) -> impl Iterator<Item = &'r Entry<'a>> + use<'r, 'a> {
        self.snapshot.entries.iter().filter(move |entry| entry.state == state)
    }

    /// Does it, unless it is refused.
    fn write(&mut self, write: Write) -> Result<(), PassError> {
        if (self.accept)(&write) {
            self.outcome.writes.push(write);
            Ok(())
        } else {
            Err(PassError::Refused { write })
        }
    }

    fn state(&mut self, entry: &Entry<'_>, state: State) -> Result<(), PassError> {
        self.write(Write::State { node: entry.node.to_owned(), state })
    }

    fn annotate(&mut self, entry: &Entry<'_>, key: &'static str, value: Option<String>) -> Result<(), PassError> {
        self.write(Write::Annotate { node: entry.node.to_owned(), key, value })
    }

    /// Keeps an error that the original only logs.
    fn swallow(&mut self, result: Result<(), PassError>) {
        if let Err(error) = result {
            self.outcome.swallowed.push(error);
        }
    }

    fn driver(&self) -> Driver {
        self.snapshot.driver
    }
}

/// Whether the pod is of the newest revision.
fn in_sync(entry: &Entry<'_>) -> Result<bool, PassError> {
    let (node, pod) = (entry.node.to_owned(), entry.pod.name.to_owned());
    match entry.pod.revision {
        Revision::Newest => Ok(true),
        Revision::Older | Revision::Orphaned => Ok(false),
        Revision::NoHash => Err(PassError::NoHash { node, pod }),
        Revision::NoRevision => Err(PassError::NoRevision { node, pod }),
    }
}

/// Whether the driver is up: of the newest revision, Running, all containers ready. A pod that is being deleted may be all that.
fn is_up(entry: &Entry<'_>) -> Result<bool, PassError> {
    let DriverPod { running, containers_ready, .. } = entry.pod;
    Ok(in_sync(entry)? && running && containers_ready)
}
