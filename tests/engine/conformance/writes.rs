//! A state of the whole machine: one step a node and pass, and only steps that there are.

use gpu_rollout::contract::count::Count;
use gpu_rollout::contract::driver::Driver;
use gpu_rollout::contract::policy::{Drain, PodDeletion, Policy, WaitForCompletion};
use gpu_rollout::rollout::vendor::pass::{Requestor, Write};
use gpu_rollout::rollout::vendor::snapshot::{DriverPod, Entry, Maintenance, Notes, Revision, Snapshot, Validator};
use gpu_rollout::rollout::vendor::{Generation, Options, Rules, State, pass};
use proptest::prelude::*;
use proptest::sample::select;

use super::fixture::{options, slots};

/// Every step that a pass can make of itself; background tasks and people make others.
const EDGES: [(State, State); 25] = [
    (State::Unknown, State::Done),
    (State::Unknown, State::UpgradeRequired),
    (State::Done, State::UpgradeRequired),
    (State::UpgradeRequired, State::CordonRequired),
    (State::UpgradeRequired, State::PodRestartRequired),
    (State::UpgradeRequired, State::NodeMaintenanceRequired),
    (State::CordonRequired, State::WaitForJobsRequired),
    (State::WaitForJobsRequired, State::PodDeletionRequired),
    (State::WaitForJobsRequired, State::DrainRequired),
    (State::PodDeletionRequired, State::DrainRequired),
    (State::DrainRequired, State::PodRestartRequired),
    (State::NodeMaintenanceRequired, State::PodRestartRequired),
    (State::NodeMaintenanceRequired, State::UpgradeRequired),
    (State::PodRestartRequired, State::ValidationRequired),
    (State::PodRestartRequired, State::UncordonRequired),
    (State::PodRestartRequired, State::Done),
    (State::PodRestartRequired, State::Failed),
    (State::ValidationRequired, State::UncordonRequired),
    (State::ValidationRequired, State::Done),
    (State::ValidationRequired, State::Failed),
    (State::Failed, State::UncordonRequired),
    (State::Failed, State::Done),
    (State::UncordonRequired, State::Done),
    // The tasks' own.
    (State::PodDeletionRequired, State::PodRestartRequired),
    (State::DrainRequired, State::Failed),
];

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn entry() -> impl Strategy<Value = Entry<'static>> {
    let mut states = State::ALL.to_vec();
    states.push(State::Unrecognized);
    let revisions = vec![Revision::Newest, Revision::Newest, Revision::Older, Revision::Older, Revision::Orphaned];
    let flag = || prop::bool::ANY;
    let time = || select(vec![None, Some("1799999000"), Some("1799999999")]);
    let maintenance = select(vec![None, Some(None), Some(Some("Draining")), Some(Some("Ready"))]);
    let notes = (flag(), flag(), flag(), flag(), time(), time());
    let pod = (select(revisions), flag(), flag(), flag(), 0..13_i32, flag());
    (
        select(states),
        flag(),
        select(vec![None, Some(true), Some(false)]),
        flag(),
        notes,
        pod,
        prop::collection::vec(flag(), 0..3),
        0..2_usize,
        maintenance,
    )
        .prop_map(|(state, unschedulable, ready, skip, notes, pod, validators, jobs, maintenance)| Entry {
            state,
            label: state.label(),
            unschedulable,
            ready,
            skip: skip.then_some("true"),
            notes: Notes {
                safe_load: notes.0.then_some("true"),
                initially_unschedulable: notes.1,
                requested: notes.2.then_some("true"),
                requestor: notes.3,
                wait_start: notes.4,
                validation_start: notes.5,
            },
            pod: DriverPod {
                revision: pod.0,
                deleting: pod.1,
                running: pod.2,
                containers_ready: pod.3,
                unready_restarts: pod.4,
                digest: pod.5.then_some("7"),
                template_digest: Some("7"),
                ..DriverPod::default()
            },
            validators: validators.into_iter().map(|ready| Validator { name: "v", ready }).collect(),
            jobs,
            maintenance: maintenance.map(|reason| Maintenance { requestor: "ours", reason, ..Maintenance::default() }),
            ..Entry::default()
        })
}

fn rules() -> impl Strategy<Value = Rules> {
    let limit = prop::option::of(prop_oneof![(0..9_u32).prop_map(Count::Number), (0..110_u32).prop_map(Count::Percent)]);
    (0..5_u32, limit, prop::option::of(0..60_u64), prop::bool::ANY).prop_map(|(max_parallel_upgrades, max_unavailable, wait, drain)| {
        Rules::on(Policy {
            max_parallel_upgrades,
            max_unavailable,
            wait_for_completion: wait.map(|timeout_seconds| WaitForCompletion { pod_selector: "a=b".into(), timeout_seconds }),
            pod_deletion: Some(PodDeletion::default()),
            drain: drain.then(Drain::default),
        })
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_pass_makes_one_known_step_a_node_and_starts_no_more_than_it_may(
        entries in prop::collection::vec(entry(), 0..8),
        rules in rules(),
        generation in select(Generation::ALL.to_vec()),
        requestor in prop::bool::ANY,
    ) {
        let entries: Vec<Entry<'static>> = entries.into_iter().zip(NAMES).map(|(entry, node)| Entry { node, ..entry }).collect();
        let snapshot = Snapshot { driver: Driver::Gpu, entries: entries.clone(), ..Snapshot::default() };
        let requestor = requestor.then(|| Requestor { id: "ours".into(), namespace: "default".into(), prefix: "nvidia-operator".into() });
        let in_place = requestor.is_none();
        let options = Options { requestor, ..Options::of(generation, options().now) };
        let outcome = pass(&snapshot, &rules, &options);
        prop_assert_eq!(&outcome.error, &None);

        let mut started = 0;
        for entry in &entries {
            let mut states = Vec::new();
            let mut cordoned = entry.unschedulable;
            for write in outcome.writes.iter().filter(|write| write.node() == entry.node) {
                match write {
                    Write::State { state, .. } => states.push(*state),
                    Write::Cordon { .. } => cordoned = true,
                    Write::Uncordon { .. } => prop_assert!(!entry.notes.initially_unschedulable || entry.state == State::UncordonRequired),
                    Write::DeletePod { .. } => prop_assert!(entry.pod.revision != Revision::Newest && !entry.pod.deleting),
                    Write::Evict { .. } => prop_assert_eq!(entry.state, State::PodDeletionRequired),
                    Write::Drain { .. } => prop_assert_eq!(entry.state, State::DrainRequired),
                    Write::Annotate { .. }
                    | Write::CreateMaintenance { .. }
                    | Write::JoinMaintenance { .. }
                    | Write::LeaveMaintenance { .. }
                    | Write::DeleteMaintenance { .. } => {}
                }
            }
            prop_assert!(states.len() <= 1, "{}: {:?}", entry.node, states);
            for state in &states {
                prop_assert!(EDGES.contains(&(entry.state, *state)), "{} → {}", entry.state, state);
                if entry.state == State::UpgradeRequired && in_place {
                    started += 1;
                    prop_assert!(*state != State::PodRestartRequired || cordoned);
                }
            }
            if entry.state == State::Unrecognized {
                prop_assert!(!outcome.writes.iter().any(|write| write.node() == entry.node));
            }
        }
        let available = slots(&entries, &rules.policy).available.max(0);
        let free = entries.iter().filter(|entry| entry.state == State::UpgradeRequired && entry.unschedulable).count();
        prop_assert!(started <= available + i64::try_from(free).expect("few"), "{started} started, {available} slots, {free} cordoned");
    }
}
