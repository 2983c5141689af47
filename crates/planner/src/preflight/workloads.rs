//! Checks of pods, PodDisruptionBudgets and ResourceClaims.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;

use crate::pods::budgets::{BudgetAnswer, DisruptionBudgets};
use crate::pods::device_users::{DeviceRelation, DeviceRules, DeviceUsers, consumers};
use crate::pods::filter::{
    EvictionBlock, EvictionStep, EvictionTerms, PodFate, PodFilter, StayReason, drain_selector,
};
use crate::pods::plan::LeavingPod;
use crate::pods::{full_name, listed};
use contract::check::PreflightCheck;
use contract::count::with_noun;
use contract::driver::Driver;
use contract::names;
use contract::selector::Selector;
use observed::workload::{DeviceClaim, Workload};

use super::{DraftFinding, PreflightView};

/// A pod that terminates for longer than this is reported (METR/hawk#1363: 41 hours went
/// unnoticed).
const TERMINATING: SignedDuration = SignedDuration::from_mins(10);

/// The controllers of Kubernetes itself that recreate a pod, or that define what its end means:
/// kind and API group.
const KNOWN_CONTROLLERS: [(&str, &str); 5] = [
    ("ReplicaSet", "apps"),
    ("StatefulSet", "apps"),
    ("DaemonSet", "apps"),
    ("Job", "batch"),
    ("ReplicationController", ""),
];

/// Pods of one finding, each with a message.
#[derive(Default)]
struct FindingPods<'a>(Vec<(&'a Workload, String)>);

impl<'a> FindingPods<'a> {
    fn push(&mut self, pod: &'a Workload, text: String) {
        self.0.push((pod, text));
    }

    /// Returns a finding about the pods, if there are any. `lead` follows the number of pods, so its
    /// verb must be the same in singular and plural.
    fn draft(&self, check: PreflightCheck, lead: &str) -> Option<DraftFinding> {
        let say = |(pod, text): &(&Workload, String)| {
            format!("{} {text}", full_name(pod)).trim_end().to_owned()
        };
        let texts: Vec<String> = self.0.iter().map(say).collect();
        let draft = (!texts.is_empty()).then(|| {
            DraftFinding::new(
                check,
                format!("{} {lead}: {}", with_noun(texts.len(), "pod"), listed(&texts)),
            )
        })?;
        Some(DraftFinding {
            nodes: self.0.iter().map(|(pod, _)| pod.node.clone()).collect(),
            pods: self.0.iter().map(|(pod, _)| full_name(pod)).collect(),
            ..draft
        })
    }
}

/// The pods, grouped by finding.
#[derive(Default)]
struct SortedPods<'a> {
    empty_dir: FindingPods<'a>,
    unmanaged: FindingPods<'a>,
    pinned: FindingPods<'a>,
    foreign: FindingPods<'a>,
    terminating: FindingPods<'a>,
    hidden: FindingPods<'a>,
    /// By the message about their budget.
    budgets: BTreeMap<(String, &'static str), FindingPods<'a>>,
}

/// The eviction steps of the policy.
struct EvictionSteps<'a> {
    pod_deletion: Option<PodFilter<'a>>,
    drain: Option<PodFilter<'a>>,
    /// A filter that allows everything: no policy can change its refusals.
    lenient: PodFilter<'a>,
}

impl<'a> EvictionSteps<'a> {
    fn new(view: &PreflightView<'a>) -> Result<Self, DraftFinding> {
        let policy = view.input.policy;
        let filter = |terms, selector| PodFilter {
            terms,
            selector,
            daemon_sets: view.input.daemon_sets,
            own: view.input.own,
        };
        let drain = match &policy.drain {
            None => None,
            Some(drain) => {
                let selector = drain_selector(view.input.settings.driver, drain);
                let selector = selector.map_err(|error| {
                    DraftFinding::new(
                        PreflightCheck::Selectors,
                        format!("drain.podSelector: {error}"),
                    )
                })?;
                Some(filter(EvictionTerms::from(drain), selector))
            }
        };
        let pod_deletion = policy
            .pod_deletion
            .as_ref()
            .map(|policy| filter(EvictionTerms::from(policy), Selector::default()));
        let any =
            EvictionTerms { step: EvictionStep::PodDeletion, force: true, delete_empty_dir: true };
        Ok(Self { pod_deletion, drain, lenient: filter(any, Selector::default()) })
    }

    /// Returns the last filter that a pod must pass: a drain follows a pod deletion that cannot
    /// start. A pod deletion ignores the drain-skip label.
    fn last(&self, pod: &Workload, held: bool) -> Option<&PodFilter<'a>> {
        let drained = self.drain.as_ref().filter(|filter| filter.selector.matches(&pod.labels));
        drained.or(self.pod_deletion.as_ref().filter(|_| held))
    }
}

pub(super) fn check(view: &PreflightView<'_>) -> Vec<DraftFinding> {
    let mut drafts = Vec::new();
    let selectors = consumers(&view.input.settings.upgrade).unwrap_or_else(|error| {
        drafts.push(DraftFinding::new(PreflightCheck::Selectors, error.to_string()));
        Vec::new()
    });
    let steps = match EvictionSteps::new(view) {
        Ok(steps) => steps,
        Err(draft) => {
            drafts.push(draft);
            return drafts;
        }
    };
    let settings = view.input.settings;
    let operands = settings
        .dra
        .namespaces
        .iter()
        .chain([&settings.operator_namespace, &settings.device_plugin.namespace]);
    let claims = &view.observed().workloads.claims;
    let holders = DeviceUsers::new(settings.driver, DeviceRules::Ours, claims)
        .with_consumers(&selectors)
        .with_operands_in(operands.map(String::as_str).filter(|namespace| !namespace.is_empty()));
    let sorted = sort(view, &holders, &steps);
    drafts.extend(sorted.drafts(settings.driver.traits().device));
    if settings.driver == Driver::Gpu {
        drafts.extend(claims_held(view, claims.served().map(Vec::as_slice).unwrap_or_default()));
    }
    drafts
}

fn sort<'a>(
    view: &PreflightView<'a>,
    holders: &DeviceUsers<'_>,
    steps: &EvictionSteps<'_>,
) -> SortedPods<'a> {
    let mut sorted = SortedPods::default();
    let budgets = DisruptionBudgets::new(&view.observed().workloads.budgets);
    let own = view.input.own;
    for pod in view
        .input
        .pods
        .iter()
        .filter(|pod| view.nodes.contains_key(pod.node.as_str()) && !own.has(pod))
    {
        let holding = holders.judge(pod);
        if let DeviceRelation::Hidden(hidden) = &holding {
            sorted.hidden.push(pod, hidden.to_string());
        }
        let held = matches!(holding, DeviceRelation::Holds(_));
        let possible = steps.lenient.judge(pod);
        if let PodFate::Stays(StayReason::DaemonSet(_) | StayReason::Mirror) = possible {
            if held && pod.deleted_at.is_none() {
                sorted.pinned.push(pod, controller_name(pod));
            }
            continue;
        }
        let Some(filter) = steps.last(pod, held) else { continue };
        match filter.judge(pod) {
            PodFate::Blocked(block @ EvictionBlock::EmptyDir { .. }) => {
                sorted.empty_dir.push(pod, key(&block, filter));
            }
            PodFate::Blocked(block) => sorted.unmanaged.push(pod, key(&block, filter)),
            PodFate::Stays(_) => continue,
            PodFate::Goes => {}
        }
        sorted.add_pod(pod, view, &budgets);
    }
    sorted
}

/// Returns the obstacle, and the policy's key that is off.
fn key(block: &EvictionBlock, filter: &PodFilter<'_>) -> String {
    let key = block
        .policy_key(filter.terms.step)
        .map(|key| format!(" ({key} is off)"))
        .unwrap_or_default();
    format!("{block}{key}")
}

fn controller_name(pod: &Workload) -> String {
    let controller = pod.controller.as_ref().filter(|_| !pod.mirror);
    controller.map_or_else(
        || "is a static pod".to_owned(),
        |controller| format!("of {} {}", controller.kind, controller.name),
    )
}

impl<'a> SortedPods<'a> {
    /// Adds a pod that must be evicted.
    fn add_pod(
        &mut self,
        pod: &'a Workload,
        view: &PreflightView<'_>,
        budgets: &DisruptionBudgets<'_>,
    ) {
        let now = view.input.now;
        if let Some(due) = pod.deleted_at {
            let leaving = LeavingPod { pod, due };
            if now > due && now.duration_since(leaving.since()) > TERMINATING {
                let minutes = now.duration_since(leaving.since()).as_mins();
                let held = if pod.finalizers.is_empty() {
                    String::new()
                } else {
                    format!(", held by {}", pod.finalizers.join(", "))
                };
                self.terminating.push(pod, format!("for {minutes} min{held}"));
            }
            return;
        }
        let standing = budgets.standing(pod, now);
        if let BudgetAnswer::Never(_, why) = &standing {
            self.budgets
                .entry((standing.to_string(), why.advice()))
                .or_default()
                .push(pod, String::new());
        }
        if let Some(controller) = pod.controller.as_ref() {
            let group = controller.api_version.rsplit_once('/').map_or("", |(group, _)| group);
            if !KNOWN_CONTROLLERS.contains(&(controller.kind.as_str(), group)) {
                self.foreign.push(
                    pod,
                    format!(
                        "of {} {} ({})",
                        controller.kind, controller.name, controller.api_version
                    ),
                );
            }
        }
    }

    fn drafts(&self, device: &str) -> Vec<DraftFinding> {
        let mut drafts: Vec<DraftFinding> = self
            .budgets
            .iter()
            .filter_map(|((text, advice), pods)| {
                let draft = pods.draft(PreflightCheck::BlockingBudgets, "must be evicted")?;
                Some(DraftFinding { text: format!("{text}; {}", draft.text), advice, ..draft })
            })
            .collect();
        drafts.extend(
            self.empty_dir.draft(PreflightCheck::EmptyDir, "with an emptyDir must be evicted"),
        );
        drafts.extend(
            self.unmanaged.draft(
                PreflightCheck::UnmanagedPods,
                "that must be evicted would not be recreated",
            ),
        );
        drafts.extend(self.pinned.draft(
            PreflightCheck::UnevictableDeviceUsers,
            &format!("using the {device} cannot be evicted"),
        ));
        drafts.extend(self.foreign.draft(
            PreflightCheck::ForeignControllers,
            "with a controller of an unknown kind must be evicted",
        ));
        drafts.extend(
            self.terminating.draft(PreflightCheck::TerminatingPods, "stuck in termination"),
        );
        drafts.extend(self.hidden.draft(
            PreflightCheck::UndeclaredDeviceUsers,
            &format!("may use the {device} without requesting it"),
        ));
        drafts
    }
}

/// Returns findings about ResourceClaims with GPUs: held by running pods, not released, or stuck in
/// deletion.
fn claims_held(view: &PreflightView<'_>, claims: &[DeviceClaim]) -> Vec<DraftFinding> {
    let pods: BTreeMap<&str, &Workload> =
        view.input.pods.iter().map(|pod| (pod.uid.as_str(), pod)).collect();
    let (mut held, mut left) = (FindingPods::default(), Vec::new());
    let mut left_on = BTreeSet::new();
    for claim in claims.iter().filter(|claim| claim.drivers.contains(names::DRA_GPU_DRIVER)) {
        let name = format!("{}/{}", claim.namespace, claim.name);
        let found: Vec<Option<&&Workload>> =
            claim.reserved_for.iter().map(|uid| pods.get(uid.as_str())).collect();
        for pod in found
            .iter()
            .flatten()
            .filter(|pod| view.nodes.contains_key(pod.node.as_str()) && !pod.phase.is_finished())
        {
            held.push(pod, format!("(resourceclaim/{})", claim.name));
        }
        let gone = found.iter().filter(|pod| pod.is_none()).count();
        let lingers =
            claim.deleting.is_some_and(|since| view.input.now.duration_since(since) > TERMINATING);
        if gone > 0 || lingers {
            let what = if lingers {
                "is stuck in deletion".to_owned()
            } else {
                format!("is reserved for {}", with_noun(gone, "deleted pod"))
            };
            left.push(format!("{name} {what}"));
            left_on.extend(claim.node.clone());
        }
    }
    let left = (!left.is_empty()).then(|| {
        DraftFinding::new(
            PreflightCheck::LeftoverClaims,
            format!("{}: {}", with_noun(left.len(), "unreleased ResourceClaim"), listed(&left)),
        )
    });
    let left = left.map(|draft| draft.with_nodes(left_on.into_iter().collect()));
    held.draft(PreflightCheck::HeldClaims, "running with GPUs from ResourceClaims")
        .into_iter()
        .chain(left)
        .collect()
}
