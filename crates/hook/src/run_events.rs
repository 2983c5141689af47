//! Log lines and events of a run. Each function here writes both, so that they cannot differ.

use std::collections::BTreeMap;
use std::time::Duration;

use jiff::SignedDuration;

use contract::acceptance::{ACCEPTANCE_NAMESPACE, AcceptanceTime};
use contract::check::CheckSeverity;
use contract::exit::ExitCode;
use contract::record::acceptance::{AcceptanceResult, AcceptanceVerdict};
use contract::record::proof::Halted;
use contract::record::{RecordedReason, ReplacedPodKind, Verdict};
use kube_io::events::{EventRecorder, EventTarget, shortened};
use planner::action::{AcceptanceCreation, NodeNews};
use planner::pods::listed;
use planner::preflight::PreflightFinding;
use planner::reason::upgrade::UpgradeReason;

use super::run::EndedHalt;
use super::{HookProcess, RunClock};

/// Writes log lines, and publishes events about the Job and about nodes.
pub(super) struct RunEvents {
    recorder: EventRecorder,
    clock: RunClock,
}

impl RunEvents {
    pub(super) fn new(hook: &HookProcess) -> Self {
        let (settings, identity) = (&hook.settings, &hook.identity);
        let recorder = EventRecorder::new(
            &hook.client,
            &settings.namespace,
            &settings.release,
            &identity.job,
            &identity.pod,
        );
        Self { recorder, clock: hook.clock.clone() }
    }

    /// Publishes events only for this time from now on. Log lines are written as before.
    pub(super) fn end_after(&self, time: Duration) {
        self.recorder.end_after(time);
    }

    async fn publish(&self, target: EventTarget<'_>, warning: bool, reason: &str, note: &str) {
        self.recorder.publish(target, warning, reason, note, self.clock.now()).await;
    }

    /// Reports the start of the run. `again`: the run continues after its pod was replaced.
    pub(super) async fn run_started(&self, digest: &str, again: bool) {
        tracing::info!(digest, again, "the run starts");
        let word = if again { "continues" } else { "starts" };
        let note = format!("the run {word}, trigger digest {}", shortened(digest, 16));
        self.publish(EventTarget::Run, false, "RolloutBegan", &note).await;
    }

    /// Reports the verdict of the run.
    pub(super) async fn run_ended(&self, verdict: &Verdict) {
        let failed = verdict.code != ExitCode::Success;
        if failed {
            tracing::error!(
                code = verdict.code.name(),
                exit = verdict.code.number(),
                "{}",
                verdict.message
            );
        } else {
            tracing::info!(code = verdict.code.name(), "{}", verdict.message);
        }
        let reason = if failed { "RolloutFailed" } else { "RolloutSettled" };
        self.publish(
            EventTarget::Run,
            failed,
            reason,
            &format!("{}: {}", verdict.code.name(), verdict.message),
        )
        .await;
    }

    /// Reports that the live fleet needs more seconds than the Job has.
    pub(super) async fn budget_too_small(&self, needed: u64, budget: u64) {
        tracing::warn!(needed, budget, "the time budget is too small for the live fleet");
        let note = format!(
            "the live fleet may need {needed} s, but the Job has only {budget} s; hint: set `rollout.budgetSeconds` (and the deployer's timeout) to {needed} or more"
        );
        self.publish(EventTarget::Run, true, "BudgetTooSmall", &note).await;
    }

    /// Reports how far the API server's clock is ahead of the pod's.
    pub(super) async fn clock_skew(&self, ahead: SignedDuration) {
        let (seconds, direction) =
            (ahead.abs().as_secs(), if ahead.is_negative() { "behind" } else { "ahead of" });
        tracing::warn!(
            seconds,
            direction,
            "the API server's clock and the clock of this pod differ; using the API server's time"
        );
        let note = format!(
            "the API server's clock is {seconds} s {direction} the clock of the hook's pod; the run uses the API server's time; hint: check the time synchronization of nodes and control plane"
        );
        self.publish(EventTarget::Run, true, "ClockSkew", &note).await;
    }

    /// Reports that the hook annotated the NicClusterPolicy so that the deployer retains it.
    pub(super) async fn policy_annotated(&self, annotations: &BTreeMap<String, String>) {
        let list = annotations
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        tracing::info!(
            annotations = list,
            "annotated the NicClusterPolicy so that the deployer retains it"
        );
        self.publish(
            EventTarget::Run,
            false,
            "NicClusterPolicyKept",
            &format!("annotated the NicClusterPolicy with {list}"),
        )
        .await;
    }

    /// Reports a finding of the preflight.
    pub(super) async fn preflight_finding(&self, finding: &PreflightFinding) {
        let blocks = finding.severity == CheckSeverity::Blocking;
        tracing::warn!(blocks, nodes = ?finding.nodes, pods = ?finding.pods, "preflight: {finding}");
        let reason = if blocks { "PreflightBlocked" } else { "PreflightWarning" };
        self.publish(EventTarget::Run, true, reason, &finding.to_string()).await;
    }

    /// Reports that the hook deleted a stale plugin pod.
    pub(super) async fn plugin_replaced(
        &self,
        plugin: ReplacedPodKind,
        node: &str,
        pod: &str,
        cause: &str,
    ) {
        let (reason, noun) = match plugin {
            ReplacedPodKind::Dra => ("DraPluginReplaced", "DRA plugin pod"),
            ReplacedPodKind::Device => ("DevicePluginRestarted", "device plugin pod"),
        };
        tracing::info!(node, pod, cause, "replacing a stale {noun}");
        self.publish(
            EventTarget::Node { name: node },
            false,
            reason,
            &format!("replaced {noun} {pod}: {cause}"),
        )
        .await;
    }

    /// Reports that the replacement of a plugin pod is serving.
    pub(super) async fn plugin_back(&self, plugin: ReplacedPodKind, node: &str) {
        let (reason, text) = match plugin {
            ReplacedPodKind::Dra => ("DraPluginBack", "the DRA plugin is serving the new driver"),
            ReplacedPodKind::Device => {
                ("DevicePluginBack", "the device plugin pods are ready again")
            }
        };
        tracing::info!(node, "{text}");
        self.publish(EventTarget::Node { name: node }, false, reason, text).await;
    }

    /// Reports that an acceptance test starts on a node.
    pub(super) async fn acceptance_test_started(&self, creation: &AcceptanceCreation) {
        let AcceptanceCreation { node, test, pod, time, .. } = creation;
        let driver = match time {
            Some(AcceptanceTime::Before) => " with the old driver",
            Some(AcceptanceTime::After) | None => "",
        };
        let note =
            format!("acceptance test {test} starts{driver}: pod {ACCEPTANCE_NAMESPACE}/{pod}");
        tracing::info!(node, "{note}");
        let target = EventTarget::Node { name: node };
        self.publish(target, false, "AcceptanceTestStarted", &note).await;
    }

    /// Reports the result of an acceptance test on a node.
    pub(super) async fn acceptance_test_ended(&self, node: &str, result: &AcceptanceResult) {
        let AcceptanceResult { test, verdict, message, .. } = result;
        let details = if message.is_empty() { String::new() } else { format!(": {message}") };
        let text = format!("acceptance test {test} {verdict}{details}");
        let (reason, failed) = match verdict {
            AcceptanceVerdict::Passed => ("AcceptanceTestPassed", false),
            AcceptanceVerdict::NotRun => ("AcceptanceTestNotRun", false),
            AcceptanceVerdict::Failed
            | AcceptanceVerdict::TimedOut
            | AcceptanceVerdict::ImageNotPulled
            | AcceptanceVerdict::Refused
            | AcceptanceVerdict::Unschedulable
            | AcceptanceVerdict::EndedByKubelet
            | AcceptanceVerdict::Lost => ("AcceptanceTestFailed", true),
        };
        if failed {
            tracing::warn!(node, verdict = verdict.name(), "{text}");
        } else {
            tracing::info!(node, verdict = verdict.name(), seconds = result.seconds, "{text}");
        }
        self.publish(EventTarget::Node { name: node }, failed, reason, &text).await;
    }

    /// Reports the end of a node's upgrade.
    pub(super) async fn node_news(&self, node: &str, news: &NodeNews) {
        let target = EventTarget::Node { name: node };
        match news {
            NodeNews::Upgraded(text) => {
                tracing::info!(node, "upgraded: {text}");
                self.publish(target, false, "DriverUpgraded", text).await;
            }
            NodeNews::Failed(text) => {
                tracing::warn!(node, "upgrade failed: {text}");
                self.publish(target, true, "DriverUpgradeFailed", text).await;
            }
            NodeNews::HandedBack(text) => {
                tracing::warn!(node, "released with its old driver: {text}");
                let deferred =
                    format!("released with its old driver, to be upgraded later: {text}");
                self.publish(target, true, "DriverUpgradeDeferred", &deferred).await;
            }
        }
    }

    /// Reports how many more nodes have changed in the same decision.
    pub(super) async fn more_nodes(&self, count: usize) {
        let note = format!(
            "{count} more nodes have changed at the same time; the run record has all of them"
        );
        tracing::info!("{note}");
        self.publish(EventTarget::Run, false, "MoreNodesChanged", &note).await;
    }

    /// Reports that the rollout has halted: it starts no more nodes.
    pub(super) async fn rollout_halted(&self, halt: &Halted) {
        let text = UpgradeReason::from(halt).to_string();
        tracing::error!("{text}");
        let note = format!(
            "{text}; no more nodes are started; hint: gpu-rollout why NODE shows what failed"
        );
        self.publish(EventTarget::Run, true, "Halted", &note).await;
    }

    /// Reports on a node that it is one of those because of which the rollout has halted.
    pub(super) async fn node_halted(&self, node: &str, halt: &Halted) {
        let text = format!(
            "because of this node, {}; hint: gpu-rollout why {node}",
            UpgradeReason::from(halt)
        );
        self.publish(EventTarget::Node { name: node }, true, "Halted", &text).await;
    }

    /// Reports that a user has ended a halt.
    pub(super) async fn halt_ended(&self, EndedHalt { halt, request }: &EndedHalt) {
        let accepted = if request.nodes.is_empty() {
            String::new()
        } else {
            format!(", and took as proven: {}", listed(&request.nodes))
        };
        let why = request.reason.as_ref().map(|why| format!(" ({why})")).unwrap_or_default();
        let note = format!(
            "{} resumed the rollout at {:.0}{accepted}{why}; before, {}",
            request.by,
            request.at,
            UpgradeReason::from(halt)
        );
        tracing::info!("{note}");
        self.publish(EventTarget::Run, false, "HaltEnded", &note).await;
    }

    /// Reports a node that fails or is deferred. `failed`: it fails the run.
    pub(super) async fn node_given_up(&self, node: &str, failed: bool, reason: &RecordedReason) {
        tracing::warn!(node, failed, %reason, "a node does not finish its upgrade");
        let name = if failed { "RolloutFailed" } else { "RolloutDeferred" };
        self.publish(EventTarget::Node { name: node }, true, name, &reason.to_string()).await;
    }
}
