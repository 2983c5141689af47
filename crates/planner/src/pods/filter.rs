//! Which pods may leave: the rules of `kubectl drain` (k8s.io/kubectl `pkg/drain`, which the vendor's controller uses too) in their order,
//! the first refusal counts. Finished pods never stand in the way, and pods that are being deleted already need nobody's permission.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use contract::driver::Driver;
use contract::policy::{DrainPolicy, PodDeletionPolicy};
use contract::selector::{Selector, SelectorError};
use observed::workload::{PodController, Workload};

/// A step of an upgrade that evicts pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionStep {
    /// Eviction of the pods that hold the device.
    PodDeletion,
    /// Eviction of all pods of the node.
    Drain,
}

impl EvictionStep {
    /// Its field in the policy.
    pub fn field(self) -> &'static str {
        match self {
            Self::PodDeletion => "podDeletion",
            Self::Drain => "drain",
        }
    }
}

/// What a step may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionTerms {
    /// Which step it is.
    pub step: EvictionStep,
    /// Also pods that no controller brings back.
    pub force: bool,
    /// Also pods whose emptyDir is lost by it.
    pub delete_empty_dir: bool,
}

impl From<&PodDeletionPolicy> for EvictionTerms {
    fn from(policy: &PodDeletionPolicy) -> Self {
        Self {
            step: EvictionStep::PodDeletion,
            force: policy.force,
            delete_empty_dir: policy.delete_empty_dir,
        }
    }
}

impl From<&DrainPolicy> for EvictionTerms {
    fn from(policy: &DrainPolicy) -> Self {
        Self {
            step: EvictionStep::Drain,
            force: policy.force,
            delete_empty_dir: policy.delete_empty_dir,
        }
    }
}

/// Which pods a drain is about: those that the policy selects, without those that carry the driver's drain-skip label.
///
/// # Errors
/// The policy's selector is none.
pub fn drain_selector(driver: Driver, policy: &DrainPolicy) -> Result<Selector, SelectorError> {
    Ok(policy.pod_selector.parse::<Selector>()?.and_not(driver.traits().drain_skip_label, "true"))
}

/// Whether the DaemonSet of a pod is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It is, and brings its pods back, also to a cordoned node.
    Alive,
    /// It is not.
    Gone,
    /// It could not be asked for.
    Unreadable,
}

/// What is known of DaemonSets, by namespace and name. One that is not in it counts as alive: that is the answer that evicts nothing.
pub type DaemonSetLiveness = BTreeMap<(String, String), Liveness>;

/// Our own pods, which never go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPods {
    /// By UID.
    pub uids: BTreeSet<String>,
    /// By namespace and name.
    pub names: BTreeSet<(String, String)>,
}

impl OwnPods {
    /// Whether the pod is one of ours.
    pub fn has(&self, pod: &Workload) -> bool {
        self.uids.contains(&pod.uid)
            || self
                .names
                .iter()
                .any(|(namespace, name)| *namespace == pod.namespace && *name == pod.name)
    }
}

/// Whether a pod goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFate {
    /// It is left alone.
    Stays(StayReason),
    /// It is evicted, or on its way already.
    Goes,
    /// It would have to go and may not.
    Blocked(EvictionBlock),
}

/// Why a pod is left alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// It is the hook's own.
    Own,
    /// The policy does not select it, or it carries the drain-skip label.
    LeftOut,
    /// Nothing of it runs any more; its logs stay.
    Finished,
    /// It belongs to this DaemonSet, which would recreate it at once.
    DaemonSet(String),
    /// It is a static pod: only its object could be deleted.
    Mirror,
}

/// Why a pod that has to go may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionBlock {
    /// This DaemonSet would bring it back at once.
    DaemonSet(String),
    /// It is a static pod.
    Mirror,
    /// Its DaemonSet is gone: nobody brings it back.
    DaemonSetGone(String),
    /// Whether its DaemonSet is there could not be found out.
    DaemonSetUnreadable(String),
    /// It has an emptyDir, which would be lost.
    EmptyDir {
        /// One on disk.
        disk: bool,
        /// One in memory.
        memory: bool,
    },
    /// It has no controller: nobody brings it back.
    Bare,
}

impl EvictionBlock {
    /// The policy's field that would let the pod go, if there is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::DaemonSet(_) | Self::Mirror | Self::DaemonSetUnreadable(_) => None,
            Self::DaemonSetGone(_) | Self::Bare => Some("force"),
            Self::EmptyDir { .. } => Some("deleteEmptyDir"),
        }
    }

    /// The same with its step: `podDeletion.force`.
    pub fn policy_key(&self, step: EvictionStep) -> Option<String> {
        self.field().map(|field| format!("{}.{field}", step.field()))
    }
}

impl fmt::Display for EvictionBlock {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DaemonSet(name) => {
                write!(out, "belongs to daemonset/{name}, which would recreate it at once")
            }
            Self::Mirror => write!(out, "is a static pod of the node"),
            Self::DaemonSetGone(name) => {
                write!(
                    out,
                    "is left over from daemonset/{name}, and no controller would recreate it"
                )
            }
            Self::DaemonSetUnreadable(name) => {
                write!(out, "belongs to daemonset/{name}, which could not be read")
            }
            Self::EmptyDir { disk: true, memory: true } => {
                write!(out, "has emptyDirs on disk and in memory, which would be lost")
            }
            Self::EmptyDir { disk: false, memory: true } => {
                write!(out, "has an emptyDir in memory (shared memory), which would be lost")
            }
            Self::EmptyDir { .. } => write!(out, "has an emptyDir on disk, which would be lost"),
            Self::Bare => write!(out, "has no controller that would recreate it"),
        }
    }
}

/// Tells which pods of a node a step may evict.
#[derive(Clone, Debug)]
pub struct PodFilter<'a> {
    /// What the step may do.
    pub terms: EvictionTerms,
    /// Which pods it is about ([`drain_selector`]); pod deletion is about all, whatever their labels.
    pub selector: Selector,
    /// What is known of DaemonSets.
    pub daemon_sets: &'a DaemonSetLiveness,
    /// Our own pods.
    pub own: &'a OwnPods,
}

impl PodFilter<'_> {
    /// Whether the pod goes.
    pub fn judge(&self, pod: &Workload) -> PodFate {
        if self.own.has(pod) {
            return PodFate::Stays(StayReason::Own);
        }
        if !self.selector.matches(&pod.labels) {
            return PodFate::Stays(StayReason::LeftOut);
        }
        // kubectl deletes these too; here they hold nothing, and people look for their logs.
        if pod.phase.is_finished() {
            return PodFate::Stays(StayReason::Finished);
        }
        let daemon_set =
            pod.controller.as_ref().filter(|controller| controller.kind == "DaemonSet");
        let answer =
            daemon_set.map_or(PodFate::Goes, |controller| self.of_daemon_set(pod, controller));
        if answer != PodFate::Goes {
            return answer;
        }
        if pod.mirror {
            return PodFate::Stays(StayReason::Mirror);
        }
        if pod.deleted_at.is_some() {
            return PodFate::Goes;
        }
        if (pod.empty_dir || pod.memory_dir) && !self.terms.delete_empty_dir {
            return PodFate::Blocked(EvictionBlock::EmptyDir {
                disk: pod.empty_dir,
                memory: pod.memory_dir,
            });
        }
        if pod.controller.is_none() && !self.terms.force {
            return PodFate::Blocked(EvictionBlock::Bare);
        }
        PodFate::Goes
    }

    fn of_daemon_set(&self, pod: &Workload, controller: &PodController) -> PodFate {
        let name = controller.name.clone();
        let known = self
            .daemon_sets
            .get(&(pod.namespace.clone(), name.clone()))
            .copied()
            .unwrap_or(Liveness::Alive);
        match known {
            Liveness::Alive => PodFate::Stays(StayReason::DaemonSet(name)),
            Liveness::Gone if self.terms.force || pod.deleted_at.is_some() => PodFate::Goes,
            Liveness::Gone => PodFate::Blocked(EvictionBlock::DaemonSetGone(name)),
            Liveness::Unreadable if pod.deleted_at.is_some() => PodFate::Goes,
            Liveness::Unreadable => PodFate::Blocked(EvictionBlock::DaemonSetUnreadable(name)),
        }
    }
}
