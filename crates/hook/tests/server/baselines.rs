//! A run is not responsible for what was broken before it. It is responsible for what it broke,
//! also in later runs.

use contract::exit::ExitCode;
use serde_json::json;

use crate::settings::OPERATOR;
use crate::world::{World, named};

pub(crate) const VALIDATOR: &str = "nvidia-operator-validator";

/// Makes the validator's pod on a node crash repeatedly, or run again.
pub(crate) fn validator(world: &World, node: &str, works: bool) {
    let name = world.name_of_pod(OPERATOR, VALIDATOR, node);
    world.edit("pods", OPERATOR, &name, |pod| {
        let status = &mut pod["status"];
        status["conditions"][0]["status"] = json!(if works { "True" } else { "False" });
        let container = &mut status["containerStatuses"][0];
        container["ready"] = json!(works);
        container["restartCount"] = json!(7);
        container["state"] = if works {
            json!({"running": {}})
        } else {
            json!({"waiting": {"reason": "CrashLoopBackOff"}})
        };
    });
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_excuses_nothing_broken_in_run() {
    let world = World::at_rest(2);
    let first = world.start("pod-a", "job-1");
    world.pass(5).await;
    first.handle.abort();
    validator(&world, "gpu-1", false);
    let ended = world.run("pod-b", "job-1").await;
    assert_eq!(ended.code, ExitCode::Budget, "{}", ended.message);
    assert_eq!(named(&ended), ["gpu-1:OperandNotReady"]);
}

/// A failed run leaves a broken validator behind. Hours later the deployment is tried again, and
/// the validator is still broken.
#[tokio::test(flavor = "local", start_paused = true)]
async fn run_after_failed_one_excuses_nothing_broken() {
    let world = World::at_rest(2);
    let first = world.start("pod-a", "job-1");
    world.pass(5).await;
    validator(&world, "gpu-1", false);
    assert_eq!(world.ends(first).await.code, ExitCode::Budget);
    for (pod, job) in [("pod-b", "job-2"), ("pod-c", "job-3")] {
        world.pass(7200).await;
        world.install(&world.settings.clone(), job);
        let ended = world.run(pod, job).await;
        assert_eq!(ended.code, ExitCode::Budget, "{job}: {}", ended.message);
    }
    // It is repaired, and breaks long after a success, so no run broke it.
    validator(&world, "gpu-1", true);
    world.install(&world.settings.clone(), "job-4");
    assert_eq!(world.run("pod-d", "job-4").await.code, ExitCode::Success);
    validator(&world, "gpu-1", false);
    world.pass(7200).await;
    let changed =
        contract::settings::Settings { digest: "another".into(), ..world.settings.clone() };
    world.install(&changed, "job-5");
    let ended = world.ends(world.start_with(&changed, "pod-e", "job-5")).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled", "gpu-1:FailedBefore"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replacement_pod_knows_what_was_broken_before() {
    let world = World::at_rest(2);
    validator(&world, "gpu-1", false);
    let first = world.start("pod-a", "job-1");
    world.pass(5).await;
    first.handle.abort();
    // Its pod is recreated, so by its age alone it would belong to this deployment.
    let name = world.name_of_pod(OPERATOR, VALIDATOR, "gpu-1");
    let pod = world.get("pods", OPERATOR, &name);
    world.remove("pods", OPERATOR, &name);
    world.put("pods", OPERATOR, "nvidia-operator-validator-again", pod);
    let ended = world.run("pod-b", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:Settled", "gpu-1:FailedBefore"]);
}
