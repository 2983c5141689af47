//! The facts: what the objects of the cluster say, read from the API server directly.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use contract::driver::Driver;
use contract::record::{RUN_KEY, RunRecord};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use kube::api::{DynamicObject, ListParams};
use kube::{Api, ResourceExt};
use serde_json::Value;

use crate::harness::hook_release::HookRelease;
use crate::harness::kwok;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, cluster_policy_kind, driver_version, is_ready};

/// A driver pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DriverPod {
    uid: String,
    /// The version of its image.
    pub(super) version: String,
    /// It is ready, and was not asked to end.
    pub(super) ready: bool,
}

/// A GPU node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "the facts are independent")]
pub(super) struct GpuNode {
    pub(super) ready: bool,
    pub(super) cordoned: bool,
    /// The hook's record on the node says that the cordon is the hook's.
    pub(super) our_cordon: bool,
    /// Whether a hook holds it. A pause does not count as a hold of a hook.
    pub(super) held: bool,
    pub(super) drivers: Vec<DriverPod>,
}

impl GpuNode {
    /// It is upgraded: one driver pod, of this version and ready, on a node that is Ready and takes workloads.
    pub(super) fn is_done(&self, wanted: Option<&str>) -> bool {
        let has_driver = |pod: &DriverPod| pod.ready && Some(pod.version.as_str()) == wanted;
        self.ready && !self.cordoned && matches!(&self.drivers[..], [pod] if has_driver(pod))
    }

    /// It is cordoned by a hook.
    pub(super) fn is_cordoned_by_hook(&self) -> bool {
        self.cordoned && self.our_cordon
    }
}

/// The hook's Job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HookJob {
    pub(super) uid: String,
    /// It has neither ended nor been asked to end.
    pub(super) is_open: bool,
    /// It has succeeded or failed.
    pub(super) has_ended: bool,
    /// A pod of it has succeeded.
    pub(super) is_complete: bool,
}

/// The hook's run, by the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// UID of its Job.
    pub(super) job: String,
    pub(super) started_at: Timestamp,
    /// Number of the exit code, and the time.
    pub(super) verdict: Option<(u8, Timestamp)>,
}

/// Everything at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    pub(super) nodes: BTreeMap<String, GpuNode>,
    /// The driver version that the ClusterPolicy asks for.
    pub(super) wanted: Option<String>,
    pub(super) job: Option<HookJob>,
    /// Pods of the hook that run.
    pub(super) hooks: BTreeSet<String>,
    pub(super) run: Option<Run>,
    /// The Lease of all hooks is held.
    pub(super) lease_held: bool,
}

impl Facts {
    /// Reads them.
    pub(super) async fn read(stack: &Stack, hook: &HookRelease<'_>) -> Result<Self> {
        let client = || stack.client.clone();
        let all = ListParams::default();
        let nodes = Api::<Node>::all(client());
        let pods = Api::<Pod>::namespaced(client(), OPERATOR_NAMESPACE);
        let policies = Api::<DynamicObject>::all_with(client(), &cluster_policy_kind());
        let jobs = Api::<Job>::namespaced(client(), hook.namespace());
        let records = Api::<ConfigMap>::namespaced(client(), hook.namespace());
        let leases = Api::<Lease>::namespaced(client(), "default");
        let record = format!("{}-record", hook.name());
        let (nodes, pods, policy, job, record, lease) = tokio::try_join!(
            nodes.list(&all),
            pods.list(&all),
            policies.get_opt("cluster-policy"),
            jobs.get_opt(hook.name()),
            records.get_opt(&record),
            leases.get_opt("gpu-rollout"),
        )?;
        let needs_driver = |node: &&Node| {
            node.labels().contains_key("feature.node.kubernetes.io/pci-10de.present")
        };
        let run = record.and_then(|record| record.data?.remove(RUN_KEY)).map(|run| parse_run(&run));
        let holder = lease.and_then(|lease| lease.spec?.holder_identity);
        Ok(Self {
            nodes: nodes
                .iter()
                .filter(needs_driver)
                .map(|node| (node.name_any(), gpu_node(node, &pods.items)))
                .collect(),
            wanted: policy.and_then(|policy| text(&policy.data["spec"]["driver"]["version"])),
            job: job.map(|job| hook_job(&job)),
            hooks: pods
                .iter()
                .filter(|pod| {
                    pod.labels()
                        .get("batch.kubernetes.io/job-name")
                        .is_some_and(|job| job == hook.name())
                })
                .filter(|pod| phase(pod) == Some("Running"))
                .map(ResourceExt::name_any)
                .collect(),
            run: run.transpose()?,
            lease_held: holder.is_some_and(|holder| !holder.is_empty()),
        })
    }

    /// The Job of a hook is active: it has neither ended, nor been asked to end, nor has its run a verdict.
    pub(super) fn is_hook_active(&self) -> bool {
        self.job.as_ref().is_some_and(|job| job.is_open) && self.verdict().is_none()
    }

    /// No Job of the hook will do anything more.
    pub(super) fn is_hook_gone(&self) -> bool {
        self.job.as_ref().is_none_or(|job| job.has_ended) && self.hooks.is_empty()
    }

    /// The verdict on the run of the Job that is there.
    pub(super) fn verdict(&self) -> Option<(u8, Timestamp)> {
        let own = |run: &&Run| self.job.as_ref().is_none_or(|job| job.uid == run.job);
        self.run.as_ref().filter(own).and_then(|run| run.verdict)
    }

    /// The names of some nodes.
    pub(super) fn names(&self, which: impl Fn(&GpuNode) -> bool) -> BTreeSet<String> {
        self.nodes.iter().filter(|(_, node)| which(node)).map(|(name, _)| name.clone()).collect()
    }
}

fn text(value: &Value) -> Option<String> {
    value.as_str().map(str::to_owned)
}

fn phase(pod: &Pod) -> Option<&str> {
    pod.status.as_ref()?.phase.as_deref()
}

fn parse_run(text: &str) -> Result<Run> {
    let run: RunRecord = serde_json::from_str(text)?;
    let verdict = run.verdict.map(|verdict| (verdict.code.number(), verdict.at));
    Ok(Run { job: run.job, started_at: run.started_at, verdict })
}

fn hook_job(job: &Job) -> HookJob {
    let conditions = || job.status.iter().flat_map(|status| status.conditions.iter().flatten());
    let has = |kind: &str| conditions().any(|one| one.type_ == kind && one.status == "True");
    let has_ended = has("Complete") || has("Failed");
    let deadline = job.spec.as_ref().and_then(|spec| spec.active_deadline_seconds);
    // `abort` ends a Job by its deadline, and the Job is marked as failed when its pods are gone.
    let is_asked_to_end = job.metadata.deletion_timestamp.is_some() || deadline == Some(1);
    HookJob {
        uid: job.uid().unwrap_or_default(),
        is_open: !is_asked_to_end && !has_ended,
        has_ended,
        is_complete: has("Complete"),
    }
}

fn gpu_node(node: &Node, pods: &[Pod]) -> GpuNode {
    let traits = Driver::Gpu.traits();
    let annotation = |key: &str| node.annotations().get(key).map(String::as_str);
    let record: Value = annotation(traits.own_record)
        .and_then(|record| serde_json::from_str(record).ok())
        .unwrap_or_default();
    let is_skipped = node.labels().get(traits.skip_label).is_some_and(|value| value == "true");
    let name = node.name_any();
    let is_driver = |pod: &&Pod| {
        let node_name = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        node_name == Some(name.as_str())
            && pod
                .labels()
                .get("app.kubernetes.io/component")
                .is_some_and(|it| it == "nvidia-driver")
    };
    GpuNode {
        ready: kwok::is_ready(node),
        cordoned: node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
        our_cordon: record["cordoned"] == true,
        held: is_skipped && annotation(traits.hold).is_some_and(|hold| hold != "pause"),
        drivers: pods.iter().filter(is_driver).map(driver_pod).collect(),
    }
}

fn driver_pod(pod: &Pod) -> DriverPod {
    let image = pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.as_deref());
    DriverPod {
        uid: pod.uid().unwrap_or_default(),
        version: driver_version(image.unwrap_or_default()).to_owned(),
        ready: is_ready(pod) && pod.metadata.deletion_timestamp.is_none(),
    }
}
