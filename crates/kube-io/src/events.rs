//! Events about nodes and about the hook's Job. kube's own recorder merges repeated events and
//! drops the newer text. Here every event is different, so each is a new object.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::{Api, Client};
use tokio::time::Instant;

use contract::names::LEASE_NAMESPACE;

use super::call::CallError;
use super::object_writes::create;

/// The longest note that the API accepts, in bytes.
const LONGEST_NOTE: usize = 1024;

/// The object that an event is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventTarget<'a> {
    /// The hook's Job.
    Run,
    /// A node.
    Node {
        /// Name of the node.
        name: &'a str,
    },
}

/// Publishes events. A failure is logged and never fails the run.
pub struct EventRecorder {
    client: Client,
    namespace: String,
    job: ObjectReference,
    instance: String,
    failure: Mutex<PublishFailure>,
}

/// What keeps events from being published.
#[derive(Default)]
struct PublishFailure {
    /// Whether a failure has been logged.
    logged: bool,
    /// No event is published before this time: waiting for slow answers would delay the run.
    until: Option<Instant>,
    /// No event is published after this time, because the process ends soon.
    ends: Option<Instant>,
}

/// How long a call may take. A run publishes many events one after the other.
const SLOW: Duration = Duration::from_secs(1);
/// How long no event is published after a call that was slow, or got no answer.
const SILENCE: Duration = Duration::from_mins(1);

impl EventRecorder {
    /// Returns a recorder for the Job of this name and UID, run by the pod `instance`.
    pub fn new(client: &Client, namespace: &str, job: &str, uid: &str, instance: &str) -> Self {
        Self {
            client: client.clone(),
            namespace: namespace.to_owned(),
            job: ObjectReference {
                api_version: Some("batch/v1".to_owned()),
                kind: Some("Job".to_owned()),
                namespace: Some(namespace.to_owned()),
                name: Some(job.to_owned()),
                uid: Some(uid.to_owned()),
                ..ObjectReference::default()
            },
            instance: instance.to_owned(),
            failure: Mutex::default(),
        }
    }

    /// Publishes events only for this time from now on. A call that is still running then is given
    /// up.
    pub fn end_after(&self, time: Duration) {
        self.failure().ends = Some(Instant::now() + time);
    }

    /// Publishes one event. RBAC: `create` on `events.k8s.io/events` in the Job's namespace, or in
    /// `default` for nodes.
    pub async fn publish(
        &self,
        about: EventTarget<'_>,
        warning: bool,
        reason: &str,
        note: &str,
        now: Timestamp,
    ) {
        let started = Instant::now();
        let ends = {
            let failure = self.failure();
            if failure.until.is_some_and(|until| started < until)
                || failure.ends.is_some_and(|ends| started >= ends)
            {
                return;
            }
            failure.ends
        };
        let (namespace, regarding) = self.regarding(about);
        let event = Event {
            metadata: ObjectMeta {
                generate_name: Some(format!(
                    "{}-",
                    regarding.name.as_deref().unwrap_or("gpu-rollout")
                )),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            action: Some("Rollout".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(shortened(note, LONGEST_NOTE).to_owned()),
            reason: Some(reason.to_owned()),
            regarding: Some(regarding),
            reporting_controller: Some("gpu-rollout.dev/hook".to_owned()),
            reporting_instance: Some(self.instance.clone()),
            type_: Some(if warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        };
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace);
        let creating = create(api, &event);
        let answer = match ends {
            Some(ends) => {
                let answer = tokio::time::timeout_at(ends, creating).await;
                answer.unwrap_or(Err(CallError::Timeout))
            }
            None => creating.await,
        };
        let mut failure = self.failure();
        if let Err(error) = answer
            && !std::mem::replace(&mut failure.logged, true)
        {
            tracing::warn!(%error, "cannot publish an event; later failures are not logged");
        }
        // A call without an answer takes longer than this, too.
        if started.elapsed() > SLOW {
            failure.until = Some(Instant::now() + SILENCE);
        }
    }

    fn failure(&self) -> MutexGuard<'_, PublishFailure> {
        // No code panics while it holds this lock.
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the namespace of an event about the target, and the reference to the target.
    fn regarding(&self, about: EventTarget<'_>) -> (&str, ObjectReference) {
        match about {
            EventTarget::Run => (self.namespace.as_str(), self.job.clone()),
            // The kubelet uses the node's name as the UID in its events, and `kubectl describe
            // node` searches for that.
            EventTarget::Node { name } => (
                LEASE_NAMESPACE,
                ObjectReference {
                    kind: Some("Node".to_owned()),
                    name: Some(name.to_owned()),
                    uid: Some(name.to_owned()),
                    ..ObjectReference::default()
                },
            ),
        }
    }
}

/// Returns at most `longest` bytes of a text, cut between characters.
pub fn shortened(text: &str, longest: usize) -> &str {
    if text.len() <= longest { text } else { &text[..text.floor_char_boundary(longest)] }
}
