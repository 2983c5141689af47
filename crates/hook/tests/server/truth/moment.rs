//! One moment of a story: the real state and the reported one.

use std::collections::BTreeMap;

use contract::driver::Driver;
use contract::names;
use contract::record::{RecordedStep, Verdict};
use hook::HookMetrics;
use jiff::Timestamp;
use ops::doctor::{DoctorFinding, examine};
use ops::observe::RolloutSnapshot;
use ops::report::{RunReport, report};
use ops::status::{NodeRow, RolloutStatus, status};
use ops::why::explain_node;
use planner::progress::is_started;
use serde_json::Value;

use crate::driven::objects::JOBS;
use crate::fake::store::text;
use crate::settings::OPERATOR;
use crate::world::World;
use crate::world::check::RecordedEvent;

/// Reasons for which a node waits until the hook starts its upgrade.
pub(super) const QUEUED: [&str; 8] = [
    "SlotsTaken",
    "TooManyUnavailable",
    "GroupBusy",
    "Soaking",
    "OutsideWindow",
    "CanariesFirst",
    "RampStep",
    "StepSoak",
];

/// The state of the hook's process that the kubelet knows.
pub(super) enum HookState<'w> {
    Running {
        metrics: &'w HookMetrics,
        /// Whether the pod has held the Lease.
        has_led: bool,
    },
    Dead,
    Ended,
}

/// The real state of a node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that do not depend on each other")]
pub(super) struct NodeTruth {
    /// Whether it has exactly one driver pod, which is of the new revision and ready.
    pub(super) has_new_driver: bool,
    /// Since when its new driver pod has been ready.
    pub(super) driver_ready_since: Option<Timestamp>,
    pub(super) cordoned: bool,
    pub(super) ready: bool,
    /// Whether a hook has left its upgrade record on it.
    pub(super) has_own_record: bool,
    /// Whether its upgrade is in progress, by the state label of the hook or of NVIDIA's controller.
    pub(super) in_progress: bool,
    /// Whether it has workloads, and the grace period of none of them has ended.
    pub(super) workloads_leave: bool,
}

/// One moment of a story.
pub(super) struct Moment<'w> {
    pub(super) hook: HookState<'w>,
    pub(super) nodes: BTreeMap<String, NodeTruth>,
    /// Whether the verdict of this run is written.
    pub(super) has_verdict: bool,
    /// The verdict in the run record.
    pub(super) verdict: Option<Verdict>,
    /// All events of the hook, oldest first.
    pub(super) events: Vec<RecordedEvent>,
    /// The desired number of replicas of the operator.
    pub(super) operator_replicas: Option<i64>,
    pub(super) status: RolloutStatus,
    pub(super) report: RunReport,
    /// The steps that `why` shows of each node.
    pub(super) steps: BTreeMap<String, Vec<RecordedStep>>,
    pub(super) findings: Vec<DoctorFinding>,
    pub(super) metrics: String,
}

impl<'w> Moment<'w> {
    pub(super) fn new(world: &'w World, snapshot: &RolloutSnapshot, hook: HookState<'w>) -> Self {
        let status = status(snapshot);
        let metrics = if let HookState::Running { metrics, .. } = &hook {
            metrics.text(world.clock.now())
        } else {
            String::new()
        };
        Self {
            hook,
            nodes: nodes(world),
            operator_replicas:
                world.get("deployments", OPERATOR, names::OPERATOR_DEPLOYMENT)["spec"]["replicas"]
                    .as_i64(),
            verdict: snapshot.record.run.as_ref().and_then(|run| run.verdict.clone()),
            events: world.recorded_events(),
            has_verdict: snapshot.record.run.as_ref().is_some_and(|run| run.verdict.is_some()),
            report: report(snapshot),
            steps: status
                .nodes
                .iter()
                .map(|row| (row.node.clone(), steps(snapshot, row)))
                .collect(),
            findings: examine(snapshot, &status),
            status,
            metrics,
        }
    }

    /// Returns the complete output, for the message of a failed test.
    pub(super) fn text(&self) -> String {
        let pretty = |value: Result<String, serde_json::Error>| value.unwrap();
        format!(
            "{}\n{}\n{}",
            pretty(serde_json::to_string_pretty(&self.status)),
            pretty(serde_json::to_string_pretty(&self.findings)),
            self.metrics
        )
    }
}

fn steps(snapshot: &RolloutSnapshot, row: &NodeRow) -> Vec<RecordedStep> {
    explain_node(snapshot, &row.node).unwrap().steps
}

/// Returns the real state of all nodes.
pub(super) fn nodes(world: &World) -> BTreeMap<String, NodeTruth> {
    let state = world.server.state();
    let of = |resource: &'static str| {
        state.store.objects.iter().filter(move |(key, _)| key.resource == resource)
    };
    let drivers = |node: &str| -> Vec<&Value> {
        let on_node = |pod: &Value| {
            pod["spec"]["nodeName"] == node
                && pod["metadata"]["labels"]["app"] == "nvidia-driver-daemonset"
        };
        of("pods").map(|(_, pod)| pod).filter(|pod| on_node(pod)).collect()
    };
    let now = text(world.clock.now());
    let leaves = |pod: &Value| {
        pod["metadata"]["deletionTimestamp"].as_str().is_some_and(|until| *until > *now)
    };
    let truth = |(key, node): (&crate::fake::store::Key, &Value)| {
        let pods = drivers(&key.name);
        let traits = Driver::Gpu.traits();
        let label = |key: &str| node["metadata"]["labels"][key].as_str();
        let is_good = |pod: &&Value| {
            pod["metadata"]["labels"]["controller-revision-hash"] == "new"
                && pod["metadata"]["deletionTimestamp"].is_null()
                && pod["status"]["conditions"][0]["status"] == "True"
        };
        let new_driver = pods.iter().find(|pod| is_good(pod));
        let ready_at = new_driver
            .and_then(|pod| pod["status"]["conditions"][0]["lastTransitionTime"].as_str());
        let truth = NodeTruth {
            driver_ready_since: ready_at.map(|at| at.parse().unwrap()),
            has_new_driver: pods.len() == 1 && pods.iter().all(is_good),
            cordoned: node["spec"]["unschedulable"] == true,
            ready: node["status"]["conditions"][0]["status"] == "True",
            has_own_record: !node["metadata"]["annotations"][traits.own_record].is_null(),
            in_progress: is_started(label(traits.own_state_label))
                || is_started(label(traits.state_label)),
            workloads_leave: {
                let mut pods = of("pods")
                    .filter(|(pod, _)| pod.namespace == JOBS)
                    .map(|(_, pod)| pod)
                    .filter(|pod| pod["spec"]["nodeName"] == *key.name)
                    .peekable();
                pods.peek().is_some() && pods.all(leaves)
            },
        };
        (key.name.clone(), truth)
    };
    of("nodes").map(truth).collect()
}
