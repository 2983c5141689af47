//! The end of a run that has not finished: untouched nodes are released, also if an obstacle delays
//! that.

use contract::budget::{MARGIN_SECONDS, RELEASE_SECONDS};
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::policy::CompletionPolicy;
use contract::settings::DraRequired;
use serde_json::json;

use super::Driven;
use crate::fake::fault::{Break, Effect, Fault};
use crate::settings::{DRA, OPERATOR};
use crate::world::objects::Operand;
use crate::world::{Pod, named};

/// When a run of one hour must have ended.
const DEADLINE: u64 = 3600 - MARGIN_SECONDS;

/// Returns a fleet in which `gpu-0` waits for a job that does not end.
fn waiting() -> Driven {
    let wait = CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 0 };
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.policy.wait_for_completion = Some(wait.clone());
    });
    fleet.works(("Job", "train"), "gpu-0", 1, true).begin()
}

async fn is_released(fleet: &Driven, pod: Pod, what: &str) {
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Budget, "{what}: {}", ended.message);
    assert_eq!(named(&ended).last().map(String::as_str), Some("gpu-0:Released"), "{what}");
    assert_eq!(fleet.left("gpu-0"), "", "{what}");
    let second = u64::try_from(fleet.world.second()).unwrap();
    assert!(second < DEADLINE + RELEASE_SECONDS, "{what}: {second}");
}

/// Regression: a gap in a watch ended the run at the deadline, and the node kept its cordon.
#[tokio::test(flavor = "local", start_paused = true)]
async fn watch_gap_at_deadline_ends_before_nodes_release() {
    let fleet = waiting();
    let pod = fleet.start("pod-a");
    fleet.world.pass(DEADLINE - 10).await;
    assert_ne!(fleet.left("gpu-0"), "");
    fleet.world.server.change(|state| {
        let reads = |request: &crate::fake::request::Request| {
            ["list", "watch"].contains(&request.verb) && request.resource != "leases"
        };
        state.faults.push(Fault::new(reads, 0, usize::MAX, Effect::Status(500)));
        state.breaks.push(Break::Cut);
    });
    fleet.world.pass(25).await;
    fleet.world.server.state().faults.clear();
    is_released(&fleet, pod, "a gap").await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn lease_lost_during_release_is_taken_again() {
    let fleet = waiting();
    let pod = fleet.start("pod-a");
    fleet.world.pass(DEADLINE - 1).await;
    let patches =
        Fault::new(|request| request.is("patch", "nodes"), 0, usize::MAX, Effect::Status(500));
    fleet.world.server.state().faults.push(patches);
    fleet.world.pass(2).await;
    let holder = |name: Option<&str>| {
        fleet.world.edit("leases", "default", names::LEASE_NAME, |lease| {
            lease["spec"]["holderIdentity"] = json!(name);
        });
    };
    holder(Some("another-pod"));
    fleet.world.pass(8).await;
    assert_eq!(fleet.world.holder().as_deref(), Some("another-pod"));
    holder(None);
    fleet.world.server.state().faults.clear();
    is_released(&fleet, pod, "a lost Lease").await;
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_after_deadline_releases_nodes() {
    for (dies, starts) in [(3, 2), (1, 15)] {
        let fleet = waiting();
        let pod = fleet.start("pod-a");
        fleet.world.pass(DEADLINE - dies).await;
        pod.handle.abort();
        fleet.world.pass(dies + starts).await;
        assert_ne!(fleet.left("gpu-0"), "");
        is_released(&fleet, fleet.start("pod-b"), "another pod").await;
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn unreleased_nodes_are_named() {
    let fleet = waiting();
    let pod = fleet.start("pod-a");
    fleet.world.pass(DEADLINE - 5).await;
    fleet.world.server.goes_away(100_000);
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::ApiUnreachable, "{}", ended.message);
    assert_eq!(named(&ended), ["*:LeaseUnreachable", "gpu-0:NotReleased"]);
    assert!(fleet.world.second() < 3600 - 30, "{}", fleet.world.second());

    let fleet = waiting();
    let pod = fleet.start("pod-a");
    fleet.world.pass(DEADLINE - 5).await;
    let patches =
        Fault::new(|request| request.is("patch", "nodes"), 0, usize::MAX, Effect::Status(500));
    fleet.world.server.state().faults.push(patches);
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Budget, "{}", ended.message);
    assert_eq!(named(&ended).last().map(String::as_str), Some("gpu-0:NotReleased"));
}

/// Regression: a run that failed because the whole fleet waited left untouched nodes cordoned.
#[tokio::test(flavor = "local", start_paused = true)]
async fn nodes_are_released_before_absent_operator_fails_the_run() {
    let fleet = waiting();
    let pod = fleet.start("pod-a");
    fleet.world.pass(60).await;
    assert_ne!(fleet.left("gpu-0"), "");
    fleet.world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |deployment| {
        (deployment["spec"]["replicas"], deployment["status"]) = (json!(0), json!({}));
    });
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::OperatorMissing, "{}", ended.message);
    assert_eq!(named(&ended), ["*:OperatorNotReady", "gpu-0:Released"]);
    assert_eq!(fleet.left("gpu-0"), "");
}

/// As above: the DRA driver is missing, and the nodes are assessed nevertheless.
#[tokio::test(flavor = "local", start_paused = true)]
async fn nodes_are_released_before_missing_dra_driver_fails_the_run() {
    let wait = CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 0 };
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.upgrade.policy.wait_for_completion = Some(wait.clone());
        settings.dra.required = DraRequired::True;
    });
    let fleet = fleet.works(("Job", "train"), "gpu-0", 1, true).begin();
    let pod = fleet.start("pod-a");
    fleet.world.pass(60).await;
    assert_ne!(fleet.left("gpu-0"), "");
    fleet.world.remove("daemonsets", DRA, Operand::Plugin.daemon_set());
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::DraMissing, "{}", ended.message);
    assert_eq!(named(&ended).last().map(String::as_str), Some("gpu-0:Released"));
    assert_eq!(fleet.left("gpu-0"), "");
}
