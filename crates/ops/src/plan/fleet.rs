//! The fleet at the start of a simulated run.

use std::collections::BTreeMap;

use observed::workload::Workload;
use planner::node::{DriverOperands, driver_nodes};
use simulator::found_fleet::{FoundFleet, FoundNode, FoundPod};

use super::change::{DriverChanges, NodeStep};
use super::{PlanInput, ProposedDeployment};

/// The controller kind of pods that stay on their node.
const DAEMON_SET: &str = "DaemonSet";

/// Collects the nodes that have a driver, and the pods on them.
pub(super) fn find_fleet(
    input: PlanInput<'_>,
    proposed: &ProposedDeployment,
    changes: &DriverChanges,
) -> FoundFleet {
    let PlanInput { snapshot, pods, gpus, assumed, .. } = input;
    let has_driver =
        |name: &str| changes.steps.get(name).is_some_and(|step| *step != NodeStep::First);
    let pods: Vec<FoundPod> = pods
        .iter()
        .filter(|pod| has_driver(&pod.node) && !is_operand(pod, input, proposed))
        .map(|pod| FoundPod::new(pod, takes(pod, gpus.pods.get(&pod.uid).copied()), snapshot.now))
        .collect();
    let mut taken: BTreeMap<&str, usize> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| !pod.workload.phase.is_finished()) {
        *taken.entry(&pod.workload.node).or_default() += pod.gpus;
    }
    // A node whose number of GPUs is unknown gets the largest known number, or else the largest
    // number in use.
    let most =
        gpus.nodes.values().copied().max().or_else(|| taken.values().copied().max()).unwrap_or(0);
    let room = |name: &str| {
        gpus.nodes.get(name).copied().unwrap_or(most).max(taken.get(name).copied().unwrap_or(0))
    };
    let operands = DriverOperands::new(&snapshot.observed, snapshot.settings.driver);
    let nodes = driver_nodes(&snapshot.observed, snapshot.settings.driver)
        .filter(|node| has_driver(&node.name))
        .map(|node| {
            let step = changes.steps[&node.name];
            let mut fleet_node =
                FoundNode::new(node, room(&node.name), step > NodeStep::First, snapshot.now);
            if operands.tainted(node).is_none() {
                // The live driver tolerates the node's taints, but the model's DaemonSets tolerate
                // none.
                fleet_node.node.taints.clear();
            }
            FoundNode { same_config: step == NodeStep::RestartOnly, ..fleet_node }
        })
        .collect();
    let workloads = &snapshot.observed.workloads;
    FoundFleet {
        nodes,
        budgets: workloads.budgets.clone(),
        claims: workloads.claims.clone(),
        job_time: assumed.jobs,
        pods,
    }
}

/// Returns how many GPUs a pod uses. A pod that uses GPUs through a ResourceClaim counts as one
/// GPU.
fn takes(pod: &Workload, named: Option<usize>) -> usize {
    named.unwrap_or_else(|| usize::from(!pod.claims.is_empty()))
}

/// Returns whether the pod belongs to a DaemonSet of the operator or the DRA driver, which the
/// model already contains.
fn is_operand(pod: &Workload, input: PlanInput<'_>, proposed: &ProposedDeployment) -> bool {
    let of_daemon_set =
        pod.controller.as_ref().is_some_and(|controller| controller.kind == DAEMON_SET);
    let namespaces = &input.snapshot.observed.dra.namespaces;
    let here =
        |settings: &contract::settings::Settings| pod.namespace == settings.operator_namespace;
    of_daemon_set
        && (here(&input.snapshot.settings)
            || here(&proposed.settings)
            || namespaces.contains(&pod.namespace))
}
