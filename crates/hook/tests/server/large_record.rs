//! Run records that do not fit into one ConfigMap, and writes of the record that can never succeed.

use std::collections::BTreeMap;
use std::sync::Arc;

use contract::exit::ExitCode;
use contract::record::baseline::{Baseline, NodeBaseline};
use contract::record::cohort::Cohort;
use contract::record::{
    NodeRecord, PluginReplacement, RECORD_FORMAT_VERSION, ReplacedPodKind, RunRecord,
};
use kube_io::lease::{HeldLease, LeaseCandidate};
use kube_io::record::RecordStore;
use observed::named::Named;
use serde_json::json;

use crate::fake::fault::{Effect, Fault};
use crate::fake::request::Request;
use crate::settings::{OPERATOR, settings};
use crate::world::{World, at, named};

const RECORD: &str = "gpu-operator-post-record";

fn store(world: &World) -> RecordStore {
    RecordStore::new(&world.server.client("pod-a"), OPERATOR, RECORD)
}

/// Returns a world in which `pod-a` holds the Lease.
async fn world() -> (World, HeldLease) {
    let world = World::empty(settings());
    let leases = LeaseCandidate::new(&world.server.client("pod-a"), "pod-a", Arc::new(|| at(0)));
    let held = leases.acquire(|_| {}).await.unwrap();
    (world, held)
}

fn uid(kind: &str, index: usize) -> String {
    format!("{kind:0>8}-0000-4000-8000-{index:0>12}")
}

/// Returns an unfinished node with the longest name and a reason of this length. Its plugin is not
/// ready again.
fn unfinished(index: usize, reason: usize) -> (String, NodeRecord) {
    let replacement = PluginReplacement {
        plugin: ReplacedPodKind::Dra,
        pod: format!("plugin-{index:0>240}"),
        daemon_set: uid("set", 0),
        under: format!("{}/0+{}/0", uid("driver", index), uid("toolkit", index)),
        cause: "its container started before the driver".into(),
        at: at(0),
        back_at: None,
    };
    let record = NodeRecord {
        uid: uid("node", index),
        reason: Some(format!("DriverNotReady: {}", "y".repeat(reason)).into()),
        since: Some(at(0)),
        replaced: BTreeMap::from([(uid("pod", index), replacement)]),
        ..NodeRecord::default()
    };
    (format!("{index:0>253}"), record)
}

fn fleet(nodes: usize, reason: usize) -> Named<NodeRecord> {
    let mut all = Named::new();
    for (name, record) in (0..nodes).map(|index| unfinished(index, reason)) {
        all.insert(name.as_str(), record);
    }
    all
}

/// Returns a baseline in which every third node has one GPU less and a failing operand.
fn baseline(uids: &[String]) -> Baseline {
    let mut baseline = Baseline::default();
    for (index, uid) in uids.iter().enumerate() {
        let odd = index % 3 == 0;
        let gpus =
            BTreeMap::from([("nvidia.com/gpu".to_owned(), if odd { "7" } else { "8" }.to_owned())]);
        let failing = odd.then(|| "nvidia-dcgm-exporter".to_owned()).into_iter().collect();
        baseline.insert(uid, NodeBaseline { gpus, failing, ..NodeBaseline::default() }.into());
    }
    baseline
}

fn run(job: &str, nodes: usize) -> RunRecord {
    let uids: Vec<String> = (0..nodes).map(|index| uid("node", index)).collect();
    RunRecord {
        format_version: RECORD_FORMAT_VERSION,
        digest: "d".into(),
        job: job.into(),
        started_at: at(0),
        taken_over_at: None,
        specs: String::new(),
        configs: BTreeMap::new(),
        cohort_nodes: Some(nodes),
        cohort: Some(Cohort::from_uids(uids.iter().map(String::as_str)).into()),
        operator_version: None,
        baseline_nodes: Some(nodes),
        baseline: Some(baseline(&uids).into()),
        proof: None,
        proven_driver: None,
        previous_ended_at: None,
        fleet_wait: None,
        assessed_since: None,
        interruptions: Vec::new(),
        verdict: None,
    }
}

fn is_record_write(request: &Request) -> bool {
    request.is("patch", "configmaps")
}

/// Returns the data of each node that must survive.
fn needed(nodes: &Named<NodeRecord>) -> BTreeMap<String, Vec<(String, String, bool)>> {
    let replaced = |(uid, one): (&String, &PluginReplacement)| {
        (uid.clone(), one.under.clone(), one.back_at.is_some())
    };
    nodes
        .iter()
        .map(|(name, record)| (name.to_string(), record.replaced.iter().map(replaced).collect()))
        .collect()
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn record_of_ten_thousand_unfinished_nodes_is_written() {
    let (world, _held) = world().await;
    let nodes = fleet(10_000, 1_000);
    store(&world).write(&run("job-1", 10_000), &nodes).await.unwrap();
    let record = store(&world).read().await.unwrap();
    assert_eq!(needed(&record.nodes), needed(&nodes));
    let read = record.run.unwrap();
    assert!(
        read.cohort == run("job-1", 10_000).cohort
            && read.baseline == run("job-1", 10_000).baseline
    );
    assert_eq!(
        read.format_version, RECORD_FORMAT_VERSION,
        "an older hook must not read a part of the record"
    );
}

/// The pod is killed before or after each write of one record.
#[tokio::test(flavor = "local", start_paused = true)]
async fn record_half_written_keeps_what_must_survive() {
    let before = fleet(1_200, 300);
    let mut after = before.clone();
    for index in (0..1_200).step_by(3) {
        // One replacement is ready again, and a second one is pending.
        let record = after.get_mut(&unfinished(index, 0).0).unwrap();
        record.replaced.values_mut().for_each(|one| one.back_at = Some(at(9)));
        let (_, other) = unfinished(index, 0);
        record.replaced.insert(uid("again", index), other.replaced.into_values().next().unwrap());
        record.reason = Some("x".repeat(400).into());
    }
    let mut writes = 0;
    for kill in 0.. {
        let (world, _held) = world().await;
        let mut store_a = store(&world);
        store_a.write(&run("job-1", 1_200), &before).await.unwrap();
        let effect = if kill % 2 == 0 { Effect::CrashBefore } else { Effect::CrashAfter };
        world.server.state().faults.push(Fault::new(is_record_write, kill / 2, 1, effect));
        let wanted = run("job-1", 1_200);
        let killed = tokio::select! {
            done = store_a.write(&wanted, &after) => { done.unwrap(); false }
            () = world.server.told.notified() => true,
        };
        let record = store(&world).read().await.unwrap();
        assert_eq!(record.run.as_ref().unwrap().cohort, run("job-1", 1_200).cohort);
        let (read, old, new) = (needed(&record.nodes), needed(&before), needed(&after));
        assert_eq!(read.len(), 1_200, "kill {kill}");
        assert!(
            read.iter().all(|(name, entry)| *entry == old[name] || *entry == new[name]),
            "kill {kill}"
        );
        // The successor writes the missing parts, and then the record is complete.
        let mut store_b = store(&world);
        store_b.read().await.unwrap();
        store_b.write(&run("job-1", 1_200), &after).await.unwrap();
        assert_eq!(needed(&store(&world).read().await.unwrap().nodes), new, "kill {kill}");
        if !killed {
            break;
        }
        writes = kill;
    }
    assert!(writes > 4, "more than one object was written: {writes}");
}

/// What a failed write had stored was mistaken for unchanged if the next decision wanted what had
/// been stored before: a plugin stayed away in the record, and held a slot.
#[tokio::test(flavor = "local", start_paused = true)]
async fn decision_after_failed_record_write_is_stored() {
    let before = fleet(1_200, 300);
    let mut after = before.clone();
    for index in (0..1_200).step_by(3) {
        let (name, record) = unfinished(index, 400);
        after.insert(name.as_str(), record);
    }
    let (new, record) = unfinished(1_200, 400);
    after.insert(new.as_str(), record);
    after.remove(&unfinished(1, 0).0);
    for effect in [Effect::LoseAnswer, Effect::Status(500)] {
        let mut failed = 0;
        loop {
            let (world, _held) = world().await;
            let mut store_a = store(&world);
            store_a.write(&run("job-1", 1_200), &before).await.unwrap();
            let fault = Fault::new(is_record_write, failed, usize::MAX, effect);
            world.server.state().faults.push(fault);
            let is_over = store_a.write(&run("job-1", 1_200), &after).await.is_ok();
            world.server.state().faults.clear();
            store_a.write(&run("job-1", 1_200), &before).await.unwrap();
            let stored = store(&world).read().await.unwrap().nodes;
            assert!(stored == before, "{effect:?} from write {failed} on");
            if is_over {
                break;
            }
            failed += 1;
        }
        assert!(failed > 1, "more than one object was written: {failed}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn small_record_stays_readable_for_the_first_version() {
    let (world, _held) = world().await;
    let mut nodes = Named::new();
    nodes.insert("gpu-0", unfinished(0, 20).1);
    store(&world).write(&run("job-1", 1), &nodes).await.unwrap();
    assert_eq!(world.recorded().unwrap().format_version, 1);
    assert_eq!(world.get("configmaps", OPERATOR, &format!("{RECORD}-1"))["data"], json!(null));
    assert_eq!(world.recorded_nodes().len(), 1);
}

/// Version 0.1.0 wrote up to 900 KiB into the one ConfigMap.
#[tokio::test(flavor = "local", start_paused = true)]
async fn record_of_the_first_version_is_taken_over() {
    let (world, _held) = world().await;
    let nodes = fleet(1, 0);
    let mut all = Named::new();
    world.edit("configmaps", OPERATOR, RECORD, |record| {
        for index in 0..800 {
            let node =
                NodeRecord { reason: Some("r".repeat(300).into()), ..unfinished(index, 0).1 };
            record["data"][format!("node.gpu-{index}")] =
                json!(serde_json::to_string(&node).unwrap());
            all.insert(format!("gpu-{index}").as_str(), node);
        }
    });
    let mut taken_over = store(&world);
    assert_eq!(taken_over.read().await.unwrap().nodes, all);
    let (name, record) = nodes.iter().next().unwrap();
    all.insert(&**name, record.clone());
    taken_over.write(&run("job-1", 1), &all).await.unwrap();
    assert_eq!(store(&world).read().await.unwrap().nodes, all);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn record_write_that_cannot_succeed_ends_the_run() {
    for code in [413, 422] {
        let mut world = World::at_rest(1);
        world.upgrade(&[0]);
        world.server.state().faults.push(Fault::new(
            is_record_write,
            2,
            usize::MAX,
            Effect::Status(code),
        ));
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Record, "{code}: {}", ended.message);
        assert_eq!(named(&ended), ["*:RecordNotWritable"]);
        assert!(ended.message.contains(RECORD), "the message names the object: {}", ended.message);
        assert!(world.second() < 60, "{code}: after {} s", world.second());
        assert_eq!(world.deletions(), [], "the hook does nothing without a record");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn briefly_failing_record_write_is_repeated() {
    for code in [429, 500, 503] {
        let mut world = World::at_rest(1);
        world.upgrade(&[0]);
        world.server.state().faults.push(Fault::new(is_record_write, 2, 5, Effect::Status(code)));
        let ended = world.run("pod-a", "job-1").await;
        assert_eq!(ended.code, ExitCode::Success, "{code}: {}", ended.message);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn node_with_the_longest_name_is_upgraded() {
    let mut world = World::at_rest(1);
    let name = "n".repeat(253);
    world.join(&name, -100_000);
    world.upgrade_nodes(vec!["gpu-0".into(), name.clone()]);
    let ended = world.run("pod-a", "job-1").await;
    assert_eq!(ended.message, "settled: 2 of 2 nodes done; 2 DRA plugins replaced");
    let record = store(&world).read().await.unwrap();
    assert!(record.nodes.contains_key(&name));
}
