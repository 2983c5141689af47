//! The engine with one rule broken on purpose. For some seed, an invariant or a missing end must
//! detect it.

use contract::acceptance::AcceptanceTime;
use contract::driver::Driver;
use observed::acceptance::{AcceptancePhase, AcceptancePod};
use observed::{Observed, ObservedNode};
use planner::action::{AcceptanceCreation, NodePatch, PodDeletion, PodEviction, RequestedGpus};
use planner::decide::{Action, Decision};
use planner::waits::Waits;
use simulator::setup::DecisionMutation;
use simulator::simulate;

use crate::chance::drawn;
use crate::parameters::show;
use crate::seeds::wrong;

/// The number of seeds within which each broken rule must be detected.
const SEEDS: u64 = 150;

fn patches(decision: &mut Decision) -> impl Iterator<Item = &mut NodePatch> {
    decision
        .actions
        .iter_mut()
        .filter_map(|action| if let Action::PatchNode(patch) = action { Some(patch) } else { None })
}

fn record() -> &'static str {
    Driver::Gpu.traits().own_record
}

/// Returns the nodes that wait with this reason.
fn waiting<'a>(decision: &Decision, observed: &'a Observed, name: &str) -> Vec<&'a ObservedNode> {
    let of = |wait: &planner::reason::Wait| wait.reason.name() == name;
    decision
        .waits
        .iter()
        .filter(of)
        .filter_map(|wait| observed.nodes.get(wait.node.as_ref()?))
        .collect()
}

/// Starts nodes that wait with this reason, as the last started node was started.
fn starts(decision: &mut Decision, observed: &Observed, reason: &str) {
    let began = |patch: &&mut NodePatch| {
        patch.unschedulable == Some(true) && patch.annotations.contains_key(record())
    };
    let Some(started) = patches(decision).find(began).cloned() else { return };
    let Some(node) =
        waiting(decision, observed, reason).into_iter().find(|node| !node.unschedulable)
    else {
        return;
    };
    let patch = NodePatch {
        node: node.name.clone(),
        uid: node.uid.clone(),
        version: node.version.clone(),
        ..started
    };
    decision.actions.push(Action::PatchNode(patch));
}

fn delete_drivers(decision: &mut Decision, observed: &Observed, reason: &str) {
    for node in waiting(decision, observed, reason) {
        let container = Driver::Gpu.traits().container;
        let driver = observed.pods.iter().find(|pod| {
            pod.node.as_ref() == Some(&node.name) && pod.containers[0].name == container
        });
        let Some(pod) = driver else { continue };
        decision.actions.push(Action::DeleteDriver(PodDeletion {
            node: node.name.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        }));
    }
}

fn no_cordon(decision: &mut Decision, _: &Observed) {
    patches(decision)
        .filter(|patch| patch.unschedulable == Some(true))
        .for_each(|patch| patch.unschedulable = None);
}

fn no_record(decision: &mut Decision, _: &Observed) {
    patches(decision)
        .filter(|patch| patch.unschedulable == Some(true))
        .for_each(|patch| drop(patch.annotations.remove(record())));
}

fn one_too_many(decision: &mut Decision, observed: &Observed) {
    starts(decision, observed, "SlotsTaken");
}

fn forgets_who_is_unavailable(decision: &mut Decision, observed: &Observed) {
    starts(decision, observed, "TooManyUnavailable");
}

fn forgets_groups(decision: &mut Decision, observed: &Observed) {
    starts(decision, observed, "GroupBusy");
}

fn removes_foreign_cordons(decision: &mut Decision, observed: &Observed) {
    for node in observed
        .nodes
        .values()
        .filter(|node| node.unschedulable && !node.annotations.contains_key(record()))
    {
        decision.actions.push(Action::PatchNode(NodePatch {
            node: node.name.clone(),
            uid: node.uid.clone(),
            version: node.version.clone(),
            unschedulable: Some(false),
            ..NodePatch::default()
        }));
    }
}

fn never_finishes(decision: &mut Decision, _: &Observed) {
    let is_release = |action: &Action| match action {
        Action::PatchNode(patch) => patch.annotations.get(record()) == Some(&None),
        Action::Evict(_)
        | Action::DeleteDriver(_)
        | Action::ReplacePlugin { .. }
        | Action::CreateAcceptancePod(_)
        | Action::DeleteAcceptancePod(_)
        | Action::ReadTestLog(_) => false,
    };
    decision.actions.retain(|action| !is_release(action));
}

fn does_not_wait_for_pods(decision: &mut Decision, observed: &Observed) {
    delete_drivers(decision, observed, "Evicting");
}

fn deletes_current_drivers(decision: &mut Decision, observed: &Observed) {
    delete_drivers(decision, observed, "Validating");
}

fn replaces_plugins_again(decision: &mut Decision, observed: &Observed) {
    for node in waiting(decision, observed, "PluginNotReady") {
        let plugin = observed
            .dra
            .pods
            .iter()
            .find(|pod| pod.node.as_ref() == Some(&node.name) && !pod.deleting && !pod.ready);
        let Some(pod) = plugin else { continue };
        decision.actions.push(Action::ReplacePlugin {
            plugin: contract::record::ReplacedPodKind::Dra,
            node: node.name.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
            cause: "impatience".to_owned(),
        });
    }
}

fn evicts_itself(decision: &mut Decision, observed: &Observed) {
    for pod in observed.workloads.pods.values().flatten().filter(|pod| pod.name.ends_with("-hook"))
    {
        decision.actions.push(Action::Evict(PodEviction {
            node: pod.node.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        }));
    }
}

fn evicts_what_may_not_go(decision: &mut Decision, observed: &Observed) {
    for pod in observed
        .workloads
        .pods
        .values()
        .flatten()
        .filter(|pod| pod.controller.is_none() && pod.deleted_at.is_none())
    {
        decision.actions.push(Action::Evict(PodEviction {
            node: pod.node.clone(),
            namespace: pod.namespace.clone(),
            pod: pod.name.clone(),
            uid: pod.uid.clone(),
        }));
    }
}

fn says_nothing(decision: &mut Decision, _: &Observed) {
    decision.waits = Waits::default();
}

fn stands_still(decision: &mut Decision, _: &Observed) {
    decision.wake_at = decision.memory.started_at;
}

/// Releases nodes while a test runs on them with the new driver.
fn does_not_wait_for_tests(decision: &mut Decision, observed: &Observed) {
    let is_running = |pod: &&AcceptancePod| {
        pod.phase == AcceptancePhase::Running && pod.time == Some(AcceptanceTime::After)
    };
    for pod in observed.acceptance.iter().filter(is_running) {
        let Some(node) = observed.nodes.get(&pod.node).filter(|node| node.unschedulable) else {
            continue;
        };
        let mut patch = NodePatch::for_node(node);
        patch.annotations.insert(record().to_owned(), None);
        patch.unschedulable = Some(false);
        decision.actions.push(Action::PatchNode(patch));
    }
}

fn starts_tests_together(decision: &mut Decision, observed: &Observed) {
    for pod in &observed.acceptance {
        decision.actions.push(Action::CreateAcceptancePod(AcceptanceCreation {
            node: pod.node.clone(),
            test: pod.test.clone(),
            pod: format!("{}-again", pod.name),
            time: pod.time,
            deadline_seconds: 60,
            gpus: RequestedGpus::Nothing,
        }));
    }
}

fn leaves_test_pods(decision: &mut Decision, _: &Observed) {
    decision.actions.retain(|action| !matches!(action, Action::DeleteAcceptancePod(_)));
}

const MUTATIONS: [(&str, DecisionMutation); 18] = [
    ("no cordon", no_cordon),
    ("no record", no_record),
    ("one node too many", one_too_many),
    ("forgets who is unavailable", forgets_who_is_unavailable),
    ("forgets groups", forgets_groups),
    ("removes foreign cordons", removes_foreign_cordons),
    ("never finishes", never_finishes),
    ("does not wait for pods", does_not_wait_for_pods),
    ("deletes current drivers", deletes_current_drivers),
    ("replaces plugins again", replaces_plugins_again),
    ("evicts itself", evicts_itself),
    ("evicts what may not go", evicts_what_may_not_go),
    ("says nothing", says_nothing),
    ("stands still", stands_still),
    ("does not wait for tests", does_not_wait_for_tests),
    ("starts tests together", starts_tests_together),
    ("leaves test pods", leaves_test_pods),
    ("fails for nothing", |decision, _| {
        decision.actions.retain(|action| !matches!(action, Action::DeleteDriver(_)));
    }),
];

#[test]
fn every_broken_rule_is_found() {
    let mut missed = Vec::new();
    for (name, mutation) in MUTATIONS {
        let found = (0..SEEDS).find_map(|seed| {
            let mut setup = drawn(seed, 6);
            setup.mutation = Some(mutation);
            let report = simulate(&setup);
            wrong(&setup, &report).map(|wrong| (seed, wrong))
        });
        match found {
            Some((seed, wrong)) => {
                let first: String =
                    wrong.lines().next().unwrap_or_default().chars().take(150).collect();
                show(&format!("{name}: seed {seed}: {first}"));
            }
            None => missed.push(name),
        }
    }
    assert!(missed.is_empty(), "not found within {SEEDS} seeds: {missed:?}");
}

/// Returns the broken rules that a world with two nodes, one pod and one fault can detect.
pub(crate) fn for_search() -> impl Iterator<Item = (&'static str, DecisionMutation)> {
    // They need more faults than such a search allows, or tests. The seeds detect them.
    let about_more = [
        "forgets groups",
        "evicts itself",
        "evicts what may not go",
        "forgets who is unavailable",
        "deletes current drivers",
        "replaces plugins again",
        "does not wait for tests",
        "starts tests together",
        "leaves test pods",
    ];
    MUTATIONS.into_iter().filter(move |(name, _)| !about_more.contains(name))
}
