//! A user aborts at any call of a hook, and the abort itself is killed at any of its calls. When it
//! is run again, it leaves no cordon, label, record or Lease of gpu-rollout, and does not change
//! anything of others.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use contract::acceptance::ACCEPTANCE_NAMESPACE;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::pause::{ANNOTATION, Pause};
use contract::settings::{Mode, Settings};
use jiff::Timestamp;
use ops::abort::{HOLDER, Leftovers, abort, find_leftovers};
use ops::find_rollouts::find_rollouts;
use ops::node_write::{NodeWriteFailure, exit_code, texts};
use ops::session::ClusterSession;
use serde_json::{Value, json};

use super::moments::{Undisturbed, reached};
use super::stories::{Story, numbered};
use super::{Driven, NODES};
use crate::fake::fault::{Effect, Fault};
use crate::fake::rights::Grant;
use crate::world::Pod;

/// Grants the user the rights that a hook does not have.
fn allow(fleet: &Driven) {
    let rights = [
        ("list", "", "nodes"),
        ("get", "", "configmaps"),
        ("patch", "", "configmaps"),
        ("create", "", "configmaps"),
        ("delete", "", "configmaps"),
        ("get", "batch", "jobs"),
        ("patch", "batch", "jobs"),
        ("get", "coordination.k8s.io", "leases"),
        ("delete", "coordination.k8s.io", "leases"),
        ("patch", "", "nodes"),
        ("list", "", "pods"),
        ("delete", "", "pods"),
    ];
    fleet.world.server.change(|state| {
        state
            .grants
            .extend(rights.map(|(verb, group, resource)| Grant::everywhere(verb, group, resource)));
    });
}

fn cordoned(fleet: &Driven) -> BTreeSet<String> {
    let names = (0..NODES).map(|index| format!("gpu-{index}"));
    names
        .filter(|name| fleet.world.get("nodes", "", name)["spec"]["unschedulable"] == true)
        .collect()
}

/// Returns everything of gpu-rollout in the cluster.
fn ours(fleet: &Driven) -> Vec<String> {
    let state = fleet.world.server.state();
    let mut found = Vec::new();
    for (key, object) in &state.store.objects {
        let named = (key.resource == "leases" && key.name == names::LEASE_NAME)
            || key.name == names::PAUSE_NAME
            || key.namespace == ACCEPTANCE_NAMESPACE && key.resource == "pods";
        found.extend(named.then(|| format!("{} {}", key.resource, key.name)));
        if key.resource == "nodes" {
            let parts = ["labels", "annotations"]
                .map(|part| object["metadata"][part].as_object().cloned().unwrap_or_default());
            let keys = parts
                .iter()
                .flat_map(|part| part.keys())
                .filter(|key| key.starts_with("gpu-rollout.dev/"));
            found.extend(keys.map(|label| format!("{}: {label}", key.name)));
        }
    }
    found
}

/// Aborts. A Job with a deadline of one second fails when its pod has ended. Returns whether the abort
/// finished: it may die at a call.
async fn aborts(fleet: &Driven, pod: &Pod) -> bool {
    let hooks: Vec<Settings> = fleet.stages.iter().map(|(settings, _)| settings.clone()).collect();
    let hooks: Vec<&Settings> = hooks.iter().collect();
    let (client, clock) = (fleet.world.server.client(HOLDER), fleet.world.clock.clone());
    let pause = new_pause(clock.now());
    let aborting = abort(&client, &hooks, &pause, (false, Arc::new(move || clock.now())), |_| ());
    let kubelet = async {
        loop {
            tokio::time::sleep(Duration::from_millis(100)).await;
            for settings in &hooks {
                let job = fleet.world.get("jobs", &settings.namespace, &settings.release);
                if job["spec"]["activeDeadlineSeconds"] != 1 {
                    continue;
                }
                pod.stop.send_replace(true);
                if pod.handle.is_finished() {
                    let failed = json!([{"type": "Failed", "status": "True"}]);
                    let (namespace, name) = (&settings.namespace, &settings.release);
                    fleet.world.edit("jobs", namespace, name, |job| {
                        job["status"]["conditions"] = failed;
                    });
                }
            }
        }
    };
    tokio::select! {
        wrong = aborting => {
            assert_eq!(texts(&wrong.unwrap()), Vec::<String>::new(), "every node is released");
            true
        }
        () = fleet.world.server.told.notified() => false,
        () = kubelet => unreachable!("the kubelet does not end"),
    }
}

/// Aborts at the given call of the hook. With `dies`, an earlier abort dies at one of its own
/// calls. Returns `false` if there was no such call.
async fn aborted(
    story: &Story,
    undisturbed: &Undisturbed,
    nth: usize,
    dies: Option<(usize, Effect)>,
) -> bool {
    let fleet = story.begin();
    let before = cordoned(&fleet);
    let Some(pod) = reached(&fleet, nth, Effect::Tell).await else { return false };
    let place = undisturbed.place(story, &format!("aborted ({dies:?})"), nth);
    allow(&fleet);
    if let Some((call, effect)) = dies {
        fleet.world.server.state().faults.push(Fault::new(
            |request| request.who == HOLDER,
            call,
            1,
            effect,
        ));
        aborts(&fleet, &pod).await;
        fleet.world.server.state().faults.clear();
        fleet.world.pass(60).await;
    }
    assert!(aborts(&fleet, &pod).await, "{place}");
    fleet.world.pass(60).await;
    assert_eq!(ours(&fleet), Vec::<String>::new(), "{place}");
    let after = cordoned(&fleet);
    assert!(after.is_subset(&before), "{place}: {after:?} are cordoned, before {before:?}");
    true
}

/// Aborts at many calls of all stories. `step`: number of calls between two aborts, by number of
/// the story.
async fn abort_at(step: impl Fn(usize) -> usize, deaths: &[Option<(usize, Effect)>]) {
    let mut count = 0;
    for (at, story) in numbered() {
        let undisturbed = Undisturbed::of(story).await;
        for (place, nth) in undisturbed.moments(at, step(at)).into_iter().enumerate() {
            let dies = deaths[(place + at) % deaths.len()];
            count += usize::from(aborted(story, &undisturbed, nth, dies).await);
        }
    }
    assert!(count > numbered().count() * 2, "{count} aborts");
}

/// Returns the calls at which an abort dies: pause, Job, Lease, pods of tests, nodes, Lease, pause.
fn deaths() -> Vec<Option<(usize, Effect)>> {
    let all = (0..20).flat_map(|call| {
        [Effect::CrashBefore, Effect::CrashAfter].map(|effect| Some((call, effect)))
    });
    std::iter::once(None).chain(all).collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn abort_at_any_call_removes_our_objects() {
    abort_at(|at| if at == 0 { 5 } else { 43 }, &deaths()).await;
}

#[tokio::test(flavor = "local", start_paused = true)]
#[ignore = "soak: every call of every story"]
async fn soak_abort_at_any_call_removes_our_objects() {
    for dies in deaths() {
        abort_at(|_| 1, &[dies]).await;
    }
}

/// Regression, in mode `assist`: `gpu-0` is done, `gpu-1` is being upgraded, `gpu-2` waits and has
/// the wake label. The abort removed the hook's own hold for a pause, and NVIDIA's controller
/// continued two minutes later.
#[tokio::test(flavor = "local", start_paused = true)]
async fn fleet_still_paused_is_held_after_abort() {
    let traits = Driver::Gpu.traits();
    let change = |settings: &mut Settings| settings.mode = Mode::Assist;
    let label = |state: &'static str| {
        move |node: &mut Value| node["metadata"]["labels"][traits.state_label] = json!(state)
    };
    let fleet = Driven::new(Driver::Gpu, change)
        .node("gpu-0", label("upgrade-done"))
        .node("gpu-1", label("drain-required"));
    let fleet = fleet.node("gpu-2", |node| {
        label("upgrade-required")(node);
        node["metadata"]["labels"][traits.skip_label] = json!("gpu-rollout-wake-1");
    });
    allow(&fleet);
    let settings = fleet.stages[0].0.clone();
    fleet.world.remove("jobs", &settings.namespace, &settings.release);
    let holds = |fleet: &Driven| -> Vec<(Value, Value)> {
        let nodes = (0..NODES)
            .map(|index| fleet.world.get("nodes", "", &format!("gpu-{index}"))["metadata"].clone());
        nodes
            .map(|node| {
                (
                    node["labels"][traits.skip_label].clone(),
                    node["annotations"][traits.hold].clone(),
                )
            })
            .collect()
    };
    let held = (json!("true"), json!("pause"));
    let free = (Value::Null, Value::Null);
    let leftovers = leftovers(&fleet, &settings, true).await;
    assert_eq!(leftovers.in_progress, ["gpu-1"], "the abort does not stop its upgrade");
    for _ in 0..2 {
        // A second abort has nothing to do.
        assert_eq!(abort_of(&fleet, &settings, true).await, Vec::<String>::new());
        assert_eq!(holds(&fleet), [held.clone(), free.clone(), held.clone()]);
        assert!(
            !fleet.world.get("configmaps", "default", names::PAUSE_NAME).is_null(),
            "the pause stays"
        );
    }
    assert_eq!(abort_of(&fleet, &settings, false).await, Vec::<String>::new());
    assert_eq!(holds(&fleet), [free.clone(), free.clone(), free]);
    assert_eq!(ours(&fleet), Vec::<String>::new());
}

/// Returns the nodes with the hold of a pause.
fn held_by_pause(fleet: &Driven) -> Vec<String> {
    let traits = Driver::Gpu.traits();
    let is_held = |name: &String| {
        let node = fleet.world.get("nodes", "", name);
        node["metadata"]["annotations"][traits.hold] == "pause"
            && node["metadata"]["labels"][traits.skip_label] == "true"
    };
    (0..NODES).map(|index| format!("gpu-{index}")).filter(is_held).collect()
}

/// Regression: the abort released the nodes of another user's pause, which stayed listed. `gpu-0`
/// and `gpu-1` are held, `gpu-2` is not held yet.
#[tokio::test(flavor = "local", start_paused = true)]
async fn abort_keeps_holds_of_another_users_pause() {
    let traits = Driver::Gpu.traits();
    let text = |selector: Option<&str>| {
        json!({"selector": selector, "by": "bob", "at": "2026-01-01T00:00:00Z"}).to_string()
    };
    let cases = [
        (Some(("fleet", text(None))), vec!["gpu-0", "gpu-1", "gpu-2"]),
        (Some(("nodes-0123456789ab", text(Some("pool=a")))), vec!["gpu-1"]),
        (None, vec!["gpu-2"]),
    ];
    for (written, covered) in cases {
        let fleet = Driven::new(Driver::Gpu, |settings| settings.mode = Mode::Assist);
        allow(&fleet);
        let settings = fleet.stages[0].0.clone();
        fleet.world.remove("jobs", &settings.namespace, &settings.release);
        for node in ["gpu-0", "gpu-1"] {
            fleet.world.edit("nodes", "", node, |node| {
                node["metadata"]["labels"][traits.skip_label] = json!("true");
                node["metadata"]["annotations"][traits.hold] = json!("pause");
            });
        }
        fleet.world.edit("nodes", "", "gpu-1", |node| {
            node["metadata"]["labels"]["pool"] = json!("a");
        });
        match &written {
            Some((key, text)) => {
                let data = json!({"kind": "ConfigMap", "apiVersion": "v1", "data": {*key: text}});
                fleet.world.put("configmaps", "default", names::PAUSE_NAME, data);
            }
            None => fleet.world.edit("nodes", "", "gpu-2", |node| {
                node["metadata"]["annotations"][ANNOTATION] = json!("INC-7");
            }),
        }
        let leftovers = leftovers(&fleet, &settings, false).await;
        let paused = (leftovers.pauses.len(), leftovers.annotated);
        if written.is_some() {
            assert_eq!(paused, (1, Vec::new()));
        } else {
            assert_eq!(paused, (0, vec!["gpu-2".to_owned()]));
        }
        for _ in 0..2 {
            assert_eq!(abort_of(&fleet, &settings, false).await, Vec::<String>::new());
            assert_eq!(held_by_pause(&fleet), covered, "{written:?}");
        }
        let data = fleet.world.get("configmaps", "default", names::PAUSE_NAME)["data"].clone();
        assert_eq!(data["abort"], Value::Null, "{written:?}");
        if let Some((key, text)) = &written {
            assert_eq!(data[*key], json!(text), "the pause of the other user stays");
        }
    }
}

/// Regression: the abort did not name a hook release that it could not read, and the Job of this
/// release continued.
#[tokio::test(flavor = "local", start_paused = true)]
async fn abort_refuses_hook_releases_that_it_cannot_read() {
    let fleet = Driven::new(Driver::Gpu, |_| ());
    let server = &fleet.world.server;
    server.change(|state| {
        for (group, resource) in [("", "configmaps"), ("apps", "deployments")] {
            state.grants.push(Grant::everywhere("list", group, resource));
        }
    });
    let labels =
        json!({"app.kubernetes.io/name": names::PROGRAM, names::DIGEST_LABEL: "d".repeat(12)});
    let settings = json!({"formatVersion": 99}).to_string();
    let trigger = json!({
        "kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"labels": labels}, "data": {"settings": settings},
    });
    fleet.world.put("configmaps", "later", "later-trigger", trigger);
    for (denied, code, named) in [
        (None, ExitCode::NewerFormat, "configmap later/later-trigger: "),
        (Some("list configmaps"), ExitCode::Rights, "cannot search for hook releases: "),
    ] {
        server.change(|state| state.denied.extend(denied.map(str::to_owned)));
        let (client, clock) = (server.client(HOLDER), fleet.world.clock.clone());
        let found = find_rollouts(&client, None).await.unwrap();
        let limit = Duration::from_mins(1);
        let session = ClusterSession::new(client, found, limit, Arc::new(move || clock.now()));
        let error = session.every_hook().unwrap_err();
        assert_eq!(error.exit_code(), code);
        let message = error.to_string();
        assert!(message.starts_with(&format!("no changes made: {named}")), "{message}");
        assert!(session.notes().iter().any(|note| note.starts_with(named)), "{message}");
    }
}

/// In mode `drive`, NVIDIA's controller is off. It finishes no node, regardless of the labels.
#[tokio::test(flavor = "local", start_paused = true)]
async fn abort_of_driven_fleet_names_no_begun_node() {
    let label = |node: &mut Value| {
        node["metadata"]["labels"][Driver::Gpu.traits().state_label] = json!("drain-required");
    };
    let fleet = Driven::new(Driver::Gpu, |_| ()).node("gpu-1", label);
    allow(&fleet);
    let leftovers = leftovers(&fleet, &fleet.stages[0].0, false).await;
    assert_eq!(leftovers.in_progress, Vec::<String>::new());
}

/// Regression: the abort exited with the code of failed upgrades, and its hint was about driver
/// pods.
#[tokio::test(flavor = "local", start_paused = true)]
async fn abort_with_refused_patch_lacks_rights() {
    let hold = |node: &mut Value| {
        node["metadata"]["annotations"][Driver::Gpu.traits().hold] = json!("pause");
    };
    let fleet = Driven::new(Driver::Gpu, |_| ()).node("gpu-1", hold);
    allow(&fleet);
    let settings = fleet.stages[0].0.clone();
    fleet.world.remove("jobs", &settings.namespace, &settings.release);
    let answer = Effect::Answer(
        403,
        "nodes \"gpu-1\" is forbidden: User \"ada\" cannot patch resource \"nodes\" in API group \"\"",
    );
    fleet.world.server.state().faults.push(Fault::new(
        |request| request.is("patch", "nodes"),
        0,
        usize::MAX,
        answer,
    ));
    let failures = failures_of(&fleet, &settings, false).await;
    assert_eq!(exit_code(&failures), ExitCode::Rights);
    assert!(texts(&failures)[0].starts_with("gpu-1: the API server refuses: "), "{failures:?}");
}

fn new_pause(at: Timestamp) -> Pause {
    Pause { selector: None, by: "ada".to_owned(), reason: None, at, until: None }
}

async fn leftovers(fleet: &Driven, settings: &Settings, stays_paused: bool) -> Leftovers {
    let (client, now) = (fleet.world.server.client(HOLDER), fleet.world.clock.now());
    find_leftovers(&client, &[settings], stays_paused, now).await.unwrap()
}

async fn abort_of(fleet: &Driven, settings: &Settings, stays_paused: bool) -> Vec<String> {
    texts(&failures_of(fleet, settings, stays_paused).await)
}

async fn failures_of(
    fleet: &Driven,
    settings: &Settings,
    stays_paused: bool,
) -> Vec<NodeWriteFailure> {
    let (client, clock) = (fleet.world.server.client(HOLDER), fleet.world.clock.clone());
    let pause = new_pause(clock.now());
    abort(&client, &[settings], &pause, (stays_paused, Arc::new(move || clock.now())), |_| ())
        .await
        .unwrap()
}
