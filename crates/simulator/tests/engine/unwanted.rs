//! A node in the middle of its upgrade, without a driver pod. The hook must find out whether a
//! DaemonSet still wants a pod there. If the DaemonSet has an affinity, only the counts in its
//! status show it.

use contract::driver::Driver;
use contract::settings::Mode;
use contract::task::Task;
use planner::action::NodePatch;
use planner::decide::{Action, Decision};
use planner::reason::Reason;
use planner::reason::upgrade::UpgradeReason;

use crate::fleet::{Fleet, at, reason_of, waits};
use crate::ofed::{network, policy};

/// Returns `nic-0`, `nic-1` and `nic-2` with their driver. The pod of `nic-0` was just deleted and
/// is gone.
fn started(driver: Driver) -> Fleet {
    left(driver, "pod-restart-required", "")
}

/// Returns the same fleet with `nic-0` in this state. `more`: the rest of its record.
fn left(driver: Driver, state: &str, more: &str) -> Fleet {
    let mut fleet = network(3);
    policy(&mut fleet).upgrade_policy.auto_upgrade = false;
    fleet.settings.driver = driver;
    fleet.settings.mode = Mode::Drive;
    fleet.settings.tasks = vec![Task::Settle, Task::Drive];
    fleet.settings.daemon_set =
        (driver == Driver::DaemonSet).then(|| fleet.observed.daemon_sets[0].name.clone());
    let (traits, digest, since) = (driver.traits(), fleet.settings.digest.clone(), at(0));
    let record = format!(
        r#"{{"version":1,"state":"{state}","since":"{since}","started":"{since}","digest":"{digest}","cordoned":true{more}}}"#
    );
    let node = fleet.node("nic-0");
    node.annotations.insert(traits.own_record.into(), record);
    node.labels.insert(traits.own_state_label.into(), state.into());
    node.unschedulable = true;
    loses(&mut fleet, "nic-0");
    fleet
}

fn loses(fleet: &mut Fleet, node: &str) {
    fleet.observed.pods.edit().retain(|pod| pod.node.as_deref() != Some(node));
}

fn wants(fleet: &mut Fleet, desired: i32, misscheduled: i32) {
    let set = &mut fleet.observed.daemon_sets[0];
    (set.desired, set.misscheduled) = (desired, misscheduled);
}

/// Returns the reason that `nic-0` waits for, and whether it is released.
fn wait_of(decision: &Decision) -> (String, bool) {
    let released = |patch: &NodePatch| patch.node == "nic-0" && patch.unschedulable == Some(false);
    let waits =
        waits(decision).into_iter().find_map(|wait| Some(wait.strip_prefix("nic-0:")?.to_owned()));
    let back = decision
        .actions
        .iter()
        .any(|action| matches!(action, Action::PatchNode(patch) if released(patch)));
    (waits.unwrap_or_default(), back)
}

/// A change: its description and its effect.
type Change = (&'static str, fn(&mut Fleet));

const BOTH: [Driver; 2] = [Driver::Ofed, Driver::DaemonSet];

/// Regression: the pod of a removed node stays for a minute, and an unwanted pod ends slowly. Both
/// were counted as if the DaemonSet had all the pods that it wants.
#[test]
fn changes_elsewhere_keep_an_upgrading_node_wanted() {
    for driver in BOTH {
        let changes: [Change; 5] = [
            ("nothing", |_| {}),
            ("a node leaves, and its pod is still there", |fleet| {
                fleet.observed.nodes.remove("nic-1");
                wants(fleet, 2, 0);
            }),
            ("the affinity leaves another one out", |fleet| wants(fleet, 2, 1)),
            ("the same, and its pod is on its way", |fleet| {
                wants(fleet, 2, 0);
                let mut pods: Vec<_> = fleet.observed.pods.iter().cloned().collect();
                pods[1].deleting = true;
                fleet.observed.pods = pods.into_iter().collect();
            }),
            ("another one is replaced as well", |fleet| {
                let mut pods: Vec<_> = fleet.observed.pods.iter().cloned().collect();
                let double = observed::ObservedPod { uid: "double".into(), ..pods[1].clone() };
                pods[1].deleting = true;
                pods.push(double);
                fleet.observed.pods = pods.into_iter().collect();
            }),
        ];
        for (what, change) in changes {
            let mut fleet = started(driver);
            change(&mut fleet);
            for second in [0, 30, 61, 120] {
                assert_eq!(
                    wait_of(&fleet.decide(second)),
                    ("DriverComing".into(), false),
                    "{driver:?} {second}: {what}"
                );
            }
        }
    }
}

/// Regression (L7): `status` did not say that the kubelet that must end the pod is away.
#[test]
fn ending_driver_names_the_node_that_is_not_ready() {
    let mut fleet = started(Driver::Ofed);
    let of_other = fleet.observed.pods.iter().find(|pod| pod.node.as_deref() == Some("nic-1"));
    let mut pod = of_other.expect("its driver pod").clone();
    (pod.node, pod.uid, pod.deleting) = (Some("nic-0".into()), "old".into(), true);
    fleet.observed.pods.push(pod);
    for (ready, is_named) in [(true, false), (false, true)] {
        fleet.node("nic-0").ready = ready;
        let decision = fleet.decide(1);
        let Reason::Upgrading(UpgradeReason::DriverEnding { trouble, .. }) =
            reason_of(&decision, "nic-0")
        else {
            panic!("{:?}", waits(&decision));
        };
        assert_eq!(trouble.is_some(), is_named, "ready: {ready}");
    }
}

/// Regression: the hook waited for a user's own DaemonSet until the node failed, and did not wait
/// for a DaemonSet of the operator at all.
#[test]
fn unwanted_node_is_released_after_one_minute() {
    for driver in BOTH {
        let mut fleet = started(driver);
        wants(&mut fleet, 2, 0);
        for second in [0, 30] {
            assert_eq!(
                wait_of(&fleet.decide(second)),
                ("DriverNotWanted".into(), false),
                "{driver:?} {second}"
            );
        }
        wants(&mut fleet, 3, 0);
        assert_eq!(
            wait_of(&fleet.decide(40)),
            ("DriverComing".into(), false),
            "{driver:?}: it was a moment's"
        );
        wants(&mut fleet, 2, 0);
        for second in [50, 80, 109] {
            assert_eq!(
                wait_of(&fleet.decide(second)),
                ("DriverNotWanted".into(), false),
                "{driver:?} {second}"
            );
        }
        fleet.node("nic-0").ready = false;
        assert!(
            !wait_of(&fleet.decide(110)).1,
            "{driver:?}: a node that restarts may have taints that keep pods away"
        );
        fleet.node("nic-0").ready = true;
        assert!(!wait_of(&fleet.decide(120)).1, "{driver:?}: its minute starts again");
        assert_eq!(wait_of(&fleet.decide(180)), ("DriverNotWanted".into(), true), "{driver:?}");
        assert_eq!(
            wait_of(&fleet.decide(191)),
            ("DriverNotWanted".into(), true),
            "{driver:?}: a patch that was not taken is asked for again"
        );
    }
}

/// Regression: the node was reported as failed and kept its cordon as long as its record existed.
#[test]
fn unwanted_failed_node_does_not_stay_failed() {
    for driver in BOTH {
        let failure = r#","attempts":{"driver-timeout":3},"failure":{"cause":"driver-timeout","message":"no driver pod came within 600 s"}"#;
        let mut fleet = left(driver, "upgrade-failed", failure);
        fleet.settings.upgrade.attempts = 1;
        assert_eq!(wait_of(&fleet.decide(0)), (String::new(), false), "{driver:?}: it has failed");
        wants(&mut fleet, 2, 0);
        assert_eq!(wait_of(&fleet.decide(10)), ("DriverNotWanted".into(), false), "{driver:?}");
        assert_eq!(wait_of(&fleet.decide(70)), ("DriverNotWanted".into(), true), "{driver:?}");
    }
}
