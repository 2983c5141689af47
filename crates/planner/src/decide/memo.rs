//! The memo of the last decision about the nodes. A node that has not changed since then need not
//! be assessed again. This changes the cost of a decision, and never its result.

use std::collections::BTreeSet;
use std::sync::Arc;

use jiff::Timestamp;

use crate::memory::RunMemory;
use crate::node::lacking;
use crate::reason::Reason;
use contract::record::NodeOutcome;
use contract::settings::Settings;
use observed::named::Named;
use observed::{
    Observed, ObservedDevicePlugin, ObservedDra, ObservedPod, OptionalApi, Views, workload,
};

use super::assess::NodeAssessment;
use super::emit::outcome::NodeEnding;
use super::modes::observe::ControllerView;

/// The last decision: its inputs and its results.
pub(super) struct Memo {
    /// Its inputs, …
    pub(super) settings: Arc<Settings>,
    /// … as far as nodes depend on them.
    pub(super) observed: Observed,
    pub(super) memory: RunMemory,
    pub(super) is_over: bool,
    pub(super) restarts: bool,
    /// Nodes without actions and without changes of their record.
    pub(super) nodes: Named<KnownNode>,
    pub(super) outcomes: Named<NodeOutcome>,
    /// The view of NVIDIA's controller, if it was needed.
    pub(super) controller: Option<ControllerView>,
}

/// The results for a node.
#[derive(Clone)]
pub(super) struct KnownNode {
    pub(super) needs_driver: bool,
    /// `None`: the node does not belong to the run.
    pub(super) found: Option<(Arc<NodeAssessment>, NodeEnding)>,
    /// The reason for which it waited apart from its upgrade.
    pub(super) left: Option<Arc<Reason>>,
    /// Until when the results are valid if nothing changes.
    pub(super) until: Timestamp,
}

/// The results of the last decision that are still valid.
pub(super) struct Unchanged<'a> {
    pub(super) memo: &'a Memo,
    /// The nodes that have changed.
    pub(super) changed: BTreeSet<String>,
    now: Timestamp,
}

impl<'a> Unchanged<'a> {
    /// Returns the nodes that have not changed, sorted by name.
    pub(super) fn nodes(&self) -> impl Iterator<Item = (&'a Arc<str>, &'a KnownNode)> {
        let mut changed = self.changed.iter().map(String::as_str).peekable();
        let is_changed = move |name: &str| {
            while changed.next_if(|changed| *changed < name).is_some() {}
            changed.next_if(|changed| *changed == name).is_some()
        };
        let (mut is_changed, now) = (is_changed, self.now);
        self.memo.nodes.iter().filter(move |(name, node)| !is_changed(name) && node.until > now)
    }
}

impl Memo {
    /// Returns the results that are still valid; `None` if something has changed that concerns all
    /// nodes.
    pub(super) fn unchanged<'a>(
        &'a self,
        observed: &Observed,
        settings: &Settings,
        memory: &RunMemory,
        now: Timestamp,
    ) -> Option<Unchanged<'a>> {
        let same = *self.settings == *settings
            && self.is_over == (now >= memory.deadline)
            && is_same_run(&self.memory, memory)
            && is_same_fleet(&self.observed, observed)
            && (self.has_counts_of(observed)
                || lacking(&self.observed, settings.driver) == lacking(observed, settings.driver));
        same.then(|| Unchanged { memo: self, changed: self.changed(observed, memory), now })
    }

    /// Returns whether counts over all nodes and pods are unchanged, without counting.
    fn has_counts_of(&self, observed: &Observed) -> bool {
        let stays = |name: &&Arc<str>| {
            self.observed.nodes.contains_key(name) && observed.nodes.contains_key(name)
        };
        self.observed.pods.is_same(&observed.pods)
            && self.observed.nodes.differing(&observed.nodes).iter().all(stays)
    }

    fn changed(&self, observed: &Observed, memory: &RunMemory) -> BTreeSet<String> {
        let mut changed = self.memory.differing(memory);
        changed
            .extend(self.observed.nodes.differing(&observed.nodes).into_iter().map(|name| &**name));
        for (before, now) in lists(&self.observed).into_iter().zip(lists(observed)) {
            changed.extend(before.differing(now).into_iter().filter_map(|pod| pod.node.as_deref()));
        }
        let operand_pods = self.observed.operand_pods.differing(&observed.operand_pods);
        changed.extend(operand_pods.into_iter().filter_map(|pod| pod.node.as_deref()));
        if let (OptionalApi::Served(before), OptionalApi::Served(now)) =
            (&self.observed.dra.slices, &observed.dra.slices)
        {
            changed.extend(before.differing(now).into_iter().map(|slice| slice.node.as_str()));
        }
        changed.into_iter().map(str::to_owned).collect()
    }
}

/// Returns the lists of objects of which a node depends only on its own.
fn lists(observed: &Observed) -> [&Views<ObservedPod>; 4] {
    [&observed.pods, &observed.dra.pods, &observed.device_plugin.pods, &observed.validators]
}

/// Returns whether the parts of the memory that concern all nodes are unchanged. The history of
/// evictions is only read for nodes that are being upgraded.
fn is_same_run(before: &RunMemory, now: &RunMemory) -> bool {
    before.started_at == now.started_at
        && before.cohort == now.cohort
        && before.taken_over_at == now.taken_over_at
        && before.deadline == now.deadline
        && before.configs == now.configs
        && before.issued == now.issued
        && before.own == now.own
        && before.baseline == now.baseline
}

/// Returns whether the observed state that concerns all nodes is unchanged. Workloads are only read
/// for a node that is being upgraded, whose memo is not kept; a NodeMaintenance keeps others from
/// starting.
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
        && *cluster_policy == now.cluster_policy
        && *nic_cluster_policy == now.nic_cluster_policy
        && *nvidia_drivers == now.nvidia_drivers
        && *daemon_sets == now.daemon_sets
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

/// Returns the part of the observed state that the memo keeps.
pub(super) fn thin(observed: &Observed) -> Observed {
    let maintenances = observed.workloads.maintenances.clone();
    Observed {
        operator_pods: Vec::new(),
        operator_lease: None,
        workloads: workload::Workloads { maintenances, ..workload::Workloads::default() },
        ..observed.clone()
    }
}
