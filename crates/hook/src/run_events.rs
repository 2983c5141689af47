//! What happens in a run, as a log line and an event each: both are written here, so that they cannot differ.

use std::collections::BTreeMap;

use jiff::SignedDuration;

use contract::check::CheckSeverity;
use contract::exit::ExitCode;
use contract::record::{RecordedReason, ReplacedPodKind, Verdict};
use kube_io::events::{EventRecorder, EventTarget, shortened};
use planner::action::NodeNews;
use planner::preflight::PreflightFinding;

use super::{HookProcess, RunClock};

/// Logs what happens and publishes events about the Job and about nodes.
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

    async fn publish(&self, target: EventTarget<'_>, warning: bool, reason: &str, note: &str) {
        self.recorder.publish(target, warning, reason, note, self.clock.now()).await;
    }

    /// The run started; `again`: it continues after its pod was replaced.
    pub(super) async fn run_started(&self, digest: &str, again: bool) {
        tracing::info!(digest, again, "the run begins");
        let word = if again { "goes on" } else { "begins" };
        let note = format!("the run {word}, trigger digest {}", shortened(digest, 16));
        self.publish(EventTarget::Run, false, "RolloutBegan", &note).await;
    }

    /// The run ended with a verdict.
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

    /// The live fleet needs more seconds than the Job has.
    pub(super) async fn budget_too_small(&self, needed: u64, budget: u64) {
        tracing::warn!(needed, budget, "the budget is too small for the live fleet");
        let note = format!(
            "the live fleet may need {needed} s and the Job has {budget} s: set rollout.budgetSeconds (and the deployer's timeout) to {needed} or more"
        );
        self.publish(EventTarget::Run, true, "BudgetTooSmall", &note).await;
    }

    /// The API server's clock is ahead of the pod's by so much.
    pub(super) async fn clock_skew(&self, ahead: SignedDuration) {
        let (seconds, direction) =
            (ahead.abs().as_secs(), if ahead.is_negative() { "behind" } else { "ahead of" });
        tracing::warn!(
            seconds,
            direction,
            "the API server's clock and the clock of this pod differ; using the API server's time"
        );
        let note = format!(
            "the API server's clock is {seconds} s {direction} the clock of the hook's pod: the run uses the API server's time; check the time synchronization of nodes and control plane"
        );
        self.publish(EventTarget::Run, true, "ClockSkew", &note).await;
    }

    /// The NicClusterPolicy was annotated so that Helm keeps it.
    pub(super) async fn policy_annotated(&self, annotations: &BTreeMap<String, String>) {
        let list = annotations
            .iter()
            .map(|(key, value)| format!("{key}: {value}"))
            .collect::<Vec<_>>()
            .join(", ");
        tracing::info!(annotations = list, "keeping the NicClusterPolicy");
        self.publish(
            EventTarget::Run,
            false,
            "NicClusterPolicyKept",
            &format!("annotated the NicClusterPolicy with {list}"),
        )
        .await;
    }

    /// The preflight has a finding.
    pub(super) async fn preflight_finding(&self, finding: &PreflightFinding) {
        let blocks = finding.severity == CheckSeverity::Blocking;
        tracing::warn!(blocks, nodes = ?finding.nodes, pods = ?finding.pods, "preflight: {finding}");
        let reason = if blocks { "PreflightBlocked" } else { "PreflightWarning" };
        self.publish(EventTarget::Run, true, reason, &finding.to_string()).await;
    }

    /// A stale plugin pod was deleted.
    pub(super) async fn plugin_replaced(
        &self,
        plugin: ReplacedPodKind,
        node: &str,
        pod: &str,
        cause: &str,
    ) {
        let (reason, noun) = match plugin {
            ReplacedPodKind::Dra => ("DraPluginReplaced", "DRA plugin pod"),
            ReplacedPodKind::Device => ("DevicePluginRestarted", "device plugin's pod"),
        };
        tracing::info!(node, pod, cause, "replacing a stale {noun}");
        self.publish(
            EventTarget::Node { name: node },
            false,
            reason,
            &format!("{noun} {pod} replaced: {cause}"),
        )
        .await;
    }

    /// The replacement of a plugin pod serves.
    pub(super) async fn plugin_back(&self, plugin: ReplacedPodKind, node: &str) {
        let (reason, text) = match plugin {
            ReplacedPodKind::Dra => ("DraPluginBack", "the DRA plugin serves the new driver"),
            ReplacedPodKind::Device => ("DevicePluginBack", "the device plugin's pods are back"),
        };
        tracing::info!(node, "{text}");
        self.publish(EventTarget::Node { name: node }, false, reason, text).await;
    }

    /// The upgrade of a node has ended.
    pub(super) async fn node_news(&self, node: &str, news: &NodeNews) {
        let target = EventTarget::Node { name: node };
        match news {
            NodeNews::Upgraded(text) => {
                tracing::info!(node, "upgraded: {text}");
                self.publish(target, false, "DriverUpgraded", text).await;
            }
            NodeNews::Failed(text) => {
                tracing::warn!(node, "the upgrade failed: {text}");
                self.publish(target, true, "DriverUpgradeFailed", text).await;
            }
            NodeNews::HandedBack(text) => {
                tracing::warn!(node, "given back with its old driver: {text}");
                let deferred =
                    format!("given back with its old driver, its turn comes again: {text}");
                self.publish(target, true, "DriverUpgradePutOff", &deferred).await;
            }
        }
    }

    /// A node is given up; `failed`: that fails the run.
    pub(super) async fn node_given_up(&self, node: &str, failed: bool, reason: &RecordedReason) {
        tracing::warn!(node, failed, %reason, "a node does not get there");
        let name = if failed { "RolloutFailed" } else { "RolloutDeferred" };
        self.publish(EventTarget::Node { name: node }, true, name, &reason.to_string()).await;
    }
}
