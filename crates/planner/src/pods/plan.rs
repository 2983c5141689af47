//! What a step that evicts pods does on a node now. As the vendor has it, it is all or nothing: one pod that has to go and may not, and
//! none is touched. A pod that comes back under another UID is another pod.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use observed::workload::Workload;

use super::device_users::{DeviceRelation, DeviceUse, DeviceUsers, HiddenDeviceUse};
use super::filter::{EvictionBlock, EvictionStep, PodFate, PodFilter, StayReason};
use super::{full_name, listed};

/// What is to be done on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlan<'a> {
    /// The step.
    pub step: EvictionStep,
    /// Pods to evict now. Empty while any pod is blocked.
    pub evict: Vec<PodToEvict<'a>>,
    /// Pods that are being deleted: they are waited for.
    pub leaving: Vec<LeavingPod<'a>>,
    /// Pods that have to go and may not.
    pub blocked: Vec<BlockedPod<'a>>,
    /// Pods that may use the device without asking for it: nothing is done to them, and the driver may not unload while they do.
    pub hidden: Vec<(&'a Workload, HiddenDeviceUse)>,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodToEvict<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// By what it holds the device, if it does.
    pub hold: Option<DeviceUse>,
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingPod<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// When its grace period is over.
    pub due: Timestamp,
}

/// A pod that has to go and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedPod<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// Why.
    pub block: EvictionBlock,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodProgress {
    /// No pod is left that has to go.
    Over,
    /// Pods are evicted or waited for.
    Going,
    /// Nothing is touched because a pod may not go.
    Blocked,
}

/// What a leaving pod is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingStage {
    /// Its processes still have time.
    Grace,
    /// Its grace period is over, and the kubelet has not reported it gone.
    Overdue,
    /// Its grace period is over, and somebody's finalizers hold the object.
    Finalizers,
}

impl<'a> PodPlan<'a> {
    /// Evict what holds the device. Other pods do not matter, whatever may be said against their eviction.
    pub fn pod_deletion(
        pods: impl IntoIterator<Item = &'a Workload>,
        holders: &DeviceUsers<'_>,
        filter: &PodFilter<'_>,
    ) -> Self {
        let mut plan = Self::empty(EvictionStep::PodDeletion);
        for pod in pods.into_iter().filter(|pod| !filter.own.has(pod)) {
            match holders.judge(pod) {
                DeviceRelation::No => {}
                DeviceRelation::Hidden(hidden) => plan.hidden.push((pod, hidden)),
                // Whoever deletes it: it goes, and what comes back is judged then.
                DeviceRelation::Holds(hold) if pod.deleted_at.is_some() => {
                    plan.add_pod(pod, Some(hold))
                }
                DeviceRelation::Holds(hold) => match filter.judge(pod) {
                    PodFate::Goes => plan.add_pod(pod, Some(hold)),
                    PodFate::Blocked(block) => plan.blocked.push(BlockedPod { pod, block }),
                    PodFate::Stays(StayReason::DaemonSet(name)) => {
                        plan.blocked
                            .push(BlockedPod { pod, block: EvictionBlock::DaemonSet(name) });
                    }
                    PodFate::Stays(StayReason::Mirror) => {
                        plan.blocked.push(BlockedPod { pod, block: EvictionBlock::Mirror })
                    }
                    PodFate::Stays(
                        StayReason::Own | StayReason::LeftOut | StayReason::Finished,
                    ) => {}
                },
            }
        }
        plan.all_or_nothing()
    }

    /// Evict everything that the filter lets go. `holders` only names those that hold the device.
    pub fn drain(
        pods: impl IntoIterator<Item = &'a Workload>,
        holders: &DeviceUsers<'_>,
        filter: &PodFilter<'_>,
    ) -> Self {
        let mut plan = Self::empty(EvictionStep::Drain);
        for pod in pods {
            let holding = if filter.own.has(pod) { DeviceRelation::No } else { holders.judge(pod) };
            match filter.judge(pod) {
                PodFate::Goes => plan.add_pod(
                    pod,
                    if let DeviceRelation::Holds(hold) = holding { Some(hold) } else { None },
                ),
                PodFate::Blocked(block) => plan.blocked.push(BlockedPod { pod, block }),
                PodFate::Stays(_) => {
                    if let DeviceRelation::Hidden(hidden) = holding {
                        plan.hidden.push((pod, hidden));
                    }
                }
            }
        }
        plan.all_or_nothing()
    }

    fn empty(step: EvictionStep) -> Self {
        Self {
            step,
            evict: Vec::new(),
            leaving: Vec::new(),
            blocked: Vec::new(),
            hidden: Vec::new(),
        }
    }

    fn add_pod(&mut self, pod: &'a Workload, hold: Option<DeviceUse>) {
        match pod.deleted_at {
            Some(due) => self.leaving.push(LeavingPod { pod, due }),
            None => self.evict.push(PodToEvict { pod, hold }),
        }
    }

    fn all_or_nothing(mut self) -> Self {
        if !self.blocked.is_empty() {
            self.evict.clear();
        }
        self
    }

    /// How far the step is.
    pub fn progress(&self) -> PodProgress {
        if !self.blocked.is_empty() {
            PodProgress::Blocked
        } else if self.evict.is_empty() && self.leaving.is_empty() {
            PodProgress::Over
        } else {
            PodProgress::Going
        }
    }

    /// Why nothing is touched.
    pub fn obstacle(&self) -> Option<StepObstacle> {
        if self.blocked.is_empty() {
            return None;
        }
        let pods = self
            .blocked
            .iter()
            .map(|blocked| (full_name(blocked.pod), blocked.block.clone()))
            .collect();
        Some(StepObstacle { step: self.step, pods })
    }
}

/// Why a step touches no pod: those that may not go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepObstacle {
    /// The step.
    pub step: EvictionStep,
    /// The pods (`namespace/name`), each with what is against it.
    pub pods: Vec<(String, EvictionBlock)>,
}

impl fmt::Display for StepObstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(name, block): &(String, EvictionBlock)| {
            let key = block
                .policy_key(self.step)
                .map(|key| format!(" ({key} would allow it)"))
                .unwrap_or_default();
            format!("{name} {block}{key}")
        };
        write!(out, "no pod was evicted: {}", listed(&self.pods.iter().map(of).collect::<Vec<_>>()))
    }
}

impl LeavingPod<'_> {
    /// When its deletion was asked for, if it was with the pod's own grace period.
    pub fn since(&self) -> Timestamp {
        let grace =
            SignedDuration::from_secs(i64::try_from(self.pod.grace_seconds).unwrap_or(i64::MAX));
        self.due.saturating_sub(grace).unwrap_or(Timestamp::MIN)
    }

    /// What it is waited for.
    pub fn stage(&self, now: Timestamp) -> LeavingStage {
        if now <= self.due {
            LeavingStage::Grace
        } else if self.pod.finalizers.is_empty() {
            LeavingStage::Overdue
        } else {
            LeavingStage::Finalizers
        }
    }

    /// The same for people.
    pub fn text(&self, now: Timestamp) -> String {
        let (name, grace) = (full_name(self.pod), self.pod.grace_seconds);
        let over = now.duration_since(self.due).as_secs();
        match self.stage(now) {
            LeavingStage::Grace => {
                format!("{name} is terminating (grace period {grace} s, until {})", self.due)
            }
            LeavingStage::Overdue => {
                format!(
                    "{name} is terminating: {over} s after its grace period of {grace} s, its node has not reported it gone"
                )
            }
            LeavingStage::Finalizers => {
                format!(
                    "{name} is terminating: {over} s after its grace period of {grace} s, finalizers keep it: {}",
                    self.pod.finalizers.join(", ")
                )
            }
        }
    }
}
