//! How long a pass of NVIDIA's controller takes. Its requests follow each other: a pass reads every
//! node with a driver pod again, and waits for each of its writes.
//!
//! A list takes longer after a write, also after a write of others. The API server answers it from
//! its cache (Kubernetes 1.31 and later) when etcd has confirmed that the cache is current, for
//! which the API server asks ten times per second at most.

use std::time::Duration;

use super::pass::PassWrite;
use super::snapshot::SnapshotReads;
use super::state::ControllerState;

/// The time of a read. Measured with 100 nodes on a real API server: 2.3 ms in the server for a
/// node, and less than 5 ms for seven of eight lists of ControllerRevisions.
const READ: Duration = Duration::from_millis(3);
/// The time of a write with the read that follows it. The traces in `tests/data/traces` show it
/// between two nodes that make the same step.
pub const WRITE: Duration = Duration::from_millis(14);
/// The time between two confirmations of etcd. The traces show it between two nodes if the step
/// starts with a list.
pub const CONFIRMATION: Duration = Duration::from_millis(100);
/// How often each kubelet renews its Lease: the most frequent write of a cluster without changes.
const LEASE_RENEWAL: Duration = Duration::from_secs(10);

/// Returns the time of a pass. `nodes`: the number of all nodes of the cluster.
pub fn pass_time(reads: SnapshotReads, nodes: usize, writes: &[PassWrite]) -> Duration {
    let SnapshotReads { pods, lists } = reads;
    // Those of DaemonSets and pods.
    let first = 2;
    let requests = times(READ, first + pods + lists) + times(WRITE, writes.len());
    let own = writes.iter().filter(|write| lists_before_write(write)).count();
    // The next pass starts with a list, too.
    let own = own.max(usize::from(!writes.is_empty()));
    // A confirmation comes when it is due, whatever is read before, so the times are not added.
    requests.max(times(CONFIRMATION, own + stalled(lists, nodes)))
}

/// Returns how many of the lists wait because a kubelet wrote: those during which, or shortly
/// before, one of the Leases is renewed. Integers, so that the result is the same on every machine.
fn stalled(lists: usize, nodes: usize) -> usize {
    let milliseconds = |duration: Duration| usize::try_from(duration.as_millis()).unwrap_or(0);
    let read = nodes.saturating_mul(milliseconds(READ));
    lists.saturating_mul(read) / (read + milliseconds(LEASE_RENEWAL))
}

fn times(duration: Duration, count: usize) -> Duration {
    duration.saturating_mul(u32::try_from(count).unwrap_or(u32::MAX))
}

/// Returns whether the controller lists objects for the node before this write.
fn lists_before_write(write: &PassWrite) -> bool {
    match write {
        PassWrite::State { state, .. } => lists_before(*state),
        PassWrite::DeletePod { .. } => true,
        PassWrite::Annotate { .. }
        | PassWrite::Cordon { .. }
        | PassWrite::Uncordon { .. }
        | PassWrite::Evict { .. }
        | PassWrite::Drain { .. }
        | PassWrite::CreateMaintenance { .. }
        | PassWrite::JoinMaintenance { .. }
        | PassWrite::LeaveMaintenance { .. }
        | PassWrite::DeleteMaintenance { .. } => false,
    }
}

/// Returns whether the controller lists objects for a node before it sets this state: the newest
/// ControllerRevision, or the pods of the validator. Source: k8s-operator-libs, package upgrade, of
/// gpu-operator v26.3 and v26.7.
pub fn lists_before(state: ControllerState) -> bool {
    use ControllerState::{
        CordonRequired, Done, DrainRequired, Failed, NodeMaintenanceRequired, PodDeletionRequired,
        PodRestartRequired, PostMaintenanceRequired, UncordonRequired, Unknown, Unrecognized,
        UpgradeRequired, ValidationRequired, WaitForJobsRequired,
    };
    match state {
        UpgradeRequired | ValidationRequired | UncordonRequired | Failed => true,
        // Not exact for `Done`: the controller lists before it if the node is new.
        Unknown
        | CordonRequired
        | WaitForJobsRequired
        | PodDeletionRequired
        | DrainRequired
        | NodeMaintenanceRequired
        | PostMaintenanceRequired
        | PodRestartRequired
        | Done
        | Unrecognized => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(state: ControllerState) -> PassWrite {
        PassWrite::State { node: "n".into(), state }
    }

    #[test]
    fn lists_and_reads_determine_the_time_of_a_pass() {
        use ControllerState::{CordonRequired, UpgradeRequired};
        let reads = |pods, lists| SnapshotReads { pods, lists };
        for (what, reads, nodes, writes, expected) in [
            ("nothing to do", reads(3, 3), 3, vec![], 24),
            ("a step of one node", reads(3, 2), 3, vec![state(CordonRequired)], 100),
            ("several nodes start", reads(10, 0), 10, vec![state(CordonRequired); 10], 176),
            (
                "several nodes are outdated",
                reads(10, 10),
                10,
                vec![state(UpgradeRequired); 10],
                1000,
            ),
            ("half of a large fleet", reads(1000, 500), 1000, vec![state(CordonRequired)], 11_600),
        ] {
            let time = pass_time(reads, nodes, &writes);
            assert_eq!(time, Duration::from_millis(expected), "{what}");
        }
    }
}
