//! What the last decision found of each node. A node of which nothing has changed since is at rest: what was found of it still holds, and it
//! is not judged again. This changes what a decision costs, and nothing of what it says: the same memory without it comes to the same.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use jiff::Timestamp;

use crate::memory::RunMemory;
use crate::node::lacking;
use crate::reason::Reason;
use crate::upgrade::throttle::ThrottledNode;
use contract::record::NodeOutcome;
use contract::settings::Settings;
use nvidia_upgrade::snapshot::Roll;
use observed::named::Named;
use observed::{Observed, ObservedDevicePlugin, ObservedDra, ObservedNode, ObservedPod, OptionalApi, Views, workload};

/// What the last decision found, beside what it remembers. Two of them are always equal.
#[derive(Clone, Default)]
pub struct Rest(Option<Arc<Last>>);

impl PartialEq for Rest {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Rest {}

impl fmt::Debug for Rest {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Rest")
    }
}

/// What a node came to.
#[expect(clippy::struct_excessive_bools, reason = "facts that have nothing to do with one another")]
#[derive(Clone, Debug)]
pub(super) struct Standing {
    /// It needs the driver.
    pub(super) has_driver: bool,
    /// It is one of those that are judged.
    pub(super) listed: bool,
    /// The run is about it.
    pub(super) is_member: bool,
    /// It keeps the driver of its own image.
    pub(super) own_driver: bool,
    /// Judged again it would do nothing, and come to the same.
    pub(super) rests: bool,
    /// When it has to be judged again though nothing has changed.
    pub(super) moment: Timestamp,
    /// What it waits for apart from its upgrade, where the vendor's controller acts.
    pub(super) left: Option<Arc<Reason>>,
    /// What it waits for.
    pub(super) reason: Option<Arc<Reason>>,
    /// What it is to the others.
    pub(super) driven: Driven,
}

/// What a node is to the upgrades of the others, and what has become of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Driven {
    /// What limits see of it. `None`: they do not count it.
    pub(super) member: Option<ThrottledNode>,
    /// It failed, and is not tried again.
    pub(super) given_up: bool,
    /// It may be started; how often it has been before.
    pub(super) candidate: Option<u32>,
    /// It is being upgraded.
    pub(super) in_progress: bool,
    /// How it ended.
    pub(super) outcome: Option<NodeOutcome>,
    /// Since when it waits for this kind of reason.
    pub(super) waits: Option<(&'static str, Timestamp)>,
}

/// The last decision.
pub(super) struct Last {
    settings: Arc<Settings>,
    /// What was observed, as far as nodes at rest depend on it.
    observed: Observed,
    /// What it remembered.
    memory: RunMemory,
    /// The deadline was over.
    over: bool,
    pub(super) standings: Named<Standing>,
    pub(super) outcomes: Named<NodeOutcome>,
    /// Nodes with a plugin that is not back.
    pub(super) open: BTreeSet<Arc<str>>,
    /// Stale pods of the device plugin were restarted.
    pub(super) restarts: bool,
    /// What the vendor's controller sees of the nodes, where it was asked for.
    pub(super) roll: Option<Roll>,
}

/// The last decision, and what has changed since then.
pub(super) struct Since<'a> {
    pub(super) last: &'a Last,
    /// The nodes of which something has.
    pub(super) changed: BTreeSet<&'a str>,
}

impl Rest {
    /// What may be taken from the last decision. `None`: something has changed that concerns all nodes.
    pub(super) fn since<'a>(
        &'a self,
        observed: &'a Observed,
        settings: &Settings,
        memory: &'a RunMemory,
        now: Timestamp,
    ) -> Option<Since<'a>> {
        let last = self.0.as_deref()?;
        let same = *last.settings == *settings
            && last.over == (now >= memory.deadline)
            && is_same_run(&last.memory, memory)
            && is_same_fleet(&last.observed, observed)
            && (last.has_counts_of(observed) || lacking(&last.observed, settings.driver) == lacking(observed, settings.driver));
        same.then(|| Since { last, changed: last.changed(observed, memory) })
    }

    /// Of the decision that ends with this memory.
    pub(super) fn of(
        before: &Self,
        settings: &Settings,
        (observed, memory, now): (&Observed, &RunMemory, Timestamp),
        (standings, outcomes, open, restarts): (Named<Standing>, Named<NodeOutcome>, BTreeSet<Arc<str>>, bool),
        roll: Option<Roll>,
    ) -> Self {
        let known = before.0.as_ref().map(|last| &last.settings).filter(|known| ***known == *settings);
        Self(Some(Arc::new(Last {
            settings: known.map_or_else(|| Arc::new(settings.clone()), Arc::clone),
            observed: thin(observed),
            memory: memory.without_rest(),
            over: now >= memory.deadline,
            standings,
            outcomes,
            open,
            restarts,
            roll,
        })))
    }
}

impl Since<'_> {
    /// The node as it was.
    pub(super) fn before(&self, name: &str) -> Option<&ObservedNode> {
        self.last.observed.nodes.get(name)
    }
}

impl Last {
    /// Whether what is counted of all nodes and pods is the same without counting.
    fn has_counts_of(&self, observed: &Observed) -> bool {
        let stays = |name: &&Arc<str>| self.observed.nodes.contains_key(name) && observed.nodes.contains_key(name);
        self.observed.pods.is_same(&observed.pods) && self.observed.nodes.differing(&observed.nodes).iter().all(stays)
    }

    fn changed<'a>(&'a self, observed: &'a Observed, memory: &'a RunMemory) -> BTreeSet<&'a str> {
        let mut changed = self.memory.differing(memory);
        changed.extend(self.observed.nodes.differing(&observed.nodes).into_iter().map(|name| &**name));
        for (before, now) in lists(&self.observed).into_iter().zip(lists(observed)) {
            changed.extend(before.differing(now).into_iter().filter_map(|pod| pod.node.as_deref()));
        }
        let operand_pods = self.observed.operand_pods.differing(&observed.operand_pods);
        changed.extend(operand_pods.into_iter().filter_map(|pod| pod.node.as_deref()));
        if let (OptionalApi::Served(before), OptionalApi::Served(now)) = (&self.observed.dra.slices, &observed.dra.slices) {
            changed.extend(before.differing(now).into_iter().map(|slice| slice.node.as_str()));
        }
        changed
    }
}

/// Lists of which a node depends on what is on it.
fn lists(observed: &Observed) -> [&Views<ObservedPod>; 4] {
    [&observed.pods, &observed.dra.pods, &observed.device_plugin.pods, &observed.validators]
}

/// Whether what is remembered of no node in particular, and nodes depend on, is the same. What is remembered of evictions is only looked at
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

/// Whether what concerns all nodes is the same. Workloads are only looked at for nodes that are being upgraded, which are never at rest;
/// a NodeMaintenance keeps others from being started.
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
        // Whether the operator leads is asked before any node is judged.
        operator_pods: _,
        operator_lease: _,
        dra,
        device_plugin,
        validators: _,
        workloads,
        pauses,
    } = before;
    let ObservedDra { namespaces, daemon_sets: dra_daemon_sets, pods: _, slices } = dra;
    let ObservedDevicePlugin { config, daemon_sets: plugin_daemon_sets, revisions: plugin_revisions, pods: _ } = device_plugin;
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
fn thin(observed: &Observed) -> Observed {
    let maintenances = observed.workloads.maintenances.clone();
    Observed {
        nodes: observed.nodes.clone(),
        operator: observed.operator.clone(),
        cluster_policy: observed.cluster_policy.clone(),
        nic_cluster_policy: observed.nic_cluster_policy.clone(),
        nvidia_drivers: observed.nvidia_drivers.clone(),
        daemon_sets: observed.daemon_sets.clone(),
        revisions: observed.revisions.clone(),
        pods: observed.pods.clone(),
        operand_pods: observed.operand_pods.clone(),
        operator_pods: Vec::new(),
        operator_lease: None,
        dra: observed.dra.clone(),
        device_plugin: observed.device_plugin.clone(),
        validators: observed.validators.clone(),
        workloads: workload::Workloads { maintenances, ..workload::Workloads::default() },
        pauses: observed.pauses.clone(),
    }
}
