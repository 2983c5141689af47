//! Lines 29 to 46: the number of nodes that start. Vectors 1 to 8 are from the tests of
//! k8s-operator-libs (`upgrade_state_test.go`). The others were computed by hand from its
//! arithmetic.

use contract::policy::Policy;
use nvidia_upgrade::pass::{PassError, PassWrite, pass};
use nvidia_upgrade::snapshot::NodeEntry;
use nvidia_upgrade::throttle::{PolicyLimit, UpgradeSlots};
use nvidia_upgrade::{ControllerState, PolicyRules};

use super::fixture::{enabled, node, old, options, slots, snapshot, with, writes};

const NAMES: [&str; 100] = {
    let mut names = [""; 100];
    let digits = "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263646566676869707172737475767778798081828384858687888990919293949596979899";
    let mut at = 0;
    while at < 100 {
        names[at] = digits.split_at(at * 2).1.split_at(2).0;
        at += 1;
    }
    names
};

/// Number, nodes, maxParallelUpgrades, maxUnavailable, then TOTAL, IN_PROGRESS, MAXU, UNAVAIL, CU,
/// AVAIL, and the nodes that start.
type Vector = (u32, &'static str, u32, &'static str, [usize; 5], i64, &'static str);

/// Nodes: `R` upgrade-required, `D` done, `C` cordon-required, `W` wait-for-jobs, `P` pod-restart,
/// `F` failed, `M` node-maintenance, `X` an unknown value; `u` cordoned, `n` NotReady, `k` skipped.
const VECTORS: [Vector; 29] = [
    (1, "5R", 0, "", [5, 0, 5, 0, 0], 5, "0-4"),
    (2, "5R", 3, "", [5, 0, 5, 0, 0], 3, "0-2"),
    (3, "2R 3C", 4, "", [5, 3, 5, 0, 3], 1, "0"),
    (4, "3R 2Ru", 0, "100%", [5, 0, 5, 2, 2], 5, "0-4"),
    (5, "3R 2Ru", 0, "50%", [5, 0, 3, 2, 2], 1, "0 3 4"),
    (6, "3R 2Du", 0, "50%", [5, 0, 3, 2, 2], 1, "0"),
    (7, "5R", 3, "2", [5, 0, 2, 0, 0], 2, "0 1"),
    (8, "2R 3C", 4, "4", [5, 3, 4, 0, 3], 1, "0"),
    (9, "10R", 1, "25%", [10, 0, 3, 0, 0], 1, "0"),
    (10, "9R 1Fu", 1, "25%", [10, 1, 3, 1, 1], 0, ""),
    (11, "8R 1Pu 1Dn", 4, "25%", [10, 1, 3, 2, 2], 1, "0"),
    (12, "4R", 4, "10%", [4, 0, 1, 0, 0], 1, "0"),
    (13, "10R", 0, "0", [10, 0, 0, 0, 0], 0, ""),
    (14, "9R 1Ru", 1, "0", [10, 0, 0, 1, 1], 0, "9"),
    (15, "2R 4Wu", 1, "100%", [6, 4, 6, 4, 4], -3, ""),
    (16, "2R 4Pu 4D", 2, "80%", [10, 4, 8, 4, 4], -2, ""),
    (17, "1Rk 3R", 1, "", [4, 0, 4, 0, 0], 1, "1"),
    (18, "3Rk 2R", 0, "3", [5, 0, 3, 0, 0], 3, "3 4"),
    (19, "6R 2Cu 2D", 4, "50%", [10, 2, 5, 2, 4], 1, "0"),
    (20, "5R 3Mu", 2, "50%", [5, 0, 3, 3, 3], 0, ""),
    (21, "3Rn 3R", 0, "50%", [6, 0, 3, 3, 3], 0, ""),
    (22, "1R", 1, "25%", [1, 0, 1, 0, 0], 1, "0"),
    (23, "3Ru", 1, "25%", [3, 0, 1, 3, 3], 0, "0-2"),
    (24, "98R 2Pu", 10, "10%", [100, 2, 10, 2, 2], 8, "0-7"),
    (25, "5R 5Du", 0, "100%", [10, 0, 10, 5, 5], 5, "0-4"),
    (26, "5R", 0, "10", [5, 0, 10, 0, 0], 5, "0-4"),
    (27, "4R 4Xu", 0, "50%", [4, 0, 2, 4, 4], 0, ""),
    (28, "7R", 0, "33%", [7, 0, 3, 0, 0], 3, "0-2"),
    (29, "2R 1P 1D", 0, "50%", [4, 1, 2, 0, 0], 2, "0 1"),
];

pub(crate) fn fleet(text: &str) -> Vec<NodeEntry<'static>> {
    let mut entries = Vec::new();
    for word in text.split_whitespace() {
        let (count, kind) = word.split_at(word.find(char::is_alphabetic).expect("a letter"));
        for _ in 0..count.parse().expect("a count") {
            let state = match kind.as_bytes()[0] {
                b'R' => ControllerState::UpgradeRequired,
                b'D' => ControllerState::Done,
                b'C' => ControllerState::CordonRequired,
                b'W' => ControllerState::WaitForJobsRequired,
                b'P' => ControllerState::PodRestartRequired,
                b'F' => ControllerState::Failed,
                b'M' => ControllerState::NodeMaintenanceRequired,
                _ => ControllerState::Unrecognized,
            };
            let name = NAMES[entries.len()];
            let entry =
                if state == ControllerState::Done { node(name, state) } else { old(name, state) };
            entries.push(with(entry, |entry| {
                entry.unschedulable = kind.contains('u');
                entry.ready = Some(!kind.contains('n'));
                entry.skip = kind.contains('k').then_some("true");
            }));
        }
    }
    entries
}

fn policy(max_parallel_upgrades: u32, max_unavailable: &str) -> Policy {
    let max_unavailable =
        (!max_unavailable.is_empty()).then(|| max_unavailable.parse().expect("a count"));
    Policy { max_parallel_upgrades, max_unavailable, ..Policy::default() }
}

/// Parses indices: `0-2 5` is 0, 1, 2, 5.
fn indices(text: &str) -> Vec<usize> {
    let number = |text: &str| text.parse::<usize>().expect("a number");
    let range = |word: &str| {
        word.split_once('-').map_or_else(
            || number(word)..=number(word),
            |(first, last)| number(first)..=number(last),
        )
    };
    text.split_whitespace().flat_map(range).collect()
}

/// Returns the positions of the nodes that a pass starts.
fn started(entries: &[NodeEntry<'static>], policy: Policy) -> Vec<usize> {
    let outcome = pass(&snapshot(entries.to_vec()), &enabled(policy), &options());
    let starts = |entry: &NodeEntry<'_>| {
        let start = PassWrite::State {
            node: entry.node.to_owned(),
            state: ControllerState::CordonRequired,
        };
        outcome.writes.contains(&start)
    };
    (0..entries.len()).filter(|index| starts(&entries[*index])).collect()
}

#[test]
fn line_029_to_036_and_046_the_vectors_of_the_throttle() {
    for (
        number,
        nodes,
        max_parallel,
        max_unavailable,
        [total, in_progress, limit, unavailable, counted],
        available,
        starts,
    ) in VECTORS
    {
        let entries = fleet(nodes);
        let policy = policy(max_parallel, max_unavailable);
        let found = slots(&entries, &policy);
        let expected = UpgradeSlots {
            total,
            in_progress,
            max_unavailable: limit,
            unavailable,
            counted,
            available,
            limit: found.limit,
        };
        assert_eq!(found, expected, "vector {number}: {nodes}");
        assert_eq!(started(&entries, policy), indices(starts), "vector {number}: {nodes}");
    }
}

#[test]
fn line_031_started_nodes_continue_in_same_pass() {
    let outcome = pass(&snapshot(fleet("2R 3C")), &enabled(policy(4, "")), &options());
    assert_eq!(
        writes(&outcome),
        [
            "00: cordon-required",
            "02: cordon",
            "02: wait-for-jobs-required",
            "03: cordon",
            "03: wait-for-jobs-required",
            "04: cordon",
            "04: wait-for-jobs-required",
        ]
    );
}

#[test]
fn line_037_a_percentage_rounds_up() {
    assert_eq!(slots(&fleet("1R"), &policy(1, "25%")).max_unavailable, 1);
    assert_eq!(slots(&fleet("5R"), &policy(1, "25%")).max_unavailable, 2);
}

#[test]
fn line_038_no_unavailable_nodes_stops_schedulable_nodes_only() {
    assert_eq!(started(&fleet("10R"), policy(0, "0")), [] as [usize; 0]);
    assert_eq!(started(&fleet("9R 1Ru"), policy(1, "0%")), [9]);
}

#[test]
fn line_039_failed_nodes_take_slots() {
    assert_eq!(started(&fleet("9R 1F"), policy(1, "25%")), [] as [usize; 0]);
    assert_eq!(slots(&fleet("9R 1F"), &policy(1, "25%")).limit, PolicyLimit::Parallel);
}

#[test]
fn line_040_only_false_ready_condition_is_unavailable() {
    let unknown = fleet("4Rn").into_iter().map(|entry| with(entry, |entry| entry.ready = None));
    assert_eq!(slots(&unknown.collect::<Vec<_>>(), &policy(0, "50%")).unavailable, 0);
    assert_eq!(slots(&fleet("4Rn"), &policy(0, "50%")).unavailable, 4);
    assert_eq!(slots(&fleet("4Run"), &policy(0, "50%")).unavailable, 4, "each node once");
}

/// These nodes do not count in the total of percentages, but count as unavailable. If they use up
/// the limit, they stop the fleet.
#[test]
fn maintenance_operators_nodes_can_exhaust_max_unavailable() {
    assert_eq!(started(&fleet("1R 1Mu"), policy(0, "100%")), [] as [usize; 0]);
    assert_eq!(started(&fleet("2R 1Mu"), policy(0, "")), [0, 1]);
}

#[test]
fn line_041_slots_below_zero_start_nothing() {
    assert_eq!(started(&fleet("2R 4Wu"), policy(1, "100%")), [] as [usize; 0]);
    assert_eq!(started(&fleet("2R 4Pu 4D"), policy(2, "80%")), [] as [usize; 0]);
}

#[test]
fn line_042_cordoned_nodes_start_without_a_slot() {
    assert_eq!(started(&fleet("3Ru"), policy(1, "25%")), [0, 1, 2]);
}

#[test]
fn line_043_skipped_nodes_take_no_slot() {
    assert_eq!(started(&fleet("1Rk 3R"), policy(1, "")), [1]);
    assert_eq!(started(&fleet("1Rku 1R"), policy(1, "")), [1], "not even if it is cordoned");
}

#[test]
fn line_044_only_true_skips() {
    for value in ["True", "false", "1", "", "yes"] {
        let entries: Vec<_> = fleet("1R")
            .into_iter()
            .map(|entry| with(entry, |entry| entry.skip = Some(value)))
            .collect();
        assert_eq!(started(&entries, policy(1, "")), [0], "{value}");
    }
}

#[test]
fn line_045_unreadable_limit_stops_everything() {
    for text in ["half", "50 %", "-1", "1.5", "\"5\""] {
        let live = observed::LiveUpgradePolicy {
            auto_upgrade: true,
            max_unavailable: Some(text.to_owned()),
            ..observed::LiveUpgradePolicy::default()
        };
        let entries = [
            old("a", ControllerState::Done),
            old("b", ControllerState::UpgradeRequired),
            old("c", ControllerState::CordonRequired),
        ];
        let outcome = pass(&snapshot(entries), &PolicyRules::from_live(&live), &options());
        assert_eq!(outcome.error, Some(PassError::MaxUnavailable { text: text.to_owned() }));
        assert_eq!(outcome.writes, [], "the operators look at it before the pass");
    }
}
