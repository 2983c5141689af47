//! The state of one Application in Argo CD.

use std::fmt;

use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use serde_json::{Value, json};

/// Returns the kind of Applications.
pub(super) fn kind() -> ApiResource {
    ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("argoproj.io", "v1alpha1", "Application"),
        "applications",
    )
}

/// The parts of an Application that show the progress of Argo CD.
pub(super) struct Application {
    /// The name.
    pub(super) name: String,
    /// A refresh was requested and is not complete.
    pub(super) refreshing: bool,
    /// Whether its objects are those of a hook.
    is_hook: bool,
    /// Whether its source is not that of the bundle: a Git repository of its own, or only the
    /// vendor's chart, with the values in the Application. No commit of the bundle changes it.
    is_elsewhere: bool,
    data: Value,
}

impl From<&DynamicObject> for Application {
    fn from(object: &DynamicObject) -> Self {
        let refreshing = object.annotations().contains_key("argocd.argoproj.io/refresh");
        let is_kind = |wanted: &str| {
            object.labels().get("gpu-rollout.dev/kind").is_some_and(|kind| kind == wanted)
        };
        Self {
            name: object.name_any(),
            refreshing,
            is_hook: is_kind("hook"),
            is_elsewhere: is_kind("kustomization")
                || object.data["spec"]["source"]["chart"].is_string(),
            data: object.data.clone(),
        }
    }
}

impl Application {
    /// Whether Argo CD has compared it with this commit, has no work left, and the last sync,
    /// including hooks, has succeeded.
    ///
    /// An Application that a commit changes is OutOfSync before its sync starts. So the success of
    /// an earlier sync does not count for this commit.
    pub(super) fn is_done(&self, commit: &str) -> bool {
        let sync = &self.data["status"]["sync"];
        let (spec, compared) = (&self.data["spec"], &sync["comparedTo"]);
        // An Application with `sources` may also have an empty `source`.
        let sources = if spec["sources"].is_null() { "source" } else { "sources" };
        !self.refreshing
            && (self.is_elsewhere || is_of(sync, commit))
            && compared[sources] == spec[sources]
            && sync["status"] == "Synced"
            && self.data["operation"].is_null()
            && (self.phase() == "Succeeded" || self.was_in_place())
    }

    /// Whether nothing differed at the first comparison, so that Argo CD never synced it. False for
    /// hooks, because the hook would not have run.
    fn was_in_place(&self) -> bool {
        !self.is_hook && self.data["status"]["operationState"].is_null()
    }

    /// Whether the sync of this commit has failed, with no retries left.
    pub(super) fn has_failed(&self, commit: &str) -> bool {
        let result = &self.data["status"]["operationState"]["syncResult"];
        matches!(self.phase(), "Failed" | "Error")
            && self.data["operation"].is_null()
            && is_of(result, commit)
    }

    /// Returns its status and the result of its last operation, for a table.
    pub(super) fn says(&self) -> String {
        let status = &self.data["status"];
        let (sync, health) = (text(&status["sync"]["status"]), text(&status["health"]["status"]));
        format!("{sync}, {health}, last operation {}", self.phase())
    }

    /// Returns when its last operation started.
    pub(super) fn begun(&self) -> &str {
        text(&self.data["status"]["operationState"]["startedAt"])
    }

    /// Whether its last operation has ended.
    pub(super) fn is_over(&self) -> bool {
        self.data["operation"].is_null() && matches!(self.phase(), "Succeeded" | "Failed" | "Error")
    }

    /// Whether it is syncing another commit.
    pub(super) fn is_behind(&self, commit: &str) -> bool {
        // At the start of a sync, the result is still missing. The request is always there.
        self.phase() == "Running"
            && !is_of(&self.data["status"]["operationState"]["operation"]["sync"], commit)
    }

    /// Returns the patch of `argocd app terminate-op NAME`.
    pub(super) fn termination() -> Value {
        json!({"status": {"operationState": {"phase": "Terminating"}}})
    }

    /// Returns the patch of `argocd app sync NAME`: one sync of everything, including hooks.
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

/// Whether `revision` or one of `revisions` is this commit.
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
