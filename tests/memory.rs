//! What the hook holds of a large cluster: everything that it watches of 10,000 nodes, read through its own client from a server that makes
//! each page when it is asked for. Ignored by `cargo test`, since peak memory is that of the whole process.
#![expect(clippy::print_stdout, reason = "the table is the output")]
#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use gpu_rollout::cluster::watches::{Sync, Watches};
use gpu_rollout::contract::duty::Duty;
use gpu_rollout::contract::settings::{Mode, Settings};
use gpu_rollout::rollout::decide::decide;
use gpu_rollout::rollout::memory::Memory;
use gpu_rollout::rollout::observed::Observed;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use jiff::Timestamp;
use kube::Client;
use tokio::sync::watch;
use tower::BoxError;

#[path = "fixture/settings.rs"]
mod settings;

#[path = "memory/objects.rs"]
mod objects;

/// Nodes of the fleet.
const NODES: usize = 10_000;
/// What a hook Job may hold at most: the aim for 10,000 nodes.
const LIMIT_MIB: f64 = 128.0;

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The server; clones are the same one.
#[derive(Clone)]
struct Server {
    nodes: usize,
    /// How often all watches have been ended: every time they have to be listed anew.
    endings: watch::Sender<u64>,
    /// MiB that were sent.
    sent: Arc<Mutex<f64>>,
}

fn response(body: Body) -> http::Response<Body> {
    http::Response::builder().header("content-type", "application/json").body(body).unwrap()
}

impl Server {
    fn answer(&self, request: &http::Request<kube::client::Body>) -> http::Response<Body> {
        let uri = request.uri().clone();
        let pairs = uri.query().unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
        let parameter = |key: &str| pairs.clone().find(|(name, _)| *name == key).map(|(_, value)| value);
        if parameter("watch").is_some() {
            return self.watch();
        }
        let (mut items, begin) = (Vec::new(), parameter("continue").map_or(0, |text| text.parse().unwrap()));
        let end = begin + parameter("limit").unwrap().parse::<usize>().unwrap();
        let selector = parameter("labelSelector").unwrap_or_default();
        let total = objects::count(uri.path(), selector, self.nodes);
        for index in begin..end.min(total) {
            items.push(objects::object(uri.path(), selector, index));
        }
        let next = if end < total { end.to_string() } else { String::new() };
        let metadata = format!(r#"{{"resourceVersion":"1","continue":"{next}"}}"#);
        let text = format!(r#"{{"kind":"List","apiVersion":"v1","metadata":{metadata},"items":[{}]}}"#, items.join(","));
        *self.sent.lock().unwrap() += f64::from(u32::try_from(text.len()).unwrap()) / f64::from(1 << 20);
        response(Full::new(Bytes::from(text)).map_err(Into::into).boxed_unsync())
    }

    /// A watch that says nothing until all are ended with an error.
    fn watch(&self) -> http::Response<Body> {
        let mut endings = self.endings.subscribe();
        let body = futures::stream::once(async move {
            endings.changed().await.unwrap();
            let status =
                r#"{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","code":410,"reason":"Expired","message":"old"}"#;
            Ok::<_, Infallible>(http_body::Frame::data(Bytes::from(format!("{{\"type\":\"ERROR\",\"object\":{status}}}\n"))))
        });
        response(StreamBody::new(body).map_err(|never| match never {}).boxed_unsync())
    }
}

/// A figure of `/proc/self/status` in MiB.
fn status(figure: &str) -> f64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(figure)).unwrap();
    line.trim_start_matches(':').split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
}

fn row(what: &str, begin: Instant) {
    println!("{what:<44} {:>9.1} ms {:>8.1} MiB now {:>8.1} MiB peak", milliseconds(begin), status("VmRSS"), status("VmHWM"));
}

fn milliseconds(begin: Instant) -> f64 {
    begin.elapsed().as_secs_f64() * 1e3
}

async fn in_step(watches: &Watches) {
    while watches.sync() != Sync::InStep {
        watches.changed().await;
    }
}

#[tokio::test(flavor = "current_thread")]
#[ignore = "a measurement: make bench"]
async fn ten_thousand_nodes_fit_into_a_hook_job() {
    let server = Server { nodes: NODES, endings: watch::Sender::new(0), sent: Arc::default() };
    let answering = server.clone();
    let service = tower::service_fn(move |request| std::future::ready(Ok::<_, Infallible>(answering.answer(&request))));
    let client = Client::new(service, "default");
    let duties = vec![Duty::Settle, Duty::Drive, Duty::Reroll];
    let settings = Settings { mode: Mode::Drive, duties, ..settings::settings() };
    let size = objects::object("/api/v1/nodes", "", 0).len();
    println!("{NODES} nodes of {size} bytes; on each a pod of driver, toolkit, validator and DRA plugin, and a ResourceSlice\n");
    row("at the beginning", Instant::now());
    let begin = Instant::now();
    let watches = Watches::start(&client, &settings, vec![settings::DRA.into()], Some("v1"));
    in_step(&watches).await;
    row("everything listed", begin);
    println!("{:<44} {:>9.1} MiB", "sent by the server", server.sent.lock().unwrap());
    let begin = Instant::now();
    let before = watches.observed();
    row("a snapshot", begin);
    let begin = Instant::now();
    let observed = watches.observed();
    row("a second one", begin);
    counted(&observed);
    let begin = Instant::now();
    assert_eq!(before, observed);
    row("compared with each other", begin);
    let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
    let memory = Memory::new(now, now + Duration::from_hours(1));
    let begin = Instant::now();
    let decision = decide(&observed, &settings, &memory, now);
    row("a first decision", begin);
    let begin = Instant::now();
    let decision = decide(&observed, &settings, &decision.memory, now);
    row("the same again", begin);
    let begin = Instant::now();
    server.endings.send_modify(|endings| *endings += 1);
    while watches.sync() == Sync::InStep {
        watches.changed().await;
    }
    in_step(&watches).await;
    row("everything listed anew, all at once", begin);
    assert_eq!(watches.observed(), observed);
    drop((before, decision));
    let peak = status("VmHWM");
    assert!(peak <= LIMIT_MIB, "{peak:.1} MiB");
}

fn counted(observed: &Observed) {
    let slices = observed.dra.slices.served().unwrap().len();
    let counts = [observed.nodes.len(), observed.pods.len(), observed.validators.len(), observed.dra.pods.len(), slices];
    assert_eq!(counts, [NODES, 2 * NODES, NODES, NODES, NODES]);
    assert!(observed.nodes.values().all(|node| node.labels.len() >= 80));
}
