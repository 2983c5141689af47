//! Writes of `pause`, `resume` and `skip`. Of failing writes, exit code and message must be those
//! of the cause, not of failed upgrades. Pauses of different users must not replace each other.

use std::collections::BTreeMap;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::pause::Pause;
use contract::selector::Selector;
use jiff::SignedDuration;
use observed::pause::has_hold;
use ops::apply::{RequestOutcome, apply};
use ops::doctor::examine;
use ops::node_request::NodeRequest;
use ops::node_write::{NodeWriteFailure, exit_code, texts};
use ops::pause::{Resumption, pause, pause_texts, pauses, resume};
use ops::status::status;
use serde_json::json;

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
    let at = world.clock.now();
    Pause { selector: None, by: "ada".to_owned(), reason: None, at, until: None }
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
    let shown = pause_texts(&person.client).await.unwrap();
    let resumed =
        resume(&person.client, &mut person.observers, (&shown, false), || world.clock.now());
    assert_told(&resumed.await.unwrap().failures, answer);
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
            |request| request.is_write() && request.resource == "configmaps",
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

/// Pauses the nodes with this selector in the name of a user.
async fn paused_by(world: &World, person: &mut Person, by: &str, selector: Option<&str>) {
    let selector = selector.map(str::to_owned);
    let parsed = selector.as_ref().map(|text| text.parse::<Selector>().unwrap());
    let new = Pause { selector, by: by.to_owned(), ..new_pause(world) };
    let clock = || world.clock.now();
    let failures =
        pause(&person.client, &mut person.observers, &new, parsed.as_ref(), clock).await.unwrap();
    assert_eq!(texts(&failures), Vec::<String>::new());
}

async fn users_of_pauses(person: &Person) -> Vec<String> {
    let texts = pause_texts(&person.client).await.unwrap();
    pauses(&texts).into_iter().map(|pause| pause.by).collect()
}

/// Regression: both pauses had the same data key. The second one replaced the first one, and one
/// `resume` ended both.
#[tokio::test(flavor = "local", start_paused = true)]
async fn second_pause_keeps_the_first_users_pause() {
    for selector in [None, Some("nvidia.com/gpu.present=true")] {
        let world = World::at_rest(2);
        let mut person = Person::with_rights(&world, RIGHTS).await;
        for by in ["ada", "system:serviceaccount:ci:bob", "ada", "system:serviceaccount:ci:bob"] {
            paused_by(&world, &mut person, by, selector).await;
        }
        let users = users_of_pauses(&person).await;
        assert_eq!(users, ["ada", "system:serviceaccount:ci:bob"], "{selector:?}");
        let mut shown = pause_texts(&person.client).await.unwrap();
        shown.retain(|_, text| text.contains("ada"));
        let resumed =
            resume(&person.client, &mut person.observers, (&shown, false), || world.clock.now())
                .await
                .unwrap();
        assert_eq!((resumed.failures.len(), resumed.replaced), (0, Vec::new()), "{selector:?}");
        let users = users_of_pauses(&person).await;
        assert_eq!(users, ["system:serviceaccount:ci:bob"], "{selector:?}");
        let snapshot = person.observe(&world).await;
        for node in snapshot.observed.nodes.values() {
            // In mode `observe`, `pause` itself sets the holds.
            assert!(has_hold(node, Driver::Gpu), "{selector:?}: {}", node.name);
        }
    }
}

/// Regression: `resume` removed a pause that had replaced the listed one while the user was asked
/// for confirmation.
#[tokio::test(flavor = "local", start_paused = true)]
async fn resume_leaves_a_pause_that_was_replaced() {
    let world = World::at_rest(2);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    paused_by(&world, &mut person, "ada", None).await;
    let shown = pause_texts(&person.client).await.unwrap();
    let newer = json!({"by": "bob", "at": "2026-01-01T00:00:00Z"}).to_string();
    world.edit("configmaps", names::LEASE_NAMESPACE, names::PAUSE_NAME, |object| {
        object["data"]["fleet"] = json!(newer);
    });
    let Resumption { failures, replaced } =
        resume(&person.client, &mut person.observers, (&shown, false), || world.clock.now())
            .await
            .unwrap();
    assert_eq!(texts(&failures), Vec::<String>::new());
    let replaced: Vec<&str> = replaced.iter().map(|pause| pause.by.as_str()).collect();
    assert_eq!((replaced, users_of_pauses(&person).await), (vec!["bob"], vec!["bob".to_owned()]));
    for node in person.observe(&world).await.observed.nodes.values() {
        assert!(has_hold(node, Driver::Gpu), "{}", node.name);
    }
}

/// When a pause has ended, no command counts it. In mode `observe`, its holds stay until `resume`.
#[tokio::test(flavor = "local", start_paused = true)]
async fn ended_pause_leaves_holds_until_resume() {
    let world = World::at_rest(2);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    let until = Some(world.clock.now() + SignedDuration::from_secs(60));
    let new = Pause { until, ..new_pause(&world) };
    let clock = || world.clock.now();
    let failures = pause(&person.client, &mut person.observers, &new, None, clock).await.unwrap();
    assert_eq!(texts(&failures), Vec::<String>::new());
    for (seconds, in_force, left) in [(1, 1, 0), (60, 0, 1)] {
        world.pass(seconds).await;
        let snapshot = person.observe(&world).await;
        let told = status(&snapshot);
        assert_eq!(told.pauses.len(), in_force, "{:?}", told.pauses);
        let found = examine(&snapshot, &told);
        let left_holds = found.iter().filter(|finding| finding.check == "left-holds");
        assert_eq!(left_holds.count(), left, "{found:?}");
        assert!(snapshot.observed.nodes.values().all(|node| has_hold(node, Driver::Gpu)));
    }
    let none = BTreeMap::new();
    let resumed =
        resume(&person.client, &mut person.observers, (&none, false), clock).await.unwrap();
    assert_eq!(texts(&resumed.failures), Vec::<String>::new());
    let snapshot = person.observe(&world).await;
    assert!(!snapshot.observed.nodes.values().any(|node| has_hold(node, Driver::Gpu)));
    assert_eq!(pause_texts(&person.client).await.unwrap(), none);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn next_pause_removes_one_that_has_ended() {
    let world = World::at_rest(1);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    let ended = json!({"by": "bob", "at": "2023-01-01T00:00:00Z", "until": "2023-01-02T00:00:00Z"});
    let data = json!({"fleet": ended.to_string()});
    let object = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": data});
    world.put("configmaps", names::LEASE_NAMESPACE, names::PAUSE_NAME, object);
    paused_by(&world, &mut person, "ada", Some("pool=a")).await;
    assert_eq!(users_of_pauses(&person).await, ["ada"]);
}
