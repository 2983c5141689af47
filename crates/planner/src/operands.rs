//! The GPU Operator's operands other than driver and container toolkit: their DaemonSets, whether
//! their pods on a node are ready and have the newest revision, and whether the node offers GPUs.

use std::cell::OnceCell;
use std::collections::BTreeMap;

use jiff::Timestamp;

use contract::names;
use contract::operand::Operand;
use contract::record::baseline::NodeBaseline;
use contract::settings::{GatingOperands, Settings};

use super::baseline::shape;
use super::node::node_tainted;
use super::reason::{OperandName, Reason};
use super::rolling_update::UnreadyNodes;
use super::spec::operand_of;
use observed::{Observed, ObservedDaemonSet, ObservedNode, OperandPod, Views, newest};

/// Number of restarts from which a container that is not ready counts as failing, not as starting.
const FAILING_RESTARTS: i32 = 1;

/// The operands of a ClusterPolicy other than the driver.
#[derive(Debug)]
pub struct OperandSets<'a> {
    sets: Vec<OperandSet<'a>>,
    newest: BTreeMap<&'a str, &'a str>,
    pods: &'a Views<OperandPod>,
    observed: &'a Observed,
    /// Whether the operator's device plugin offers the GPUs.
    offers_gpus: bool,
}

/// A DaemonSet of the operator.
#[derive(Debug)]
struct OperandSet<'a> {
    daemon_set: &'a ObservedDaemonSet,
    operand: Option<Operand>,
    gates: bool,
    /// It is determined only when a pod with an older revision is found.
    unready: OnceCell<UnreadyNodes>,
}

impl<'a> OperandSets<'a> {
    /// Finds the DaemonSets that the ClusterPolicy owns. The driver's DaemonSets are assessed with
    /// the upgrade, and the toolkit's with them.
    pub fn new(observed: &'a Observed, settings: &Settings) -> Self {
        let policy = observed.live_cluster_policy();
        let all = settings.settle.operands == GatingOperands::All;
        let is_operand = |daemon_set: &&ObservedDaemonSet| {
            policy.is_some_and(|policy| daemon_set.owner.as_ref() == Some(&policy.uid))
                && !daemon_set.deleting
                && !has_template_label(daemon_set, names::DRIVER_COMPONENT)
                && !has_template_label(daemon_set, names::TOOLKIT_APP)
        };
        let set = |daemon_set| {
            let operand = operand_of(daemon_set);
            let gates = all || operand.is_some_and(|operand| operand.traits().gates);
            OperandSet { daemon_set, operand, gates, unready: OnceCell::new() }
        };
        let plugin = policy.and_then(|policy| policy.operands.get(&Operand::DevicePlugin));
        Self {
            sets: observed.daemon_sets.iter().filter(is_operand).map(set).collect(),
            newest: newest(&observed.revisions),
            pods: &observed.operand_pods,
            observed,
            offers_gpus: plugin.is_some_and(|plugin| plugin.enabled),
        }
    }

    /// Returns why a node is not done with its operands; `None` if those that gate are ready, and
    /// GPUs are offered. An operand that was failing before the run is returned only if there is no
    /// other reason to wait.
    pub fn fault(&self, node: &ObservedNode, baseline: Option<&NodeBaseline>) -> Option<Reason> {
        let mig = node
            .labels
            .get(names::MIG_CONFIG_STATE_LABEL)
            .filter(|state| matches!(state.as_str(), "pending" | "rebooting"));
        if let Some(state) = mig {
            return Some(Reason::MigReconfiguring { state: state.clone() });
        }
        let (before, gating): (Vec<_>, Vec<_>) =
            self.sets.iter().filter(|set| set.gates).partition(|set| {
                baseline.is_some_and(|baseline| baseline.failing.contains(&set.daemon_set.name))
            });
        let first = |sets: &[&OperandSet<'a>]| sets.iter().find_map(|set| self.fault_of(set, node));
        first(&gating).or_else(|| self.missing_gpus(node, baseline)).or_else(|| first(&before))
    }

    /// Returns whether a DaemonSet's pod on the node is ready.
    pub fn works(&self, node: &ObservedNode, daemon_set: &str) -> bool {
        let set = self.sets.iter().map(|set| set.daemon_set).find(|set| set.name == daemon_set);
        set.and_then(|set| self.pod(set, node)).is_some_and(|pod| pod.ready)
    }

    /// Returns why an operand that does not gate has a problem on a node.
    pub fn reported_fault(&self, node: &ObservedNode) -> Option<Reason> {
        self.sets.iter().filter(|set| !set.gates).find_map(|set| self.fault_of(set, node))
    }

    /// Returns the names of the DaemonSets whose pod on the node is failing, and was failing before
    /// a given time: the pod is older, or has an older revision.
    pub fn failing_since_before(
        &self,
        node: &ObservedNode,
        moment: Timestamp,
    ) -> impl Iterator<Item = &'a String> {
        let fails = move |set: &&OperandSet<'a>| {
            let Some(pod) = self.pod(set.daemon_set, node) else { return false };
            let fails = !pod.ready && pod.trouble.is_some() && pod.restarts >= FAILING_RESTARTS;
            fails && (pod.created < moment || !self.is_newest(set.daemon_set, pod))
        };
        self.sets
            .iter()
            .filter(fails)
            .map(|set| &set.daemon_set.name)
            .collect::<Vec<_>>()
            .into_iter()
    }

    fn fault_of(&self, set: &OperandSet<'a>, node: &ObservedNode) -> Option<Reason> {
        let daemon_set = set.daemon_set;
        let name = || OperandName { daemon_set: daemon_set.name.clone(), known: set.operand };
        match placement(daemon_set, node) {
            DaemonSetPlacement::Elsewhere => return None,
            DaemonSetPlacement::Unlabeled => return set.gates.then_some(Reason::NodeNotLabeled),
            DaemonSetPlacement::Here => {}
        }
        // An existing pod may stay; a new one cannot be scheduled because of the taint.
        let tainted = || node_tainted(daemon_set, node);
        let Some(pod) = self.pod(daemon_set, node) else {
            return Some(tainted().unwrap_or_else(|| Reason::OperandMissing { operand: name() }));
        };
        if !daemon_set.on_delete && !self.is_newest(daemon_set, pod) {
            if let Some(reason) = tainted() {
                return Some(reason);
            }
            let unready = set.unready.get_or_init(|| self.unready(daemon_set));
            let awaited = unready.awaited_before(&node.name);
            return Some(Reason::OperandOutdated { operand: name(), awaited });
        }
        if pod.ready {
            return None;
        }
        Some(Reason::OperandNotReady {
            operand: name(),
            trouble: pod.trouble.as_deref().map(str::to_owned),
            restarts: pod.restarts,
        })
    }

    /// Returns the pod that a DaemonSet keeps on a node.
    fn pod(&self, daemon_set: &ObservedDaemonSet, node: &ObservedNode) -> Option<&'a OperandPod> {
        self.pods.on(&node.name).find(|pod| *pod.owner == daemon_set.uid && !pod.deleting)
    }

    fn is_newest(&self, daemon_set: &ObservedDaemonSet, pod: &OperandPod) -> bool {
        let newest = self.newest.get(daemon_set.uid.as_str());
        newest.is_some_and(|newest| pod.revision.as_deref() == Some(*newest))
    }

    fn unready(&self, daemon_set: &ObservedDaemonSet) -> UnreadyNodes {
        let is_unready =
            |pod: &&OperandPod| *pod.owner == daemon_set.uid && (pod.deleting || !pod.ready);
        let places = self.pods.iter().filter(is_unready).filter_map(|pod| pod.node.as_deref());
        UnreadyNodes::new(self.observed, daemon_set, places)
    }

    /// Returns the problem with the GPUs that a node offers, if the operator's device plugin offers
    /// them.
    fn missing_gpus(&self, node: &ObservedNode, baseline: Option<&NodeBaseline>) -> Option<Reason> {
        let plugin = self.sets.iter().find(|set| set.operand == Some(Operand::DevicePlugin))?;
        if !self.offers_gpus
            || !matches!(placement(plugin.daemon_set, node), DaemonSetPlacement::Here)
        {
            return None;
        }
        if baseline.is_some_and(|baseline| baseline.failing.contains(&plugin.daemon_set.name)) {
            // The node offered none before.
            return None;
        }
        if node.gpus_allocatable.iter().all(|(_, count)| number(count) == 0) {
            return Some(Reason::GpusNotOffered);
        }
        let before = baseline.filter(|baseline| baseline.shape == shape(node))?;
        before.gpus.iter().find_map(|(resource, count)| {
            let (offered, baseline) = (
                node.gpus_allocatable.get(resource).map_or(0, |count| number(count)),
                number(count),
            );
            (offered < baseline).then(|| Reason::GpusDegraded {
                resource: resource.clone(),
                offered,
                baseline,
            })
        })
    }
}

/// Whether a DaemonSet needs a pod on a node.
enum DaemonSetPlacement {
    /// It needs a pod on the node.
    Here,
    /// It needs no pod on the node.
    Elsewhere,
    /// The operator has not labeled the node for it.
    Unlabeled,
}

fn placement(daemon_set: &ObservedDaemonSet, node: &ObservedNode) -> DaemonSetPlacement {
    for (key, value) in &daemon_set.node_selector {
        match node.labels.get(key) {
            Some(found) if found == value => {}
            // The pod still belongs there: driver-manager or mig-manager has temporarily removed
            // it.
            Some(found) if found.contains(names::DEPLOY_PAUSED) => {}
            None if key.starts_with(names::DEPLOY_LABEL_PREFIX) => {
                return DaemonSetPlacement::Unlabeled;
            }
            Some(_) | None => return DaemonSetPlacement::Elsewhere,
        }
    }
    DaemonSetPlacement::Here
}

fn has_template_label(daemon_set: &ObservedDaemonSet, (key, value): (&str, &str)) -> bool {
    daemon_set.template_labels.has(key, value)
}

/// A quantity of an extended resource is a whole number.
fn number(quantity: &str) -> u64 {
    quantity.parse().unwrap_or(0)
}
