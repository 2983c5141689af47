//! An API server in memory, with faults on the connection to it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use contract::task::AllowedNodeChanges;
use hook::RunClock;
use http_body_util::{BodyExt, Full, StreamBody, combinators::UnsyncBoxBody};
use jiff::SignedDuration;
use kube::Client;
use serde_json::{Value, json};
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tower::BoxError;

mod evict;
pub(crate) mod fault;
mod perform;
pub(crate) mod request;
pub(crate) mod rights;
pub(crate) mod store;
mod watch_stream;

use fault::{Break, Effect, Fault};
use request::{Entry, Request};
use rights::Grant;
use store::{Key, Store};

type Body = UnsyncBoxBody<Bytes, BoxError>;

/// The latency of a request, in each direction.
const LATENCY: Duration = Duration::from_millis(2);

/// The server. Clones share one state.
#[derive(Clone)]
pub(crate) struct Server {
    state: Arc<Mutex<State>>,
    pub(crate) clock: RunClock,
    changed: watch::Sender<()>,
    /// Notified of each request with a notifying fault.
    pub(crate) told: Arc<Notify>,
}

/// The whole state, under one lock that is never held across an await.
pub(crate) struct State {
    pub(crate) store: Store,
    /// API versions by group and resource. The server answers 404 for all others.
    pub(crate) served: BTreeMap<(&'static str, &'static str), Vec<&'static str>>,
    pub(crate) grants: Vec<Grant>,
    /// What the hook of each release may change on nodes. Empty: no hook is installed.
    pub(crate) node_changes: BTreeMap<String, AllowedNodeChanges>,
    /// Removed rights, such as `delete pods`.
    pub(crate) denied: BTreeSet<String>,
    /// The used rows and verbs of the task table.
    pub(crate) used: BTreeSet<(usize, &'static str)>,
    /// Requests that a real server would refuse or reject. They are always a bug.
    pub(crate) violations: Vec<String>,
    pub(crate) log: Vec<Entry>,
    pub(crate) faults: Vec<Fault>,
    pub(crate) breaks: Vec<Break>,
    pub(crate) away_until: Option<Instant>,
    pub(crate) silent_until: Option<Instant>,
    /// Reads of these resources (all, if the list is empty) show this version.
    pub(crate) frozen: Option<(Vec<&'static str>, u64)>,
    /// The server answers 410 to watches from before this version.
    pub(crate) compacted: u64,
    /// Watches end after this number of seconds, regardless of the requested timeout.
    pub(crate) watch_seconds: Option<u64>,
    /// Whether every watch event is sent twice.
    pub(crate) duplicate: bool,
    /// Whether simultaneous watch events are sent in the wrong order.
    pub(crate) reversed: bool,
    /// Watches of these resources (all, if the list is empty) are delayed by this time.
    pub(crate) late: Option<(Vec<&'static str>, Duration)>,
    /// How far the clocks of the nodes are ahead of the server's.
    pub(crate) node_skew: SignedDuration,
    /// The logs of pods.
    pub(crate) logs: BTreeMap<Key, String>,
}

impl State {
    /// Returns the version that reads of a resource show.
    fn visible(&self, resource: &str) -> u64 {
        match &self.frozen {
            Some((resources, version)) if resources.is_empty() || resources.contains(&resource) => {
                *version
            }
            Some(_) | None => self.store.version,
        }
    }

    /// Returns the delay of watches of a resource.
    fn lag(&self, resource: &str) -> Option<Duration> {
        let (resources, lag) = self.late.as_ref()?;
        (resources.is_empty() || resources.contains(&resource)).then_some(*lag)
    }
}

const V1: &[&str] = &["v1"];

/// Returns the API versions that a server of this version serves, with all of NVIDIA's CRDs.
pub(crate) fn served(
    slices: &[&'static str],
) -> BTreeMap<(&'static str, &'static str), Vec<&'static str>> {
    let rows: [((&str, &str), &[&str]); 22] = [
        (("", "nodes"), V1),
        (("", "pods"), V1),
        (("", "pods/eviction"), V1),
        (("", "pods/log"), V1),
        (("", "podtemplates"), V1),
        (("policy", "poddisruptionbudgets"), V1),
        (("", "configmaps"), V1),
        (("", "namespaces"), V1),
        (("apps", "deployments"), V1),
        (("apps", "daemonsets"), V1),
        (("apps", "controllerrevisions"), V1),
        (("batch", "jobs"), V1),
        (("coordination.k8s.io", "leases"), V1),
        (("events.k8s.io", "events"), V1),
        (("authorization.k8s.io", "selfsubjectaccessreviews"), V1),
        (("admissionregistration.k8s.io", "validatingadmissionpolicies"), V1),
        (("nvidia.com", "clusterpolicies"), V1),
        (("mellanox.com", "nicclusterpolicies"), &["v1alpha1"]),
        (("nvidia.com", "nvidiadrivers"), &["v1alpha1"]),
        (("maintenance.nvidia.com", "nodemaintenances"), &["v1alpha1"]),
        (("resource.k8s.io", "resourceslices"), slices),
        (("resource.k8s.io", "resourceclaims"), slices),
    ];
    rows.into_iter()
        .map(|(key, versions)| (key, versions.to_vec()))
        .filter(|(_, versions)| !versions.is_empty())
        .collect()
}

/// Converts an object to the requested version. The store contains the newest version.
fn convert(request: &Request, object: &Value) -> Value {
    let mut object = object.clone();
    if request.group == "resource.k8s.io" {
        object["apiVersion"] = json!(format!("resource.k8s.io/{}", request.version));
        if request.version == "v1beta1" {
            for device in object["spec"]["devices"].as_array_mut().into_iter().flatten() {
                let attributes =
                    device.as_object_mut().unwrap().remove("attributes").unwrap_or_default();
                device["basic"] = json!({ "attributes": attributes });
            }
        }
    }
    object
}

/// Returns the body of an answer. A string is plain text, such as a log.
fn full(value: &Value) -> Body {
    let bytes = match value.as_str() {
        Some(text) => text.as_bytes().to_vec(),
        None => serde_json::to_vec(value).unwrap(),
    };
    Full::new(Bytes::from(bytes)).map_err(Into::into).boxed_unsync()
}

/// Returns the body of an answer: a log is plain text.
fn body_of(answer: &Value) -> Body {
    match answer.as_str() {
        Some(log) => Full::new(Bytes::from(log.to_owned())).map_err(Into::into).boxed_unsync(),
        None => full(answer),
    }
}

fn response(status: u16, body: Body) -> http::Response<Body> {
    http::Response::builder()
        .status(status)
        .header("content-type", "application/json")
        .body(body)
        .unwrap()
}

/// Returns the `Status` object of a failure.
fn failure(code: u16, message: &str) -> Value {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "Conflict",
        410 => "Expired",
        422 => "Invalid",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message, "reason": reason, "code": code})
}

impl Server {
    pub(crate) fn new(clock: RunClock) -> Self {
        let state = State {
            store: Store::default(),
            served: served(&["v1"]),
            grants: Vec::new(),
            node_changes: BTreeMap::new(),
            denied: BTreeSet::new(),
            used: BTreeSet::new(),
            violations: Vec::new(),
            log: Vec::new(),
            faults: Vec::new(),
            breaks: Vec::new(),
            away_until: None,
            silent_until: None,
            frozen: None,
            compacted: 0,
            watch_seconds: None,
            duplicate: false,
            reversed: false,
            late: None,
            node_skew: SignedDuration::ZERO,
            logs: BTreeMap::new(),
        };
        Self {
            state: Arc::new(Mutex::new(state)),
            clock,
            changed: watch::Sender::new(()),
            told: Arc::new(Notify::new()),
        }
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    /// Changes the state and notifies the watches.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.state());
        self.changed.send_replace(());
        result
    }

    /// Returns a receiver that is notified after every change.
    pub(crate) fn changes(&self) -> watch::Receiver<()> {
        self.changed.subscribe()
    }

    /// Refuses connections for this time, and cuts open ones.
    pub(crate) fn goes_away(&self, seconds: u64) {
        self.change(|state| {
            state.away_until = Some(Instant::now() + Duration::from_secs(seconds));
            state.breaks.push(Break::Cut);
        });
    }

    /// Drops everything in both directions for this time, without an error.
    pub(crate) fn goes_silent(&self, seconds: u64) {
        self.change(|state| {
            state.silent_until = Some(Instant::now() + Duration::from_secs(seconds));
        });
        let (server, wait) = (self.clone(), Duration::from_secs(seconds));
        tokio::spawn(async move {
            tokio::time::sleep(wait).await;
            server.change(|_| ());
        });
    }

    /// Returns a client for the pod with this name.
    pub(crate) fn client(&self, who: &str) -> Client {
        let (server, who) = (self.clone(), who.to_owned());
        Client::new(
            tower::service_fn(move |request| server.clone().dated(who.clone(), request)),
            "default",
        )
    }

    /// Adds the `Date` header, which every answer of a real server has.
    async fn dated(
        self,
        who: String,
        request: http::Request<kube::client::Body>,
    ) -> Result<http::Response<Body>, BoxError> {
        let clock = self.clock.clone();
        let mut answer = self.answer(who, request).await?;
        let date = clock.now().strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        answer.headers_mut().insert("date", http::HeaderValue::from_str(&date)?);
        Ok(answer)
    }

    async fn answer(
        self,
        who: String,
        request: http::Request<kube::client::Body>,
    ) -> Result<http::Response<Body>, BoxError> {
        let (parts, body) = request.into_parts();
        let body = body.collect().await?.to_bytes();
        let request = Request::parse(&who, &parts, &body);
        tokio::time::sleep(LATENCY).await;
        let now = Instant::now();
        let effect = {
            let mut state = self.state();
            if state.away_until.is_some_and(|until| now < until) {
                return Err("connection refused".into());
            }
            let silent = state.silent_until.is_some_and(|until| now < until);
            let struck = state.faults.iter_mut().find_map(|fault| fault.strikes(&request));
            if silent { Some(Effect::Hang) } else { struck }
        };
        if let Some(effect @ (Effect::Hang | Effect::CrashBefore)) = effect {
            self.note(&request, 0, false);
            self.never(effect).await;
        }
        if let Some(Effect::Late(seconds)) = effect {
            self.told.notify_one();
            tokio::spawn(self.performed_late(request, seconds));
            return std::future::pending().await;
        }
        if effect == Some(Effect::Tell) {
            self.told.notify_one();
        }
        if let Some(Effect::Slow(seconds)) = effect {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
        }
        if let Some(Effect::Status(code)) = effect {
            self.note(&request, code, false);
            return Ok(response(code, full(&failure(code, "injected"))));
        }
        if let Some(Effect::Answer(code, message)) = effect {
            self.note(&request, code, false);
            return Ok(response(code, full(&failure(code, message))));
        }
        let mut request = request;
        if effect == Some(Effect::DropLabels)
            && let Some(metadata) = request.body["metadata"].as_object_mut()
        {
            metadata.remove("labels");
        }
        if let Some(Effect::Busy(seconds)) = effect {
            self.note(&request, 429, false);
            // Plain text, as from the filters of a real server.
            let text =
                Full::new(Bytes::from_static(b"Too many requests, please try again later.\n"));
            let mut answer = response(429, text.map_err(Into::into).boxed_unsync());
            answer.headers_mut().insert(
                "content-type",
                http::HeaderValue::from_static("text/plain; charset=utf-8"),
            );
            answer.headers_mut().insert("retry-after", seconds.into());
            return Ok(answer);
        }
        if request.verb == "watch"
            && let Some(answer) = self.watch(&request)
        {
            return Ok(answer);
        }
        let (status, answer) = self.change(|state| state.perform(&request, self.clock.now()));
        let lost = matches!(effect, Some(Effect::LoseAnswer | Effect::CrashAfter));
        self.note(&request, if lost { 0 } else { status }, request.is_write() && status < 300);
        if let Some(effect @ (Effect::LoseAnswer | Effect::CrashAfter)) = effect {
            self.never(effect).await;
        }
        tokio::time::sleep(LATENCY).await;
        Ok(response(status, body_of(&answer)))
    }

    async fn performed_late(self, request: Request, seconds: u64) {
        if !request.is_write() {
            return;
        }
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        let (status, _answer) = self.change(|state| state.perform(&request, self.clock.now()));
        let applied = request.is_write() && status < 300;
        let at = self.clock.now();
        self.state().log.push(Entry { request, at, status: 0, applied, late: true });
    }

    async fn never(&self, effect: Effect) {
        if matches!(effect, Effect::CrashBefore | Effect::CrashAfter) {
            self.told.notify_one();
        }
        std::future::pending::<()>().await;
    }

    fn note(&self, request: &Request, status: u16, applied: bool) {
        let at = self.clock.now();
        self.state().log.push(Entry { request: request.clone(), at, status, applied, late: false });
    }

    /// Answers a watch. `None`: `perform` answers with the refusal.
    fn watch(&self, request: &Request) -> Option<http::Response<Body>> {
        let cursor: u64 =
            request.query.get("resourceVersion").and_then(|text| text.parse().ok()).unwrap_or(0);
        {
            let mut state = self.state();
            if state.refusal(request).is_some() {
                return None;
            }
            if cursor < state.compacted {
                drop(state);
                self.note(request, 410, false);
                return Some(response(410, full(&failure(410, "too old resource version"))));
            }
        }
        self.note(request, 200, false);
        let stream = watch_stream::stream(self.clone(), request.clone(), cursor);
        Some(response(200, StreamBody::new(stream).map_err(Into::into).boxed_unsync()))
    }
}
