//! What a step that evicts pods does on a node now. As the vendor has it, it is all or nothing: one pod that has to go and may not, and
//! none is touched. A pod that comes back under another UID is another pod.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

use crate::rollout::observed::workload::Workload;

use super::filter::{Answer, Block, Filter, Stay, Step};
use super::holders::{Hidden, Hold, Holders, Holding};
use super::{full_name, listed};

/// What is to be done on a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan<'a> {
    /// The step.
    pub step: Step,
    /// Pods to evict now. Empty while any pod is blocked.
    pub evict: Vec<Going<'a>>,
    /// Pods that are being deleted: they are waited for.
    pub leaving: Vec<Leaving<'a>>,
    /// Pods that have to go and may not.
    pub blocked: Vec<Blocked<'a>>,
    /// Pods that may use the device without asking for it: nothing is done to them, and the driver may not unload while they do.
    pub hidden: Vec<(&'a Workload, Hidden)>,
}

/// A pod to evict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Going<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// By what it holds the device, if it does.
    pub hold: Option<Hold>,
}

/// A pod that is being deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaving<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// When its grace period is over.
    pub due: Timestamp,
}

/// A pod that has to go and may not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked<'a> {
    /// The pod.
    pub pod: &'a Workload,
    /// Why.
    pub block: Block,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// No pod is left that has to go.
    Over,
    /// Pods are evicted or waited for.
    Going,
    /// Nothing is touched because a pod may not go.
    Blocked,
}

/// What a leaving pod is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Its processes still have time.
    Grace,
    /// Its grace period is over, and the kubelet has not reported it gone.
    Overdue,
    /// Its grace period is over, and somebody's finalizers hold the object.
    Finalizers,
}

impl<'a> Plan<'a> {
    /// Evict what holds the device. Other pods do not matter, whatever may be said against their eviction.
    pub fn pod_deletion(pods: impl IntoIterator<Item = &'a Workload>, holders: &Holders<'_>, filter: &Filter<'_>) -> Self {
        let mut plan = Self::empty(Step::PodDeletion);
        for pod in pods.into_iter().filter(|pod| !filter.own.has(pod)) {
            match holders.judge(pod) {
                Holding::No => {}
                Holding::Hidden(hidden) => plan.hidden.push((pod, hidden)),
                // Whoever deletes it: it goes, and what comes back is judged then.
                Holding::Holds(hold) if pod.deleted_at.is_some() => plan.goes(pod, Some(hold)),
                Holding::Holds(hold) => match filter.judge(pod) {
                    Answer::Goes => plan.goes(pod, Some(hold)),
                    Answer::Blocked(block) => plan.blocked.push(Blocked { pod, block }),
                    Answer::Stays(Stay::DaemonSet(name)) => plan.blocked.push(Blocked { pod, block: Block::DaemonSet(name) }),
                    Answer::Stays(Stay::Mirror) => plan.blocked.push(Blocked { pod, block: Block::Mirror }),
                    Answer::Stays(Stay::Own | Stay::LeftOut | Stay::Finished) => {}
                },
            }
        }
        plan.all_or_nothing()
    }

    /// Evict everything that the filter lets go. `holders` only names those that hold the device.
    pub fn drain(pods: impl IntoIterator<Item = &'a Workload>, holders: &Holders<'_>, filter: &Filter<'_>) -> Self {
        let mut plan = Self::empty(Step::Drain);
        for pod in pods {
            let holding = if filter.own.has(pod) { Holding::No } else { holders.judge(pod) };
            match filter.judge(pod) {
                Answer::Goes => plan.goes(pod, if let Holding::Holds(hold) = holding { Some(hold) } else { None }),
                Answer::Blocked(block) => plan.blocked.push(Blocked { pod, block }),
                Answer::Stays(_) => {
                    if let Holding::Hidden(hidden) = holding {
                        plan.hidden.push((pod, hidden));
                    }
                }
            }
        }
        plan.all_or_nothing()
    }

    fn empty(step: Step) -> Self {
        Self { step, evict: Vec::new(), leaving: Vec::new(), blocked: Vec::new(), hidden: Vec::new() }
    }

    fn goes(&mut self, pod: &'a Workload, hold: Option<Hold>) {
        match pod.deleted_at {
            Some(due) => self.leaving.push(Leaving { pod, due }),
            None => self.evict.push(Going { pod, hold }),
        }
    }

    fn all_or_nothing(mut self) -> Self {
        if !self.blocked.is_empty() {
            self.evict.clear();
        }
        self
    }

    /// How far the step is.
    pub fn progress(&self) -> Progress {
        if !self.blocked.is_empty() {
            Progress::Blocked
        } else if self.evict.is_empty() && self.leaving.is_empty() {
            Progress::Over
        } else {
            Progress::Going
        }
    }

    /// Why nothing is touched.
    pub fn obstacle(&self) -> Option<Obstacle> {
        if self.blocked.is_empty() {
            return None;
        }
        let pods = self.blocked.iter().map(|blocked| (full_name(blocked.pod), blocked.block.clone())).collect();
        Some(Obstacle { step: self.step, pods })
    }

    /// The longest grace period in seconds of the pods that go: a step that ends sooner ends too soon.
    pub fn longest_grace_seconds(&self) -> u64 {
        let going = self.evict.iter().map(|going| going.pod);
        going.chain(self.leaving.iter().map(|leaving| leaving.pod)).map(|pod| pod.grace_seconds).max().unwrap_or(0)
    }
}

/// Why a step touches no pod: those that may not go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Obstacle {
    /// The step.
    pub step: Step,
    /// The pods (`namespace/name`), each with what is against it.
    pub pods: Vec<(String, Block)>,
}

impl Obstacle {
    /// The fields of the policy that would let all of them go; `None`: no policy would.
    pub fn policy_keys(&self) -> Option<Vec<String>> {
        let mut keys = self.pods.iter().map(|(_, block)| block.policy_key(self.step)).collect::<Option<Vec<_>>>()?;
        keys.sort();
        keys.dedup();
        Some(keys)
    }
}

impl fmt::Display for Obstacle {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let of = |(name, block): &(String, Block)| {
            let key = block.policy_key(self.step).map(|key| format!(" ({key} would allow it)")).unwrap_or_default();
            format!("{name} {block}{key}")
        };
        write!(out, "no pod was touched: {}", listed(&self.pods.iter().map(of).collect::<Vec<_>>()))
    }
}

impl Leaving<'_> {
    /// When its deletion was asked for, if it was with the pod's own grace period.
    pub fn since(&self) -> Timestamp {
        let grace = SignedDuration::from_secs(i64::try_from(self.pod.grace_seconds).unwrap_or(i64::MAX));
        self.due.saturating_sub(grace).unwrap_or(Timestamp::MIN)
    }

    /// What it is waited for.
    pub fn stage(&self, now: Timestamp) -> Stage {
        if now <= self.due {
            Stage::Grace
        } else if self.pod.finalizers.is_empty() {
            Stage::Overdue
        } else {
            Stage::Finalizers
        }
    }

    /// The same for people.
    pub fn text(&self, now: Timestamp) -> String {
        let (name, grace) = (full_name(self.pod), self.pod.grace_seconds);
        let over = now.duration_since(self.due).as_secs();
        match self.stage(now) {
            Stage::Grace => format!("{name} is terminating (grace {grace} s, until {})", self.due),
            Stage::Overdue => format!("{name} is terminating, and {over} s past its grace of {grace} s its node has not reported it gone"),
            Stage::Finalizers => {
                format!(
                    "{name} is terminating, and {over} s past its grace of {grace} s finalizers hold it: {}",
                    self.pod.finalizers.join(", ")
                )
            }
        }
    }
}
