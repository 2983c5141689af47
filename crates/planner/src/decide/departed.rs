//! Nodes of the run that were removed from the cluster.

use std::collections::BTreeSet;

use jiff::Timestamp;

use crate::memory::RunMemory;
use contract::record::NodeOutcome;
use observed::Observed;

/// Records their outcome. `changed`: the nodes that have changed; if absent, all nodes are examined.
pub(super) fn note(
    memory: &mut RunMemory,
    observed: &Observed,
    changed: Option<&BTreeSet<String>>,
    now: Timestamp,
) {
    let of_record = || memory.nodes.keys().map(ToString::to_string).collect::<Vec<_>>();
    let names: Vec<String> =
        changed.map_or_else(of_record, |changed| changed.iter().cloned().collect());
    for name in names {
        let node = observed.nodes.get(&name);
        if node.is_none() {
            memory.waiting.remove(&name);
            memory.waiting_apart.remove(&name);
            memory.testing.remove(&name);
            memory.ready.remove(&name);
            memory.outdated.remove(&name);
        }
        let is_gone = memory.nodes.get(&name).is_some_and(|record| {
            let there = node.is_some_and(|node| node.uid == record.uid);
            !there && record.outcome != Some(NodeOutcome::Gone)
        });
        if is_gone && let Some(record) = memory.nodes.get_mut(&name) {
            (record.outcome, record.reason, record.since) =
                (Some(NodeOutcome::Gone), None, Some(now));
            for replacement in record.replaced.values_mut() {
                replacement.back_at.get_or_insert(now);
            }
        }
    }
    if changed.is_none() {
        let nodes = &observed.nodes;
        memory.waiting.retain(|name, _| nodes.contains_key(name));
        memory.waiting_apart.retain(|name, _| nodes.contains_key(name));
        memory.testing.retain(|name, _| nodes.contains_key(name));
        memory.ready.retain(|name, _| nodes.contains_key(name));
        memory.outdated.retain(|name, _| nodes.contains_key(name));
    }
}
