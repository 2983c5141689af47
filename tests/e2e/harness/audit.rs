//! The API server's audit log: requests with their users and answers.

use std::fs::File;
use std::io::{Read as _, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;

/// The audit log of a run.
pub(crate) struct AuditLog {
    path: PathBuf,
    /// The requests read so far. The log is read often and becomes long.
    read: Mutex<Read>,
}

/// The part of the log that has been read.
#[derive(Default)]
struct Read {
    /// Bytes.
    length: u64,
    requests: Vec<Request>,
}

/// One request.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    /// Verb as RBAC names it.
    pub(crate) verb: String,
    /// API group; empty for the core group.
    pub(crate) group: String,
    /// Resource, with `/subresource` if there is one.
    pub(crate) resource: String,
    /// Namespace; empty for cluster-scoped objects and requests for all namespaces.
    pub(crate) namespace: String,
    /// Object name; empty for collections.
    pub(crate) name: String,
    /// HTTP status.
    pub(crate) code: i64,
    /// The arrival time, with microseconds.
    pub(crate) time: Timestamp,
    /// The user of the request.
    pub(crate) user: String,
    /// The new readiness of the pod, if the request sets it.
    pub(crate) makes_ready: Option<bool>,
}

impl Request {
    /// Whether the request is a write. Self-checks (`selfsubjectaccessreviews`) store nothing.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch")
            && self.group != "authorization.k8s.io"
    }
}

impl AuditLog {
    /// Returns the log in a run's directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join("audit.log"), read: Mutex::default() }
    }

    /// Returns the requests of one user so far, in the order of their answers (a watch at its
    /// start).
    pub(crate) fn by_user(&self, user: &str) -> Result<Vec<Request>> {
        // After a panic, the requests are still complete.
        let mut read = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        self.go_on(&mut read).with_context(|| format!("reading {}", self.path.display()))?;
        Ok(read.requests.iter().filter(|request| request.user == user).cloned().collect())
    }

    fn go_on(&self, read: &mut Read) -> Result<()> {
        let mut file = File::open(&self.path)?;
        file.seek(SeekFrom::Start(read.length))?;
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        // The last line may still be half written.
        for line in text.split_inclusive('\n').filter(|line| line.ends_with('\n')) {
            let event: Event = serde_json::from_str(line)?;
            read.requests.extend(event.request());
            read.length += u64::try_from(line.len())?;
        }
        Ok(())
    }

    /// Returns the requests of a ServiceAccount.
    pub(crate) fn by_service_account(&self, namespace: &str, name: &str) -> Result<Vec<Request>> {
        self.by_user(&format!("system:serviceaccount:{namespace}:{name}"))
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Event {
    stage: String,
    verb: String,
    user: User,
    #[serde(default)]
    object_ref: Option<ObjectReference>,
    #[serde(default)]
    response_status: Option<ResponseStatus>,
    #[serde(default)]
    request_object: Value,
    request_received_timestamp: Timestamp,
    #[serde(default, rename = "requestURI")]
    request_uri: String,
}

#[derive(Deserialize)]
struct User {
    username: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ObjectReference {
    #[serde(default)]
    api_group: String,
    #[serde(default)]
    resource: String,
    #[serde(default)]
    subresource: String,
    #[serde(default)]
    namespace: String,
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct ResponseStatus {
    #[serde(default)]
    code: i64,
}

impl Event {
    /// Parses a request. `None`: a request without an object, a dry run, or the second line of a
    /// watch.
    fn request(self) -> Option<Request> {
        let object = self.object_ref?;
        let code = self.response_status.map_or(0, |status| status.code);
        let finished_watch =
            self.verb == "watch" && self.stage == "ResponseComplete" && code == 200;
        let begun_other = self.verb != "watch" && self.stage == "ResponseStarted";
        // Argo CD and Flux send a dry run before a change.
        let rehearsed = self.request_uri.contains("dryRun=All");
        if finished_watch || begun_other || rehearsed {
            return None;
        }
        let resource = if object.subresource.is_empty() {
            object.resource
        } else {
            format!("{}/{}", object.resource, object.subresource)
        };
        let conditions = self.request_object["status"]["conditions"].as_array();
        let ready = conditions.and_then(|conditions| {
            conditions.iter().find(|condition| condition["type"] == "Ready")
        });
        Some(Request {
            makes_ready: ready.map(|ready| ready["status"] == "True"),
            verb: self.verb,
            group: object.api_group,
            resource,
            namespace: object.namespace,
            name: object.name,
            code,
            time: self.request_received_timestamp,
            user: self.user.username,
        })
    }
}
