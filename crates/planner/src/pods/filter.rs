//! The pods that may be evicted: the rules of `kubectl drain` (k8s.io/kubectl `pkg/drain`, which
//! NVIDIA's controller uses too) in their order; the first refusal counts. Finished pods are never
//! an obstacle, and pods that are already being deleted need no permission.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, TEST_LABEL};
use contract::driver::Driver;
use contract::policy::{DrainPolicy, PodDeletionPolicy};
use contract::selector::{Selector, SelectorError};
use observed::workload::{PodController, Workload};

/// A step of an upgrade that evicts pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EvictionStep {
    /// Eviction of the pods that use the device.
    PodDeletion,
    /// Eviction of all pods of the node.
    Drain,
}

impl EvictionStep {
    /// Returns its field in the policy.
    pub fn field(self) -> &'static str {
        match self {
            Self::PodDeletion => "podDeletion",
            Self::Drain => "drain",
        }
    }
}

/// The permissions of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EvictionTerms {
    /// The step.
    pub step: EvictionStep,
    /// Also evict pods that no controller would recreate.
    pub force: bool,
    /// Also evict pods whose emptyDir is lost by the eviction.
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

/// Returns the selector of a drain: the pods that the policy selects, without those that have the
/// driver's drain-skip label.
///
/// # Errors
/// The policy's selector is not valid.
pub fn drain_selector(driver: Driver, policy: &DrainPolicy) -> Result<Selector, SelectorError> {
    Ok(policy.pod_selector.parse::<Selector>()?.and_not(driver.traits().drain_skip_label, "true"))
}

/// Whether the DaemonSet of a pod exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Liveness {
    /// It exists, and recreates its pods, even on a cordoned node.
    Alive,
    /// It does not exist.
    Gone,
    /// It could not be read.
    Unreadable,
}

/// Which DaemonSets exist, by namespace and name. A DaemonSet that is not in the map counts as
/// existing, because that result evicts nothing.
pub type DaemonSetLiveness = BTreeMap<(String, String), Liveness>;

/// The hook's own pods, which are never evicted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OwnPods {
    /// By UID.
    pub uids: BTreeSet<String>,
    /// By namespace and name.
    pub names: BTreeSet<(String, String)>,
}

impl OwnPods {
    /// Returns whether the pod is one of the hook's own: the hook's, or that of an acceptance test.
    pub fn has(&self, pod: &Workload) -> bool {
        is_acceptance_test(pod)
            || self.uids.contains(&pod.uid)
            || self
                .names
                .iter()
                .any(|(namespace, name)| *namespace == pod.namespace && *name == pod.name)
    }
}

fn is_acceptance_test(pod: &Workload) -> bool {
    pod.namespace == ACCEPTANCE_NAMESPACE && pod.labels.contains_key(TEST_LABEL)
}

/// What a step does with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodFate {
    /// It stays.
    Stays(StayReason),
    /// It is evicted, or is already being deleted.
    Goes,
    /// It must leave, but may not be evicted.
    Blocked(EvictionBlock),
}

/// Why a pod stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StayReason {
    /// It is the hook's own.
    Own,
    /// The policy does not select it, or it has the drain-skip label.
    LeftOut,
    /// It has finished; its logs stay.
    Finished,
    /// It belongs to this DaemonSet, which would recreate it at once.
    DaemonSet(String),
    /// It is a static pod: only its object could be deleted.
    Mirror,
}

/// Why a pod that must leave may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EvictionBlock {
    /// This DaemonSet would recreate it at once.
    DaemonSet(String),
    /// It is a static pod.
    Mirror,
    /// Its DaemonSet no longer exists: no controller would recreate it.
    DaemonSetGone(String),
    /// Its DaemonSet could not be read.
    DaemonSetUnreadable(String),
    /// It has an emptyDir, which would be lost.
    EmptyDir {
        /// One on disk.
        disk: bool,
        /// One in memory.
        memory: bool,
    },
    /// It has no controller that would recreate it.
    Bare,
}

impl EvictionBlock {
    /// Returns the policy's field that would allow the eviction, if there is one.
    pub fn field(&self) -> Option<&'static str> {
        match self {
            Self::DaemonSet(_) | Self::Mirror | Self::DaemonSetUnreadable(_) => None,
            Self::DaemonSetGone(_) | Self::Bare => Some("force"),
            Self::EmptyDir { .. } => Some("deleteEmptyDir"),
        }
    }

    /// Returns the field with its step: `podDeletion.force`.
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
                write!(out, "belongs to daemonset/{name}, which cannot be read")
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

/// Determines which pods of a node a step may evict.
#[derive(Clone, Debug)]
pub struct PodFilter<'a> {
    /// The permissions of the step.
    pub terms: EvictionTerms,
    /// The selector of the pods ([`drain_selector`]); pod deletion covers all pods, whatever their
    /// labels.
    pub selector: Selector,
    /// Which DaemonSets exist.
    pub daemon_sets: &'a DaemonSetLiveness,
    /// The hook's own pods.
    pub own: &'a OwnPods,
}

impl PodFilter<'_> {
    /// Returns what the step does with the pod.
    pub fn judge(&self, pod: &Workload) -> PodFate {
        if self.own.has(pod) {
            return PodFate::Stays(StayReason::Own);
        }
        if !self.selector.matches(&pod.labels) {
            return PodFate::Stays(StayReason::LeftOut);
        }
        // kubectl deletes these too; here they use nothing, and users need their logs.
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
