//! Failing writes of `pause`, `resume` and `skip`. Exit code and message must be those of the
//! cause, not of failed upgrades.

use contract::exit::ExitCode;
use contract::pause::Pause;
use ops::apply::{RequestOutcome, apply};
use ops::node_request::NodeRequest;
use ops::node_write::{NodeWriteFailure, exit_code, texts};
use ops::pause::{pause, resume};

use crate::fake::fault::{Effect, Fault};
use crate::person::Person;
use crate::world::World;

const RIGHTS: &[(&str, &str, &str)] = &[
    ("patch", "", "nodes"),
    ("get", "", "configmaps"),
    ("patch", "", "configmaps"),
    ("create", "", "configmaps"),
    ("delete", "", "configmaps"),
];

/// The API server's answer to the patch of a node, the exit code, and a part of the message.
const ANSWERS: &[(Effect, ExitCode, &str)] = &[
    (
        Effect::Answer(
            403,
            "nodes \"gpu-1\" is forbidden: User \"ada\" cannot patch resource \"nodes\" in API group \"\"",
        ),
        ExitCode::Rights,
        "User \"ada\" cannot patch",
    ),
    (
        Effect::Answer(422, "Node \"gpu-1\" is invalid: ask the platform team"),
        ExitCode::Rights,
        "ask the platform team",
    ),
    (Effect::Status(503), ExitCode::ApiUnreachable, "503"),
    (Effect::Hang, ExitCode::ApiUnreachable, "no answer from the API server"),
    (Effect::DropLabels, ExitCode::NodesFailed, "admission removed"),
];

fn disturb(world: &World, effect: Effect) {
    let fault = Fault::new(
        |request| request.is("patch", "nodes") && request.name == "gpu-1",
        0,
        usize::MAX,
        effect,
    );
    world.server.state().faults.push(fault);
}

fn new_pause(world: &World) -> Pause {
    Pause { selector: None, by: "ada".to_owned(), reason: None, at: world.clock.now() }
}

fn assert_told(failures: &[NodeWriteFailure], (effect, code, text): (Effect, ExitCode, &str)) {
    let told = texts(failures);
    assert_eq!(exit_code(failures), code, "{effect:?}: {told:?}");
    assert!(
        told.len() == 1 && told[0].starts_with("gpu-1: ") && told[0].contains(text),
        "{effect:?}: {told:?}"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failed_hold_of_a_pause_gives_code_of_its_cause() {
    for answer in ANSWERS {
        let world = World::at_rest(3);
        let mut person = Person::with_rights(&world, RIGHTS).await;
        disturb(&world, answer.0);
        let new = new_pause(&world);
        let failures =
            pause(&person.client, &mut person.observers, &new, None, || world.clock.now())
                .await
                .unwrap();
        assert_told(&failures, *answer);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failed_release_of_a_resume_gives_code_of_its_cause() {
    let world = World::at_rest(3);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    let new = new_pause(&world);
    let failures = pause(&person.client, &mut person.observers, &new, None, || world.clock.now())
        .await
        .unwrap();
    assert_eq!(exit_code(&failures), ExitCode::Success);
    let answer = ANSWERS[0];
    disturb(&world, answer.0);
    let failures =
        resume(&person.client, &mut person.observers, (&["fleet".to_owned()], false), || {
            world.clock.now()
        })
        .await
        .unwrap();
    assert_told(&failures, answer);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn failed_request_for_a_node_gives_code_of_its_cause() {
    for answer in ANSWERS {
        let world = World::at_rest(2);
        let mut person = Person::with_rights(&world, RIGHTS).await;
        disturb(&world, answer.0);
        match apply(&mut person.observers[0], NodeRequest::Skip, "gpu-1", || world.clock.now())
            .await
            .unwrap()
        {
            RequestOutcome::Failed(error) => {
                assert_told(&[NodeWriteFailure::new("gpu-1", error)], *answer);
            }
            outcome @ (RequestOutcome::Done(_) | RequestOutcome::Nothing(_)) => {
                panic!("{answer:?}: {outcome:?}")
            }
        }
    }
}

/// Regression: the hint named the rights for reading.
#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_pause_is_told_as_a_refused_write() {
    let refused = Effect::Answer(
        403,
        "configmaps is forbidden: User \"ada\" cannot patch resource \"configmaps\" in API group \"\"",
    );
    for (effect, code) in
        [(refused, ExitCode::Rights), (Effect::Status(503), ExitCode::ApiUnreachable)]
    {
        let world = World::at_rest(1);
        let mut person = Person::with_rights(&world, RIGHTS).await;
        world.server.state().faults.push(Fault::new(
            |request| request.is("patch", "configmaps"),
            0,
            usize::MAX,
            effect,
        ));
        let new = new_pause(&world);
        let ended =
            pause(&person.client, &mut person.observers, &new, None, || world.clock.now()).await;
        let error = ended.err().unwrap();
        assert_eq!(error.exit_code(), code);
        assert!(error.to_string().starts_with("cannot write the pause: "), "{error}");
        assert!(!error.hint().contains("list and watch"), "{}", error.hint());
    }
}
