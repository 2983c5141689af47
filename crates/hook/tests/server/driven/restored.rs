//! An etcd that is restored from a backup during a run.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::policy::CompletionPolicy;
use serde_json::json;

use super::Driven;
use super::play::job_ends;
use crate::fake::fault::Break;
use crate::fake::store::Key;
use crate::world::{edit, named};

/// Regression: every list was older than the observed state, and the hook made no decision until
/// the deadline. If a server ends its watches regularly, the hook does not even list again. It
/// watches silently from a future version.
#[tokio::test(flavor = "local", start_paused = true)]
async fn restored_etcd_is_believed_after_a_minute() {
    for (how, most) in [(Break::Gone, 70), (Break::EndOfFile, 5 * 66 + 75)] {
        let wait = CompletionPolicy { pod_selector: "app=train".into(), timeout_seconds: 0 };
        let fleet = Driven::new(Driver::Gpu, |settings| {
            settings.upgrade.policy.wait_for_completion = Some(wait.clone());
        });
        let fleet = fleet
            .works(("Job", "train"), "gpu-0", 1, true)
            .with(|script| script.people.push((900, job_ends)))
            .begin();
        let server = fleet.world.server.clone();
        let pod = fleet.start("pod-a");
        fleet.world.pass(100).await;
        let version = server.state().store.version;
        for count in 0..3000 {
            edit(&server, &Key::new("nodes", "", "gpu-2"), |node| {
                node["metadata"]["annotations"]["example.com/touched"] = json!(count.to_string());
            });
        }
        fleet.world.pass(20).await;
        server.change(|state| {
            state.store.restore(version);
            state.breaks.push(how);
        });
        let restored = fleet.world.clock.now();
        let ended = fleet.ends(pod).await;
        assert_eq!(ended.code, ExitCode::Success, "{how:?}: {}", ended.message);
        assert_eq!(named(&ended)[0], "*:Settled", "{how:?}");
        for node in ["gpu-0", "gpu-1", "gpu-2"] {
            assert_eq!(fleet.left(node), "", "{how:?} {node}");
        }
        let watches = fleet
            .world
            .log()
            .into_iter()
            .filter(|entry| entry.request.verb == "watch" && entry.request.resource == "nodes");
        let version = |text: &str| text.parse::<u64>().unwrap() < version + 1000;
        let restarted = watches
            .filter(|entry| entry.at > restored && version(&entry.request.query["resourceVersion"]))
            .map(|entry| entry.at)
            .min();
        let took = restarted.unwrap().duration_since(restored).as_secs();
        assert!((60..=most).contains(&took), "{how:?}: believed after {took} s");
    }
}
