//! Mode `assist` around an upgrade of the operator. The hook before the operator's release holds
//! all nodes, and the hook after it releases them.

use std::time::Duration;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::settings::{HoldNodes, Mode, Settings};
use contract::task::Task;
use ops::doctor::examine;
use ops::observe::{RolloutObserver, RolloutSnapshot};
use ops::status::status;
use ops::target::RolloutTarget;
use serde_json::{Value, json};

use crate::fake::fault::{Effect, Fault};
use crate::fake::rights::Grant;
use crate::settings::{OPERATOR, settings};
use crate::world::{World, named};

const NODES: usize = 3;
const NEW_VERSION: &str = "v26.7.0";

/// Returns the settings of the release before the operator's.
fn pre() -> Settings {
    Settings {
        release: "gpu-operator-pre".into(),
        record: "gpu-operator-pre-record".into(),
        tasks: vec![Task::Preflight, Task::Hold],
        mode: Mode::Assist,
        component_version: Some(NEW_VERSION.into()),
        digest: "e".repeat(64),
        budget_seconds: 900,
        ..settings()
    }
}

/// Returns the settings of the release after the operator's.
fn post() -> Settings {
    Settings {
        tasks: vec![Task::Settle, Task::Wake, Task::Reroll],
        mode: Mode::Assist,
        ..settings()
    }
}

fn installs(world: &World, version: &str) {
    let chart = format!("gpu-operator-{version}");
    world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |deployment| {
        deployment["metadata"]["labels"] =
            json!({"helm.sh/chart": chart, "app.kubernetes.io/version": version});
    });
}

/// Returns a settled cluster with the old operator, before the hook of the new release starts.
fn world() -> World {
    let world = World::at_rest(NODES);
    installs(&world, "v26.3.1");
    world.install(&pre(), "job-pre");
    world
}

/// Returns the held nodes with the annotations of their holds.
fn held(world: &World) -> Vec<(String, Value)> {
    let traits = Driver::Gpu.traits();
    let held = |name: &String| {
        let node = world.get("nodes", "", name);
        let purpose = node["metadata"]["annotations"][traits.hold].as_str()?.to_owned();
        assert_eq!(node["metadata"]["labels"][traits.skip_label], "true", "{name}");
        Some((name.clone(), serde_json::from_str(&purpose).unwrap_or(Value::String(purpose))))
    };
    (0..NODES).map(|index| format!("gpu-{index}")).filter_map(|name| held(&name)).collect()
}

fn node_patches(world: &World, who: &str) -> usize {
    world.writes(who).iter().filter(|entry| entry.request.is("patch", "nodes")).count()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn operator_upgrade_holds_nodes_until_its_hook() {
    let world = world();
    let ended = world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:PreflightPassed", "*:NodesHeld"]);
    let holds = held(&world);
    assert_eq!(holds.len(), NODES);
    assert_eq!(holds[0].1["release"], "gpu-operator/gpu-operator-pre");
    assert_eq!(holds[0].1["digest"], "e".repeat(64));
    // The deployer runs it again, and nothing is left to write.
    world.install(&pre(), "job-pre-2");
    let ended = world.ends(world.start_with(&pre(), "pre-b", "job-pre-2")).await;
    assert_eq!(
        (ended.code, world.writes("pre-b").len()),
        (ExitCode::Success, 0),
        "{}",
        ended.message
    );
    installs(&world, NEW_VERSION);
    world.install(&post(), "job-1");
    let ended = world.ends(world.start_with(&post(), "post-a", "job-1")).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(held(&world), []);
}

/// The hook after the operator's release has completed this deployment before. It must notice the
/// holds before it exits.
#[tokio::test(flavor = "local", start_paused = true)]
async fn completed_deployment_releases_holds_again() {
    let world = world();
    let post = post();
    world.install(&post, "job-1");
    assert_eq!(
        world.ends(world.start_with(&post, "post-a", "job-1")).await.code,
        ExitCode::Success
    );
    assert_eq!(
        world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await.code,
        ExitCode::Success
    );
    assert_eq!(held(&world).len(), NODES);
    world.install(&post, "job-2");
    let ended = world.ends(world.start_with(&post, "post-b", "job-2")).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(held(&world), []);
    world.install(&post, "job-3");
    world.ends(world.start_with(&post, "post-c", "job-3")).await;
    assert_eq!(world.writes("post-c").len(), 0, "no work is left");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn same_version_first_install_and_never_hold_nothing() {
    type Change = fn(&World, &mut Settings);
    let cases: [(&str, Change); 3] = [
        ("same version", |world, _| installs(world, NEW_VERSION)),
        ("first install", |world, _| {
            world.remove("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT);
        }),
        ("never", |_, settings| settings.operator_upgrade.hold = HoldNodes::Never),
    ];
    for (place, change) in cases {
        let (world, mut settings) = (world(), pre());
        change(&world, &mut settings);
        // Only the rights of these settings.
        world.server.change(|state| state.grants.clear());
        world.install(&settings, "job-pre");
        let ended = world.ends(world.start_with(&settings, "pre-a", "job-pre")).await;
        assert_eq!(ended.code, ExitCode::Success, "{place}: {}", ended.message);
        assert_eq!(named(&ended), ["*:PreflightPassed", "*:NoNodeHeld"], "{place}");
        assert_eq!((held(&world), node_patches(&world, "pre-a")), (vec![], 0), "{place}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn refused_hold_fails_the_deployment() {
    for answer in [
        Effect::Answer(
            403,
            "nodes \"gpu-1\" is forbidden: ValidatingAdmissionPolicy 'reserved' denied request: ask the platform team",
        ),
        Effect::Answer(422, "Node \"gpu-1\" is invalid: ask the platform team"),
    ] {
        let world = world();
        let fault = Fault::new(
            |request| request.is("patch", "nodes") && request.name == "gpu-1",
            0,
            usize::MAX,
            answer,
        );
        world.server.state().faults.push(fault);
        let ended = world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await;
        assert_eq!(ended.code, ExitCode::NodesFailed, "{answer:?}: {}", ended.message);
        assert_eq!(named(&ended), ["*:HoldRefused", "gpu-1:HoldRefused"]);
        assert!(
            ended.message.contains("ask the platform team"),
            "the server's message: {}",
            ended.message
        );
        let names: Vec<String> = held(&world).into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["gpu-0", "gpu-2"], "the other nodes stay held");
    }
}

/// Regression: the refusal of a node that had left the cluster was never dropped. The task waited
/// until its deadline and failed, although all nodes were held.
#[tokio::test(flavor = "local", start_paused = true)]
async fn hold_forgets_refusal_of_a_removed_node() {
    let world = world();
    let fault = Fault::new(
        |request| request.is("patch", "nodes") && request.name == "gpu-1",
        0,
        usize::MAX,
        Effect::Answer(500, "failed calling webhook \"nodes.example.com\": no answer"),
    );
    world.server.state().faults.push(fault);
    let pod = world.start_with(&pre(), "pre-a", "job-pre");
    while !world.log().iter().any(|entry| entry.status == 500) {
        world.pass(1).await;
    }
    world.remove("nodes", "", "gpu-1");
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(named(&ended), ["*:PreflightPassed", "*:NodesHeld"]);
    assert!(world.second() < 60, "{} s", world.second());
    let names: Vec<String> = held(&world).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, ["gpu-0", "gpu-2"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn missing_right_to_hold_fails_before_any_write() {
    for right in ["patch nodes", "list deployments"] {
        let world = world();
        world.server.change(|state| {
            state.denied.insert(right.to_owned());
        });
        let ended = world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await;
        assert_eq!(ended.code, ExitCode::Rights, "{right}: {}", ended.message);
        assert_eq!((held(&world), world.writes("pre-a").len()), (vec![], 0), "{right}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn hold_killed_at_any_write_is_completed() {
    let undisturbed = world();
    undisturbed.ends(undisturbed.start_with(&pre(), "pre-a", "job-pre")).await;
    let writes = undisturbed.writes("pre-a").len();
    assert!(writes > NODES, "{writes}");
    for nth in 0..writes {
        for effect in [Effect::CrashBefore, Effect::CrashAfter] {
            let world = world();
            let fault =
                Fault::new(|request| request.who == "pre-a" && request.is_write(), nth, 1, effect);
            world.server.state().faults.push(fault);
            let mut first = world.start_with(&pre(), "pre-a", "job-pre");
            tokio::select! {
                () = world.server.told.notified() => {}
                _ = &mut first.handle => panic!("write {nth} of {writes} was not reached"),
            }
            first.handle.abort();
            world.pass(1).await;
            let ended = world.ends(world.start_with(&pre(), "pre-b", "job-pre")).await;
            let place = format!("{effect:?} at write {nth}");
            assert_eq!(ended.code, ExitCode::Success, "{place}: {}", ended.message);
            assert_eq!(held(&world).len(), NODES, "{place}");
        }
    }
}

/// Returns the snapshot for `doctor`, `status` and `why` after the last Job after the operator's
/// release has ended.
async fn look(world: &World, mode: Mode) -> RolloutSnapshot {
    let tasks = vec![Task::Preflight, Task::Settle, Task::Wake, Task::Reroll];
    let settings = Settings { tasks, mode, ..post() };
    world.install(&settings, "job-ended");
    world.edit("jobs", OPERATOR, &settings.release, |job| {
        job["status"]["conditions"] = json!([{"type": "Complete", "status": "True"}]);
    });
    // A user may read pods, to find out what a node waits for.
    let reads = ["list", "watch"].map(|verb| Grant::everywhere(verb, "", "pods"));
    world.server.change(|state| state.grants.extend(reads));
    let release = Some(format!("{OPERATOR}/{}", settings.release));
    let client = world.server.client("person");
    let mut looking = RolloutObserver::begin(
        &client,
        &RolloutTarget { settings, release, deployer: None },
        Duration::from_mins(1),
    )
    .await
    .unwrap();
    looking.observe(|| world.clock.now()).await.unwrap()
}

/// Regression: a deployment that ended before the hook after the operator left nodes on their old
/// drivers without any finding.
#[tokio::test(flavor = "local", start_paused = true)]
async fn held_nodes_without_hook_are_named() {
    let world = world();
    let snapshot = look(&world, Mode::Assist).await;
    assert!(
        examine(&snapshot, &status(&snapshot)).iter().all(|finding| finding.check != "held-nodes"),
        "no node is held"
    );
    world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await;
    let snapshot = look(&world, Mode::Assist).await;
    let status = status(&snapshot);
    assert!(status.holds_unattended);
    let held = status.nodes[0].held.clone().unwrap();
    assert_eq!(
        (held.purpose, held.release.as_deref()),
        ("operator-upgrade", Some("gpu-operator/gpu-operator-pre"))
    );
    assert_eq!(
        (held.deployment, held.operator.as_deref()),
        (Some("e".repeat(64)), Some("from v26.3.1 to v26.7.0"))
    );
    assert!(held.since.is_some());
    let waiting = status.nodes[0].waiting.clone().unwrap();
    assert_eq!((waiting.reason, waiting.resolves_itself), ("NotRunning", false));
    assert!(waiting.text.starts_with("held by"), "{}", waiting.text);
    assert_eq!(waiting.since.at, held.since);
    let found = examine(&snapshot, &status);
    let finding = found.iter().find(|finding| finding.check == "held-nodes").unwrap();
    assert_eq!(finding.nodes, ["gpu-0", "gpu-1", "gpu-2"]);
    // An abort is not what most users need, so it is not offered for copying.
    assert!(finding.remedy.text.contains("gpu-rollout abort") && finding.remedy.run.is_empty());
}

/// Regression (P4): while the operator's release was deployed, all held nodes were said to be
/// released at this moment.
#[tokio::test(flavor = "local", start_paused = true)]
async fn held_nodes_before_the_new_operator_are_called_held() {
    let world = world();
    world.ends(world.start_with(&pre(), "pre-a", "job-pre")).await;
    drop(look(&world, Mode::Assist).await);
    world.edit("jobs", OPERATOR, &post().release, |job| job["status"] = json!({"active": 1}));
    let client = world.server.client("person");
    let release = Some(format!("{OPERATOR}/{}", post().release));
    let target = RolloutTarget { settings: post(), release, deployer: None };
    let mut observer =
        RolloutObserver::begin(&client, &target, Duration::from_mins(1)).await.unwrap();
    let status = status(&observer.observe(|| world.clock.now()).await.unwrap());
    assert!(!status.holds_unattended);
    let waiting = status.nodes[0].waiting.clone().unwrap();
    assert_eq!((waiting.reason, waiting.resolves_itself), ("Held", true));
    assert!(waiting.text.starts_with("held by"), "{}", waiting.text);
}

/// Regression (P7): `doctor` did not name the holds of mode `steer` while no hook was running.
#[tokio::test(flavor = "local", start_paused = true)]
async fn steered_nodes_without_hook_are_named() {
    let world = world();
    let traits = Driver::Gpu.traits();
    for index in 0..NODES {
        world.edit("nodes", "", &format!("gpu-{index}"), |node| {
            node["metadata"]["annotations"][traits.hold] = json!("steer");
            node["metadata"]["labels"][traits.skip_label] = json!("true");
        });
    }
    let snapshot = look(&world, Mode::Steer).await;
    let status = status(&snapshot);
    assert!(status.holds_unattended);
    for row in &status.nodes {
        let held = row.held.clone().unwrap();
        assert_eq!((held.purpose, held.release), ("steer", None));
        let waiting = row.waiting.clone().unwrap();
        assert_eq!((waiting.reason, waiting.resolves_itself), ("NotRunning", false));
    }
    let found = examine(&snapshot, &status);
    let finding = found.iter().find(|finding| finding.check == "held-nodes").unwrap();
    assert_eq!(finding.nodes, ["gpu-0", "gpu-1", "gpu-2"]);
}
