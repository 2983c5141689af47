//! The hook releases of a cluster, found by the objects that their chart creates.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use serde_json::Value;

use contract::names;
use contract::settings::{FORMAT_VERSION, Settings};

use super::api_collection::{ApiCollection, CONFIG_MAPS};
use super::call::{CallError, call, optional};
use super::list::list_pages;
use super::list_watch::ObjectSelection;

mod deployer;

pub use deployer::ReleaseDeployer;

/// A hook release, from its trigger ConfigMap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookRelease {
    /// `namespace/name` of the ConfigMap.
    pub trigger: String,
    /// The settings of its Job.
    pub settings: Result<Box<Settings>, UnreadableSettings>,
    /// Who deployed it; `None`: unknown.
    pub deployer: Option<ReleaseDeployer>,
}

/// Why the settings of a release cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnreadableSettings {
    /// A newer chart wrote them.
    #[error(
        "its settings have format {0}, and this version supports {FORMAT_VERSION}: use a newer gpu-rollout"
    )]
    Newer(u64),
    /// The settings cannot be parsed.
    #[error("its settings cannot be parsed: {0}")]
    Wrong(String),
}

/// How a Job ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobEnd {
    /// A pod of the Job succeeded.
    Complete,
    /// The Job reached its limit of failed pods, or its deadline.
    Failed,
}

/// The Job of a release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookJob {
    /// Name of the Job, which is the name of its release. Names of its pods start with it.
    pub name: String,
    /// UID of the Job.
    pub uid: String,
    /// When the Job's first pod was started.
    pub started: Option<Timestamp>,
    /// How the Job ended. `None`: it has not ended.
    pub end: Option<JobEnd>,
    /// Whether a pod of the Job is pending or running.
    pub has_pod: bool,
    /// Whether a pod of the Job has failed.
    pub has_failed_pod: bool,
    /// The pods of the Job that have not ended ([`living_pods`]); `None`: unknown.
    pub pods: Option<Vec<HookPod>>,
}

/// A pod of a hook's Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookPod {
    /// Its name, which is its identity in the Lease.
    pub name: String,
    /// When it was created.
    pub created: Timestamp,
}

/// Lists the hook releases of all namespaces, or of one. RBAC: `list` on `configmaps`.
///
/// # Errors
/// A call failed.
pub async fn releases(
    client: &Client,
    namespace: Option<&str>,
) -> Result<Vec<HookRelease>, CallError> {
    let selection = ObjectSelection::matching(&format!(
        "app.kubernetes.io/name={},{}",
        names::PROGRAM,
        names::DIGEST_LABEL
    ));
    let mut found = Vec::new();
    list_pages(
        &ApiCollection::new(client, CONFIG_MAPS, namespace),
        &selection,
        |object: ConfigMap| found.extend(parse_release(&object)),
    )
    .await?;
    found.sort_by(|one: &HookRelease, other: &HookRelease| one.trigger.cmp(&other.trigger));
    Ok(found)
}

/// Returns the release of a trigger ConfigMap. Returns `None` for another object: the Job's pods
/// have the label too, and other objects of the chart may have it.
fn parse_release(object: &ConfigMap) -> Option<HookRelease> {
    let text = object.data.as_ref()?.get("settings")?;
    let part = |text: &Option<String>| text.clone().unwrap_or_default();
    let trigger = format!("{}/{}", part(&object.metadata.namespace), part(&object.metadata.name));
    Some(HookRelease {
        trigger,
        settings: parse_settings(text).map(Box::new),
        deployer: ReleaseDeployer::of(&object.metadata),
    })
}

fn parse_settings(text: &str) -> Result<Settings, UnreadableSettings> {
    serde_json::from_str(text).map_err(|error| {
        let value: Value = serde_json::from_str(text).unwrap_or_default();
        let newer =
            value["formatVersion"].as_u64().filter(|found| *found > u64::from(FORMAT_VERSION));
        newer
            .map_or_else(|| UnreadableSettings::Wrong(error.to_string()), UnreadableSettings::Newer)
    })
}

/// Reads the Job of a release. Returns `None` if there is none. RBAC: `get` on `jobs`.
///
/// # Errors
/// The call failed.
pub async fn job(client: &Client, settings: &Settings) -> Result<Option<HookJob>, CallError> {
    let api: Api<Job> = Api::namespaced(client.clone(), &settings.namespace);
    let Some(job) = optional(call(api.get(&settings.release)).await)? else { return Ok(None) };
    let status = job.status.unwrap_or_default();
    let has = |kind: &str| {
        status
            .conditions
            .iter()
            .flatten()
            .any(|condition| condition.type_ == kind && condition.status == "True")
    };
    let end = has("Complete")
        .then_some(JobEnd::Complete)
        .or_else(|| has("Failed").then_some(JobEnd::Failed));
    Ok(Some(HookJob {
        name: settings.release.clone(),
        uid: job.metadata.uid.unwrap_or_default(),
        started: status.start_time.map(|time| time.0),
        end,
        has_pod: status.active.is_some_and(|pods| pods > 0),
        has_failed_pod: status.failed.is_some_and(|pods| pods > 0),
        pods: None,
    }))
}

/// Lists the pods of a Job that have not ended. RBAC: `list` on `pods`.
///
/// # Errors
/// The call failed.
pub async fn living_pods(
    client: &Client,
    namespace: &str,
    job: &HookJob,
) -> Result<Vec<HookPod>, CallError> {
    let api: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let of_job =
        ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", job.name));
    let pods = call(api.list(&of_job)).await?;
    // Pods of an earlier Job of the same name may still terminate.
    let is_own = |pod: &&Pod| pod.owner_references().iter().any(|owner| owner.uid == job.uid);
    Ok(pods.items.iter().filter(is_own).filter_map(living_pod).collect())
}

fn living_pod(pod: &Pod) -> Option<HookPod> {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    let created = pod.metadata.creation_timestamp.as_ref()?.0;
    (!matches!(phase, Some("Succeeded" | "Failed")))
        .then(|| HookPod { name: pod.name_any(), created })
}
