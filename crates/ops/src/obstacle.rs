//! Finds what keeps pods on a node that have to leave it, and the jobs that block its upgrade: pod by pod, whether the hook or NVIDIA's controller evicts.

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

/// One pod that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodObstacle {
    /// `namespace/name`.
    pub pod: String,
    /// What kind of obstacle it is.
    pub kind: ObstacleKind,
    /// In words.
    pub text: String,
    /// What to do.
    pub remedy: Remedy,
}

/// Kinds of obstacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum ObstacleKind {
    /// A PodDisruptionBudget that lets no pod go, now or ever.
    PodDisruptionBudget,
    /// An emptyDir that would be lost.
    EmptyDir,
    /// Nobody would bring the pod back.
    Unmanaged,
    /// No eviction moves it: a DaemonSet's, or a static pod.
    Pinned,
    /// It is being deleted and does not end.
    Terminating,
    /// A job that is waited for.
    Job,
}

/// Finds what is in the way on one node, with these pods, under this policy.
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
    // A selector that cannot be read selects everything here: what it would keep is not known.
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
        None => format!("kubectl delete pod -n {} {}", pod.namespace, pod.name),
    };
    PodObstacle {
        pod: full_name(pod),
        kind: ObstacleKind::Job,
        text: format!("{} belongs to a job that is waited for (waitForCompletion)", full_name(pod)),
        remedy: Remedy::words("let it end; or, if its work may be lost, stop it").run(stop),
    }
}

struct ObstacleFinder<'a> {
    node: &'a ObservedNode,
    budgets: DisruptionBudgets<'a>,
    now: Timestamp,
}

impl ObstacleFinder<'_> {
    /// What is against the pod's leaving. `None`: nothing.
    fn find(&self, pod: &Workload, held: bool, filter: &PodFilter<'_>) -> Option<PodObstacle> {
        let name = full_name(pod);
        let obstacle = |kind, text: String, remedy| {
            Some(PodObstacle { pod: name.clone(), kind, text, remedy })
        };
        let delete = format!("kubectl delete pod -n {} {}", pod.namespace, pod.name);
        if let Some(due) = pod.deleted_at {
            let leaving = LeavingPod { pod, due };
            let remedy = match leaving.stage(self.now) {
                LeavingStage::Grace => Remedy::words("nothing: its grace period runs"),
                LeavingStage::Overdue => {
                    Remedy::words("see whether the node's kubelet runs; if the node is gone for good, delete its pod by force")
                        .inspect(format!("kubectl describe node {}", pod.node))
                        .run(format!("{delete} --force --grace-period=0"))
                }
                LeavingStage::Finalizers => Remedy::words("see why whoever set the finalizers does not take them off")
                    .inspect(format!("kubectl get pod -n {} {} -o yaml", pod.namespace, pod.name)),
            };
            return obstacle(ObstacleKind::Terminating, leaving.text(self.now), remedy);
        }
        match filter.judge(pod) {
            PodFate::Blocked(block) => {
                let key = block.policy_key(filter.terms.step);
                let allow = key
                    .as_ref()
                    .map(|key| format!("; or set {key}: true in the upgrade policy"))
                    .unwrap_or_default();
                let text = format!(
                    "{name} {block}{}",
                    key.map(|key| format!(" ({key} is off)")).unwrap_or_default()
                );
                match block {
                    EvictionBlock::EmptyDir { .. } => {
                        let words = format!(
                            "save what is in it if it is needed, then delete the pod{allow}"
                        );
                        obstacle(
                            ObstacleKind::EmptyDir,
                            text,
                            self.leaves(pod, Remedy::words(words), delete),
                        )
                    }
                    EvictionBlock::Bare | EvictionBlock::DaemonSetGone(_) => obstacle(
                        ObstacleKind::Unmanaged,
                        text,
                        Remedy::words(format!("delete the pod when it may go{allow}")).run(delete),
                    ),
                    EvictionBlock::DaemonSet(_)
                    | EvictionBlock::Mirror
                    | EvictionBlock::DaemonSetUnreadable(_) => obstacle(
                        ObstacleKind::Pinned,
                        text,
                        Remedy::words(
                            "take the node out of what its DaemonSet selects, or stop it for the time",
                        ),
                    ),
                }
            }
            PodFate::Stays(StayReason::DaemonSet(owner)) if held => obstacle(
                ObstacleKind::Pinned,
                format!(
                    "{name} uses the device and belongs to daemonset/{owner}, which brings it back at once"
                ),
                Remedy::words(
                    "take the node out of what the DaemonSet selects for the time of the upgrade",
                )
                .inspect(format!("kubectl get daemonset -n {} {owner}", pod.namespace)),
            ),
            PodFate::Stays(_) => None,
            PodFate::Goes => {
                let standing = self.budgets.standing(pod, self.now);
                let remedy = remedy(&standing, pod)?;
                obstacle(ObstacleKind::PodDisruptionBudget, format!("{name}: {standing}"), remedy)
            }
        }
    }
}

impl ObstacleFinder<'_> {
    /// A pod that is deleted, and that its controller must not bring back to the node meanwhile.
    fn leaves(&self, pod: &Workload, remedy: Remedy, delete: String) -> Remedy {
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

/// What lets one more pod go. `None`: nothing is against its eviction.
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
        // A budget has one of the two fields.
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
            .run(format!("kubectl delete pod -n {} {}", pod.namespace, pod.name)),
    })
}
