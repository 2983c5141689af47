//! The memo of the last decision about the nodes. A node that has not changed since then need not
//! be assessed again. This changes the cost of a decision, and never its result.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::memory::RunMemory;
use crate::node::lacking;
use contract::settings::Settings;
use observed::{
    ClusterPolicy, Observed, ObservedDaemonSet, ObservedDevicePlugin, ObservedDra, ObservedPod,
    OptionalApi, Views, workload,
};

use super::kept_nodes::KeptNodes;
use super::modes::observe::ControllerMemo;
use super::schedule::starts::StartQueue;

/// The last decision: its inputs and its results.
#[derive(Clone)]
pub(super) struct Memo {
    /// Its inputs, …
    pub(super) settings: Arc<Settings>,
    /// … as far as nodes depend on them.
    pub(super) observed: Observed,
    pub(super) memory: RunMemory,
    pub(super) is_over: bool,
    pub(super) restarts: bool,
    /// The results for nodes.
    pub(super) kept: KeptNodes,
    /// Why candidates were not started, if there were any.
    pub(super) queue: Option<StartQueue>,
    /// The view of NVIDIA's controller, if it was needed.
    pub(super) controller: Option<ControllerMemo>,
}

/// The results of the last decision that are still valid.
pub(super) struct Unchanged {
    pub(super) memo: Memo,
    /// The nodes that have changed.
    pub(super) changed: BTreeSet<String>,
}

/// The parts of the last decision that only the end of this one needs.
pub(super) struct LastDecision {
    pub(super) settings: Arc<Settings>,
    pub(super) observed: Observed,
    /// The nodes that have changed.
    pub(super) changed: BTreeSet<String>,
}

impl Memo {
    /// Returns the results that are still valid; `None` if something has changed that concerns all
    /// nodes.
    pub(super) fn unchanged(
        self,
        observed: &Observed,
        settings: &Settings,
        memory: &RunMemory,
        now: Timestamp,
    ) -> Option<Unchanged> {
        let same = *self.settings == *settings
            && self.is_over == (now >= memory.deadline)
            && is_same_run(&self.memory, memory)
            && is_same_fleet(&self.observed, observed)
            && (self.has_counts_of(observed)
                || lacking(&self.observed, settings.driver) == lacking(observed, settings.driver));
        if !same {
            return None;
        }
        let changed = self.changed(observed, memory);
        Some(Unchanged { memo: self, changed })
    }

    /// Returns whether counts over all nodes and pods are unchanged, without counting.
    fn has_counts_of(&self, observed: &Observed) -> bool {
        let stays = |name: &&Arc<str>| {
            self.observed.nodes.contains_key(name) && observed.nodes.contains_key(name)
        };
        self.observed.daemon_sets == observed.daemon_sets
            && self.observed.pods.is_same(&observed.pods)
            && self.observed.nodes.differing(&observed.nodes).iter().all(stays)
    }

    fn changed(&self, observed: &Observed, memory: &RunMemory) -> BTreeSet<String> {
        let mut changed = self.memory.differing(memory);
        changed
            .extend(self.observed.nodes.differing(&observed.nodes).into_iter().map(|name| &**name));
        for (before, now) in lists(&self.observed).into_iter().zip(lists(observed)) {
            changed.extend(before.differing_nodes(now).into_iter().map(|name| &**name));
        }
        let operand_pods = self.observed.operand_pods.differing_nodes(&observed.operand_pods);
        changed.extend(operand_pods.into_iter().map(|name| &**name));
        let acceptance = self.observed.acceptance.differing_nodes(&observed.acceptance);
        changed.extend(acceptance.into_iter().map(|name| &**name));
        if let (OptionalApi::Served(before), OptionalApi::Served(now)) =
            (&self.observed.dra.slices, &observed.dra.slices)
        {
            changed.extend(before.differing_nodes(now).into_iter().map(|name| &**name));
        }
        // Pods whose node is not known are not a node's.
        changed.into_iter().filter(|name| !name.is_empty()).map(str::to_owned).collect()
    }
}

/// Returns the lists of objects of which a node depends only on its own.
fn lists(observed: &Observed) -> [&Views<ObservedPod>; 4] {
    [&observed.pods, &observed.dra.pods, &observed.device_plugin.pods, &observed.validators]
}

/// Returns whether the parts of the memory that concern all nodes are unchanged. The history of
/// evictions is only read for nodes whose results are then not kept.
fn is_same_run(before: &RunMemory, now: &RunMemory) -> bool {
    before.started_at == now.started_at
        && before.cohort == now.cohort
        && before.taken_over_at == now.taken_over_at
        && before.deadline == now.deadline
        && before.configs == now.configs
        && before.own == now.own
        && before.baseline == now.baseline
        && before.accepted == now.accepted
}

/// Returns whether the observed state that concerns all nodes is unchanged. Workloads are only read
/// for a node whose results are then not kept; a NodeMaintenance keeps others from starting.
fn is_same_fleet(before: &Observed, now: &Observed) -> bool {
    let Observed {
        nodes: _,
        operator,
        cluster_policy,
        nic_cluster_policy,
        nvidia_drivers,
        daemon_sets,
        revisions,
        pods: _,
        operand_pods: _,
        // The leader is checked before any node is assessed.
        operator_pods: _,
        operator_lease: _,
        dra,
        device_plugin,
        validators: _,
        workloads,
        acceptance: _,
        pauses,
    } = before;
    let ObservedDra { namespaces, daemon_sets: dra_daemon_sets, pods: _, slices } = dra;
    let ObservedDevicePlugin {
        config,
        daemon_sets: plugin_daemon_sets,
        revisions: plugin_revisions,
        pods: _,
    } = device_plugin;
    *operator == now.operator
        && is_same_policy(cluster_policy, &now.cluster_policy)
        && *nic_cluster_policy == now.nic_cluster_policy
        && *nvidia_drivers == now.nvidia_drivers
        && are_same_apart_from_counts(daemon_sets, &now.daemon_sets)
        && *revisions == now.revisions
        && *namespaces == now.dra.namespaces
        && *dra_daemon_sets == now.dra.daemon_sets
        && slices.served().is_some() == now.dra.slices.served().is_some()
        && *config == now.device_plugin.config
        && *plugin_daemon_sets == now.device_plugin.daemon_sets
        && *plugin_revisions == now.device_plugin.revisions
        && workloads.maintenances == now.workloads.maintenances
        && *pauses == now.pauses
}

/// Returns whether the DaemonSets of the operator are the same apart from the numbers of their nodes.
/// During an upgrade, each node leaves the DaemonSets of all operands and returns to them. Nodes
/// depend on these numbers only through the driver pods that are missing ([`lacking`]), and through
/// the limit of a rolling update: a node behind one is examined in every decision.
fn are_same_apart_from_counts(before: &[ObservedDaemonSet], now: &[ObservedDaemonSet]) -> bool {
    before.len() == now.len()
        && before.iter().zip(now).all(|(before, now)| before.is_same_apart_from_counts(now))
}

/// Returns whether the ClusterPolicy is the same apart from its status, which is checked before any
/// node is assessed.
fn is_same_policy(
    before: &OptionalApi<Option<ClusterPolicy>>,
    now: &OptionalApi<Option<ClusterPolicy>>,
) -> bool {
    match (before.served(), now.served()) {
        (Some(Some(before)), Some(Some(now))) => before.is_same_apart_from_status(now),
        (Some(before), Some(now)) => before.is_none() && now.is_none(),
        (before, now) => before.is_none() && now.is_none(),
    }
}

/// Returns the part of the observed state that the memo keeps. `before`: the kept part of a state
/// in which everything that concerns all nodes is the same.
pub(super) fn thin(observed: &Observed, before: Option<Observed>) -> Observed {
    let Some(mut before) = before else {
        let maintenances = observed.workloads.maintenances.clone();
        return Observed {
            operator_pods: Vec::new(),
            operator_lease: None,
            workloads: workload::Workloads { maintenances, ..workload::Workloads::default() },
            ..observed.clone()
        };
    };
    if before.daemon_sets != observed.daemon_sets {
        before.daemon_sets.clone_from(&observed.daemon_sets);
    }
    Observed {
        nodes: observed.nodes.clone(),
        pods: observed.pods.clone(),
        operand_pods: observed.operand_pods.clone(),
        validators: observed.validators.clone(),
        acceptance: observed.acceptance.clone(),
        dra: ObservedDra {
            pods: observed.dra.pods.clone(),
            slices: observed.dra.slices.clone(),
            ..before.dra
        },
        device_plugin: ObservedDevicePlugin {
            pods: observed.device_plugin.pods.clone(),
            ..before.device_plugin
        },
        ..before
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use contract::task::Task;

    use super::super::Planner;
    use super::*;

    /// Each node that was upgraded left the DaemonSets of all operands, and every decision assessed
    /// all nodes: processor time grew with the square of the fleet.
    #[test]
    fn results_outlive_counts_of_operands() {
        let settings = Settings { tasks: vec![Task::Reroll], ..Settings::default() };
        let now = Timestamp::UNIX_EPOCH;
        let operand = |desired, generation| Observed {
            daemon_sets: vec![ObservedDaemonSet {
                desired,
                generation,
                ..ObservedDaemonSet::default()
            }],
            ..Observed::default()
        };
        let mut planner = Planner::default();
        let memory = RunMemory::new(now, now + Duration::from_hours(1));
        let memory = planner.decide(&operand(1_000, 1), &settings, &memory, now).memory;
        let outlive = |observed: &Observed| {
            let memo = Option::clone(&planner.memo).expect("nodes were assessed");
            memo.unchanged(observed, &settings, &memory, now).is_some()
        };
        assert!(outlive(&operand(1_000, 1)), "nothing has changed");
        assert!(outlive(&operand(999, 1)), "a node has left");
        assert!(!outlive(&operand(0, 1)), "a DaemonSet without nodes is another thing");
        assert!(!outlive(&operand(999, 2)), "another template");
    }
}
