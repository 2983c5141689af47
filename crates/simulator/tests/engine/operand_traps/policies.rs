//! Several custom resources, of which the operator acts on one or none.

use contract::exit::ExitCode;
use planner::reason::Reason;

use crate::fleet::{Fleet, named, waits};
use crate::nvidia_drivers::failed;
use crate::operands;

/// The ClusterPolicy reports the error. Running pods keep running.
#[test]
fn trap_28_gpu_cluster_with_cluster_policy_ends_run() {
    let mut fleet = Fleet::at_rest(2);
    let message = "ClusterPolicy and GPUCluster cannot co-exist";
    fleet.policy().conditions = failed("ReconcileFailed", message);
    assert_eq!(waits(&fleet.decide(0)), ["*:ReconcileFailed"]);
    let verdict = fleet.decide(120).verdict.expect("the grace time is over");
    assert_eq!(verdict.code, ExitCode::OperatorMissing);
    assert_eq!(named(&verdict), ["*:ReconcileFailed"]);
}

/// The settings name a ClusterPolicy that the operator ignores, so its status never changes.
#[test]
fn trap_31_ignored_cluster_policy_ends_run() {
    for driver in [true, false] {
        let mut fleet = operands::fleet(2);
        let policy = fleet.policy();
        (policy.uid, policy.state, policy.ready_reason) = ("second".into(), None, None);
        (policy.driver_enabled, policy.toolkit_enabled) = (driver, driver);
        let decision = fleet.decide(0);
        assert_eq!(
            *decision.waits.at(0).reason,
            Reason::PolicyIgnored { name: "cluster-policy".into() }
        );
        assert_eq!(fleet.decide(119).verdict, None);
        let verdict = fleet.decide(120).verdict.expect("the grace time is over");
        assert_eq!(verdict.code, ExitCode::OperatorMissing);
        assert_eq!(named(&verdict), ["*:PolicyIgnored"]);
        // The operator soon acts on a new ClusterPolicy whose DaemonSets were kept without owner.
        for daemon_set in &mut fleet.observed.daemon_sets {
            daemon_set.owner = None;
        }
        assert!(!matches!(&*fleet.decide(121).waits.at(0).reason, Reason::PolicyIgnored { .. }));
    }
}
