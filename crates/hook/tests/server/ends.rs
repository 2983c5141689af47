//! Runs that cannot succeed end in time, with an exit code of their own and a message that gives
//! the problem and the remedy.

use contract::exit::ExitCode;
use contract::names;
use contract::settings::DraRequired;
use serde_json::json;

use crate::fake::fault::{Effect, Fault};
use crate::settings::{DRA, OPERATOR};
use crate::world::objects::Operand;
use crate::world::{World, named};

struct Case {
    name: &'static str,
    arrange: fn(&mut World),
    code: ExitCode,
    reason: &'static str,
    /// The time within which the run must end, in seconds.
    within: i64,
}

fn strip_gpus(world: &World, also_nfd: bool) {
    world.edit("nodes", "", "gpu-0", |node| {
        let labels = node["metadata"]["labels"].as_object_mut().unwrap();
        labels.remove(names::GPU_PRESENT_LABEL);
        labels.remove("feature.node.kubernetes.io/pci-10de.present");
        if !also_nfd {
            labels.insert("feature.node.kubernetes.io/cpu-cpuid.AVX".into(), json!("true"));
        }
    });
}

#[rustfmt::skip]
fn cases() -> Vec<Case> {
    let within = 200;
    vec![
        Case { name: "CRD missing", code: ExitCode::ApiMissing, within, reason: "*:PolicyApiMissing",
            arrange: |world| { world.server.state().served.remove(&("nvidia.com", "clusterpolicies")); } },
        Case { name: "ClusterPolicy missing", code: ExitCode::OperatorMissing, within, reason: "*:PolicyMissing",
            arrange: |world| world.remove("clusterpolicies", "", "cluster-policy") },
        Case { name: "operator missing", code: ExitCode::OperatorMissing, within, reason: "*:OperatorMissing",
            arrange: |world| world.remove("deployments", OPERATOR, "gpu-operator") },
        Case { name: "operator not ready", code: ExitCode::OperatorMissing, within, reason: "*:OperatorNotReady",
            arrange: |world| world.edit("deployments", OPERATOR, "gpu-operator", |object| object["status"]["availableReplicas"] = json!(0)) },
        Case { name: "NFD did not run", code: ExitCode::NoGpuNodes, within, reason: "*:NoNodeFeatures",
            arrange: |world| strip_gpus(world, true) },
        Case { name: "no GPU nodes", code: ExitCode::NoGpuNodes, within, reason: "*:NoGpuNodes",
            arrange: |world| strip_gpus(world, false) },
        Case { name: "another driver version", code: ExitCode::Precondition, within, reason: "*:Precondition",
            arrange: |world| world.settings.expected.driver_version = Some("999.1".into()) },
        Case { name: "DRA required, namespace absent", code: ExitCode::DraMissing, within, reason: "*:DraMissing",
            arrange: |world| { world.remove("namespaces", "", DRA); world.settings.dra.required = DraRequired::True; } },
        Case { name: "DRA required, DaemonSet absent", code: ExitCode::DraMissing, within, reason: "*:DraMissing",
            arrange: |world| { world.remove("daemonsets", DRA, Operand::Plugin.daemon_set()); world.settings.dra.required = DraRequired::True; } },
        Case { name: "DRA required, scheduled nowhere", code: ExitCode::DraMissing, within, reason: "*:DraScheduledNowhere",
            arrange: |world| {
                world.edit("daemonsets", DRA, Operand::Plugin.daemon_set(), |object| object["status"]["desiredNumberScheduled"] = json!(0));
                world.settings.dra.required = DraRequired::True;
            } },
        Case { name: "plugin does not come back", code: ExitCode::DraNotServing, within: 500, reason: "gpu-0:PluginNotReady",
            arrange: |world| { world.pace.plugin = 100_000; world.upgrade(&[0]); } },
        Case { name: "driver never ready", code: ExitCode::Budget, within: 3560, reason: "gpu-0:DriverNotReady",
            arrange: |world| { world.pace.driver = 100_000; world.upgrade(&[0]); } },
        Case { name: "node never ready", code: ExitCode::Budget, within: 3560, reason: "gpu-0:NodeNotReady",
            arrange: |world| {
                world.edit("nodes", "", "gpu-0", |node| node["status"]["conditions"][0]["status"] = json!("False"));
                world.pace.driver = 100_000;
                world.upgrade(&[0]);
            } },
        Case { name: "upgrade failed", code: ExitCode::NodesFailed, within: 700, reason: "gpu-0:UpgradeFailed",
            arrange: |world| world.edit("nodes", "", "gpu-0", |node| node["metadata"]["labels"][names::UPGRADE_STATE_LABEL] = json!("upgrade-failed")) },
        Case { name: "operator never observes", code: ExitCode::Budget, within: 3560, reason: "*:SpecNotObserved",
            arrange: |world| world.edit("clusterpolicies", "", "cluster-policy", |policy| policy["spec"]["driver"]["version"] = json!("999.1")) },
        Case { name: "record missing", code: ExitCode::Input, within, reason: "*:RecordMissing",
            arrange: |world| world.remove("configmaps", OPERATOR, "gpu-operator-post-record") },
    ]
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn impossible_runs_end_in_time_with_reason() {
    for case in cases() {
        let mut world = World::at_rest(1);
        (case.arrange)(&mut world);
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, case.code, "{}: {}", case.name, ended.message);
        assert_eq!(named(&ended), [case.reason], "{}: {}", case.name, ended.message);
        assert!(world.second() <= case.within, "{}: {} s", case.name, world.second());
        if ended.code == ExitCode::Input {
            continue;
        }
        let verdict = world.recorded().unwrap().verdict.unwrap();
        assert_eq!((verdict.code, &verdict.message), (ended.code, &ended.message), "{}", case.name);
        assert!(
            world
                .events()
                .iter()
                .any(|(reason, note)| reason == "RolloutFailed" && note.contains(&ended.message)),
            "{}",
            case.name
        );
        assert_eq!(world.holder(), None, "{}", case.name);
        let again = world.run("pod-b", "job-1").await;
        assert_eq!(again, ended, "{}", case.name);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn auto_mode_succeeds_without_dra_driver() {
    let mut world = World::at_rest(1);
    world.remove("namespaces", "", DRA);
    world.upgrade(&[0]);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success);
    assert_eq!(named(&ended), ["*:Settled", "*:NoDraDriver"]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn whatever_appears_within_grace_time_is_awaited() {
    let mut world = World::at_rest(1);
    let policies = ("nvidia.com", "clusterpolicies");
    world.server.state().served.remove(&policies);
    let pod = world.start("pod-a", "job-1");
    world.pass(60).await;
    world.server.state().served.insert(policies, vec!["v1"]);
    world.upgrade(&[0]);
    assert_eq!(world.ends(pod).await.code, ExitCode::Success);
    world.assert_replaced_once();
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn record_deleted_during_run_ends_it_with_reason() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    let pod = world.start("pod-a", "job-1");
    world.pass(10).await;
    world.remove("configmaps", OPERATOR, "gpu-operator-post-record");
    let ended = world.ends(pod).await;
    assert_eq!(ended.code, ExitCode::Input, "{}", ended.message);
    assert_eq!(named(&ended), ["*:RecordMissing"]);
    assert!(world.second() < 200, "{} s", world.second());
    assert!(world.deletions().is_empty());
}

/// Regression: each event about a waiting node took three seconds. After the verdict, the hook
/// published so many of them that Kubernetes killed it, with another exit code.
#[tokio::test(flavor = "local", start_paused = true)]
async fn slow_events_do_not_outlast_the_margin() {
    let mut world = World::at_rest(60);
    world.pace.driver = 100_000;
    world.upgrade(&(0..60).collect::<Vec<usize>>());
    let fault = Fault::new(|request| request.resource == "events", 0, usize::MAX, Effect::Slow(3));
    world.server.state().faults.push(fault);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Budget, "{}", ended.message);
    // The budget of 3600 s without its margin of 90 s, and the events at the end.
    assert!(world.second() <= 3510 + 30, "{} s", world.second());
    let events = world.events();
    assert!(events.iter().any(|(reason, _)| reason == "RolloutFailed"), "{events:?}");
}
