//! Checks of the cluster facts.

use super::RuleTarget;
use diagnostics::diagnostic::Diagnostic;

/// The maximum of `cluster.gpuNodes`: several times the number of nodes that Kubernetes supports. A
/// larger number is a typing mistake.
pub const MOST_NODES: u32 = 20_000;

/// Checks `cluster`.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let nodes = subject.recipe.cluster.gpu_nodes;
    if nodes == 0 || nodes > MOST_NODES {
        wrong_number(&nodes.to_string())
            .at(subject.place(&["cluster", "gpuNodes"]))
            .report(findings);
    }
}

/// Returns the error for a `cluster.gpuNodes` that is not a possible number of nodes.
pub(crate) fn wrong_number(found: &str) -> Diagnostic {
    Diagnostic::error(format!("`cluster.gpuNodes` must be from 1 to {MOST_NODES}, found {found}"))
        .hint("set the largest number of GPU nodes that you expect (autoscaled clusters: the maximum); time budgets derive from it")
}
