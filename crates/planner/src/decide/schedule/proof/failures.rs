//! The nodes on which the driver has failed. One that leaves the cluster after that still counts as
//! a failed proof: it cannot be retried, and another node would get the same driver.

use std::collections::BTreeMap;

use contract::record::proof::{DriverFailures, DriverProof};

use crate::decide::run_nodes::RunNodes;

/// Notes the nodes on which the driver has failed in this deployment.
pub(super) fn note(nodes: &RunNodes<'_>, proof: &mut DriverProof) {
    let (fleet, digest) = (nodes.fleet, &nodes.fleet.settings.digest);
    let known = std::mem::take(&mut proof.failures);
    let mut failed: BTreeMap<String, String> =
        if known.digest == *digest { known.nodes } else { BTreeMap::new() };
    // The record of a node that is there says whether it still counts.
    failed.retain(|name, uid| is_gone(nodes, name, uid));
    let examined = nodes.listed.iter().filter(|node| node.assessment.upgrade.has_failed_driver);
    let names = nodes.kept.sums.failed_drivers.iter().chain(examined.map(|node| node.name));
    let uids = names.filter_map(|name| fleet.observed.nodes.get(name).map(|node| (name, node)));
    failed.extend(uids.map(|(name, node)| (name.to_string(), node.uid.clone())));
    if !failed.is_empty() {
        proof.failures = DriverFailures { digest: digest.clone(), nodes: failed };
    }
}

/// Returns the nodes on which the driver failed before they left the cluster.
pub(super) fn departed<'p>(
    nodes: &'p RunNodes<'_>,
    proof: &'p DriverProof,
) -> impl Iterator<Item = &'p str> {
    let failed = proof.failures.nodes.iter();
    failed.filter(move |(name, uid)| is_gone(nodes, name, uid)).map(|(name, _)| name.as_str())
}

/// Returns whether a node is no longer in the cluster. A node that is created again under the same
/// name is another one.
fn is_gone(nodes: &RunNodes<'_>, name: &str, uid: &str) -> bool {
    nodes.fleet.observed.nodes.get(name).is_none_or(|node| node.uid != uid)
}
