//! The pods that must leave a node before its driver is replaced, and the obstacles. All of it is
//! computed from the current pods, and nothing is remembered, so that a new process continues where
//! the previous one stopped.

use contract::record::VerdictReason;

use observed::workload::Workload;

pub mod budgets;
pub mod device_users;
pub mod eviction_retry;
pub mod filter;
pub mod plan;

#[cfg(test)]
pub(crate) mod fixture;
#[cfg(test)]
mod tests;

/// Maximum number of nodes whose pods are watched at once.
pub const FOCUS_LIMIT: usize = 100;

/// Maximum number of objects that a message names.
const NAMED: usize = 5;

/// Returns `namespace/name` of a pod.
pub fn full_name(pod: &Workload) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// Returns the first names with a reason, for programs.
pub fn verdict_reasons(nodes: &[String], reason: &str) -> Vec<VerdictReason> {
    nodes.iter().take(NAMED).map(|node| VerdictReason::new(Some(node), reason)).collect()
}

/// Returns the first names, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
