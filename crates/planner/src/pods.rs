//! Which pods must leave a node before its driver is replaced, and what stands in the way. All of it is computed again from the pods as they
//! are: nothing is remembered, so that whoever starts again goes on where another one stopped.

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

/// How many nodes' pods can be followed at once.
pub const FOCUS_LIMIT: usize = 100;

/// How many objects a text names before it only counts the rest.
const NAMED: usize = 5;

/// A pod as people and machines know it: `namespace/name`.
pub fn full_name(pod: &Workload) -> String {
    format!("{}/{}", pod.namespace, pod.name)
}

/// The same names with a reason, for programs.
pub fn verdict_reasons(nodes: &[String], reason: &str) -> Vec<VerdictReason> {
    nodes.iter().take(NAMED).map(|node| VerdictReason::new(Some(node), reason)).collect()
}

/// The first names, and how many more there are.
pub fn listed(names: &[String]) -> String {
    let shown = names.iter().take(NAMED).cloned().collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMED) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}
