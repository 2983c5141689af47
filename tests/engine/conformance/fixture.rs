//! Nodes as the controller sees them, and what a pass makes of them.

use gpu_rollout::contract::driver::Driver;
use gpu_rollout::contract::policy::Policy;
use gpu_rollout::rollout::vendor::pass::{Options, PassOutcome, Write, pass};
use gpu_rollout::rollout::vendor::snapshot::{DriverPod, Entry, Revision, Snapshot};
use gpu_rollout::rollout::vendor::throttle::{self, Slots};
use gpu_rollout::rollout::vendor::{Generation, Rules, State};
use jiff::Timestamp;

/// The numbers for these nodes.
pub(crate) fn slots(entries: &[Entry<'_>], policy: &Policy) -> Slots {
    throttle::slots(&Snapshot { entries: entries.to_vec(), ..Snapshot::default() }, policy)
}

/// What time it is in all of these tests: so many Unix seconds.
pub(crate) const NOW: i64 = 1_800_000_000;

/// A schedulable, Ready node with a driver pod of the newest revision that is up.
pub(crate) fn node(name: &'static str, state: State) -> Entry<'static> {
    Entry {
        node: name,
        state,
        label: state.label(),
        ready: Some(true),
        pod: DriverPod {
            namespace: "gpu-operator",
            name: "driver",
            uid: "driver",
            running: true,
            containers_ready: true,
            ..DriverPod::default()
        },
        ..Entry::default()
    }
}

/// The same with a driver pod of an older revision.
pub(crate) fn old(name: &'static str, state: State) -> Entry<'static> {
    with(node(name, state), |entry| entry.pod.revision = Revision::Older)
}

/// The same with a driver pod without owner.
pub(crate) fn orphaned(name: &'static str, state: State) -> Entry<'static> {
    with(node(name, state), |entry| entry.pod.revision = Revision::Orphaned)
}

pub(crate) fn with(mut entry: Entry<'static>, change: impl FnOnce(&mut Entry<'static>)) -> Entry<'static> {
    change(&mut entry);
    entry
}

pub(crate) fn cordoned(entry: Entry<'static>) -> Entry<'static> {
    with(entry, |entry| entry.unschedulable = true)
}

pub(crate) fn snapshot(entries: impl IntoIterator<Item = Entry<'static>>) -> Snapshot<'static> {
    Snapshot { driver: Driver::Gpu, entries: entries.into_iter().collect(), ..Snapshot::default() }
}

pub(crate) fn options() -> Options {
    Options::of(Generation::Gpu26_7, Timestamp::from_second(NOW).expect("a time"))
}

/// No limits; chart defaults otherwise.
pub(crate) fn rules() -> Rules {
    Rules::on(Policy { max_parallel_upgrades: 0, max_unavailable: None, ..Policy::default() })
}

/// What a pass makes of these nodes.
pub(crate) fn run(entries: impl IntoIterator<Item = Entry<'static>>) -> PassOutcome {
    pass(&snapshot(entries), &rules(), &options())
}

/// What a pass writes, as text.
pub(crate) fn writes(outcome: &PassOutcome) -> Vec<String> {
    assert_eq!(outcome.error, None);
    outcome.writes.iter().map(Write::to_string).collect()
}

/// What a pass writes about one node.
pub(crate) fn one(entry: Entry<'static>) -> Vec<String> {
    writes(&run([entry]))
}
