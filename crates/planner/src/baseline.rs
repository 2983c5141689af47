//! Takes the baseline of a run: which operands are failing already, and how many GPUs each node has.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::names;
use contract::record::baseline::{Baseline, NodeBaseline};

use super::operands::OperandSets;
use observed::{Observed, ObservedNode};

/// A pod of the newest revision counts as failing before the run only if it is older than this: it may be what this deployment brought. Both
/// times are the API server's.
const BROUGHT_BY_DEPLOYMENT: SignedDuration = SignedDuration::from_mins(30);

/// Takes down the fleet as it is. `nodes`: those that need the driver; `at`: when the run began; `earlier`: the baseline of a run before that did not
/// succeed. What that run has broken was not there before: nodes that it knew keep their entries.
pub fn take_baseline<'a>(
    observed: &Observed,
    operands: &OperandSets<'_>,
    nodes: impl Iterator<Item = &'a ObservedNode>,
    at: Timestamp,
    earlier: Option<&Baseline>,
) -> Baseline {
    let brought = at.saturating_sub(BROUGHT_BY_DEPLOYMENT).unwrap_or(Timestamp::MIN);
    let mut baseline = Baseline::default();
    // Nodes that are alike share an entry.
    let mut entries: BTreeSet<Arc<NodeBaseline>> = BTreeSet::new();
    for node in nodes {
        let shape = shape(node);
        let mut entry = NodeBaseline {
            gpus: node
                .gpus_capacity
                .iter()
                .map(|(resource, count)| (resource.to_owned(), count.to_owned()))
                .collect(),
            failing: operands.failing_since_before(node, brought).cloned().collect(),
            shape,
        };
        if let Some(earlier) = earlier.and_then(|earlier| earlier.get(&node.uid)) {
            entry.failing.clone_from(&earlier.failing);
            if entry.shape == earlier.shape {
                entry.gpus.clone_from(&earlier.gpus);
            }
        }
        let entry = entries.get(&entry).cloned().unwrap_or_else(|| Arc::new(entry));
        entries.insert(Arc::clone(&entry));
        baseline.insert(&node.uid, entry);
    }
    // A fault of every node is not a fault of nodes: what works nowhere cannot be left out.
    let everywhere =
        |daemon_set: &&String| baseline.entries().all(|node| node.failing.contains(*daemon_set));
    let names: Vec<&String> =
        observed.daemon_sets.iter().map(|daemon_set| &daemon_set.name).filter(everywhere).collect();
    for entry in baseline.entries_mut() {
        if names.iter().any(|name| entry.failing.contains(*name)) {
            Arc::make_mut(entry).failing.retain(|failing| !names.contains(&failing));
        }
    }
    baseline
}

/// The labels of a node that decide how many GPUs it offers.
pub fn shape(node: &ObservedNode) -> BTreeMap<String, String> {
    let label = |key: &&str| Some(((*key).to_owned(), node.labels.get(*key)?.clone()));
    names::GPU_SHAPE_LABELS.iter().filter_map(label).collect()
}
