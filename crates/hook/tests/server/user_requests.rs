//! What users ask for: who, when and why is in the run record, and pauses by annotation end.

use std::collections::BTreeMap;

use contract::driver::Driver;
use contract::pause::ANNOTATION;
use contract::user_request::{MOST_REQUESTS, RequestCommand, UserRequest};
use jiff::SignedDuration;
use kube_io::user_request::record_request;
use ops::pause::resume;
use ops::report::report;
use ops::status::status;
use ops::why::explain_node;
use serde_json::{Value, json};

use crate::person::Person;
use crate::world::World;

const RIGHTS: &[(&str, &str, &str)] = &[
    ("patch", "", "nodes"),
    ("get", "", "configmaps"),
    ("patch", "", "configmaps"),
    ("delete", "", "configmaps"),
];

fn request(world: &World, seconds: i64) -> UserRequest {
    let at = world.clock.now() + SignedDuration::from_secs(seconds);
    UserRequest {
        nodes: vec!["gpu-1".to_owned()],
        reason: Some("INC-7".to_owned()),
        ..UserRequest::new(RequestCommand::Retry, "ada".to_owned(), at)
    }
}

async fn record(world: &World, person: &Person, request: &UserRequest) {
    let settings = &world.settings;
    record_request(&person.client, &settings.namespace, &settings.record, request).await.unwrap();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn request_of_a_user_survives_the_run() {
    let mut world = World::at_rest(2);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    world.upgrade(&[1, 0]);
    let pod = world.start("pod-a", "job-1");
    world.pass(2).await;
    let asked = request(&world, 0);
    record(&world, &person, &asked).await;
    world.ends(pod).await;
    let snapshot = person.observe(&world).await;
    assert_eq!(status(&snapshot).requests, std::slice::from_ref(&asked));
    assert_eq!(report(&snapshot).requests, std::slice::from_ref(&asked));
    let explained = |node| explain_node(&snapshot, node).map(|node| node.requests);
    assert_eq!(explained("gpu-1"), Some(vec![asked]));
    assert_eq!(explained("gpu-0"), Some(Vec::new()));
    // A new run reads the record of the last one, and reports only requests of its own.
    world.pass(60).await;
    world.settings.digest = "e".repeat(64);
    let settings = world.settings.clone();
    world.install(&settings, "job-2");
    world.run("pod-b", "job-2").await;
    let snapshot = person.observe(&world).await;
    assert_eq!((status(&snapshot).requests.len(), report(&snapshot).requests.len()), (1, 0));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn record_keeps_the_newest_requests() {
    let world = World::at_rest(1);
    let mut person = Person::with_rights(&world, RIGHTS).await;
    let requests: Vec<UserRequest> = (0..40).map(|seconds| request(&world, seconds)).collect();
    for request in &requests {
        record(&world, &person, request).await;
    }
    let kept = person.observe(&world).await.record.requests;
    assert_eq!(kept, requests[requests.len() - MOST_REQUESTS..]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn resume_removes_annotation_and_its_hold() {
    let world = World::at_rest(2);
    let traits = Driver::Gpu.traits();
    for node in ["gpu-0", "gpu-1"] {
        world.edit("nodes", "", node, |node| {
            node["metadata"]["annotations"][ANNOTATION] = json!("INC-7");
            node["metadata"]["annotations"][traits.hold] = json!("pause");
            node["metadata"]["labels"][traits.skip_label] = json!("true");
        });
    }
    let mut person = Person::with_rights(&world, RIGHTS).await;
    let pauses = status(&person.observe(&world).await).pauses;
    assert_eq!(pauses.len(), 1, "{pauses:#?}");
    assert_eq!(pauses[0].nodes, ["gpu-0", "gpu-1"]);
    let none = BTreeMap::new();
    let resumed =
        resume(&person.client, &mut person.observers, (&none, true), || world.clock.now());
    assert_eq!(resumed.await.unwrap().failures.len(), 0);
    for node in ["gpu-0", "gpu-1"] {
        let metadata = world.get("nodes", "", node)["metadata"].clone();
        assert_eq!(metadata["annotations"][ANNOTATION], Value::Null);
        assert_eq!(metadata["annotations"][traits.hold], Value::Null);
        assert_eq!(metadata["labels"][traits.skip_label], Value::Null);
    }
}
