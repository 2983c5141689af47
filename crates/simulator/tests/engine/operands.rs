//! Operands other than the driver. Device plugin, validator and toolkit gate success, others are
//! only reported, and nodes must offer their GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::count::Count;
use contract::exit::ExitCode;
use contract::names;
use contract::operand::Operand;
use contract::record::{NodeOutcome, Verdict};
use contract::settings::{GatingOperands, MissingGpus};
use observed::{
    ImageSpec, Labels, ObservedDaemonSet, ObservedRevision, ObservedTaint, OperandPod, OperandSpec,
};
use planner::decide::Decision;
use planner::reason::Reason;

use crate::fleet::{Fleet, at, named, reason_of, waits};

/// The operands of the fleet other than driver and toolkit, with the suffix of their node label.
const OPERANDS: [(Operand, &str); 3] = [
    (Operand::Validator, "operator-validator"),
    (Operand::DevicePlugin, "device-plugin"),
    (Operand::DcgmExporter, "dcgm-exporter"),
];
const GPU: &str = "nvidia.com/gpu";

fn labels(pairs: &[(&str, &str)]) -> Labels {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn image(operand: Operand) -> ImageSpec {
    let image = operand.traits().daemon_set.trim_start_matches("nvidia-").to_owned();
    ImageSpec {
        repository: Some("nvcr.io/nvidia".into()),
        image: Some(image),
        version: Some("v1".into()),
    }
}

/// Returns a fleet with all operands and eight GPUs on every node.
pub(crate) fn fleet(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(nodes);
    equip(&mut fleet);
    fleet
}

/// Adds the operands and eight GPUs to every node.
pub(crate) fn equip(fleet: &mut Fleet) {
    let nodes = fleet.observed.nodes.len();
    let chart = fleet.policy().labels["helm.sh/chart"].clone();
    for (operand, suffix) in OPERANDS {
        fleet
            .policy()
            .operands
            .insert(operand, OperandSpec { enabled: true, image: image(operand) });
        let name = operand.traits().daemon_set;
        let container = format!("nvcr.io/nvidia/{}:v1", image(operand).image.expect("an image"));
        fleet.observed.daemon_sets.push(ObservedDaemonSet {
            namespace: "gpu-operator".into(),
            name: name.into(),
            uid: name.into(),
            owner: Some("policy".into()),
            observed: true,
            desired: i32::try_from(nodes).expect("few nodes"),
            template_labels: labels(&[("app", name), ("helm.sh/chart", &chart)]),
            node_selector: labels(&[(&format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX), "true")]),
            images: BTreeMap::from([(name.to_owned(), container)]),
            ..ObservedDaemonSet::default()
        });
        fleet.observed.revisions.push(ObservedRevision {
            owner: name.into(),
            revision: 1,
            hash: "newest".into(),
        });
    }
    for index in 0..nodes {
        let node = format!("gpu-{index}");
        for (operand, suffix) in OPERANDS {
            fleet
                .node(&node)
                .labels
                .insert(format!("{}{suffix}", names::DEPLOY_LABEL_PREFIX), "true".into());
            fleet.observed.operand_pods.push(pod(operand, &node));
        }
        offers(fleet, &node, "8", "8");
    }
}

/// Returns a ready pod that is older than any deployment.
fn pod(operand: Operand, node: &str) -> OperandPod {
    OperandPod {
        owner: operand.traits().daemon_set.into(),
        node: Some(node.into()),
        revision: Some("newest".into()),
        created: at(-100_000),
        ready: true,
        ..OperandPod::default()
    }
}

pub(crate) fn change(
    fleet: &mut Fleet,
    operand: Operand,
    node: &str,
    change: impl FnOnce(&mut OperandPod),
) {
    let mine = |pod: &&mut OperandPod| {
        pod.node.as_deref() == Some(node) && *pod.owner == *operand.traits().daemon_set
    };
    change(
        fleet
            .observed
            .operand_pods
            .changed()
            .iter_mut()
            .map(Arc::make_mut)
            .find(mine)
            .expect("the pod"),
    );
}

pub(crate) fn remove(fleet: &mut Fleet, operand: Operand, node: &str) {
    fleet.observed.operand_pods.changed().retain(|pod| {
        pod.node.as_deref() != Some(node) || *pod.owner != *operand.traits().daemon_set
    });
}

pub(crate) fn offers(fleet: &mut Fleet, node: &str, allocatable: &str, capacity: &str) {
    let node = fleet.node(node);
    (node.gpus_allocatable, node.gpus_capacity) =
        (labels(&[(GPU, allocatable)]), labels(&[(GPU, capacity)]));
}

pub(crate) fn crashes(pod: &mut OperandPod) {
    (pod.ready, pod.restarts, pod.trouble) = (false, 7, Some("ctr: CrashLoopBackOff".into()));
}

fn works(pod: &mut OperandPod) {
    (pod.ready, pod.restarts, pod.trouble) = (true, 0, None);
}

/// Decides until the run ends, at most until its deadline.
pub(crate) fn ends(fleet: &mut Fleet) -> (Verdict, Decision) {
    let mut second = 0;
    loop {
        let decision = fleet.decide(second);
        if let Some(verdict) = decision.verdict.clone() {
            return (verdict, decision);
        }
        second += 1;
    }
}

/// Returns the reason of a node that offers 7 GPUs and had 8.
pub(crate) fn one_gpu_less() -> Reason {
    Reason::GpusDegraded { resource: GPU.into(), offered: 7, baseline: 8 }
}

#[test]
fn fleet_with_all_operands_settles() {
    let (verdict, decision) = ends(&mut fleet(2));
    assert_eq!((verdict.code, named(&verdict)), (ExitCode::Success, vec!["*:Settled".to_owned()]));
    assert!(decision.outcomes.values().all(|outcome| *outcome == NodeOutcome::Done));
}

/// Each gating operand, unready, missing, of an old revision: success waits for it and names it.
#[test]
fn gating_operand_not_current_blocks_success() {
    type Break = fn(&mut Fleet, Operand);
    let breaks: [(&str, Break); 3] = [
        ("OperandNotReady", |fleet, operand| {
            change(fleet, operand, "gpu-1", |pod| pod.ready = false)
        }),
        ("OperandMissing", |fleet, operand| remove(fleet, operand, "gpu-1")),
        ("OperandOutdated", |fleet, operand| {
            change(fleet, operand, "gpu-1", |pod| pod.revision = Some("old".into()))
        }),
    ];
    for operand in [Operand::Validator, Operand::DevicePlugin] {
        for (name, broken) in breaks {
            let mut fleet = fleet(2);
            broken(&mut fleet, operand);
            let decision = fleet.decide(0);
            assert_eq!(waits(&decision), [format!("gpu-1:{name}")], "{operand:?}");
            let found = decision.waits[0].reason.operand().expect("an operand");
            assert_eq!(found.known, Some(operand));
            let verdict = ends(&mut fleet).0;
            assert_eq!(
                (verdict.code, named(&verdict)),
                (ExitCode::Budget, vec![format!("gpu-1:{name}")]),
                "{operand:?}"
            );
        }
    }
}

/// Regression: all device plugins and validators were down, and the verdict was "settled: 2 of 2
/// nodes done".
#[test]
fn every_operand_down_is_never_success() {
    for operand in [Operand::Validator, Operand::DevicePlugin] {
        let mut fleet = fleet(2);
        for node in ["gpu-0", "gpu-1"] {
            // A long failure on every node is not a problem of single nodes that could be excused.
            change(&mut fleet, operand, node, crashes);
        }
        assert_eq!(ends(&mut fleet).0.code, ExitCode::Budget);
    }
}

#[test]
fn missing_daemon_set_of_operand_blocks_success() {
    for operand in [Operand::Validator, Operand::DevicePlugin, Operand::DcgmExporter] {
        let mut fleet = fleet(1);
        fleet
            .observed
            .daemon_sets
            .retain(|daemon_set| daemon_set.name != operand.traits().daemon_set);
        let decision = fleet.decide(0);
        assert!(
            matches!(&*decision.waits[0].reason, Reason::DaemonSetMissing { what } if *what == operand.traits().daemon_set)
        );
        fleet.policy().operands.get_mut(&operand).expect("an operand").enabled = false;
        assert!(fleet.decide(1).well, "what is switched off is not waited for");
    }
}

#[test]
fn stale_template_of_operand_blocks_success() {
    let mut fleet = fleet(1);
    fleet.policy().operands.get_mut(&Operand::DevicePlugin).expect("an operand").image.version =
        Some("v2".into());
    assert_eq!(waits(&fleet.decide(0)), ["*:SpecNotObserved"]);
}

#[test]
fn unready_exporter_is_reported_but_does_not_gate() {
    let mut fleet = fleet(2);
    change(&mut fleet, Operand::DcgmExporter, "gpu-1", crashes);
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(
        (verdict.code, named(&verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "*:OperandReported".to_owned()])
    );
    assert!(decision.notes.is_empty() && decision.waits.is_empty());
}

#[test]
fn exporter_gates_where_all_operands_do() {
    let mut fleet = fleet(2);
    fleet.settings.settle.operands = GatingOperands::All;
    change(&mut fleet, Operand::DcgmExporter, "gpu-1", |pod| pod.ready = false);
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:OperandNotReady"]);
}

fn assert_excused(verdict: &Verdict) {
    assert_eq!(
        (verdict.code, named(verdict)),
        (ExitCode::Success, vec!["*:Settled".to_owned(), "gpu-1:FailedBefore".to_owned()])
    );
}

#[test]
fn failure_from_before_the_run_never_gates() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    offers(&mut fleet, "gpu-1", "0", "0");
    let decision = fleet.decide(0);
    assert_eq!(decision.outcomes.get("gpu-1"), Some(&NodeOutcome::Deferred));
    let (verdict, decision) = ends(&mut fleet);
    assert_excused(&verdict);
    assert_eq!(
        decision.outcomes.values().filter(|outcome| **outcome == NodeOutcome::Deferred).count(),
        1
    );
}

/// An operand that was broken before must not hide one that broke since.
#[test]
fn excuse_of_one_operand_covers_no_other() {
    for (before, since) in
        [(Operand::Validator, Operand::DevicePlugin), (Operand::DevicePlugin, Operand::Validator)]
    {
        let mut fleet = fleet(2);
        change(&mut fleet, before, "gpu-1", crashes);
        fleet.pass(0);
        change(&mut fleet, since, "gpu-1", crashes);
        let (verdict, decision) = ends(&mut fleet);
        assert_eq!(verdict.code, ExitCode::Budget, "{}", verdict.message);
        assert_eq!(
            reason_of(&decision, "gpu-1").operand().and_then(|operand| operand.known),
            Some(since)
        );
    }
}

/// Regression: the excuse was lost as soon as the node waited for another operand.
#[test]
fn excuse_outlasts_what_else_is_waited_for() {
    for (before, meanwhile) in
        [(Operand::Validator, Operand::DevicePlugin), (Operand::DevicePlugin, Operand::Validator)]
    {
        let mut fleet = fleet(2);
        change(&mut fleet, before, "gpu-1", crashes);
        fleet.pass(0);
        change(&mut fleet, meanwhile, "gpu-1", |pod| pod.ready = false);
        fleet.pass(1);
        change(&mut fleet, meanwhile, "gpu-1", |pod| pod.ready = true);
        assert_excused(&ends(&mut fleet).0);
    }
}

/// A device plugin that was broken before the run offered no GPU then either.
#[test]
fn node_with_broken_plugin_before_owes_no_gpus() {
    let mut fleet = fleet(2);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    offers(&mut fleet, "gpu-1", "0", "8");
    assert_excused(&ends(&mut fleet).0);
}

#[test]
fn failure_of_new_revision_is_not_excused() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| {
        crashes(pod);
        pod.created = at(-60);
    });
    assert_eq!(ends(&mut fleet).0.code, ExitCode::Budget);
}

#[test]
fn operand_that_recovered_is_not_excused_again() {
    let mut fleet = fleet(3);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    fleet.pass(0);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", works);
    fleet.pass(1);
    fleet.pass(61);
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", crashes);
    assert_eq!(waits(&fleet.decide(62)), ["gpu-1:OperandNotReady"]);
}

/// Regression: a container without a probe is briefly ready at each start, and the excuse was lost
/// at the first one.
#[test]
fn crash_loop_with_ready_moments_stays_excused() {
    let mut fleet = fleet(3);
    // Another node keeps the run from ending.
    change(&mut fleet, Operand::DevicePlugin, "gpu-2", |pod| pod.ready = false);
    for second in 0..900 {
        change(
            &mut fleet,
            Operand::DevicePlugin,
            "gpu-1",
            if second % 300 == 299 { works } else { crashes },
        );
        fleet.pass(second);
    }
    assert_eq!(waits(&fleet.decide(900)), ["gpu-2:OperandNotReady"]);
}

#[test]
fn node_without_gpus_blocks_success() {
    for gpus in [labels(&[(GPU, "0")]), labels(&[])] {
        let mut fleet = fleet(2);
        fleet.node("gpu-1").gpus_allocatable = gpus;
        assert_eq!(waits(&fleet.decide(0)), ["gpu-1:GpusNotOffered"]);
        assert_eq!(ends(&mut fleet).0.code, ExitCode::NodesFailed);
    }
}

#[test]
fn gpu_that_died_is_reported_or_fails() {
    for (setting, code) in
        [(MissingGpus::Report, ExitCode::Success), (MissingGpus::Fail, ExitCode::NodesFailed)]
    {
        let mut fleet = fleet(2);
        fleet.settings.settle.gpus_missing = setting;
        fleet.pass(0);
        offers(&mut fleet, "gpu-1", "7", "7");
        let (verdict, decision) = ends(&mut fleet);
        assert_eq!(verdict.code, code, "{}", verdict.message);
        assert_eq!(*reason_of(&decision, "gpu-1"), one_gpu_less());
    }
}

#[test]
fn other_mig_layout_has_no_baseline() {
    let mut fleet = fleet(2);
    fleet.pass(0);
    let node = fleet.node("gpu-1");
    node.labels.insert("nvidia.com/mig.config".into(), "all-1g.10gb".into());
    node.gpus_allocatable = labels(&[("nvidia.com/mig-1g.10gb", "56")]);
    assert_eq!(ends(&mut fleet).0.code, ExitCode::Success);
}

#[test]
fn mig_reconfiguration_is_a_wait() {
    let mut fleet = fleet(2);
    for state in ["pending", "rebooting"] {
        fleet.node("gpu-1").labels.insert(names::MIG_CONFIG_STATE_LABEL.into(), state.into());
        assert_eq!(waits(&fleet.decide(0)), ["gpu-1:MigReconfiguring"]);
    }
    fleet.node("gpu-1").labels.insert(names::MIG_CONFIG_STATE_LABEL.into(), "success".into());
    assert!(fleet.decide(1).well);
}

#[test]
fn paused_operand_is_still_waited_for() {
    let mut fleet = fleet(2);
    let label = format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX);
    fleet.node("gpu-1").labels.insert(label, "paused-for-driver-upgrade".into());
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:OperandMissing"]);
}

#[test]
fn unlabeled_node_is_not_done() {
    let mut fleet = fleet(2);
    fleet.node("gpu-1").labels.remove(&format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX));
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:NodeNotLabeled"]);
}

#[test]
fn disabled_operand_on_node_is_not_awaited() {
    let mut fleet = fleet(2);
    fleet
        .node("gpu-1")
        .labels
        .insert(format!("{}device-plugin", names::DEPLOY_LABEL_PREFIX), "false".into());
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    offers(&mut fleet, "gpu-1", "0", "0");
    assert!(fleet.decide(0).well);
}

/// With `daemonsets.updateStrategy: OnDelete`, no controller replaces the old pods, so they only
/// need to be ready.
#[test]
fn operand_on_delete_needs_ready_only() {
    let mut fleet = fleet(2);
    for daemon_set in fleet
        .observed
        .daemon_sets
        .iter_mut()
        .filter(|daemon_set| daemon_set.name == "nvidia-device-plugin-daemonset")
    {
        daemon_set.on_delete = true;
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| pod.revision = Some("old".into()));
    assert!(fleet.decide(0).well);
}

#[test]
fn untolerated_taint_is_named_and_does_not_hang() {
    let mut fleet = fleet(2);
    fleet.node("gpu-1").taints.push(ObservedTaint {
        key: "team".into(),
        value: "a".into(),
        effect: "NoSchedule".into(),
    });
    remove(&mut fleet, Operand::DevicePlugin, "gpu-1");
    assert_eq!(waits(&fleet.decide(0)), ["gpu-1:NodeTainted"]);
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
    assert_eq!(decision.outcomes["gpu-1"], NodeOutcome::Deferred);
}

/// Regression: dropped tolerations, or a taint on the whole pool, were handled as problems of
/// single nodes, and the verdict was "settled: 0 of 2 nodes done".
#[test]
fn taint_of_every_node_is_not_deferred() {
    let mut fleet = fleet(2);
    for node in ["gpu-0", "gpu-1"] {
        fleet.node(node).taints.push(ObservedTaint {
            key: "team".into(),
            value: "a".into(),
            effect: "NoSchedule".into(),
        });
        remove(&mut fleet, Operand::DevicePlugin, node);
    }
    let (verdict, decision) = ends(&mut fleet);
    assert_eq!(verdict.code, ExitCode::Budget, "{}", verdict.message);
    let Reason::NodeTainted { taint, .. } = reason_of(&decision, "gpu-1") else {
        panic!("{}", verdict.message)
    };
    assert_eq!(taint, "team=a:NoSchedule");
}

/// A node that is down blocks a rolling update with `maxUnavailable: 1`. Tolerating it also covers
/// the nodes after it.
#[test]
fn tolerated_node_covers_the_roll_it_stalls() {
    let mut fleet = fleet(3);
    fleet.settings.tolerate_not_ready = Count::Number(1);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        change(&mut fleet, Operand::DevicePlugin, node, |pod| pod.revision = Some("old".into()));
    }
    change(&mut fleet, Operand::DevicePlugin, "gpu-0", |pod| pod.revision = Some("newest".into()));
    fleet.node("gpu-1").ready = false;
    fleet.node("gpu-1").ready_since = Some(at(-5000));
    change(&mut fleet, Operand::DevicePlugin, "gpu-1", |pod| {
        (pod.deleting, pod.ready) = (true, false)
    });
    let pod = fleet.driver_pod("gpu-1");
    pod.ready = false;
    let decision = fleet.decide(0);
    let stalled = decision
        .waits
        .iter()
        .chain(&decision.ended)
        .find(|wait| wait.node.as_deref() == Some("gpu-2"))
        .expect("gpu-2 waits");
    assert!(
        matches!(&*stalled.reason, Reason::OperandOutdated { stalled_by: Some(node), .. } if node == "gpu-1"),
        "{stalled}"
    );
    let verdict = ends(&mut fleet).0;
    assert_eq!(verdict.code, ExitCode::Success, "{}", verdict.message);
}
