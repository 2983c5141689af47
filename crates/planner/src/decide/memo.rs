//! What was found of the nodes when it was last decided. A node of which nothing has changed since need not be assessed again. This changes what a
//! decision costs, and nothing of what it says.

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

/// The last decision: what it was made from, and what it found.
pub(super) struct Memo {
    /// What it was made from, …
    pub(super) settings: Arc<Settings>,
    /// … as far as nodes depend on it.
    pub(super) observed: Observed,
    pub(super) memory: RunMemory,
    pub(super) is_over: bool,
    pub(super) restarts: bool,
    /// Nodes for which nothing is to be done, and of which nothing was written down.
    pub(super) nodes: Named<KnownNode>,
    pub(super) outcomes: Named<NodeOutcome>,
    /// What NVIDIA's controller sees, where it was asked for.
    pub(super) controller: Option<ControllerView>,
}

/// What was found of a node.
#[derive(Clone)]
pub(super) struct KnownNode {
    pub(super) needs_driver: bool,
    /// `None`: the run is not about it.
    pub(super) found: Option<(Arc<NodeAssessment>, NodeEnding)>,
    /// What it waited for apart from its upgrade.
    pub(super) left: Option<Arc<Reason>>,
    /// Until when it holds, if nothing changes.
    pub(super) until: Timestamp,
}

/// What holds of the last decision.
pub(super) struct Unchanged<'a> {
    pub(super) memo: &'a Memo,
    /// The nodes of which something has changed.
    pub(super) changed: BTreeSet<String>,
    now: Timestamp,
}

impl<'a> Unchanged<'a> {
    /// The nodes of which nothing has changed, in the order of their names.
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
    /// What holds of it. `None`: something has changed that concerns all nodes.
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

    /// Whether what is counted of all nodes and pods is the same without counting.
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

/// Lists of which a node depends on what is on it.
fn lists(observed: &Observed) -> [&Views<ObservedPod>; 4] {
    [&observed.pods, &observed.dra.pods, &observed.device_plugin.pods, &observed.validators]
}

/// Whether what is remembered of no node in particular, and nodes depend on, is the same. What is remembered of evictions is only read
/// for nodes that are being upgraded.
fn is_same_run(before: &RunMemory, now: &RunMemory) -> bool {
    before.started_at == now.started_at
        && before.cohort == now.cohort
        && before.taken_up == now.taken_up
        && before.deadline == now.deadline
        && before.configs == now.configs
        && before.issued == now.issued
        && before.own == now.own
        && before.baseline == now.baseline
}

/// Whether what concerns all nodes is the same. Workloads are only read for a node that is being upgraded, after
/// which it is not known; a NodeMaintenance keeps others from being started.
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
        // Whether the operator leads is asked before any node is assessed.
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

/// What is kept of it.
pub(super) fn thin(observed: &Observed) -> Observed {
    let maintenances = observed.workloads.maintenances.clone();
    Observed {
        operator_pods: Vec::new(),
        operator_lease: None,
        workloads: workload::Workloads { maintenances, ..workload::Workloads::default() },
        ..observed.clone()
    }
}
