//! Task `preflight` before the operator's release. It combines the new values in the Job's settings
//! with the observed cluster.

use std::collections::BTreeMap;

use contract::check::{CheckLevel, PreflightCheck};
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::names;
use contract::preflight::{ComingValues, WaitingJob};
use contract::settings::{Mode, Settings};
use contract::task::Task;
use hook::RunEnd;
use serde_json::json;

use crate::settings::{OPERATOR, settings};
use crate::world::{World, named};

/// Returns the settings of the release before the operator's, before the values of a mode are
/// deployed.
fn before(mode: Mode) -> Settings {
    let mut settings = Settings {
        release: "gpu-operator-pre".into(),
        record: "gpu-operator-pre-record".into(),
        tasks: vec![Task::Preflight],
        mode,
        budget_seconds: 900,
        ..settings()
    };
    let environment =
        names::MANAGER_EVICTIONS.map(|key| (key.to_owned(), (mode != Mode::Drive).to_string()));
    settings.preflight.coming = ComingValues {
        driver: Some(true),
        precompiled: Some(false),
        nvidia_drivers: Some(false),
        driver_toolkit: Some(false),
        auto_upgrade: Some(mode != Mode::Drive),
        manager_environment: Some(BTreeMap::from(environment)),
    };
    settings.preflight.waits =
        Some(WaitingJob { release: "gpu-operator-post".into(), budget_seconds: 7200 });
    settings
}

/// Returns four nodes whose driver pods evict workloads themselves until the new values are
/// deployed.
fn world(settings: &Settings) -> World {
    let world = World::at_rest(4);
    world.install(settings, "job-pre");
    world
}

/// Runs the Job. Returns its end and its findings: reason of the event, check.
async fn looks(world: &World, settings: &Settings) -> (RunEnd, Vec<(String, String)>) {
    let ended = world.ends(world.start_with(settings, "pre-a", "job-pre")).await;
    let found = world.events().into_iter().filter(|(reason, _)| reason.starts_with("Preflight"));
    let checks =
        found.map(|(reason, note)| (reason, note.split(':').next().unwrap_or_default().to_owned()));
    (ended, checks.collect())
}

fn found(reason: &str, check: PreflightCheck) -> Vec<(String, String)> {
    vec![(reason.to_owned(), check.name().to_owned())]
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn values_that_replace_driver_daemon_set_block_rollout() {
    type Change = fn(&mut ComingValues);
    let cases: [(&str, Change); 3] = [
        ("precompiled", |coming| coming.precompiled = Some(true)),
        ("NVIDIADrivers", |coming| coming.nvidia_drivers = Some(true)),
        ("no driver", |coming| coming.driver = Some(false)),
    ];
    for (place, change) in cases {
        let mut settings = before(Mode::Steer);
        change(&mut settings.preflight.coming);
        let (ended, checks) = looks(&world(&settings), &settings).await;
        assert_eq!(
            (ended.code, checks),
            (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::DaemonSetIdentity)),
            "{place}"
        );
        let of_nodes = ["gpu-0", "gpu-1", "gpu-2", "gpu-3"]
            .map(|node| format!("{node}:{}", PreflightCheck::DaemonSetIdentity.name()));
        assert_eq!(named(&ended)[1..], of_nodes, "{place}: {}", ended.message);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn on_openshift_the_driver_toolkit_counts() {
    let mut settings = before(Mode::Steer);
    settings.preflight.coming.driver_toolkit = Some(true);
    let world = world(&settings);
    world.edit("nodes", "", "gpu-0", |node| {
        node["metadata"]["labels"]["feature.node.kubernetes.io/system-os_release.OSTREE_VERSION"] =
            json!("418.94");
    });
    let (ended, checks) = looks(&world, &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::DaemonSetIdentity)),
        "{}",
        ended.message
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_without_daemon_set_is_found_by_pod() {
    let settings = before(Mode::Steer);
    let world = world(&settings);
    world.edit("nodes", "", "gpu-2", |node| {
        node["metadata"]["labels"][names::DEPLOY_DRIVER_LABEL] = json!("paused");
    });
    let (ended, checks) = looks(&world, &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::DaemonSetIdentity)),
        "{}",
        ended.message
    );
    assert!(
        named(&ended).contains(&format!("gpu-2:{}", PreflightCheck::DaemonSetIdentity.name())),
        "{}",
        ended.message
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn operands_waiting_for_starting_driver_are_no_finding() {
    for (ready, expected) in
        [(true, found("PreflightWarning", PreflightCheck::PausedOperands)), (false, Vec::new())]
    {
        let settings = before(Mode::Steer);
        let world = world(&settings);
        world.edit("nodes", "", "gpu-1", |node| {
            node["metadata"]["labels"]["nvidia.com/gpu.deploy.dcgm"] =
                json!("paused-for-driver-upgrade");
        });
        let pods = world.server.state().store.objects.clone();
        let driver = pods.into_iter().find(|(key, pod)| {
            key.resource == "pods"
                && key.namespace == OPERATOR
                && key.name.contains("driver")
                && pod["spec"]["nodeName"] == "gpu-1"
        });
        let (key, _) = driver.unwrap();
        world.edit("pods", OPERATOR, &key.name, |pod| {
            pod["status"]["conditions"][0]["status"] = json!(if ready { "True" } else { "False" });
        });
        let (ended, checks) = looks(&world, &settings).await;
        assert_eq!((ended.code, checks), (ExitCode::Success, expected), "{}", ended.message);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_others_maintain_is_told() {
    let settings = before(Mode::Steer);
    let world = world(&settings);
    let spec = json!({"nodeName": "gpu-3", "requestorID": "ops.example.org"});
    let maintenance = json!({"kind": "NodeMaintenance", "apiVersion": "maintenance.nvidia.com/v1alpha1", "spec": spec});
    world.put("nodemaintenances", "default", "ops-gpu-3", maintenance);
    let (ended, checks) = looks(&world, &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Success, found("PreflightWarning", PreflightCheck::NodeMaintenance)),
        "{}",
        ended.message
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn two_actors_in_coming_values_cannot_be_waived() {
    let settings = before(Mode::Drive);
    let (ended, checks) = looks(&world(&settings), &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Success, found("PreflightWarning", PreflightCheck::ModeChange)),
        "autoUpgrade is about to be off: {}",
        ended.message
    );
    let mut both = settings;
    both.preflight.coming.auto_upgrade = Some(true);
    let levels = [
        (PreflightCheck::Actors, CheckLevel::Ignore),
        (PreflightCheck::ModeChange, CheckLevel::Ignore),
    ];
    both.preflight.strictness = levels.into_iter().collect();
    let (ended, checks) = looks(&world(&both), &both).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::Actors)),
        "{}",
        ended.message
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn effective_budget_is_the_waiting_releases() {
    let mut settings = before(Mode::Drive);
    settings.preflight.strictness =
        [(PreflightCheck::ModeChange, CheckLevel::Ignore)].into_iter().collect();
    settings.per_node_seconds = 1800;
    let (ended, checks) = looks(&world(&settings), &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::TimeBudget)),
        "{}",
        ended.message
    );
    settings.preflight.strictness = [
        (PreflightCheck::ModeChange, CheckLevel::Ignore),
        (PreflightCheck::TimeBudget, CheckLevel::Warn),
    ]
    .into_iter()
    .collect();
    let (ended, checks) = looks(&world(&settings), &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Success, found("PreflightWarning", PreflightCheck::TimeBudget))
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn ofed_driver_about_to_be_removed_is_found() {
    let mut settings = before(Mode::Steer);
    settings.driver = Driver::Ofed;
    settings.preflight.coming =
        ComingValues { driver: Some(false), auto_upgrade: Some(true), ..ComingValues::default() };
    let world = world(&settings);
    let labels = json!({names::OFED_DRIVER_LABEL: "", "nvidia.com/ofed-driver": ""});
    let template =
        json!({"metadata": {"labels": labels}, "spec": {"nodeSelector": {}, "containers": []}});
    world.put("daemonsets", OPERATOR, "mofed-ubuntu", json!({
        "kind": "DaemonSet", "apiVersion": "apps/v1", "metadata": {"name": "mofed-ubuntu", "uid": "mofed", "generation": 1},
        "spec": {"selector": {}, "updateStrategy": {"type": "OnDelete"}, "template": template},
        "status": {"observedGeneration": 1, "desiredNumberScheduled": 1, "currentNumberScheduled": 1, "numberMisscheduled": 0, "numberReady": 1},
    }));
    let policy =
        json!({"spec": {"ofedDriver": {"image": "doca", "upgradePolicy": {"autoUpgrade": true}}}});
    world.put("nicclusterpolicies", "", names::NIC_CLUSTER_POLICY, policy);
    world.edit("nodes", "", "gpu-0", |node| {
        node["metadata"]["labels"][names::NIC_PRESENT_LABEL] = json!("true");
    });
    let owner = json!([{"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "mofed-ubuntu", "uid": "mofed", "controller": true}]);
    world.put(
        "pods",
        OPERATOR,
        "mofed-gpu-0",
        json!({
            "kind": "Pod", "apiVersion": "v1", "metadata": {"labels": labels, "ownerReferences": owner},
            "spec": {"nodeName": "gpu-0", "containers": []}, "status": {"phase": "Running"},
        }),
    );
    let (ended, checks) = looks(&world, &settings).await;
    assert_eq!(
        (ended.code, checks),
        (ExitCode::Preflight, found("PreflightBlocked", PreflightCheck::DaemonSetIdentity)),
        "{}",
        ended.message
    );
    assert_eq!(named(&ended)[1..], [format!("gpu-0:{}", PreflightCheck::DaemonSetIdentity.name())]);
}
