//! Nodes in the controller's snapshot, and the results of a pass.

use contract::driver::Driver;
use contract::policy::Policy;
use jiff::Timestamp;
use nvidia_upgrade::pass::{PassOptions, PassOutcome, PassWrite, pass};
use nvidia_upgrade::snapshot::{NodeEntry, PodRevision, SnapshotDriverPod, UpgradeSnapshot};
use nvidia_upgrade::throttle::{self, UpgradeSlots};
use nvidia_upgrade::{ControllerGeneration, ControllerState, PolicyRules};

/// Returns the slot counts for these nodes.
pub(crate) fn slots(entries: &[NodeEntry<'_>], policy: &Policy) -> UpgradeSlots {
    throttle::slots(
        &UpgradeSnapshot { entries: entries.to_vec(), ..UpgradeSnapshot::default() },
        policy,
    )
}

/// The current time in all of these tests, in Unix seconds.
pub(crate) const NOW: i64 = 1_800_000_000;

/// Returns a schedulable, Ready node with a ready driver pod of the newest revision.
pub(crate) fn node(name: &'static str, state: ControllerState) -> NodeEntry<'static> {
    NodeEntry {
        node: name,
        state,
        label: state.label(),
        ready: Some(true),
        pod: SnapshotDriverPod {
            namespace: "gpu-operator",
            name: "driver",
            uid: "driver",
            running: true,
            containers_ready: true,
            ..SnapshotDriverPod::default()
        },
        ..NodeEntry::default()
    }
}

/// Returns the same node with a driver pod of an older revision.
pub(crate) fn old(name: &'static str, state: ControllerState) -> NodeEntry<'static> {
    with(node(name, state), |entry| entry.pod.revision = PodRevision::Older)
}

/// Returns the same node with a driver pod without owner.
pub(crate) fn orphaned(name: &'static str, state: ControllerState) -> NodeEntry<'static> {
    with(node(name, state), |entry| entry.pod.revision = PodRevision::Orphaned)
}

pub(crate) fn with(
    mut entry: NodeEntry<'static>,
    change: impl FnOnce(&mut NodeEntry<'static>),
) -> NodeEntry<'static> {
    change(&mut entry);
    entry
}

pub(crate) fn cordoned(entry: NodeEntry<'static>) -> NodeEntry<'static> {
    with(entry, |entry| entry.unschedulable = true)
}

pub(crate) fn snapshot(
    entries: impl IntoIterator<Item = NodeEntry<'static>>,
) -> UpgradeSnapshot<'static> {
    UpgradeSnapshot {
        driver: Driver::Gpu,
        entries: entries.into_iter().collect(),
        ..UpgradeSnapshot::default()
    }
}

pub(crate) fn options() -> PassOptions {
    PassOptions::new(ControllerGeneration::Gpu26_7, Timestamp::from_second(NOW).expect("a time"))
}

/// Enables a policy.
pub(crate) fn enabled(policy: Policy) -> PolicyRules {
    PolicyRules { auto_upgrade: true, policy, ..PolicyRules::default() }
}

/// Returns a policy without limits, and with chart defaults otherwise.
pub(crate) fn rules() -> PolicyRules {
    enabled(Policy { max_parallel_upgrades: 0, max_unavailable: None, ..Policy::default() })
}

/// Runs a pass over these nodes.
pub(crate) fn run(entries: impl IntoIterator<Item = NodeEntry<'static>>) -> PassOutcome {
    pass(&snapshot(entries), &rules(), &options())
}

/// Returns the state that a pass gave a node.
pub(crate) fn state_of(outcome: &PassOutcome, node: &str) -> Option<ControllerState> {
    let states = outcome.writes.iter().rev().filter(|write| write.node() == node);
    states.into_iter().find_map(|write| {
        if let PassWrite::State { state, .. } = write { Some(*state) } else { None }
    })
}

/// Returns the writes of a pass as text.
pub(crate) fn writes(outcome: &PassOutcome) -> Vec<String> {
    assert_eq!(outcome.error, None);
    outcome.writes.iter().map(PassWrite::to_string).collect()
}

/// Returns the writes of a pass over one node.
pub(crate) fn one(entry: NodeEntry<'static>) -> Vec<String> {
    writes(&run([entry]))
}
