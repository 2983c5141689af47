//! Finds what keeps pods on a node that must leave it, and the jobs that block its upgrade. Works
//! pod by pod, whether the hook or NVIDIA's controller evicts.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use contract::policy::Policy;
use contract::selector::Selector;
use contract::settings::Settings;
use observed::workload::{DisruptionBudget, Workload};
use observed::{Observed, ObservedNode};
use planner::pods::budgets::{BudgetAnswer, DisruptionBudgets, EvictionDelay, ImpossibleEviction};
use planner::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use planner::pods::filter::{
    DaemonSetLiveness, EvictionBlock, EvictionTerms, OwnPods, PodFate, PodFilter, StayReason,
    drain_selector,
};
use planner::pods::full_name;
use planner::pods::plan::{LeavingPod, LeavingStage};

use super::remedy::Remedy;

/// A pod that blocks the upgrade of its node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodObstacle {
    /// `namespace/name` of the pod.
    pub pod: String,
    /// The kind of the obstacle.
    pub kind: ObstacleKind,
    /// The obstacle, for people.
    pub text: String,
    /// What to do.
    pub remedy: Remedy,
}

impl PodObstacle {
    fn new(pod: &Workload, kind: ObstacleKind, text: String, remedy: Remedy) -> Self {
        Self { pod: full_name(pod), kind, text, remedy }
    }
}

/// The kind of an obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum ObstacleKind {
    /// A PodDisruptionBudget allows no eviction, now or ever.
    PodDisruptionBudget,
    /// An eviction would delete the data of an emptyDir.
    EmptyDir,
    /// No controller would recreate the pod.
    Unmanaged,
    /// An eviction does not remove the pod: it is a DaemonSet's or a static pod.
    Pinned,
    /// The pod is being deleted, and its grace period has not ended.
    GracePeriod,
    /// The pod is being deleted and does not terminate.
    Terminating,
    /// The pod belongs to a job that the policy waits for.
    Job,
}

impl ObstacleKind {
    /// Returns whether the obstacle ends by itself at a known time.
    pub fn ends_in_time(self) -> bool {
        self == Self::GracePeriod
    }

    /// Returns whether the obstacle ends by itself, at a known time or not.
    pub fn ends_by_itself(self) -> bool {
        matches!(self, Self::GracePeriod | Self::Job)
    }
}

/// Finds the obstacles on one node, with these pods, under this policy.
pub(crate) fn obstacles(
    node: &ObservedNode,
    pods: &[Workload],
    (observed, settings, policy): (&Observed, &Settings, &Policy),
    now: Timestamp,
) -> Vec<PodObstacle> {
    let selectors = consumers(&settings.upgrade).unwrap_or_default();
    let holders = DeviceUsers::new(settings.driver, DeviceRules::Ours, &observed.workloads.claims)
        .with_consumers(&selectors)
        .with_operands_in([settings.operator_namespace.as_str()]);
    let (daemon_sets, own) = (DaemonSetLiveness::new(), OwnPods::default());
    let filter =
        |terms, selector| PodFilter { terms, selector, daemon_sets: &daemon_sets, own: &own };
    // A selector that cannot be parsed selects every pod here, because it is unknown which pods it
    // excludes.
    let selector = |drain| drain_selector(settings.driver, drain).unwrap_or_default();
    let drain =
        policy.drain.as_ref().map(|drain| filter(EvictionTerms::from(drain), selector(drain)));
    let deletion = policy
        .pod_deletion
        .as_ref()
        .map(|deletion| filter(EvictionTerms::from(deletion), Selector::default()));
    let jobs = policy
        .wait_for_completion
        .as_ref()
        .and_then(|wait| wait.pod_selector.parse::<Selector>().ok());
    let finder =
        ObstacleFinder { node, budgets: DisruptionBudgets::new(&observed.workloads.budgets), now };
    let mut obstacles: Vec<PodObstacle> = Vec::new();
    for pod in pods {
        if pod.phase.is_busy()
            && pod.deleted_at.is_none()
            && jobs.as_ref().is_some_and(|jobs| jobs.matches(&pod.labels))
        {
            obstacles.push(job(pod));
        }
        let held = matches!(holders.judge(pod), DeviceRelation::Holds(_));
        let drained = drain.as_ref().filter(|filter| filter.selector.matches(&pod.labels));
        if let Some(filter) = drained.or(deletion.as_ref().filter(|_| held)) {
            obstacles.extend(finder.find(pod, held, filter));
        }
    }
    obstacles.sort_by(|one, other| (one.kind, &one.pod).cmp(&(other.kind, &other.pod)));
    obstacles
}

fn job(pod: &Workload) -> PodObstacle {
    let of_job = pod.controller.as_ref().filter(|controller| controller.kind == "Job");
    let stop = match of_job {
        Some(job) => format!("kubectl delete job -n {} {}", pod.namespace, job.name),
        None => delete_command(pod),
    };
    PodObstacle::new(
        pod,
        ObstacleKind::Job,
        format!(
            "{} belongs to a job that the policy waits for (waitForCompletion)",
            full_name(pod)
        ),
        Remedy::words("wait until the job ends, or stop it if its work may be lost").run(stop),
    )
}

/// Describes a pod that uses the device and that its DaemonSet would recreate at once.
fn recreated(pod: &Workload, owner: &str) -> PodObstacle {
    let text = format!(
        "{} uses the device and belongs to daemonset/{owner}, which recreates it at once",
        full_name(pod)
    );
    let remedy =
        Remedy::words("exclude the node from the DaemonSet's node selector during the upgrade")
            .inspect(format!("kubectl get daemonset -n {} {owner}", pod.namespace));
    PodObstacle::new(pod, ObstacleKind::Pinned, text, remedy)
}

fn delete_command(pod: &Workload) -> String {
    format!("kubectl delete pod -n {} {}", pod.namespace, pod.name)
}

struct ObstacleFinder<'a> {
    node: &'a ObservedNode,
    budgets: DisruptionBudgets<'a>,
    now: Timestamp,
}

impl ObstacleFinder<'_> {
    /// Returns what keeps the pod on the node, or `None` if nothing does.
    fn find(&self, pod: &Workload, held: bool, filter: &PodFilter<'_>) -> Option<PodObstacle> {
        if let Some(due) = pod.deleted_at {
            return Some(self.terminating(&LeavingPod { pod, due }));
        }
        match filter.judge(pod) {
            PodFate::Blocked(block) => {
                Some(self.blocked(pod, &block, block.policy_key(filter.terms.step)))
            }
            PodFate::Stays(StayReason::DaemonSet(owner)) if held => Some(recreated(pod, &owner)),
            PodFate::Stays(_) => None,
            PodFate::Goes => {
                let standing = self.budgets.standing(pod, self.now);
                let remedy = remedy(&standing, pod)?;
                let text = format!("{}: {standing}", full_name(pod));
                Some(PodObstacle::new(pod, ObstacleKind::PodDisruptionBudget, text, remedy))
            }
        }
    }

    /// Describes a pod that is being deleted and has not left.
    fn terminating(&self, leaving: &LeavingPod<'_>) -> PodObstacle {
        let pod = leaving.pod;
        let stage = leaving.stage(self.now);
        let kind = if stage == LeavingStage::Grace {
            ObstacleKind::GracePeriod
        } else {
            ObstacleKind::Terminating
        };
        let remedy = match stage {
            LeavingStage::Grace => Remedy::words("wait: the grace period of the pod has not ended"),
            LeavingStage::Overdue => {
                Remedy::words("check that the node's kubelet runs; if the node will not come back, force-delete its pod")
                    .inspect(format!("kubectl describe node {}", pod.node))
                    .run(format!("{} --force --grace-period=0", delete_command(pod)))
            }
            LeavingStage::Finalizers => Remedy::words("find out why the owner of the finalizers does not remove them")
                .inspect(format!("kubectl get pod -n {} {} -o yaml", pod.namespace, pod.name)),
        };
        PodObstacle::new(pod, kind, leaving.text(self.now), remedy)
    }

    /// Describes a pod that must leave and may not be evicted. `key`: of the policy, which would
    /// allow the eviction.
    fn blocked(&self, pod: &Workload, block: &EvictionBlock, key: Option<String>) -> PodObstacle {
        let allow = key
            .as_ref()
            .map(|key| format!("; or set {key}: true in the upgrade policy"))
            .unwrap_or_default();
        let (kind, remedy) = match block {
            EvictionBlock::EmptyDir { .. } => {
                let words = format!(
                    "save the data of the emptyDir if you need it, then delete the pod{allow}"
                );
                (ObstacleKind::EmptyDir, self.leaves(pod, Remedy::words(words)))
            }
            EvictionBlock::Bare | EvictionBlock::DaemonSetGone(_) => (
                ObstacleKind::Unmanaged,
                Remedy::words(format!("delete the pod when you no longer need it{allow}"))
                    .run(delete_command(pod)),
            ),
            EvictionBlock::DaemonSet(_)
            | EvictionBlock::Mirror
            | EvictionBlock::DaemonSetUnreadable(_) => (
                ObstacleKind::Pinned,
                Remedy::words(
                    "exclude the node from the DaemonSet's node selector, or stop the pod, until the node's upgrade is done",
                ),
            ),
        };
        let text = format!(
            "{} {block}{}",
            full_name(pod),
            key.map(|key| format!(" ({key} is off)")).unwrap_or_default()
        );
        PodObstacle::new(pod, kind, text, remedy)
    }

    /// Adds the commands that delete a pod. A cordon keeps its controller from recreating it on the
    /// node.
    fn leaves(&self, pod: &Workload, remedy: Remedy) -> Remedy {
        let delete = delete_command(pod);
        if self.node.unschedulable || pod.controller.is_none() {
            return remedy.run(delete);
        }
        let node = &self.node.name;
        remedy
            .run(format!("kubectl cordon {node}"))
            .run(delete)
            .later(format!("kubectl uncordon {node}"))
    }
}

/// Returns the remedy that allows one more eviction, or `None` if nothing prevents the pod's
/// eviction.
fn remedy(standing: &BudgetAnswer<'_>, pod: &Workload) -> Option<Remedy> {
    let words = Remedy::words(standing.advice()?);
    let patch = |budget: &DisruptionBudget, spec: &str| {
        format!(
            "kubectl patch poddisruptionbudget -n {} {} --type merge -p '{{\"spec\":{spec}}}'",
            budget.namespace, budget.name
        )
    };
    let fewer = |budget: &DisruptionBudget, healthy: i32| {
        let fewer = (healthy - 1).max(0);
        // A PodDisruptionBudget has one of the two fields.
        if budget.max_unavailable.is_some() {
            let away = (budget.expected - fewer).max(1);
            patch(budget, &format!("{{\"maxUnavailable\":{away}}}"))
        } else {
            patch(budget, &format!("{{\"minAvailable\":{fewer}}}"))
        }
    };
    Some(match standing {
        BudgetAnswer::Free => return None,
        BudgetAnswer::Later(budget, EvictionDelay::Full) => words
            .inspect(format!("kubectl get pods -n {} -o wide", pod.namespace))
            .run(fewer(budget, budget.healthy)),
        BudgetAnswer::Later(_, EvictionDelay::Unobserved | EvictionDelay::Starting)
        | BudgetAnswer::Never(_, ImpossibleEviction::Several) => {
            words.inspect(format!("kubectl get poddisruptionbudgets -n {}", pod.namespace))
        }
        BudgetAnswer::Never(budgets, ImpossibleEviction::NoneMayGo) => budgets
            .iter()
            .fold(words, |remedy, budget| remedy.run(patch(budget, "{\"maxUnavailable\":1}"))),
        BudgetAnswer::Never(budgets, ImpossibleEviction::AllMustStay) => {
            budgets.iter().fold(words, |remedy, budget| {
                remedy.run(fewer(budget, budget.expected.max(budget.healthy)))
            })
        }
        BudgetAnswer::Never(_, ImpossibleEviction::Unhealthy) => words
            .inspect(format!("kubectl get pods -n {} -o wide", pod.namespace))
            .run(delete_command(pod)),
    })
}
