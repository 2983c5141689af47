//! The reasons why nodes wait, in the traces and in all possible cases.

use contract::policy::{CompletionPolicy, DrainPolicy, Policy};
use nvidia_upgrade::explain::{ControllerWait, WaitingNode};
use nvidia_upgrade::pass::{PassError, Requestor};
use nvidia_upgrade::predict::PredictedStep as Next;
use nvidia_upgrade::snapshot::{MaintenanceObject, NodeEntry, SnapshotError, ValidatorPod};
use nvidia_upgrade::{ControllerState, PassOptions, PolicyRules, UpgradeSnapshot, explain_pass};

use crate::conformance::fixture::{
    cordoned, enabled, node, old, options, rules as unlimited, snapshot as of, with,
};

mod traces;

fn strict() -> PolicyRules {
    enabled(Policy::default())
}

fn with_jobs(timeout_seconds: u64) -> PolicyRules {
    enabled(Policy {
        wait_for_completion: Some(CompletionPolicy { pod_selector: "a=b".into(), timeout_seconds }),
        ..Policy::default()
    })
}

fn unready(entry: NodeEntry<'static>) -> NodeEntry<'static> {
    with(entry, |entry| {
        (entry.pod.containers_ready, entry.pod.trouble) = (false, Some("ctr: CrashLoopBackOff"));
    })
}

/// The table of docs/how-to/bad-driver.md: what the controller does with each node when the
/// previous driver is the requested one again.
#[test]
fn return_to_previous_driver_is_as_documented() {
    let next = |entry: NodeEntry<'static>| {
        let snapshot = of(vec![entry]);
        let outlook = explain_pass(&snapshot, &strict(), &options(), None);
        outlook.moves.first().map(|moved| moved.step)
    };
    let waiting = node("a", ControllerState::UpgradeRequired);
    assert_eq!(next(waiting), Some(Next::To(ControllerState::CordonRequired)));
    let unlabeled = node("a", ControllerState::Unknown);
    assert_eq!(next(unlabeled), Some(Next::To(ControllerState::Done)));
    let started = cordoned(old("a", ControllerState::PodRestartRequired));
    assert_eq!(next(started), Some(Next::DeletePod));
    assert_eq!(next(cordoned(old("a", ControllerState::Failed))), None);
}

/// Name, whether it can resolve by itself, text.
type Said = (&'static str, bool, &'static str);

#[test]
fn every_wait_has_its_words() {
    let requestor =
        Requestor { id: "ours".into(), namespace: "default".into(), prefix: "p".into() };
    let in_mode = PassOptions { requestor: Some(requestor), ..options() };
    let handed = |reason: Option<&'static str>| {
        with(old("a", ControllerState::NodeMaintenanceRequired), |entry| {
            entry.maintenance = Some(MaintenanceObject { reason, ..MaintenanceObject::default() });
        })
    };
    let validating = |start: Option<&'static str>| {
        with(cordoned(node("a", ControllerState::ValidationRequired)), |entry| {
            entry.validators = vec![ValidatorPod { name: "v", ready: false }];
            entry.notes.validation_start = start;
        })
    };
    let drained = enabled(Policy { drain: Some(DrainPolicy::default()), ..Policy::default() });
    let unlabeled = with(old("a", ControllerState::Unrecognized), |entry| entry.label = "odd");
    let table: Vec<(Vec<NodeEntry<'static>>, PolicyRules, PassOptions, Said)> = vec![
        (
            vec![old("a", ControllerState::UpgradeRequired)],
            PolicyRules::default(),
            options(),
            ("Off", false, "automatic upgrades are off"),
        ),
        (
            vec![with(old("a", ControllerState::UpgradeRequired), |entry| {
                entry.skip = Some("true");
            })],
            strict(),
            options(),
            ("Skipped", false, "the node has the label nvidia.com/gpu-driver-upgrade.skip=true"),
        ),
        (
            vec![
                old("a", ControllerState::UpgradeRequired),
                cordoned(old("f", ControllerState::Failed)),
            ],
            strict(),
            options(),
            (
                "Parallel",
                false,
                "no slot is free (maxParallelUpgrades is 1, 1 in use): f (failed, keeps its slot)",
            ),
        ),
        (
            vec![
                old("a", ControllerState::UpgradeRequired),
                with(node("n", ControllerState::Done), |entry| entry.ready = Some(false)),
            ],
            strict(),
            options(),
            (
                "Unavailable",
                true,
                "1 node counts as unavailable, and maxUnavailable allows 1 (25% of 2): n (NotReady)",
            ),
        ),
        (
            vec![old("a", ControllerState::UpgradeRequired)],
            enabled(Policy {
                max_unavailable: Some("0".parse().expect("a count")),
                ..Policy::default()
            }),
            options(),
            (
                "Unavailable",
                false,
                "0 nodes count as unavailable, and maxUnavailable allows 0 (0 of 1)",
            ),
        ),
        (
            vec![with(cordoned(old("a", ControllerState::WaitForJobsRequired)), |entry| {
                (entry.jobs, entry.notes.wait_start) = (2, Some("1799999990"));
            })],
            with_jobs(30),
            options(),
            (
                "Jobs",
                true,
                "2 job pods are running; NVIDIA's controller has been waiting since 2027-01-15T07:59:50Z, and continues the upgrade after 2027-01-15T08:00:20Z",
            ),
        ),
        (
            vec![cordoned(old("a", ControllerState::PodDeletionRequired))],
            strict(),
            options(),
            (
                "Evicting",
                true,
                "NVIDIA's controller is evicting pods that use the device; if this takes longer than 300 s, the upgrade fails",
            ),
        ),
        (
            vec![cordoned(old("a", ControllerState::DrainRequired))],
            drained,
            options(),
            (
                "Draining",
                true,
                "NVIDIA's controller is draining the node; if this takes longer than 300 s, the upgrade fails",
            ),
        ),
        (
            vec![handed(Some("Draining"))],
            strict(),
            in_mode.clone(),
            ("Maintenance", true, "the node's NodeMaintenance is Draining"),
        ),
        (
            vec![handed(None)],
            strict(),
            in_mode,
            (
                "Maintenance",
                true,
                "the maintenance-operator has not handled the node's NodeMaintenance yet",
            ),
        ),
        (
            vec![handed(None)],
            strict(),
            options(),
            (
                "MaintenanceOff",
                false,
                "the node was handed to the maintenance-operator, but requestor mode is off",
            ),
        ),
        (
            vec![with(node("a", ControllerState::UncordonRequired), |entry| {
                entry.notes.requestor = true;
            })],
            strict(),
            options(),
            (
                "MaintenanceOff",
                false,
                "the node was handed to the maintenance-operator, but requestor mode is off",
            ),
        ),
        (
            vec![with(cordoned(old("a", ControllerState::PodRestartRequired)), |entry| {
                entry.pod.deleting = true;
            })],
            strict(),
            options(),
            ("Terminating", true, "the old driver pod/driver is terminating"),
        ),
        (
            vec![unready(cordoned(node("a", ControllerState::PodRestartRequired)))],
            strict(),
            options(),
            ("DriverStarting", true, "driver pod/driver is not ready (ctr: CrashLoopBackOff)"),
        ),
        (
            vec![node("a", ControllerState::ValidationRequired)],
            strict(),
            options(),
            ("NoValidator", true, "there is no validator pod on the node"),
        ),
        (
            vec![validating(Some("1799999990"))],
            strict(),
            options(),
            (
                "Validating",
                true,
                "validator pod/v is not ready; after 2027-01-15T08:09:50Z, the upgrade fails",
            ),
        ),
        (
            // The ready pod before it resets the time in every pass.
            vec![with(validating(Some("1699999990")), |entry| {
                entry.validators.insert(0, ValidatorPod { name: "u", ready: true });
            })],
            strict(),
            options(),
            ("Validating", true, "validator pod/v is not ready"),
        ),
        (
            vec![cordoned(old("a", ControllerState::Failed))],
            strict(),
            options(),
            ("FailedBefore", false, "the upgrade failed, and the driver pod has an older revision"),
        ),
        (
            vec![unready(cordoned(node("a", ControllerState::Failed)))],
            strict(),
            options(),
            (
                "FailedDriver",
                true,
                "the upgrade failed; driver pod/driver is not ready (ctr: CrashLoopBackOff)",
            ),
        ),
        (
            vec![unlabeled],
            strict(),
            options(),
            ("UnknownState", false, "NVIDIA's controller does not know the state `odd`"),
        ),
        (
            vec![cordoned(node("a", ControllerState::PodRestartRequired))],
            strict(),
            options(),
            (
                "Asleep",
                true,
                "when NVIDIA's controller next checks the nodes, the node enters state `validation-required` (validating the driver)",
            ),
        ),
        (
            vec![
                unready(node("a", ControllerState::PodRestartRequired)),
                cordoned(old("b", ControllerState::PodDeletionRequired)),
            ],
            enabled(Policy { pod_deletion: None, ..Policy::default() }),
            options(),
            (
                "PassEnds",
                false,
                "NVIDIA's controller stops before it reaches the node: node/b is in state pod-deletion-required, but the policy has no podDeletion",
            ),
        ),
    ];
    for (entries, rules, options, (name, resolves, text)) in table {
        let snapshot = of(entries);
        let waits =
            explain_pass(&snapshot, &rules, &options.seen_from_outside(&snapshot), None).waits;
        let wait = &waits.first().unwrap_or_else(|| panic!("{name}: nothing")).wait;
        assert_eq!(
            (wait.name(), wait.can_resolve(), wait.to_string().as_str()),
            (name, resolves, text)
        );
        assert!(!wait.advice().is_empty());
    }
}

#[test]
fn blocked_fleet_has_reasons_idle_node_has_none() {
    let error = SnapshotError::NoNode { pod: "driver-1".into() };
    let entries = vec![
        old("a", ControllerState::UpgradeRequired),
        node("b", ControllerState::Done),
        node("c", ControllerState::Unknown),
    ];
    let snapshot = UpgradeSnapshot { blocked: Some(error.clone()), ..of(entries) };
    let waits = explain_pass(&snapshot, &strict(), &options(), None).waits;
    assert_eq!(
        waits,
        [WaitingNode {
            node: "a".into(),
            state: ControllerState::UpgradeRequired,
            wait: ControllerWait::Blocked { error }
        }]
    );
    assert_eq!(
        waits[0].wait.to_string(),
        "NVIDIA's controller cannot upgrade any node: pod/driver-1 is not Pending, but has no node"
    );
}

#[test]
fn long_lists_are_cut() {
    let names = ["b", "c", "d", "e", "f", "g", "h"];
    let entries = std::iter::once(old("a", ControllerState::UpgradeRequired))
        .chain(names.map(|name| cordoned(old(name, ControllerState::Failed))));
    let waits = explain_pass(&of(entries), &strict(), &options(), None).waits;
    assert!(
        waits[0].wait.to_string().ends_with("f (failed, keeps its slot) and 2 others"),
        "{}",
        waits[0].wait
    );
}

#[test]
fn pending_moves_ignore_timers_and_know_running_tasks() {
    let validating = with(cordoned(node("a", ControllerState::ValidationRequired)), |entry| {
        entry.validators = vec![ValidatorPod { name: "v", ready: false }];
    });
    let deleting = cordoned(old("b", ControllerState::PodDeletionRequired));
    let snapshot = of([validating, deleting]);
    let moved = explain_pass(&snapshot, &unlimited(), &options(), None).moves;
    assert_eq!(
        moved.iter().map(|moved| (moved.node.as_str(), moved.step)).collect::<Vec<_>>(),
        [("b", Next::Evict)]
    );
    assert_eq!(
        explain_pass(&snapshot, &unlimited(), &options().seen_from_outside(&snapshot), None).moves,
        []
    );
}

#[test]
fn disabled_or_failing_controller_announces_no_tick() {
    let entries = || of([old("a", ControllerState::UpgradeRequired)]);
    let off = explain_pass(&entries(), &PolicyRules::default(), &options(), Some(options().now));
    assert_eq!((off.moves.len(), &off.waits[0].wait), (0, &ControllerWait::Off));
    let bad = PolicyRules { unreadable: Some("half".into()), ..unlimited() };
    let failing = explain_pass(&entries(), &bad, &options(), Some(options().now));
    let error = PassError::MaxUnavailable { text: "half".into() };
    assert_eq!(
        (failing.moves.len(), &failing.waits[0].wait),
        (0, &ControllerWait::PassEnds { error })
    );
    assert_eq!(options().generation.backoff(u32::MAX).as_secs(), 3, "it looks again soon");
}
