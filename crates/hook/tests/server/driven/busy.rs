//! An API server that sheds load during evictions.

use contract::driver::Driver;
use contract::exit::ExitCode;
use jiff::Timestamp;

use super::Driven;
use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::world::at;

/// Regression: the hook requested the eviction of each pod separately, every five seconds, although
/// only the busy server refused it.
#[tokio::test(flavor = "local", start_paused = true)]
async fn busy_server_is_asked_for_evictions_when_allowed() {
    let made = || {
        let fleet = Driven::new(Driver::Gpu, |settings| {
            settings.upgrade.policy.pod_deletion.as_mut().unwrap().timeout_seconds = 0;
        });
        fleet.serves("serve", "gpu-0", 12, true).protected("serve", 1)
    };
    let evicts = |request: &Request| request.is("create", "pods/eviction");
    for (effect, most) in [(Effect::Status(503), 12 + 15), (Effect::Busy(55), 12 + 12)] {
        let fleet = made().begin();
        fleet.world.server.state().faults.push(Fault::new(evicts, 0, usize::MAX, effect));
        let pod = fleet.start("pod-a");
        fleet.world.pass(600).await;
        let asked: Vec<Timestamp> = fleet
            .world
            .log()
            .iter()
            .filter(|entry| evicts(&entry.request))
            .map(|entry| entry.at)
            .collect();
        assert!((12 + 8..=most).contains(&asked.len()), "{effect:?}: {} requests", asked.len());
        fleet.world.server.state().faults.clear();
        let ended = fleet.ends(pod).await;
        assert_eq!(ended.code, ExitCode::Success, "{effect:?}: {}", ended.message);
        fleet.assert_safe("busy");
        let first = fleet
            .world
            .log()
            .into_iter()
            .find(|entry| entry.applied && evicts(&entry.request))
            .unwrap();
        assert!(first.at <= at(600 + 61), "{effect:?}: at most a minute later: {}", first.at);
    }
}
