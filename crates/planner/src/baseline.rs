//! Takes the baseline of a run: the operands that are already failing, and the number of GPUs of
//! each node.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use contract::names;
use contract::record::baseline::{Baseline, NodeBaseline};

use super::operands::OperandSets;
use observed::{Observed, ObservedNode};

/// A pod of the newest revision counts as failing before the run only if it is older than this:
/// this deployment may have created a newer pod. Both times are the API server's.
const BROUGHT_BY_DEPLOYMENT: SignedDuration = SignedDuration::from_mins(30);

/// Takes the baseline of the fleet. `nodes`: those that need the driver; `at`: start of the run;
/// `earlier`: the baseline of a previous run that did not succeed. Failures that the previous run
/// caused did not exist before it: nodes in its baseline keep their entries.
pub fn take_baseline<'a>(
    observed: &Observed,
    operands: &OperandSets<'_>,
    nodes: impl Iterator<Item = &'a ObservedNode>,
    at: Timestamp,
    earlier: Option<&Baseline>,
) -> Baseline {
    let brought = at.saturating_sub(BROUGHT_BY_DEPLOYMENT).unwrap_or(Timestamp::MIN);
    let mut baseline = Baseline::default();
    // Equal nodes share an entry.
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
    // A failure on every node is not a failure of single nodes: an operand that works nowhere must
    // not be excused.
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

/// Returns the labels of a node that decide how many GPUs it offers.
pub fn shape(node: &ObservedNode) -> BTreeMap<String, String> {
    let label = |key: &&str| Some(((*key).to_owned(), node.labels.get(*key)?.clone()));
    names::GPU_SHAPE_LABELS.iter().filter_map(label).collect()
}
