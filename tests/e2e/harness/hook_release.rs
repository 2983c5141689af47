//! The hook chart as a release of its own, and the results of its Job.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use contract::record::{NODE_KEY_PREFIX, NodeRecord, RunRecord, Verdict};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, ContainerStateTerminated, Pod};
use k8s_openapi::api::events::v1::Event;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::audit::Request;
use super::helm::Said;
use super::node_agent::{HOOK_REPOSITORY, PREVIOUS_TAG, previous};
use super::repository::repository;
use super::stack::Stack;
use super::stand_in::OPERATOR_NAMESPACE;
use super::wait::until;

/// The time budget B of Jobs in scenarios. It is more than they need, but short enough to wait for
/// a failure.
pub(crate) const BUDGET_SECONDS: u64 = 240;
/// The quiet period of its runs.
pub(crate) const QUIET_SECONDS: u64 = 3;
const POD_LIMIT: Duration = Duration::from_mins(2);

/// One release of `charts/gpu-rollout`, in the operator's namespace by default.
pub(crate) struct HookRelease<'a> {
    stack: &'a Stack,
    name: &'a str,
    namespace: &'a str,
    /// The checkout whose chart is installed, and the tag of its image.
    checkout: PathBuf,
    tag: &'static str,
}

impl<'a> HookRelease<'a> {
    /// Returns a release that is not installed yet.
    pub(crate) fn new(stack: &'a Stack, name: &'a str) -> Self {
        Self::in_namespace(stack, name, OPERATOR_NAMESPACE)
    }

    /// Returns a release in another namespace.
    pub(crate) fn in_namespace(stack: &'a Stack, name: &'a str, namespace: &'a str) -> Self {
        Self { stack, name, namespace, checkout: repository(""), tag: "e2e" }
    }

    /// Returns a release with chart and image of the previous gpu-rollout release, in the
    /// operator's namespace.
    pub(crate) fn of_previous(stack: &'a Stack, name: &'a str) -> Result<Self> {
        let checkout =
            previous().context("GPU_ROLLOUT_PREVIOUS is not a checkout of the previous release")?;
        Ok(Self { checkout, tag: PREVIOUS_TAG, ..Self::new(stack, name) })
    }

    /// Runs `helm upgrade --install` with the operator's values and these settings under
    /// `rollout:`, and waits for the end of the hook.
    pub(crate) async fn deploy(&self, operator_values: &Value, rollout: &Value) -> Result<Said> {
        let mut settings = json!({
            "image": {"repository": HOOK_REPOSITORY, "tag": self.tag},
            "budgetSeconds": BUDGET_SECONDS, "perNodeSeconds": 20, "quietSeconds": QUIET_SECONDS, "graceSeconds": 60,
            "dra": {"replacementSeconds": 60},
        });
        merge(&mut settings, rollout);
        // The previous release has another key for tasks.
        if self.tag == PREVIOUS_TAG
            && let Some(tasks) =
                settings.as_object_mut().and_then(|settings| settings.remove("tasks"))
        {
            settings["duties"] = tasks;
        }
        let mut values = operator_values.clone();
        values["rollout"] = settings;
        let file = self.stack.helm.directory().join(format!("{}-values.json", self.name));
        std::fs::write(&file, values.to_string())?;
        let chart = self.checkout.join("charts/gpu-rollout").display().to_string();
        let budget = rollout["budgetSeconds"].as_u64().unwrap_or(BUDGET_SECONDS);
        let timeout = format!("{}s", budget + 90);
        let file = file.display().to_string();
        let arguments = [
            "upgrade",
            "--install",
            self.name,
            &chart,
            "-n",
            self.namespace,
            "-f",
            &file,
            "--timeout",
            &timeout,
        ];
        self.stack.helm.run(&arguments).await
    }

    /// Returns the Job's pods, oldest first.
    pub(crate) async fn pods(&self) -> Result<Vec<Pod>> {
        let of_job =
            ListParams::default().labels(&format!("batch.kubernetes.io/job-name={}", self.name));
        let mut pods = Api::<Pod>::namespaced(self.stack.client.clone(), self.namespace)
            .list(&of_job)
            .await?
            .items;
        pods.sort_by_key(|pod| pod.metadata.creation_timestamp.clone());
        Ok(pods)
    }

    /// Waits for a running pod of the Job.
    pub(crate) async fn running_pod(&self) -> Result<Pod> {
        until(&format!("a running pod of {}", self.name), POD_LIMIT, async || {
            let running = |pod: &Pod| {
                pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
            };
            Ok(self
                .pods()
                .await?
                .into_iter()
                .rfind(|pod| running(pod) && pod.metadata.deletion_timestamp.is_none()))
        })
        .await
    }

    /// Returns the exit code and the termination message of the Job's newest pod. Argo CD deletes a
    /// successful Job. In that case, they are those of the run record.
    pub(crate) async fn end(&self) -> Result<ContainerStateTerminated> {
        let Some(pod) = self.pods().await?.pop() else {
            let verdict = self.verdict().await?;
            let exit_code = verdict.code.number().into();
            return Ok(ContainerStateTerminated {
                exit_code,
                message: Some(verdict.message),
                ..ContainerStateTerminated::default()
            });
        };
        let status =
            pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()?.first());
        let ended = status.and_then(|status| status.state.as_ref()?.terminated.clone());
        ended.with_context(|| format!("{} has not ended", pod.name_any()))
    }

    /// Returns the logs of all pods of the Job that their nodes still have.
    pub(crate) async fn logs(&self) -> Result<String> {
        let pods = self.pods().await?;
        let log = |pod: &Pod| {
            self.stack
                .worker_of(pod)
                .and_then(|worker| worker.logs(self.namespace, &pod.name_any()))
        };
        Ok(pods.iter().map(|pod| log(pod).unwrap_or_default()).collect())
    }

    /// Returns the run record.
    pub(crate) async fn record(&self) -> Result<BTreeMap<String, String>> {
        let maps = Api::<ConfigMap>::namespaced(self.stack.client.clone(), self.namespace);
        Ok(maps.get(&format!("{}-record", self.name)).await?.data.unwrap_or_default())
    }

    /// Returns the events about a node.
    pub(crate) async fn events_about(&self, node: &str) -> Result<Vec<String>> {
        let events = Api::<Event>::namespaced(self.stack.client.clone(), "default")
            .list(&ListParams::default())
            .await?;
        let about = |event: &Event| {
            event.regarding.as_ref().and_then(|object| object.name.as_deref()) == Some(node)
        };
        let ours = |event: &Event| {
            event.reporting_controller.as_deref().is_some_and(|name| name.contains("gpu-rollout"))
        };
        Ok(events
            .into_iter()
            .filter(|event| about(event) && ours(event))
            .filter_map(|event| event.note)
            .collect())
    }

    /// Returns the requests of its ServiceAccount since a time.
    pub(crate) fn requests(&self, since: Timestamp) -> Result<Vec<Request>> {
        let mut requests = self.stack.audit.by_service_account(self.namespace, self.name)?;
        requests.retain(|request| request.time >= since);
        Ok(requests)
    }

    /// Returns the verdict of its last run, with the time.
    pub(crate) async fn verdict(&self) -> Result<Verdict> {
        let record = self.record().await?;
        let run =
            record.get("run").with_context(|| format!("{} has no run in its record", self.name))?;
        let run: RunRecord = serde_json::from_str(run)?;
        run.verdict.with_context(|| format!("the run of {} has not ended", self.name))
    }

    /// Returns the record of a node.
    pub(crate) async fn node_record(&self, node: &str) -> Result<NodeRecord> {
        let record = self.record().await?;
        let entry = record
            .get(&format!("{NODE_KEY_PREFIX}{node}"))
            .with_context(|| format!("the run record does not contain {node}"))?;
        Ok(serde_json::from_str(entry)?)
    }

    /// Returns the reasons of the last run's verdict as `node:Reason`, with `*` for the fleet.
    pub(crate) async fn named(&self) -> Result<Vec<String>> {
        let reasons = self.verdict().await?.reasons;
        Ok(reasons
            .into_iter()
            .map(|one| format!("{}:{}", one.node.as_deref().unwrap_or("*"), one.reason))
            .collect())
    }

    /// Returns how often it has fired since a time, that is, how many Jobs with its name were
    /// created.
    pub(crate) fn firings(&self, since: Timestamp) -> Result<usize> {
        Ok(self.fired_at(since)?.len())
    }

    /// Returns when it has fired since a time.
    pub(crate) fn fired_at(&self, since: Timestamp) -> Result<Vec<Timestamp>> {
        // With server-side apply, a patch creates the Job.
        let made = |request: &Request| {
            request.resource == "jobs"
                && request.code == 201
                && request.name == self.name
                && request.namespace == self.namespace
        };
        let requests = self.stack.audit.by_user("admin")?;
        Ok(requests
            .iter()
            .filter(|request| made(request) && request.time >= since)
            .map(|request| request.time)
            .collect())
    }

    /// Returns the requests that deleted pods.
    pub(crate) fn deleted_pods(&self) -> Result<Vec<Request>> {
        let mut requests = self.requests(Timestamp::MIN)?;
        requests.retain(|request| {
            request.verb == "delete" && request.resource == "pods" && request.code == 200
        });
        Ok(requests)
    }

    /// Returns its name, which is also that of its ServiceAccount.
    pub(crate) fn name(&self) -> &str {
        self.name
    }

    /// Returns its namespace.
    pub(crate) fn namespace(&self) -> &str {
        self.namespace
    }
}

/// Merges a map into another one, recursively.
fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                merge(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over.clone(),
    }
}
