//! The metrics of the running hook.

use std::collections::BTreeMap;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::metrics::MEDIA_TYPE;
use contract::settings::Settings;
use hook::{HookProcess, PodIdentity, Shutdown, listen, serve};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::driven::Driven;
use crate::world::World;

/// Returns the samples of a text: names with labels, each with its value. Panics if a line is not a
/// sample or a sample is duplicate.
fn samples(text: &str) -> BTreeMap<String, f64> {
    assert!(text.ends_with("# EOF\n"), "{text}");
    let mut samples = BTreeMap::new();
    let mut described = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("# TYPE ") {
            let name = name.split(' ').next().unwrap();
            assert!(!described.contains(&name), "{name} is described twice\n{text}");
            described.push(name);
        } else if !line.starts_with('#') {
            let (name, value) = line.rsplit_once(' ').unwrap();
            assert_eq!(
                samples.insert(name.to_owned(), value.parse().unwrap()),
                None,
                "{name} is there twice\n{text}"
            );
        }
    }
    samples
}

/// Returns the sum of a metric over all samples whose labels contain this text.
fn sum(samples: &BTreeMap<String, f64>, name: &str, with: &str) -> Option<f64> {
    let of_it = samples
        .iter()
        .filter(|(sample, _)| sample.split('{').next() == Some(name) && sample.contains(with));
    of_it.map(|(_, value)| *value).reduce(|one, other| one + other)
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn run_reports_progress_and_waits_of_its_nodes() {
    let fleet = Driven::new(Driver::Gpu, |_| {}).serves("serve", "gpu-0", 1, true).begin();
    let (settings, job) = fleet.stages[0].clone();
    let (_stop, shutdown) = Shutdown::pair();
    let identity = PodIdentity { job, pod: "pod-a".into() };
    let hook = HookProcess::new(
        fleet.world.server.client("pod-a"),
        settings,
        identity,
        fleet.world.clock.clone(),
        shutdown,
    );
    let metrics = hook.metrics();
    metrics.enable_snapshots();
    let run = tokio::task::spawn_local(hook.run());
    let first = samples(&metrics.text(fleet.world.clock.now()));
    assert_eq!(
        (sum(&first, "gpu_rollout_lease_held", ""), sum(&first, "gpu_rollout_in_step", "")),
        (Some(0.0), Some(0.0))
    );
    assert_eq!(sum(&first, "gpu_rollout_run_info", "mode=\"drive\""), Some(1.0));
    let (mut busiest, mut counted, mut states) = (0.0_f64, false, BTreeMap::new());
    while !run.is_finished() {
        fleet.world.pass(1).await;
        let now = samples(&metrics.text(fleet.world.clock.now()));
        let nodes = sum(
            &now,
            "gpu_rollout_nodes",
            "{namespace=\"gpu-operator\",release=\"gpu-operator-post\",driver=\"gpu\",",
        );
        let waits = sum(&now, "gpu_rollout_fleet_waiting_since_timestamp_seconds", "").is_some();
        assert!(
            nodes.is_none_or(|nodes| waits || (nodes - 3.0).abs() < 0.1),
            "each node has one stage: {now:?}"
        );
        counted |= nodes.is_some() && !waits;
        let in_progress = sum(&now, "gpu_rollout_nodes", "in-progress").unwrap_or_default();
        assert!(in_progress <= 1.0, "one at a time: {now:?}");
        busiest = busiest.max(in_progress);
        for (sample, value) in &now {
            if sample.starts_with("gpu_rollout_node_state_since") {
                // The metric is a time. Its age is `time() - …`.
                assert!(
                    *value <= fleet.world.clock.now().as_duration().as_secs_f64(),
                    "{sample} {value}"
                );
                *states.entry(sample.clone()).or_insert(0) += 1;
            }
        }
        if in_progress > 0.0 {
            assert_eq!(sum(&now, "gpu_rollout_slots_used", ""), Some(1.0), "{now:?}");
            assert!(sum(&now, "gpu_rollout_run_deadline_timestamp_seconds", "").is_some());
        }
    }
    assert!(counted && busiest > 0.0);
    for node in ["gpu-0", "gpu-1", "gpu-2"] {
        let replaced = format!("node=\"{node}\",state=\"pod-restart-required\"");
        assert!(states.keys().any(|sample| sample.contains(&replaced)), "{node}: {states:?}");
    }
    assert_eq!(run.await.unwrap().code, ExitCode::Success);
    let last = samples(&metrics.text(fleet.world.clock.now()));
    assert_eq!(sum(&last, "gpu_rollout_nodes", "stage=\"done\""), Some(3.0), "{last:?}");
    let granted = fleet
        .world
        .log()
        .iter()
        .filter(|entry| entry.applied && entry.request.is("create", "pods/eviction"))
        .count();
    let counted = sum(&last, "gpu_rollout_evictions_total", "answer=\"accepted\"");
    assert_eq!(
        (granted > 0, counted),
        (true, Some(f64::from(u32::try_from(granted).unwrap()))),
        "{last:?}"
    );
    assert_eq!(
        sum(&last, "gpu_rollout_plugin_replacements_total", "plugin=\"dra\""),
        Some(3.0),
        "{last:?}"
    );
    assert!(
        sum(&last, "gpu_rollout_decision_duration_seconds_count", "")
            .is_some_and(|count| count > 3.0),
        "{last:?}"
    );
    let mut per_node = last.keys().filter(|sample| sample.contains("node=\""));
    assert_eq!(per_node.next(), None, "done nodes have no series of their own");
}

/// Regression: while the hook waited for an operator of another chart, it did not assess nodes.
/// They were all counted as done, and later not at all.
#[tokio::test(flavor = "local", start_paused = true)]
async fn nodes_without_assessment_are_counted_as_unknown() {
    let world = World::at_rest(2);
    let settings = Settings { component_version: Some("v26.3.1".into()), ..world.settings.clone() };
    world.install(&settings, "job-1");
    world.edit("deployments", "gpu-operator", "gpu-operator", |deployment| {
        deployment["metadata"]["labels"]["helm.sh/chart"] = "gpu-operator-v25.10.1".into();
    });
    world.edit("nodes", "", "gpu-0", |node| node["spec"]["unschedulable"] = true.into());
    let (_stop, shutdown) = Shutdown::pair();
    let identity = PodIdentity { job: "job-1".into(), pod: "pod-a".into() };
    let hook = HookProcess::new(
        world.server.client("pod-a"),
        settings,
        identity,
        world.clock.clone(),
        shutdown,
    );
    let metrics = hook.metrics();
    metrics.enable_snapshots();
    let run = tokio::task::spawn_local(hook.run());
    world.pass(30).await;
    let now = samples(&metrics.text(world.clock.now()));
    assert_eq!(sum(&now, "gpu_rollout_nodes", "stage=\"unknown\""), Some(2.0), "{now:?}");
    assert_eq!(sum(&now, "gpu_rollout_nodes", ""), Some(2.0), "{now:?}");
    assert_eq!(
        sum(&now, "gpu_rollout_nodes_waiting", "reason=\"OtherChart\""),
        Some(2.0),
        "{now:?}"
    );
    // They were also missing from the count of unavailable nodes.
    assert_eq!(sum(&now, "gpu_rollout_nodes_unavailable", ""), Some(1.0), "{now:?}");
    assert!(
        sum(&now, "gpu_rollout_fleet_waiting_since_timestamp_seconds", "reason=\"").is_some(),
        "{now:?}"
    );
    run.abort();
}

/// Returns the answer to a request with this first line.
async fn asked(port: u16, line: &str) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    stream.write_all(format!("{line} HTTP/1.1\r\nHost: a\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test(flavor = "local")]
async fn metrics_are_served_only_at_their_path() {
    let world = World::at_rest(1);
    let (_stop, shutdown) = Shutdown::pair();
    let identity = PodIdentity { job: "job-1".into(), pod: "pod-a".into() };
    let hook = HookProcess::new(
        world.server.client("pod-a"),
        world.settings.clone(),
        identity,
        world.clock.clone(),
        shutdown,
    );
    let listener = listen(0).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let serving = tokio::task::spawn_local(serve(listener, hook.metrics(), world.clock.clone()));
    let metrics = asked(port, "GET /metrics").await;
    assert!(
        metrics.starts_with("HTTP/1.1 200 ")
            && metrics.contains(MEDIA_TYPE)
            && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let head = asked(port, "HEAD /metrics").await;
    assert!(head.starts_with("HTTP/1.1 200 ") && head.ends_with("\r\n\r\n"), "{head}");
    assert!(asked(port, "GET /").await.starts_with("HTTP/1.1 404 "));
    assert!(asked(port, "POST /metrics").await.starts_with("HTTP/1.1 405 "));
    assert!(asked(port, "nonsense").await.starts_with("HTTP/1.1 400 "));
    let taken = listen(port).await;
    assert!(
        taken.is_err(),
        "a port in use is not a reason to fail: the caller continues without metrics"
    );
    serving.abort();
}
