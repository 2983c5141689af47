//! The actions of an eviction step on a node now. As with NVIDIA's controller, it is all or
//! nothing: if one pod that must leave may not be evicted, none is. A pod that is recreated under
//! another UID is another pod.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use observed::workload::Workload;

use super::device_users::{DeviceRelation, DeviceUse, DeviceUsers, HiddenDeviceUse};
use super::filter::{EvictionBlock, EvictionStep, PodFate, PodFilter, StayReason};
use super::{full_name, listed};

/// The plan for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodPlan<'a> {
    /// The step.
    pub step: EvictionStep,
    /// Pods to evict now. Empty while any pod is blocked.
    pub evict: Vec<PodToEvict<'a>>,
    /// Pods that are being deleted: the step waits for them.
    pub leaving: Vec<LeavingPod<'a>>,
    /// Pods that must leave, but may not be evicted.
    pub blocked: Vec<BlockedPod<'a>>,
    /// Pods that may use the device without requesting it: they stay, and the driver may not unload
    /// while they use it.
    pub hidden: Vec<(&'a Workload, HiddenDeviceUse)>,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodToEvict<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// How it uses the device, if it does.
    pub hold: Option<DeviceUse>,
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeavingPod<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// End of its grace period.
    pub due: Timestamp,
}

/// A pod that must leave, but may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockedPod<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// The reason.
    pub block: EvictionBlock,
}

/// The progress of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PodProgress {
    /// All pods that must leave have left.
    Over,
    /// Pods are being evicted, or are terminating.
    Going,
    /// No pod is evicted, because one may not be.
    Blocked,
}

/// What the step waits for at a terminating pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeavingStage {
    /// Its grace period.
    Grace,
    /// The kubelet: the grace period is over, and the kubelet has not reported the pod gone.
    Overdue,
    /// Finalizers: the grace period is over, and finalizers keep the object.
    Finalizers,
}

impl<'a> PodPlan<'a> {
    /// Plans the eviction of the pods that use the device. Other pods stay, even if they could not
    /// be evicted.
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
                // It is being deleted already. Its replacement is judged when it appears.
                DeviceRelation::Holds(hold) if pod.deleted_at.is_some() => {
                    plan.add_pod(pod, Some(hold));
                }
                DeviceRelation::Holds(hold) => match filter.judge(pod) {
                    PodFate::Goes => plan.add_pod(pod, Some(hold)),
                    PodFate::Blocked(block) => plan.blocked.push(BlockedPod { pod, block }),
                    PodFate::Stays(StayReason::DaemonSet(name)) => {
                        plan.blocked
                            .push(BlockedPod { pod, block: EvictionBlock::DaemonSet(name) });
                    }
                    PodFate::Stays(StayReason::Mirror) => {
                        plan.blocked.push(BlockedPod { pod, block: EvictionBlock::Mirror });
                    }
                    PodFate::Stays(
                        StayReason::Own | StayReason::LeftOut | StayReason::Finished,
                    ) => {}
                },
            }
        }
        plan.all_or_nothing()
    }

    /// Plans the eviction of all pods that the filter allows. `holders` only identifies those that
    /// use the device.
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

    /// Returns the progress of the step.
    pub fn progress(&self) -> PodProgress {
        if !self.blocked.is_empty() {
            PodProgress::Blocked
        } else if self.evict.is_empty() && self.leaving.is_empty() {
            PodProgress::Over
        } else {
            PodProgress::Going
        }
    }

    /// Returns why no pod is evicted.
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

/// Why a step evicts no pod: the pods that may not be evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepObstacle {
    /// The step.
    pub step: EvictionStep,
    /// The pods (`namespace/name`), each with its obstacle.
    pub pods: Vec<(String, EvictionBlock)>,
}

impl fmt::Display for StepObstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(name, block): &(String, EvictionBlock)| {
            let key = block
                .policy_key(self.step)
                .map(|key| format!("; {key} would allow the eviction"))
                .unwrap_or_default();
            format!("{name} {block}{key}")
        };
        write!(out, "no pod was evicted: {}", listed(&self.pods.iter().map(of).collect::<Vec<_>>()))
    }
}

impl LeavingPod<'_> {
    /// Returns when its deletion was requested, assuming the pod's own grace period.
    pub fn since(&self) -> Timestamp {
        let grace =
            SignedDuration::from_secs(i64::try_from(self.pod.grace_seconds).unwrap_or(i64::MAX));
        self.due.saturating_sub(grace).unwrap_or(Timestamp::MIN)
    }

    /// Returns what the step waits for.
    pub fn stage(&self, now: Timestamp) -> LeavingStage {
        if now <= self.due {
            LeavingStage::Grace
        } else if self.pod.finalizers.is_empty() {
            LeavingStage::Overdue
        } else {
            LeavingStage::Finalizers
        }
    }

    /// Returns the message about it.
    pub fn text(&self, now: Timestamp) -> String {
        let (name, grace) = (full_name(self.pod), self.pod.grace_seconds);
        let over = now.duration_since(self.due).as_secs();
        match self.stage(now) {
            LeavingStage::Grace => {
                format!(
                    "{name} is terminating; its grace period of {grace} s ends at {:.0}",
                    self.due
                )
            }
            LeavingStage::Overdue => {
                format!(
                    "{name} is terminating: its grace period of {grace} s ended {over} s ago, but its node has not reported it gone"
                )
            }
            LeavingStage::Finalizers => {
                format!(
                    "{name} is terminating: its grace period of {grace} s ended {over} s ago, but finalizers keep it: {}",
                    self.pod.finalizers.join(", ")
                )
            }
        }
    }
}
