//! The API server's audit log: who asked for what, and what the answer was.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use jiff::Timestamp;
use serde::Deserialize;

/// The audit log of a run.
pub(crate) struct AuditLog {
    path: PathBuf,
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
    /// When it arrived, to the microsecond.
    pub(crate) time: Timestamp,
    /// Who asked.
    pub(crate) user: String,
}

impl Request {
    /// Whether it asked for a change. Self-checks (`selfsubjectaccessreviews`) store nothing.
    pub(crate) fn is_write(&self) -> bool {
        !matches!(self.verb.as_str(), "get" | "list" | "watch") && self.group != "authorization.k8s.io"
    }
}

impl AuditLog {
    /// The log in a run's directory.
    pub(crate) fn new(directory: &Path) -> Self {
        Self { path: directory.join("audit.log") }
    }

    /// The requests of one user so far, in the order in which they were answered (a watch when it began). The lines of others, nearly all of
    /// them, are not worth being understood.
    pub(crate) fn by_user(&self, user: &str) -> Result<Vec<Request>> {
        let text = std::fs::read_to_string(&self.path).with_context(|| format!("reading {}", self.path.display()))?;
        // The last line may still be half written.
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let lines = whole.lines().filter(|line| line.contains(user));
        let events = lines.map(|line| serde_json::from_str::<Event>(line).context("a line of the audit log"));
        let requests: Result<Vec<Request>> = events.filter_map(|event| event.map(Event::request).transpose()).collect();
        Ok(requests?.into_iter().filter(|request| request.user == user).collect())
    }

    /// The requests of a ServiceAccount.
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
    /// `None` for what is no request for an object, for dry runs, and for the second of a watch's two lines.
    fn request(self) -> Option<Request> {
        let object = self.object_ref?;
        let code = self.response_status.map_or(0, |status| status.code);
        let finished_watch = self.verb == "watch" && self.stage == "ResponseComplete" && code == 200;
        let begun_other = self.verb != "watch" && self.stage == "ResponseStarted";
        // Argo CD and Flux ask what a change would do before they make it.
        let rehearsed = self.request_uri.contains("dryRun=All");
        if finished_watch || begun_other || rehearsed {
            return None;
        }
        let resource = if object.subresource.is_empty() { object.resource } else { format!("{}/{}", object.resource, object.subresource) };
        Some(Request {
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
