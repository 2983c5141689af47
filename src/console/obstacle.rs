//! What keeps pods on a node that have to leave it, and the jobs that are waited for: pod by pod, whoever does the evicting.

use jiff::Timestamp;
use schemars::JsonSchema;
use serde::Serialize;

use crate::contract::policy::Policy;
use crate::contract::selector::Selector;
use crate::contract::settings::Settings;
use crate::rollout::observed::workload::{Budget, Workload};
use crate::rollout::observed::{Node, Observed};
use crate::rollout::pods::budgets::{Budgets, Later, Never, Standing};
use crate::rollout::pods::filter::{Answer, Block, DaemonSets, Filter, Own, Stay, Terms, drain_selector};
use crate::rollout::pods::full_name;
use crate::rollout::pods::holders::{Holders, Holding, Rules, consumers};
use crate::rollout::pods::plan::{Leaving, Stage};

use super::remedy::Remedy;

/// One pod that is in the way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Obstacle {
    /// `namespace/name`.
    pub pod: String,
    /// What kind of obstacle it is.
    pub kind: Kind,
    /// In words.
    pub text: String,
    /// What to do.
    pub remedy: Remedy,
}

/// Kinds of obstacles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub enum Kind {
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

/// What is in the way on one node, with these pods, in a cluster where nodes go by this policy.
pub fn obstacles(
    node: &Node,
    pods: &[Workload],
    (observed, settings, policy): (&Observed, &Settings, &Policy),
    now: Timestamp,
) -> Vec<Obstacle> {
    let selectors = consumers(&settings.upgrade).unwrap_or_default();
    let holders = Holders::new(settings.driver, Rules::Ours, &observed.workloads.claims)
        .with_consumers(&selectors)
        .with_operands_in([settings.operator_namespace.as_str()]);
    let (daemon_sets, own) = (DaemonSets::new(), Own::default());
    let filter = |terms, selector| Filter { terms, selector, daemon_sets: &daemon_sets, own: &own };
    // A selector that cannot be read selects everything here: what it would keep is not known.
    let selector = |drain| drain_selector(settings.driver, drain).unwrap_or_default();
    let drain = policy.drain.as_ref().map(|drain| filter(Terms::from(drain), selector(drain)));
    let deletion = policy.pod_deletion.as_ref().map(|deletion| filter(Terms::from(deletion), Selector::default()));
    let jobs = policy.wait_for_completion.as_ref().and_then(|wait| wait.pod_selector.parse::<Selector>().ok());
    let look = Look { node, budgets: Budgets::new(&observed.workloads.budgets), now };
    let mut found: Vec<Obstacle> = Vec::new();
    for pod in pods {
        if pod.phase.is_busy() && pod.deleted_at.is_none() && jobs.as_ref().is_some_and(|jobs| jobs.matches(&pod.labels)) {
            found.push(job(pod));
        }
        let held = matches!(holders.judge(pod), Holding::Holds(_));
        let drained = drain.as_ref().filter(|filter| filter.selector.matches(&pod.labels));
        if let Some(filter) = drained.or(deletion.as_ref().filter(|_| held)) {
            found.extend(look.at(pod, held, filter));
        }
    }
    found.sort_by(|one, other| (one.kind, &one.pod).cmp(&(other.kind, &other.pod)));
    found
}

fn job(pod: &Workload) -> Obstacle {
    let of_job = pod.controller.as_ref().filter(|controller| controller.kind == "Job");
    let stop = match of_job {
        Some(job) => format!("kubectl delete job -n {} {}", pod.namespace, job.name),
        None => format!("kubectl delete pod -n {} {}", pod.namespace, pod.name),
    };
    Obstacle {
        pod: full_name(pod),
        kind: Kind::Job,
        text: format!("{} belongs to a job that is waited for (waitForCompletion)", full_name(pod)),
        remedy: Remedy::words("let it end; or, if its work may be lost, stop it").run(stop),
    }
}

struct Look<'a> {
    node: &'a Node,
    budgets: Budgets<'a>,
    now: Timestamp,
}

impl Look<'_> {
    /// What is against the pod's leaving. `None`: nothing.
    fn at(&self, pod: &Workload, held: bool, filter: &Filter<'_>) -> Option<Obstacle> {
        let name = full_name(pod);
        let obstacle = |kind, text: String, remedy| Some(Obstacle { pod: name.clone(), kind, text, remedy });
        let delete = format!("kubectl delete pod -n {} {}", pod.namespace, pod.name);
        if let Some(due) = pod.deleted_at {
            let leaving = Leaving { pod, due };
            let remedy = match leaving.stage(self.now) {
                Stage::Grace => Remedy::words("nothing: its grace period runs"),
                Stage::Overdue => {
                    Remedy::words("see whether the node's kubelet runs; if the node is gone for good, delete its pod by force")
                        .look(format!("kubectl describe node {}", pod.node))
                        .run(format!("{delete} --force --grace-period=0"))
                }
                Stage::Finalizers => Remedy::words("see why whoever set the finalizers does not take them off")
                    .look(format!("kubectl get pod -n {} {} -o yaml", pod.namespace, pod.name)),
            };
            return obstacle(Kind::Terminating, leaving.text(self.now), remedy);
        }
        match filter.judge(pod) {
            Answer::Blocked(block) => {
                let key = block.policy_key(filter.terms.step);
                let allow = key.as_ref().map(|key| format!("; or set {key}: true in the upgrade policy")).unwrap_or_default();
                let text = format!("{name} {block}{}", key.map(|key| format!(" ({key} is off)")).unwrap_or_default());
                match block {
                    Block::EmptyDir { .. } => {
                        let words = format!("save what is in it if it is needed, then delete the pod{allow}");
                        obstacle(Kind::EmptyDir, text, self.leaves(pod, Remedy::words(words), delete))
                    }
                    Block::Bare | Block::DaemonSetGone(_) => {
                        obstacle(Kind::Unmanaged, text, Remedy::words(format!("delete the pod when it may go{allow}")).run(delete))
                    }
                    Block::DaemonSet(_) | Block::Mirror | Block::DaemonSetUnreadable(_) => obstacle(
                        Kind::Pinned,
                        text,
                        Remedy::words("take the node out of what its DaemonSet selects, or stop it for the time"),
                    ),
                }
            }
            Answer::Stays(Stay::DaemonSet(owner)) if held => obstacle(
                Kind::Pinned,
                format!("{name} uses the device and belongs to daemonset/{owner}, which brings it back at once"),
                Remedy::words("take the node out of what the DaemonSet selects for the time of the upgrade")
                    .look(format!("kubectl get daemonset -n {} {owner}", pod.namespace)),
            ),
            Answer::Stays(_) => None,
            Answer::Goes => {
                let standing = self.budgets.standing(pod, self.now);
                let remedy = remedy(&standing, pod)?;
                obstacle(Kind::PodDisruptionBudget, format!("{name}: {standing}"), remedy)
            }
        }
    }
}

impl Look<'_> {
    /// A pod that is deleted, and that its controller must not bring back to the node meanwhile.
    fn leaves(&self, pod: &Workload, remedy: Remedy, delete: String) -> Remedy {
        if self.node.unschedulable || pod.controller.is_none() {
            return remedy.run(delete);
        }
        let node = &self.node.name;
        remedy.run(format!("kubectl cordon {node}")).run(delete).later(format!("kubectl uncordon {node}"))
    }
}

/// What lets one more pod go. `None`: nothing is against its eviction.
fn remedy(standing: &Standing<'_>, pod: &Workload) -> Option<Remedy> {
    let words = Remedy::words(standing.advice()?);
    let patch = |budget: &Budget, spec: &str| {
        format!("kubectl patch poddisruptionbudget -n {} {} --type merge -p '{{\"spec\":{spec}}}'", budget.namespace, budget.name)
    };
    let fewer = |budget: &Budget, healthy: i32| {
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
        Standing::Free => return None,
        Standing::Later(budget, Later::Full) => {
            words.look(format!("kubectl get pods -n {} -o wide", pod.namespace)).run(fewer(budget, budget.healthy))
        }
        Standing::Later(_, Later::Unobserved | Later::Starting) | Standing::Never(_, Never::Several) => {
            words.look(format!("kubectl get poddisruptionbudgets -n {}", pod.namespace))
        }
        Standing::Never(budgets, Never::NoneMayGo) => {
            budgets.iter().fold(words, |remedy, budget| remedy.run(patch(budget, "{\"maxUnavailable\":1}")))
        }
        Standing::Never(budgets, Never::AllMustStay) => {
            budgets.iter().fold(words, |remedy, budget| remedy.run(fewer(budget, budget.expected.max(budget.healthy))))
        }
        Standing::Never(_, Never::Unhealthy) => words
            .look(format!("kubectl get pods -n {} -o wide", pod.namespace))
            .run(format!("kubectl delete pod -n {} {}", pod.namespace, pod.name)),
    })
}
