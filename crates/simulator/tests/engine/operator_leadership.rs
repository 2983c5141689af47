//! The hook does not rely on the rendered objects of an operator that does not lead any more, or
//! that has just started to lead.

use contract::exit::ExitCode;
use contract::settings::Mode;
use contract::task::Task;
use observed::OperatorLease;
use planner::reason::Reason;

use crate::fleet::{Fleet, at, waits};
use crate::operator::{OPERATOR_POD, leads};

const OLD_POD: &str = "gpu-operator-5c6f9d8b7-old01";

/// Returns a settled fleet whose operator is observed.
fn fleet(nodes: usize) -> Fleet {
    let mut fleet = Fleet::at_rest(nodes);
    fleet.operator_is_quiet = false;
    fleet
}

fn held_by(fleet: &mut Fleet, pod: &str, second: i64, renewed: Option<i64>) {
    leads(&mut fleet.observed, at(second));
    let holder = format!("{pod}_4a1b");
    fleet.observed.operator_lease = Some(OperatorLease {
        holder,
        duration_seconds: 15,
        led_seconds: 1000,
        renewed: renewed.map(at),
        ..OperatorLease::default()
    });
}

/// Regression: an operator upgrade ended with success 15 s after its Deployment was rolled out, and
/// 2 s later the new operator started all nodes again.
#[test]
fn old_leader_is_not_trusted_after_operator_upgrade() {
    let mut fleet = fleet(2);
    for second in 0..28 {
        // The old leader is gone. Its Lease was just renewed and has not expired.
        held_by(&mut fleet, OLD_POD, second, Some(second.min(7)));
        let decision = fleet.decide(second);
        assert_eq!(waits(&decision), ["*:OperatorNotLeading"], "{second}");
        assert_eq!(decision.verdict, None);
    }
    for second in 28..48 {
        held_by(&mut fleet, OPERATOR_POD, second, Some(second));
        let decision = fleet.decide(second);
        assert_eq!(decision.verdict, None, "{second}");
        let expected = if second < 33 { "*:OperatorActing" } else { "*:Quiet" };
        assert_eq!(waits(&decision), [expected], "{second}");
    }
    held_by(&mut fleet, OPERATOR_POD, 48, Some(48));
    assert_eq!(fleet.decide(48).verdict.expect("settled").code, ExitCode::Success);
}

/// A container restarted in its pod. The Lease names the pod, but is not renewed.
#[test]
fn silent_leader_is_not_trusted() {
    let mut fleet = fleet(1);
    held_by(&mut fleet, OPERATOR_POD, 0, None);
    let decision = fleet.decide(0);
    assert!(
        matches!(&*decision.waits.at(0).reason, Reason::OperatorNotSeen { .. }),
        "not seen to renew so far"
    );
    for second in 1..10 {
        held_by(&mut fleet, OPERATOR_POD, second, Some(second));
        fleet.pass(second);
    }
    for second in 10..25 {
        held_by(&mut fleet, OPERATOR_POD, second, Some(9));
        assert_eq!(fleet.decide(second).verdict, None, "{second}");
    }
    held_by(&mut fleet, OPERATOR_POD, 25, Some(9));
    let decision = fleet.decide(25);
    assert!(
        matches!(&*decision.waits.at(0).reason, Reason::OperatorNotLeading { silent: true, .. }),
        "15 s without a renewal"
    );
}

#[test]
fn operator_without_leader_ends_the_run_after_grace() {
    let mut fleet = fleet(1);
    leads(&mut fleet.observed, at(0));
    fleet.observed.operator_lease = None;
    fleet.pass(0);
    assert_eq!(fleet.decide(119).verdict, None);
    assert_eq!(fleet.decide(120).verdict.expect("over").code, ExitCode::OperatorMissing);
}

/// With OLM, the Lease lasts 65 s.
#[test]
fn olm_lease_is_waited_for() {
    let mut fleet = fleet(1);
    for second in [0, 30, 64] {
        leads(&mut fleet.observed, at(second));
        let holder = format!("{OPERATOR_POD}_4a1b");
        fleet.observed.operator_lease = Some(OperatorLease {
            holder,
            duration_seconds: 65,
            led_seconds: 1000,
            renewed: Some(at(0)),
            ..OperatorLease::default()
        });
        let decision = fleet.decide(second);
        assert!(
            !matches!(&*decision.waits.at(0).reason, Reason::OperatorNotLeading { .. }),
            "{second}: it may still live"
        );
        assert_eq!(decision.verdict, None, "{second}: it was not seen to live");
    }
}

/// If the operator renders again, the wait starts again: two writers render two revisions in one
/// upgrade.
#[test]
fn rendered_again_is_waited_for_again() {
    let mut fleet = fleet(1);
    fleet.observed.daemon_sets[0].desired = 1;
    for (second, generation, expected) in [
        (0, 1, "*:OperatorActing"),
        (6, 1, "*:Quiet"),
        (7, 2, "*:OperatorActing"),
        (12, 2, "*:Quiet"),
    ] {
        held_by(&mut fleet, OPERATOR_POD, second, Some(second));
        fleet.observed.daemon_sets[0].generation = generation;
        assert_eq!(waits(&fleet.decide(second)), [expected], "{second}");
    }
}

/// DaemonSets of kernels without nodes are created and deleted in every pass of the operator.
#[test]
fn daemon_set_without_nodes_is_no_activity() {
    let mut fleet = fleet(1);
    let mut other = fleet.observed.daemon_sets[1].clone();
    other.desired = 0;
    for second in 0..20 {
        held_by(&mut fleet, OPERATOR_POD, second, Some(second));
        other.uid = format!("flapping-{second}");
        fleet.observed.daemon_sets.truncate(2);
        fleet.observed.daemon_sets.push(other.clone());
        let expected = if second < 5 { "*:OperatorActing" } else { "*:Quiet" };
        assert_eq!(waits(&fleet.decide(second)), [expected], "{second}");
    }
}

/// The hook starts, releases or wakes no node before the new operator leads. Its revision would
/// replace the driver pod a second time.
#[test]
fn nothing_is_started_before_the_new_operator_leads() {
    for (mode, tasks) in [
        (Mode::Drive, vec![Task::Settle, Task::Drive]),
        (Mode::Steer, vec![Task::Settle, Task::Wake, Task::Steer]),
        (Mode::Assist, vec![Task::Settle, Task::Wake]),
    ] {
        let mut fleet = Fleet::migrating(2);
        fleet.is_assisted("v26.7.0");
        (fleet.settings.mode, fleet.settings.tasks) = (mode, tasks);
        let policy = fleet.policy();
        policy.upgrade_policy.auto_upgrade = mode != Mode::Drive;
        for daemon_set in &mut fleet.observed.daemon_sets {
            daemon_set.manager_environment =
                [("ENABLE_GPU_POD_EVICTION", "false"), ("ENABLE_AUTO_DRAIN", "false")]
                    .map(|(key, value)| (key.to_owned(), value.to_owned()))
                    .into_iter()
                    .collect();
        }
        fleet.observed.daemon_sets[0].desired = 2;
        fleet.operator_is_quiet = false;
        for second in 0..30 {
            held_by(&mut fleet, OLD_POD, second, Some(second));
            assert_eq!(fleet.decide(second).actions, [], "{mode:?} {second}");
        }
        let mut begins = None;
        for second in 30..60 {
            held_by(&mut fleet, OPERATOR_POD, second, Some(second));
            let decision = fleet.decide(second);
            if begins.is_none() && !decision.actions.is_empty() {
                begins = Some(second);
            }
        }
        if mode == Mode::Assist {
            // The time of the wake depends on more than the leadership.
            assert!(begins.is_none_or(|second| second >= 35), "{begins:?}");
            continue;
        }
        assert!(begins.is_some_and(|second| second >= 35), "{mode:?}: {begins:?}");
    }
}

/// A starved operator rendered its last DaemonSet 22 s after it started to lead. Mode `drive` holds
/// no node in the meantime. The version of the last successful run shows that the version has
/// changed.
#[test]
fn operator_of_other_version_is_awaited_until_rendering() {
    let ended = |settled: Option<&str>, renders: Option<i64>| {
        let mut fleet = fleet(1);
        fleet.observed.daemon_sets[0].desired = 1;
        fleet.memory.settled_version = settled.map(str::to_owned);
        fleet.observed.operator.as_mut().expect("the operator").version = Some("v26.7.0".into());
        for second in 0..120 {
            held_by(&mut fleet, OPERATOR_POD, second, Some(second));
            fleet.observed.operator_lease.as_mut().expect("the Lease").led_seconds =
                u64::try_from(second).expect("positive");
            if renders == Some(second) {
                fleet.observed.daemon_sets[0].generation += 1;
            }
            if fleet.decide(second).verdict.is_some() {
                return second;
            }
        }
        panic!("it ends");
    };
    let quick = ended(Some("26.7.0"), None);
    assert_eq!(ended(None, None), quick, "it is not known that it has changed");
    let silent = ended(Some("26.3.1"), None);
    assert!(silent >= 60 + 15, "{silent}");
    let late = ended(Some("26.3.1"), Some(22));
    assert!((22 + 15..75).contains(&late), "{late}");
}

/// A new operator needs longer for its first pass than an old one for an edit. It rendered its last
/// DaemonSet 14 s after it started to lead.
#[test]
fn fresh_leader_gets_longer_to_render() {
    let mut fleet = fleet(1);
    for second in 0..16 {
        held_by(&mut fleet, OPERATOR_POD, second, Some(second));
        fleet.observed.operator_lease.as_mut().expect("the Lease").led_seconds =
            u64::try_from(second).expect("positive");
        let expected = if second < 15 { "*:OperatorActing" } else { "*:Quiet" };
        assert_eq!(waits(&fleet.decide(second)), [expected], "{second}");
    }
}
