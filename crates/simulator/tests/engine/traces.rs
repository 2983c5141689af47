//! Replays traces of NVIDIA's real operator (`tests/data/traces`) through the projections and the
//! engine. The hook must not report a rollout as settled before the last node is done, regardless
//! of `status.state`.

use std::collections::BTreeMap;
use std::fs;
use std::sync::Arc;

use contract::exit::ExitCode;
use jiff::{SignedDuration, Timestamp};
use observed::intern::LabelInterner;
use observed::project;
use observed::{Observed, ObservedDaemonSet, ObservedDeployment, OptionalApi};
use planner::decide::decide;
use planner::memory::RunMemory;
use planner::spec::operand_of;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::settings::settings;

/// One watch event of a trace.
pub(crate) struct Line {
    pub(crate) second: f64,
    added: bool,
    deleted: bool,
    pub(crate) object: Value,
}

pub(crate) fn trace(name: &str) -> Vec<Line> {
    let text = fs::read_to_string(format!(
        "{}/../../tests/data/traces/{name}.jsonl",
        env!("CARGO_MANIFEST_DIR")
    ))
    .expect("the trace exists");
    let lines = text.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .filter(|line| line.get("object").is_some())
        .map(|line| Line {
            second: line["t"].as_f64().expect("a time"),
            added: line["type"] == "ADDED",
            deleted: line["type"] == "DELETED",
            object: line["object"].clone(),
        })
        .collect()
}

/// Returns the wall-clock time of t = 0, from the first pod that was created after it. It is later
/// than the creation of everything that existed at the start.
pub(crate) fn origin(lines: &[Line]) -> Timestamp {
    let created = |line: &Line| {
        line.object["metadata"]["creationTimestamp"]
            .as_str()
            .and_then(|text| text.parse::<Timestamp>().ok())
    };
    let before = lines.iter().filter(|line| line.second <= 0.0).filter_map(created).max();
    let first =
        lines.iter().find(|line| line.second > 0.0 && line.added && line.object["kind"] == "Pod");
    let zero = first.and_then(|line| Some(created(line)? - seconds(line.second)));
    zero.max(before).expect("something was created")
}

pub(crate) fn seconds(seconds: f64) -> SignedDuration {
    SignedDuration::from_secs_f64(seconds)
}

fn view<K: DeserializeOwned, V>(object: &Value, project: impl Fn(&K) -> Option<V>) -> Option<V> {
    project(&serde_json::from_value(object.clone()).expect("a Kubernetes object"))
}

/// Applies one event to the views, as the watches do.
pub(crate) fn apply(views: &mut BTreeMap<String, Value>, line: &Line) {
    let text = |field: &Value| field.as_str().unwrap_or_default().to_owned();
    let key = format!(
        "{}/{}/{}",
        text(&line.object["kind"]),
        text(&line.object["metadata"]["namespace"]),
        text(&line.object["metadata"]["name"])
    );
    if line.deleted {
        views.remove(&key);
    } else {
        views.insert(key, line.object.clone());
    }
}

pub(crate) fn observed(views: &BTreeMap<String, Value>) -> Observed {
    let of = |kind: &str| {
        views
            .iter()
            .filter(move |(key, _)| key.starts_with(&format!("{kind}/")))
            .map(|(_, object)| object.clone())
            .collect::<Vec<_>>()
    };
    let with_node = |object: &Value| {
        let mut object = object.clone();
        // The traces are trimmed. Restore the fields that the types require.
        for part in ["containers", "initContainers"] {
            for container in object["spec"][part].as_array_mut().into_iter().flatten() {
                container
                    .as_object_mut()
                    .expect("a container")
                    .entry("name")
                    .or_insert("unnamed".into());
            }
        }
        for part in ["containerStatuses", "initContainerStatuses"] {
            for status in object["status"][part].as_array_mut().into_iter().flatten() {
                let status = status.as_object_mut().expect("a status");
                status.entry("image").or_insert("".into());
                status.entry("imageID").or_insert("".into());
            }
        }
        object
    };
    let interner = Arc::new(LabelInterner::default());
    let daemon_sets: Vec<ObservedDaemonSet> = of("DaemonSet").iter().map(daemon_set).collect();
    let mut policy = of("ClusterPolicy")
        .iter()
        .map(with_toolkit)
        .find_map(|object| view(&object, project::cluster_policy));
    if let Some(policy) = &mut policy {
        // The recordings do not contain the other operands.
        policy.operands.retain(|operand, _| {
            daemon_sets.iter().any(|daemon_set| operand_of(daemon_set) == Some(*operand))
        });
    }
    Observed {
        nodes: of("Node")
            .iter()
            .filter_map(|object| view(object, project::node))
            .map(|node| (node.name.clone(), node))
            .collect(),
        operator: Some(ObservedDeployment {
            replicas: 1,
            current: 1,
            updated: 1,
            available: 1,
            observed: true,
            ..ObservedDeployment::default()
        }),
        cluster_policy: OptionalApi::Served(policy),
        nvidia_drivers: OptionalApi::Served(Vec::new()),
        daemon_sets,
        revisions: of("ControllerRevision")
            .iter()
            .filter_map(|object| view(object, project::revision))
            .collect(),
        pods: of("Pod")
            .iter()
            .map(with_node)
            .filter_map(|object| view(&object, project::pod))
            .collect(),
        operand_pods: of("Pod")
            .iter()
            .map(with_node)
            .filter_map(|object| view(&object, project::operand_pods(&interner)))
            .collect(),
        ..Observed::default()
    }
}

/// Adds the toolkit. All recordings except 11 ran without it, and do not contain disabled parts.
fn with_toolkit(object: &Value) -> Value {
    let mut object = object.clone();
    let spec = object["spec"].as_object_mut().expect("a spec");
    spec.entry("toolkit").or_insert_with(|| serde_json::json!({"enabled": false}));
    object
}

fn daemon_set(object: &Value) -> ObservedDaemonSet {
    let mut object = object.clone();
    let status = object
        .as_object_mut()
        .expect("an object")
        .entry("status")
        .or_insert_with(|| Value::Object(serde_json::Map::new()));
    for field in
        ["currentNumberScheduled", "desiredNumberScheduled", "numberMisscheduled", "numberReady"]
    {
        status.as_object_mut().expect("a status").entry(field).or_insert(0.into());
    }
    view(&object, project::daemon_set).expect("a DaemonSet")
}

/// Replays a trace with a hook that starts at its trigger. Returns the verdict and its second.
fn replay(name: &str) -> (ExitCode, f64, String) {
    let lines = trace(name);
    let zero = origin(&lines);
    let settings = settings();
    let deadline = zero + seconds(3555.0);
    let mut memory = RunMemory::new(zero, deadline);
    let mut views = BTreeMap::new();
    let mut lines = lines.into_iter().peekable();
    while let Some(line) = lines.next_if(|line| line.second <= 0.0) {
        apply(&mut views, &line);
    }
    let mut now = zero;
    loop {
        let mut observed = observed(&views);
        crate::operator::is_quiet(&mut observed, &mut memory, now);
        let decision = decide(&observed, &settings, &memory, now);
        memory = decision.memory;
        if let Some(verdict) = decision.verdict {
            return (verdict.code, now.duration_since(zero).as_secs_f64(), verdict.message);
        }
        let next = lines.peek().map(|line| zero + seconds(line.second));
        match next {
            Some(at) if at <= decision.wake_at => {
                let line = lines.next().expect("it was peeked");
                apply(&mut views, &line);
                now = at.max(now);
            }
            Some(_) | None => now = decision.wake_at.max(now + seconds(0.001)),
        }
    }
}

/// Returns the second at which the last node was marked done or its last driver pod became ready.
fn really_done(name: &str) -> f64 {
    let mut states: BTreeMap<String, String> = BTreeMap::new();
    let mut last = 0.0;
    for line in trace(name) {
        if line.object["kind"] == "Node" {
            let node = line.object["metadata"]["name"].as_str().expect("a name").to_owned();
            let state = line.object["metadata"]["labels"]["nvidia.com/gpu-driver-upgrade-state"]
                .as_str()
                .unwrap_or_default()
                .to_owned();
            if states.insert(node, state.clone()).is_none_or(|before| before != state)
                && line.second > 0.0
            {
                last = line.second;
            }
        }
    }
    last
}

#[test]
fn driver_bump_settles_only_after_last_node() {
    for name in [
        "02-driver-bump-serial",
        "03-driver-bump-parallel",
        "04-restart-only",
        "06-drain-pdb",
        "07-wait-for-jobs",
        "16-rollback-mid-roll",
    ] {
        let (code, second, message) = replay(name);
        assert_eq!(code, ExitCode::Success, "{name}: {message}");
        let done = really_done(name);
        assert!(second >= done, "{name}: settled at {second}, the last node was done at {done}");
        assert!(
            second <= done + 16.0,
            "{name}: settled at {second}, the last node was done at {done}"
        );
    }
}

#[test]
fn fresh_install_settles_before_the_first_tick() {
    let (code, second, message) = replay("01-fresh-install");
    assert_eq!(code, ExitCode::Success, "{message}");
    assert!((22.6..60.0).contains(&second), "{second}");
}

#[test]
fn cluster_without_discovered_nodes_is_no_success() {
    let (code, _, message) = replay("12-no-gpu-nodes");
    assert_eq!(code, ExitCode::NoGpuNodes, "{message}");
}

#[test]
fn a_toolkit_bump_is_settled_soon() {
    let (code, second, message) = replay("11-toolkit-bump");
    assert_eq!(code, ExitCode::Success, "{message}");
    assert!(second < 60.0, "{second}");
}
