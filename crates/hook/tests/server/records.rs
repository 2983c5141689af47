//! Run records of another version, damaged ones, and ones that are too large.

use std::collections::BTreeMap;

use contract::exit::ExitCode;
use contract::names;
use contract::record::{NodeOutcome, NodeRecord, PluginReplacement, ReplacedPodKind};
use contract::settings::Settings;
use serde_json::json;

use crate::settings::OPERATOR;
use crate::world::{World, at, named};

const RECORD: &str = "gpu-operator-post-record";

fn data(world: &World, key: &str, text: &str) {
    world.edit("configmaps", OPERATOR, RECORD, |record| record["data"][key] = json!(text));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_a_newer_version_wrote_is_left_alone() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    data(&world, "run", r#"{"formatVersion": 3, "shape": ["unknown"]}"#);
    let before = world.get("configmaps", OPERATOR, RECORD);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::NewerFormat);
    assert_eq!(named(&ended), ["*:RecordNewer"]);
    assert!(world.writes("pod-a").is_empty());
    assert_eq!(world.get("configmaps", OPERATOR, RECORD), before);

    let mut world = World::at_rest(1);
    world.settings.format_version = 2;
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::NewerFormat);
    assert!(world.log().is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn newer_version_that_takes_over_is_left_alone() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    let pod = world.start("pod-a", "job-1");
    // The hook has the Lease, and has not yet yielded it to wait for the operator.
    world.pass(2).await;
    data(&world, "run", r#"{"formatVersion": 3}"#);
    world.server.goes_away(30);
    assert_eq!(world.ends(pod).await.code, ExitCode::NewerFormat);
    assert_eq!(world.get("configmaps", OPERATOR, RECORD)["data"]["run"], r#"{"formatVersion": 3}"#);
}

/// Readers of the same format version must ignore unknown keys.
#[tokio::test(flavor = "local", start_paused = true)]
async fn unknown_keys_of_the_format_are_ignored() {
    let mut world = World::at_rest(1);
    world.upgrade(&[0]);
    let run = json!({
        "formatVersion": 1, "digest": "d", "job": "job-1", "startedAt": "2023-11-14T22:00:00Z", "weather": {"sunny": true},
        "verdict": {"code": "dra-missing", "message": "by an earlier pod", "at": "2023-11-14T22:10:00Z", "mood": "sad"},
    });
    data(&world, "run", &run.to_string());
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!((ended.code, ended.message.as_str()), (ExitCode::DraMissing, "by an earlier pod"));
    assert!(world.writes("pod-a").is_empty());
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_cannot_be_read_counts_as_absent() {
    let texts = [
        "",
        "{",
        "null",
        "[]",
        "7",
        "\"text\"",
        "{}",
        r#"{"formatVersion": "one"}"#,
        r#"{"formatVersion": 1}"#,
        "\u{0}",
        r#"{"uid": 5}"#,
    ];
    for text in texts {
        let mut world = World::at_rest(1);
        world.upgrade(&[0]);
        for key in ["run", "node.gpu-0", "node.gone", "node.", "stray"] {
            data(&world, key, text);
        }
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Success, "{text:?}: {}", ended.message);
        world.assert_replaced_once();
        assert_eq!(world.recorded_nodes().len(), 1, "{text:?}");
    }
}

fn record_of(uid: &str, length: usize) -> NodeRecord {
    let replacement = PluginReplacement {
        plugin: ReplacedPodKind::Dra,
        pod: "pod".into(),
        daemon_set: "daemon-set".into(),
        under: "driver/0".into(),
        cause: "x".repeat(length),
        at: at(-500),
        back_at: Some(at(-400)),
    };
    NodeRecord {
        refused: None,
        uid: uid.into(),
        outcome: Some(NodeOutcome::Done),
        reason: None,
        since: Some(at(-400)),
        steps: Vec::new(),
        evicted: Vec::new(),
        acceptance: Vec::new(),
        replaced: BTreeMap::from([("pod-uid".to_owned(), replacement)]),
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn record_too_large_drops_finished_nodes() {
    let mut world = World::at_rest(3);
    world.upgrade(&[0, 1, 2]);
    for index in 0..9 {
        // Nodes that no longer exist, with long histories.
        data(
            &world,
            &format!("node.old-{index}"),
            &serde_json::to_string(&record_of("gone", 110_000)).unwrap(),
        );
    }
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.code, ExitCode::Success, "{}", ended.message);
    world.assert_replaced_once();
    let record = world.get("configmaps", OPERATOR, RECORD);
    let size: usize =
        record["data"].as_object().unwrap().values().map(|text| text.as_str().unwrap().len()).sum();
    assert!(size < 900 * 1024, "{size}");
    assert_eq!(world.recorded().unwrap().verdict.unwrap().code, ExitCode::Success);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_fleet_of_a_thousand_nodes_runs_through() {
    let nodes = 1000;
    let mut world = World::at_rest(nodes);
    world.pace.parallel = 250;
    world.settings.budget_seconds = 7200;
    let order: Vec<usize> = (0..nodes).collect();
    world.upgrade(&order);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.message, "settled: 1000 of 1000 nodes done; 1000 DRA plugins replaced");
    world.assert_replaced_once();
}

/// Another operator version renders its DaemonSets again, and the next run waits for this.
#[tokio::test(flavor = "local", start_paused = true)]
async fn operators_version_is_kept_from_a_success() {
    let world = World::at_rest(1);
    let chart = |version: &str| json!({"app": "gpu-operator", "helm.sh/chart": format!("gpu-operator-{version}")});
    let deploy = |version: &str| {
        world.edit("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT, |it| {
            it["metadata"]["labels"] = chart(version);
        });
    };
    let known = || world.recorded().and_then(|run| run.operator_version);
    deploy("v26.3.1");
    assert_eq!(world.run("pod-a", "job-1").await.code, ExitCode::Success);
    assert_eq!(known().as_deref(), Some("26.3.1"));
    deploy("v26.7.0");
    let changed = Settings { digest: "another".into(), ..world.settings.clone() };
    world.install(&changed, "job-2");
    let pod = world.start_with(&changed, "pod-b", "job-2");
    world.pass(5).await;
    assert_eq!(
        known().as_deref(),
        Some("26.3.1"),
        "the fleet has not settled with the new version"
    );
    assert_eq!(world.ends(pod).await.code, ExitCode::Success);
    assert_eq!(known().as_deref(), Some("26.7.0"));
}
