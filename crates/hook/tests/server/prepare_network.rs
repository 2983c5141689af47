//! Task `prepare-network`: the NicClusterPolicy stays when its chart does not render it any more.

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::task::Task;
use serde_json::{Value, json};

use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Entry;
use crate::fake::store::Key;
use crate::settings::settings;
use crate::world::{World, named};

const POLICY: &str = "nicclusterpolicies";

fn network(version: &str) -> World {
    let mut settings = settings();
    settings.tasks = vec![Task::PrepareNetwork];
    settings.driver = Driver::Ofed;
    settings.component = "network-operator".into();
    settings.component_version = Some(version.into());
    World::empty(settings)
}

fn put(world: &World, labels: &Value, annotations: &Value) {
    let metadata =
        json!({"name": names::NIC_CLUSTER_POLICY, "labels": labels, "annotations": annotations});
    world.put(
        POLICY,
        "",
        names::NIC_CLUSTER_POLICY,
        json!({"apiVersion": "mellanox.com/v1alpha1", "kind": "NicClusterPolicy", "metadata": metadata, "spec": {}}),
    );
}

fn helms(world: &World) {
    put(
        world,
        &json!({"app.kubernetes.io/managed-by": "Helm"}),
        &json!({"meta.helm.sh/release-name": "network-operator"}),
    );
}

fn annotations(world: &World) -> Value {
    world.get(POLICY, "", names::NIC_CLUSTER_POLICY)["metadata"]["annotations"].clone()
}

/// Returns the patches that changed the policy.
fn patches(world: &World) -> Vec<Entry> {
    world
        .log()
        .into_iter()
        .filter(|entry| entry.applied && entry.request.is("patch", POLICY))
        .collect()
}

fn kept() -> Value {
    json!({
        "meta.helm.sh/release-name": "network-operator",
        "helm.sh/resource-policy": "keep",
        "argocd.argoproj.io/sync-options": "Prune=false,Delete=false,ServerSideApply=true",
        "argocd.argoproj.io/compare-options": "IgnoreExtraneous",
    })
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn argo_cds_policy_keeps_application_in_sync() {
    let world = network("25.1.0");
    let tracked = "e2e-network-operator:mellanox.com/NicClusterPolicy:/nic-cluster-policy";
    put(&world, &json!({}), &json!({"argocd.argoproj.io/tracking-id": tracked}));
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    assert_eq!(annotations(&world)["argocd.argoproj.io/compare-options"], "IgnoreExtraneous");
    assert_eq!(
        annotations(&world)["argocd.argoproj.io/sync-options"],
        "Prune=false,Delete=false,ServerSideApply=true"
    );
    assert_eq!(world.run("pod-b", "job-2").await.code, ExitCode::Success);
    assert_eq!(patches(&world).len(), 1);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn nothing_to_retain_means_no_write() {
    type Arrange = fn(&World);
    let cases: [(&str, &str, Arrange); 4] = [
        ("there is no NicClusterPolicy", "25.1.0", |world| {
            world.server.state().served.remove(&("mellanox.com", POLICY));
        }),
        ("there is no NicClusterPolicy", "25.1.0", |_| ()),
        (
            "neither Helm nor the operator's Application manages the NicClusterPolicy",
            "25.1.0",
            |world| put(world, &json!({}), &json!({})),
        ),
        (
            "charts before 24.10 retain the NicClusterPolicy, because they render it",
            "24.7.1",
            helms,
        ),
    ];
    for (why, version, arrange) in cases {
        let world = network(version);
        arrange(&world);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(
            (ended.code, ended.message),
            (ExitCode::Success, format!("nothing to do: {why}"))
        );
        assert!(world.writes("pod-a").is_empty(), "{why}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn helms_policy_is_annotated_once() {
    let world = network("25.1.0");
    helms(&world);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(
        (ended.code, ended.message.as_str()),
        (ExitCode::Success, "the deployer retains the NicClusterPolicy")
    );
    assert_eq!(annotations(&world), kept());
    let patches = patches(&world);
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].request.query["fieldManager"], "gpu-rollout");
    assert_eq!(world.recorded().unwrap().verdict.unwrap().code, ExitCode::Success);
    assert!(
        world.events().iter().any(|(reason, _)| reason == "NicClusterPolicyKept"),
        "{:?}",
        world.events()
    );
    assert_eq!(world.holder(), None, "the Lease is released");

    world.install(&world.settings, "job-2");
    let ended = world.run("pod-b", "job-2").await;
    assert_eq!(
        (ended.code, ended.message.as_str()),
        (ExitCode::Success, "nothing to do: the NicClusterPolicy is already retained")
    );
    assert!(world.writes("pod-b").is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn foreign_options_stay_and_changes_are_read_again() {
    let world = network("26.4.1");
    put(
        &world,
        &json!({"app.kubernetes.io/managed-by": "Helm"}),
        &json!({"argocd.argoproj.io/sync-options": "Replace=true"}),
    );
    // An edit by a user comes between read and patch.
    let fault = Fault::new(|request| request.is("patch", POLICY), 0, 1, Effect::Status(409));
    world.server.state().faults.push(fault);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    assert_eq!(annotations(&world)["argocd.argoproj.io/sync-options"], "Replace=true,Prune=false");
    assert_eq!(annotations(&world)["helm.sh/resource-policy"], "keep");
    assert!(
        patches(&world)[0].request.body["metadata"]["resourceVersion"].is_string(),
        "only the version that was read is changed"
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_the_record_knows_of_configurations_stays() {
    let world = network("25.1.0");
    helms(&world);
    let configs = json!({"default": {"digest": "a", "since": "2023-11-14T22:13:20Z"}});
    let run = json!({"formatVersion": 1, "digest": "d", "job": "job-0", "startedAt": "2023-11-14T22:13:20Z", "configs": configs});
    world.edit("configmaps", &world.settings.namespace, &world.settings.record, |record| {
        record["data"]["run"] = json!(run.to_string());
    });
    world.run("pod-a", "job-1").await;
    let recorded = world.recorded().unwrap();
    assert_eq!(recorded.verdict.unwrap().code, ExitCode::Success);
    assert_eq!(json!(recorded.configs), configs);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_missing_right_is_named_before_any_write() {
    for right in
        ["get nicclusterpolicies", "patch nicclusterpolicies", "update leases", "patch configmaps"]
    {
        let world = network("25.1.0");
        helms(&world);
        world.server.state().denied.insert(right.to_owned());
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Rights, "{right}: {}", ended.message);
        assert!(ended.message.contains(right), "{right}: {}", ended.message);
        assert!(world.writes("pod-a").is_empty(), "{right}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn ever_changing_policy_is_patched_once_per_second() {
    let mut world = network("25.1.0");
    helms(&world);
    world.settings.budget_seconds = 200;
    world.server.state().faults.push(Fault::new(
        |request| request.is("patch", POLICY),
        0,
        1000,
        Effect::Status(409),
    ));
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::ApiUnreachable, "{}", ended.message);
    assert_eq!(named(&ended), ["*:ApiServerUnreachable"]);
    let tried = world.log().into_iter().filter(|entry| entry.request.is("patch", POLICY)).count();
    assert!(tried <= 200, "{tried}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn it_fails_closed() {
    // Another client removes the annotations as soon as they are written.
    let world = network("25.1.0");
    helms(&world);
    let (server, mut changes) = (world.server.clone(), world.server.changes());
    let thief = tokio::task::spawn_local(async move {
        let key = Key::new(POLICY, "", names::NIC_CLUSTER_POLICY);
        while changes.changed().await.is_ok() {
            let mut policy = server.state().store.objects[&key].clone();
            if policy["metadata"]["annotations"].get("helm.sh/resource-policy").is_some() {
                policy["metadata"]["annotations"] = json!({});
                server.change(|state| state.store.update(&key, policy));
            }
        }
    });
    let ended = world.run("pod-a", "job-1").await;
    thief.abort();
    assert_eq!(ended.code, ExitCode::Precondition, "{}", ended.message);
    assert_eq!(named(&ended), ["*:AnnotationsRemoved"]);
    assert_eq!(world.recorded().unwrap().verdict.unwrap().code, ExitCode::Precondition);

    let world = network("25.1.0");
    helms(&world);
    world.edit(POLICY, "", names::NIC_CLUSTER_POLICY, |policy| {
        policy["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:20Z");
    });
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Precondition);
    assert_eq!(named(&ended), ["*:NicClusterPolicyDeleted"]);
    assert!(patches(&world).is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn policy_being_deleted_may_go_in_grace_time() {
    let world = network("25.1.0");
    helms(&world);
    world.edit(POLICY, "", names::NIC_CLUSTER_POLICY, |policy| {
        policy["metadata"]["deletionTimestamp"] = json!("2023-11-14T22:13:20Z");
    });
    let pod = world.start("pod-a", "job-1");
    world.pass(world.settings.grace_seconds - 30).await;
    world.remove(POLICY, "", names::NIC_CLUSTER_POLICY);
    let ended = world.ends(pod).await;
    assert_eq!(
        (ended.code, ended.message.as_str()),
        (ExitCode::Success, "there is no NicClusterPolicy")
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn crash_at_any_write_leaves_work_to_successor() {
    let undisturbed = network("25.1.0");
    helms(&undisturbed);
    undisturbed.run("pod-a", "job-1").await;
    let writes = undisturbed.writes("pod-a").len();
    for nth in 0..writes {
        for effect in [Effect::CrashBefore, Effect::CrashAfter] {
            let world = network("25.1.0");
            helms(&world);
            world.server.state().faults.push(Fault::new(
                |request| request.who == "pod-a" && request.is_write(),
                nth,
                1,
                effect,
            ));
            let mut first = world.start("pod-a", "job-1");
            tokio::select! {
                () = world.server.told.notified() => {}
                _ = &mut first.handle => panic!("write {nth} of {writes} was not reached"),
            }
            first.handle.abort();
            world.pass(1).await;
            let ended = world.run("pod-b", "job-1").await;
            assert_eq!(
                ended.code,
                ExitCode::Success,
                "{effect:?} at write {nth}: {}",
                ended.message
            );
            assert_eq!(annotations(&world), kept(), "{effect:?} at write {nth}");
            assert_eq!(patches(&world).len(), 1, "{effect:?} at write {nth}");
        }
    }
}
