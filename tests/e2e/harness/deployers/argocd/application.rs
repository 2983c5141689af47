//! What Argo CD says of one Application.

use std::fmt;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// The kind.
pub(super) fn kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application"),
        "applications",
    )
}

/// The parts of an Application that tell how far Argo CD is with it.
pub(super) struct Application {
    /// Its name.
    pub(super) name: String,
    /// Somebody has asked for a look that has not been taken yet.
    pub(super) refreshing: bool,
    /// Its objects are a hook's.
    is_hook: bool,
    data: Value,
}

impl From<&DynamicObject> for Application {
    fn from(object: &DynamicObject) -> Self {
        let refreshing = object.annotations().contains_key("argocd.argoproj.io/refresh");
        let is_hook =
            object.labels().get("gpu-rollout.dev/kind").is_some_and(|kind| kind == "hook");
        Self { name: object.name_any(), refreshing, is_hook, data: object.data.clone() }
    }
}

impl Application {
    /// It has been compared with this commit, has nothing left to do, and its last sync, hooks
    /// included, succeeded.
    ///
    /// What changes with a commit is out of sync before its sync begins, so that the success of an
    /// earlier one is not taken for its own.
    pub(super) fn is_done(&self, commit: &str) -> bool {
        let sync = &self.data["status"]["sync"];
        let (spec, compared) = (&self.data["spec"], &sync["comparedTo"]);
        // Beside `sources`, an empty `source` may be written out.
        let sources = if spec["sources"].is_null() { "source" } else { "sources" };
        !self.refreshing
            && is_of(sync, commit)
            && compared[sources] == spec[sources]
            && sync["status"] == "Synced"
            && self.data["operation"].is_null()
            && (self.phase() == "Succeeded" || self.was_in_place())
    }

    /// Nothing differed from the first look on, so that it was never synced. A hook would not have
    /// run then.
    fn was_in_place(&self) -> bool {
        !self.is_hook && self.data["status"]["operationState"].is_null()
    }

    /// The sync of this commit has failed for good.
    pub(super) fn has_failed(&self, commit: &str) -> bool {
        let result = &self.data["status"]["operationState"]["syncResult"];
        matches!(self.phase(), "Failed" | "Error")
            && self.data["operation"].is_null()
            && is_of(result, commit)
    }

    /// How it stands and how its last operation ended, for a table.
    pub(super) fn says(&self) -> String {
        let status = &self.data["status"];
        let (sync, health) = (text(&status["sync"]["status"]), text(&status["health"]["status"]));
        format!("{sync}, {health}, last operation {}", self.phase())
    }

    /// When its last operation began.
    pub(super) fn begun(&self) -> &str {
        text(&self.data["status"]["operationState"]["startedAt"])
    }

    /// Its last operation is over.
    pub(super) fn is_over(&self) -> bool {
        self.data["operation"].is_null() && matches!(self.phase(), "Succeeded" | "Failed" | "Error")
    }

    /// It is at work on another commit.
    pub(super) fn is_behind(&self, commit: &str) -> bool {
        // What a sync has come to is not there in its first moment; what it was asked for is.
        self.phase() == "Running"
            && !is_of(&self.data["status"]["operationState"]["operation"]["sync"], commit)
    }

    /// What `argocd app terminate-op NAME` writes.
    pub(super) fn termination() -> Value {
        json!({"status": {"operationState": {"phase": "Terminating"}}})
    }

    /// What `argocd app sync NAME` asks for: everything, with its hooks, once.
    pub(super) fn sync_request(&self) -> Value {
        json!({"operation": {
            "initiatedBy": {"username": "admin"},
            "sync": {"syncStrategy": {"hook": {}}, "syncOptions": self.data["spec"]["syncPolicy"]["syncOptions"]},
        }})
    }

    fn phase(&self) -> &str {
        text(&self.data["status"]["operationState"]["phase"])
    }
}

/// Whether the `revision` or one of the `revisions` is this commit.
fn is_of(place: &Value, commit: &str) -> bool {
    place["revision"] == commit
        || place["revisions"]
            .as_array()
            .is_some_and(|all| all.iter().any(|revision| revision == commit))
}

impl fmt::Display for Application {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = &self.data["status"];
        write!(
            f,
            "{}: {}: {}",
            self.name,
            self.says(),
            text(&status["operationState"]["message"])
        )?;
        for condition in status["conditions"].as_array().into_iter().flatten() {
            write!(f, "\n    {}: {}", text(&condition["type"]), text(&condition["message"]))?;
        }
        Ok(())
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or("-")
}
