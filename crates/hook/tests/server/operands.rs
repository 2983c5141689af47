//! The validator on one node is not ready, missing or of an old revision while the whole hook runs.
//! The run must not succeed early, and the run record must have the right reason.

use contract::exit::ExitCode;
use ops::doctor::examine;
use ops::status::status;
use serde_json::json;

use crate::baselines::{VALIDATOR, validator};
use crate::person::Person;
use crate::settings::OPERATOR;
use crate::world::World;
use crate::world::objects::{Operand, revision};

/// Breaks the validator of `gpu-1` in the fifth second of the run. Returns a function that repairs
/// it.
type Break = fn(&World) -> Box<dyn Fn(&World)>;

fn not_ready(world: &World) -> Box<dyn Fn(&World)> {
    validator(world, "gpu-1", false);
    Box::new(|world| validator(world, "gpu-1", true))
}

fn missing(world: &World) -> Box<dyn Fn(&World)> {
    let name = world.name_of_pod(OPERATOR, VALIDATOR, "gpu-1");
    let pod = world.get("pods", OPERATOR, &name);
    world.remove("pods", OPERATOR, &name);
    Box::new(move |world| {
        drop(world.put("pods", OPERATOR, "nvidia-operator-validator-again", pod.clone()));
    })
}

fn old(world: &World) -> Box<dyn Fn(&World)> {
    let newer = revision(Operand::Validator, 2, "newer");
    world.put(
        "controllerrevisions",
        OPERATOR,
        newer["metadata"]["name"].as_str().unwrap(),
        newer.clone(),
    );
    Box::new(|world| {
        for node in ["gpu-0", "gpu-1"] {
            let name = world.name_of_pod(OPERATOR, VALIDATOR, node);
            world.edit("pods", OPERATOR, &name, |pod| {
                pod["metadata"]["labels"]["controller-revision-hash"] = json!("newer");
            });
        }
    })
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn each_unready_missing_or_old_operand_is_named() {
    let breaks: [(&str, Break); 3] =
        [("OperandNotReady", not_ready), ("OperandMissing", missing), ("OperandOutdated", old)];
    for (reason, breaks) in breaks {
        let world = World::at_rest(2);
        let pod = world.start("pod-a", "job-1");
        world.pass(5).await;
        let mend = breaks(&world);
        world.pass(900).await;
        assert!(!pod.handle.is_finished(), "{reason}");
        let told = world.recorded_nodes().remove("gpu-1").and_then(|node| node.reason).unwrap();
        assert!(told.name == reason && told.text.contains(VALIDATOR), "{told}");
        mend(&world);
        let ended = world.ends(pod).await;
        assert_eq!(ended.code, ExitCode::Success, "{reason}: {}", ended.message);
        assert!(world.second() < 960, "{reason}: {} s", world.second());
    }
}

/// Regression (P7): `doctor` did not report operands that did not work.
#[tokio::test(flavor = "local", start_paused = true)]
async fn doctor_names_a_broken_operand() {
    let world = World::at_rest(2);
    validator(&world, "gpu-1", false);
    world.edit("jobs", OPERATOR, &world.settings.release, |job| {
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
    });
    let mut person = Person::with_rights(&world, &[]).await;
    let snapshot = person.observe(&world).await;
    let findings = examine(&snapshot, &status(&snapshot));
    let broken: Vec<_> =
        findings.iter().filter(|finding| finding.check == "broken-operands").collect();
    assert_eq!(broken.len(), 1, "{findings:#?}");
    assert_eq!(broken[0].nodes, ["gpu-1"]);
}
