//! The process dies before and after each of its writes. The Job's next pod must reach the same
//! end.

use contract::exit::ExitCode;
use contract::record::NodeOutcome;

use crate::fake::fault::{Effect, Fault};
use crate::world::World;

fn migrating() -> World {
    let mut world = World::at_rest(2);
    world.upgrade(&[1, 0]);
    world
}

type Left = (Option<ExitCode>, Vec<(String, Option<NodeOutcome>, usize)>, Option<String>);

/// The final state that must not depend on interruptions of the run.
fn left_behind(world: &World) -> Left {
    let nodes = world
        .recorded_nodes()
        .into_iter()
        .map(|(name, node)| (name, node.outcome, node.replaced.len()))
        .collect();
    (
        world.recorded().and_then(|run| run.verdict).map(|verdict| verdict.code),
        nodes,
        world.holder(),
    )
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn crash_at_any_write_keeps_the_end() {
    let undisturbed = migrating();
    undisturbed.run("pod-a", "job-1").await;
    let expected = left_behind(&undisturbed);
    let writes = undisturbed.writes("pod-a").len();
    assert!(writes > 20, "{writes}");
    for nth in 0..writes {
        for effect in [Effect::CrashBefore, Effect::CrashAfter] {
            let world = migrating();
            let fault =
                Fault::new(|request| request.who == "pod-a" && request.is_write(), nth, 1, effect);
            world.server.state().faults.push(fault);
            let mut first = world.start("pod-a", "job-1");
            tokio::select! {
                () = world.server.told.notified() => {}
                _ = &mut first.handle => panic!("write {nth} of {writes} was not reached"),
            }
            first.handle.abort();
            world.pass(1).await;
            let ended = world.run("pod-b", "job-1").await;
            let place = format!(
                "{effect:?} at write {nth}: {:?}",
                world.writes("pod-a").last().unwrap().request
            );
            assert_eq!(ended.code, ExitCode::Success, "{place}: {}", ended.message);
            world.assert_replaced_once();
            let mut found = left_behind(&world);
            if found.2.as_deref() == Some("pod-a") {
                // It died while it released the Lease. The verdict was already written, and the
                // Lease expires.
                found.2 = None;
            }
            assert_eq!(found, expected, "{place}");
        }
    }
}
