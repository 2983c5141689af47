//! The API server refuses all writes to one node. That node fails with the server's message, the
//! other nodes are upgraded, and the hook does not repeat the write endlessly.

use contract::count::Count;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::policy::PodDeletionPolicy;
use contract::record::{NODE_KEY_PREFIX, NodeOutcome, NodeRecord};
use planner::write_refusals::WEBHOOK_ATTEMPTS;
use serde_json::Value;

use super::objects::Kind;
use super::{Driven, NODES};
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::world::named;

const REFUSED: &str = "gpu-1";

/// Answers of real servers.
const ANSWERS: [Effect; 5] = [
    Effect::Answer(
        403,
        "nodes \"gpu-1\" is forbidden: ValidatingAdmissionPolicy 'reserved' with binding 'reserved' denied request: ask the platform team",
    ),
    // The message does not show its origin, so the hook checks the right itself.
    Effect::Answer(403, "gpu-1 is forbidden: it is reserved, ask the platform team"),
    Effect::Answer(
        403,
        "pods \"x\" is forbidden: exceeded quota: ask the platform team, requested: pods=1, used: pods=4, limited: pods=4",
    ),
    Effect::Answer(422, "Node \"gpu-1\" is invalid: ask the platform team"),
    Effect::Answer(
        500,
        "Internal error occurred: failed calling webhook \"ask.the.platform\": Post \"https://x.svc\": context deadline exceeded (ask the platform team)",
    ),
];

fn fleet() -> Driven {
    let fleet = Driven::new(Driver::Gpu, |settings| {
        settings.budget_seconds = 2 * 3600;
        settings.upgrade.policy.max_unavailable = Some(Count::Number(2));
        settings.upgrade.policy.pod_deletion =
            Some(PodDeletionPolicy { timeout_seconds: 600, ..PodDeletionPolicy::default() });
    });
    fleet.serves("train", REFUSED, 1, true)
}

/// Returns the names of the chosen pods on the node.
fn pods(fleet: &Driven, chosen: impl Fn(&Value) -> bool) -> Vec<String> {
    let state = fleet.world.server.state();
    let on_node = |pod: &Value| pod["spec"]["nodeName"] == REFUSED && chosen(pod);
    state
        .store
        .objects
        .iter()
        .filter(|(key, pod)| key.resource == "pods" && on_node(pod))
        .map(|(key, _)| key.name.clone())
        .collect()
}

/// Returns a predicate for the writes of one kind to the node.
fn writes(fleet: &Driven, what: &str) -> Box<dyn Fn(&Request) -> bool + Send> {
    let is_driver = |pod: &Value| Kind::of(pod) == Some(Kind::driver(Driver::Gpu));
    match what {
        "node" => {
            Box::new(|request: &Request| request.is("patch", "nodes") && request.name == REFUSED)
        }
        "cordon" => Box::new(|request: &Request| {
            request.is("patch", "nodes")
                && request.name == REFUSED
                && request.body["spec"]["unschedulable"] == true
        }),
        "uncordon" => Box::new(|request: &Request| {
            request.is("patch", "nodes")
                && request.name == REFUSED
                && request.body["spec"].get("unschedulable").is_some_and(Value::is_null)
        }),
        "eviction" => {
            let names = pods(fleet, |pod| Kind::of(pod).is_none());
            Box::new(move |request: &Request| {
                request.is("create", "pods/eviction") && names.contains(&request.name)
            })
        }
        "driver" => {
            let names = pods(fleet, is_driver);
            Box::new(move |request: &Request| {
                request.is("delete", "pods") && names.contains(&request.name)
            })
        }
        "plugin" => {
            let names = pods(fleet, |pod| Kind::of(pod).is_some() && !is_driver(pod));
            Box::new(move |request: &Request| {
                request.is("delete", "pods") && names.contains(&request.name)
            })
        }
        what => panic!("no writes `{what}`"),
    }
}

fn record(fleet: &Driven) -> NodeRecord {
    let settings = &fleet.stages[0].0;
    let object = fleet.world.get("configmaps", &settings.namespace, &settings.record);
    serde_json::from_str(object["data"][format!("{NODE_KEY_PREFIX}{REFUSED}")].as_str().unwrap())
        .unwrap()
}

fn refused_requests(fleet: &Driven) -> usize {
    let is_refused = |status: u16| matches!(status, 403 | 422 | 500);
    fleet
        .world
        .log()
        .iter()
        .filter(|entry| entry.request.is_write() && is_refused(entry.status))
        .count()
}

/// Regression: with the 422, no node was upgraded until the deadline. With the 403, the run ended
/// for all nodes after one minute.
#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_write_fails_its_node_and_no_other() {
    for what in ["node", "cordon", "uncordon", "eviction", "driver", "plugin"] {
        for answer in ANSWERS {
            let fleet = fleet();
            let matches = writes(&fleet, what);
            fleet.world.server.state().faults.push(Fault::new(matches, 0, usize::MAX, answer));
            let fleet = fleet.begin();
            let ended = fleet.run("pod-a").await;
            let place = format!("{what}, {answer:?}");
            assert_eq!(ended.code, ExitCode::NodesFailed, "{place}: {}", ended.message);
            assert_eq!(named(&ended), ["gpu-1:WriteRefused"], "{place}");
            assert!(
                ended.message.contains("ask the platform team"),
                "{place}: the server's words: {}",
                ended.message
            );
            fleet.assert_safe(&place);
            for index in (0..NODES).filter(|index| *index != 1) {
                assert_eq!(fleet.left(&format!("gpu-{index}")), "", "{place}: gpu-{index}");
            }
            let refused = refused_requests(&fleet);
            assert!(
                (1..=2 * WEBHOOK_ATTEMPTS as usize).contains(&refused),
                "{place}: {refused} refused requests"
            );
            let record = record(&fleet);
            assert_eq!(record.outcome, Some(NodeOutcome::Failed), "{place}");
            assert!(record.reason.is_some_and(|reason| reason.name == "WriteRefused"), "{place}");
            let cordoned = fleet.world.get("nodes", "", REFUSED)["spec"]["unschedulable"] == true;
            let kept = matches!(what, "uncordon" | "plugin");
            assert_eq!(cordoned, kept, "{place}: {}", fleet.left(REFUSED));
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_node_is_done_by_the_next_deployment() {
    for what in ["node", "uncordon", "eviction", "driver", "plugin"] {
        let fleet = fleet();
        let matches = writes(&fleet, what);
        fleet.world.server.state().faults.push(Fault::new(matches, 0, usize::MAX, ANSWERS[0]));
        let mut fleet = fleet.begin();
        assert_eq!(fleet.run("pod-a").await.code, ExitCode::NodesFailed, "{what}");
        // A replacement pod of the same Job sends no write.
        let asked = refused_requests(&fleet);
        assert_eq!(fleet.run("pod-b").await.code, ExitCode::NodesFailed, "{what}");
        assert_eq!(refused_requests(&fleet), asked, "{what}");
        fleet.world.server.state().faults.clear();
        fleet.deployed_anew();
        let ended = fleet.run("pod-c").await;
        assert_eq!(ended.code, ExitCode::Success, "{what}: {}", ended.message);
        assert_eq!(fleet.left(REFUSED), "", "{what}");
    }
}

/// The hook waits for a webhook that restarts.
#[tokio::test(flavor = "local", start_paused = true)]
async fn briefly_failing_webhook_fails_no_node() {
    for what in ["node", "eviction", "driver", "plugin"] {
        let fleet = fleet();
        let matches = writes(&fleet, what);
        fleet.world.server.state().faults.push(Fault::new(matches, 0, 2, ANSWERS[4]));
        let fleet = fleet.begin();
        let ended = fleet.run("pod-a").await;
        assert_eq!(ended.code, ExitCode::Success, "{what}: {}", ended.message);
        assert_eq!(refused_requests(&fleet), 2, "{what}");
    }
}

/// Regression: a state label that admission dropped from the patch was written endlessly.
#[tokio::test(flavor = "local", start_paused = true)]
async fn patch_that_admission_changes_is_not_repeated() {
    let fleet = fleet();
    let matches = writes(&fleet, "node");
    fleet.world.server.state().faults.push(Fault::new(matches, 0, usize::MAX, Effect::DropLabels));
    let fleet = fleet.begin();
    let ended = fleet.run("pod-a").await;
    assert_eq!(ended.code, ExitCode::NodesFailed, "{}", ended.message);
    assert_eq!(named(&ended), ["gpu-1:WriteRefused"]);
    assert!(
        ended.message.contains("gpu-rollout.dev/gpu-driver-upgrade-state"),
        "the message names what admission drops: {}",
        ended.message
    );
    let patches = fleet
        .world
        .log()
        .iter()
        .filter(|entry| entry.request.is("patch", "nodes") && entry.request.name == REFUSED)
        .count();
    assert!(patches <= 4, "{patches} patches");
    assert_ne!(
        fleet.world.get("nodes", "", REFUSED)["spec"]["unschedulable"],
        true,
        "the node is released"
    );
    for index in (0..NODES).filter(|index| *index != 1) {
        assert_eq!(fleet.left(&format!("gpu-{index}")), "", "gpu-{index}");
    }
}
