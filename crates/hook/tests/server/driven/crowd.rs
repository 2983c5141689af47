//! More nodes at the same time than the hook can watch.

use contract::driver::Driver;
use contract::exit::ExitCode;
use kube_io::node_pods::MOST_NODES;

use super::Driven;
use crate::fake::fault::{Effect, Fault};

/// Regression: when one of the hundred watches became free, the nodes that still waited for one
/// failed, because their pods were not listed in time.
#[tokio::test(flavor = "local", start_paused = true)]
async fn node_waiting_for_a_place_has_not_failed() {
    let nodes = MOST_NODES + 12;
    let mut fleet = Driven::sized(nodes, &[Driver::Gpu], |settings| {
        settings.upgrade.policy.max_parallel_upgrades = 0;
        settings.upgrade.policy.max_unavailable = None;
        settings.upgrade.attempts = 1;
    });
    for index in 0..nodes {
        fleet = fleet.works(("Job", "train"), &format!("gpu-{index}"), 1, true);
    }
    let fleet = fleet.begin();
    let too_busy = Fault::new(
        |request| request.is("create", "pods/eviction"),
        0,
        usize::MAX,
        Effect::Status(429),
    );
    fleet.world.server.state().faults.push(too_busy);
    let pod = fleet.start("pod-a");
    fleet.world.pass(200).await;
    fleet.world.server.state().faults.clear();
    let ended = fleet.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    let started =
        |entry: &crate::fake::request::Entry| entry.applied && entry.request.is("delete", "pods");
    let drivers = fleet
        .world
        .log()
        .into_iter()
        .filter(|entry| started(entry) && entry.request.name.contains("driver-daemonset"))
        .count();
    assert_eq!(drivers, nodes, "each driver pod once");
}
