//! Checks of the cluster facts.

use super::RuleTarget;
use diagnostics::diagnostic::Diagnostic;

/// Several times the number of nodes that Kubernetes supports. A larger number is a typing mistake.
const MOST_NODES: u32 = 20_000;

/// Checks `cluster`.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let nodes = subject.recipe.cluster.gpu_nodes;
    if nodes == 0 || nodes > MOST_NODES {
        Diagnostic::error(format!("`cluster.gpuNodes` must be from 1 to {MOST_NODES}, found {nodes}"))
            .at(subject.place(&["cluster", "gpuNodes"]))
            .hint("set the largest number of GPU nodes that you expect (autoscaled clusters: the maximum); time budgets derive from it")
            .report(findings);
    }
}
