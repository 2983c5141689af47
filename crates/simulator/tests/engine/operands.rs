//! Operands other than the driver. Device plugin, validator and toolkit gate success, others are
//! only reported, and nodes must offer their GPUs.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::names;
use contract::operand::Operand;
use contract::record::Verdict;
use observed::{ImageSpec, Labels, ObservedDaemonSet, ObservedRevision, OperandPod, OperandSpec};
use planner::decide::Decision;
use planner::reason::Reason;

use crate::fleet::{Fleet, at};

mod excuses;
mod gates;
mod gpus;
mod nodes;

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
            .edit()
            .iter_mut()
            .map(Arc::make_mut)
            .find(mine)
            .expect("the pod"),
    );
}

pub(crate) fn remove(fleet: &mut Fleet, operand: Operand, node: &str) {
    fleet.observed.operand_pods.edit().retain(|pod| {
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
