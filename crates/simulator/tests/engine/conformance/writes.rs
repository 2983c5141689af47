//! The state machine as a whole: one step per node and pass, and only defined steps.

use contract::count::Count;
use contract::driver::Driver;
use contract::policy::{CompletionPolicy, DrainPolicy, PodDeletionPolicy, Policy};
use nvidia_upgrade::pass::{PassWrite, Requestor};
use nvidia_upgrade::snapshot::{
    MaintenanceObject, NodeAnnotations, NodeEntry, PodRevision, SnapshotDriverPod, UpgradeSnapshot,
    ValidatorPod,
};
use nvidia_upgrade::{ControllerGeneration, ControllerState, PassOptions, PolicyRules, pass};
use proptest::prelude::*;
use proptest::sample::select;

use super::fixture::{enabled, options, slots};

/// Every step that a pass itself can make. Background tasks and users make other steps.
const EDGES: [(ControllerState, ControllerState); 25] = [
    (ControllerState::Unknown, ControllerState::Done),
    (ControllerState::Unknown, ControllerState::UpgradeRequired),
    (ControllerState::Done, ControllerState::UpgradeRequired),
    (ControllerState::UpgradeRequired, ControllerState::CordonRequired),
    (ControllerState::UpgradeRequired, ControllerState::PodRestartRequired),
    (ControllerState::UpgradeRequired, ControllerState::NodeMaintenanceRequired),
    (ControllerState::CordonRequired, ControllerState::WaitForJobsRequired),
    (ControllerState::WaitForJobsRequired, ControllerState::PodDeletionRequired),
    (ControllerState::WaitForJobsRequired, ControllerState::DrainRequired),
    (ControllerState::PodDeletionRequired, ControllerState::DrainRequired),
    (ControllerState::DrainRequired, ControllerState::PodRestartRequired),
    (ControllerState::NodeMaintenanceRequired, ControllerState::PodRestartRequired),
    (ControllerState::NodeMaintenanceRequired, ControllerState::UpgradeRequired),
    (ControllerState::PodRestartRequired, ControllerState::ValidationRequired),
    (ControllerState::PodRestartRequired, ControllerState::UncordonRequired),
    (ControllerState::PodRestartRequired, ControllerState::Done),
    (ControllerState::PodRestartRequired, ControllerState::Failed),
    (ControllerState::ValidationRequired, ControllerState::UncordonRequired),
    (ControllerState::ValidationRequired, ControllerState::Done),
    (ControllerState::ValidationRequired, ControllerState::Failed),
    (ControllerState::Failed, ControllerState::UncordonRequired),
    (ControllerState::Failed, ControllerState::Done),
    (ControllerState::UncordonRequired, ControllerState::Done),
    // Steps of background tasks.
    (ControllerState::PodDeletionRequired, ControllerState::PodRestartRequired),
    (ControllerState::DrainRequired, ControllerState::Failed),
];

const NAMES: [&str; 8] = ["a", "b", "c", "d", "e", "f", "g", "h"];

fn entry() -> impl Strategy<Value = NodeEntry<'static>> {
    let mut states = ControllerState::ALL.to_vec();
    states.push(ControllerState::Unrecognized);
    let revisions = vec![
        PodRevision::Newest,
        PodRevision::Newest,
        PodRevision::Older,
        PodRevision::Older,
        PodRevision::Orphaned,
    ];
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
        .prop_map(
            |(state, unschedulable, ready, skip, notes, pod, validators, jobs, maintenance)| {
                NodeEntry {
                    state,
                    label: state.label(),
                    unschedulable,
                    ready,
                    skip: skip.then_some("true"),
                    notes: NodeAnnotations {
                        safe_load: notes.0.then_some("true"),
                        initially_unschedulable: notes.1,
                        requested: notes.2.then_some("true"),
                        requestor: notes.3,
                        wait_start: notes.4,
                        validation_start: notes.5,
                    },
                    pod: SnapshotDriverPod {
                        revision: pod.0,
                        deleting: pod.1,
                        running: pod.2,
                        containers_ready: pod.3,
                        unready_restarts: pod.4,
                        digest: pod.5.then_some("7"),
                        template_digest: Some("7"),
                        ..SnapshotDriverPod::default()
                    },
                    validators: validators
                        .into_iter()
                        .map(|ready| ValidatorPod { name: "v", ready })
                        .collect(),
                    jobs,
                    maintenance: maintenance.map(|reason| MaintenanceObject {
                        requestor: "ours",
                        reason,
                        ..MaintenanceObject::default()
                    }),
                    ..NodeEntry::default()
                }
            },
        )
}

fn rules() -> impl Strategy<Value = PolicyRules> {
    let limit = prop::option::of(prop_oneof![
        (0..9_u32).prop_map(Count::Number),
        (0..110_u32).prop_map(Count::Percent)
    ]);
    (0..5_u32, limit, prop::option::of(0..60_u64), prop::bool::ANY).prop_map(
        |(max_parallel_upgrades, max_unavailable, wait, drain)| {
            enabled(Policy {
                max_parallel_upgrades,
                max_unavailable,
                wait_for_completion: wait.map(|timeout_seconds| CompletionPolicy {
                    pod_selector: "a=b".into(),
                    timeout_seconds,
                }),
                pod_deletion: Some(PodDeletionPolicy::default()),
                drain: drain.then(DrainPolicy::default),
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pass_steps_once_per_node_within_its_limit(
        entries in prop::collection::vec(entry(), 0..8),
        rules in rules(),
        generation in select(ControllerGeneration::ALL.to_vec()),
        requestor in prop::bool::ANY,
    ) {
        let entries: Vec<NodeEntry<'static>> = entries.into_iter().zip(NAMES).map(|(entry, node)| NodeEntry { node, ..entry }).collect();
        let snapshot = UpgradeSnapshot { driver: Driver::Gpu, entries: entries.clone(), ..UpgradeSnapshot::default() };
        let requestor = requestor.then(|| Requestor { id: "ours".into(), namespace: "default".into(), prefix: "nvidia-operator".into() });
        let in_place = requestor.is_none();
        let options = PassOptions { requestor, ..PassOptions::new(generation, options().now) };
        let outcome = pass(&snapshot, &rules, &options);
        prop_assert_eq!(&outcome.error, &None);

        let mut started = 0;
        for entry in &entries {
            let mut states = Vec::new();
            let mut cordoned = entry.unschedulable;
            for write in outcome.writes.iter().filter(|write| write.node() == entry.node) {
                match write {
                    PassWrite::State { state, .. } => states.push(*state),
                    PassWrite::Cordon { .. } => cordoned = true,
                    PassWrite::Uncordon { .. } => prop_assert!(!entry.notes.initially_unschedulable || entry.state == ControllerState::UncordonRequired),
                    PassWrite::DeletePod { .. } => prop_assert!(entry.pod.revision != PodRevision::Newest && !entry.pod.deleting),
                    PassWrite::Evict { .. } => prop_assert_eq!(entry.state, ControllerState::PodDeletionRequired),
                    PassWrite::Drain { .. } => prop_assert_eq!(entry.state, ControllerState::DrainRequired),
                    PassWrite::Annotate { .. }
                    | PassWrite::CreateMaintenance { .. }
                    | PassWrite::JoinMaintenance { .. }
                    | PassWrite::LeaveMaintenance { .. }
                    | PassWrite::DeleteMaintenance { .. } => {}
                }
            }
            prop_assert!(states.len() <= 1, "{}: {:?}", entry.node, states);
            for state in &states {
                prop_assert!(EDGES.contains(&(entry.state, *state)), "{} → {}", entry.state, state);
                if entry.state == ControllerState::UpgradeRequired && in_place {
                    started += 1;
                    prop_assert!(*state != ControllerState::PodRestartRequired || cordoned);
                }
            }
            if entry.state == ControllerState::Unrecognized {
                prop_assert!(!outcome.writes.iter().any(|write| write.node() == entry.node));
            }
        }
        let available = slots(&entries, &rules.policy).available.max(0);
        let free = entries.iter().filter(|entry| entry.state == ControllerState::UpgradeRequired && entry.unschedulable).count();
        prop_assert!(started <= available + i64::try_from(free).expect("few"), "{started} started, {available} slots, {free} cordoned");
    }
}
