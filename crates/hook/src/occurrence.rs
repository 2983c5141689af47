//! What happens in a run: one type an occurrence, and from it the log line and the event, so that they cannot differ.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use contract::check::CheckSeverity;
use contract::exit::ExitCode;
use contract::record::{RecordedReason, ReplacedPodKind, Verdict};
use kube_io::events::{EventRecorder, EventTarget, shortened};
use planner::action::NodeNews;
use planner::preflight::PreflightFinding;
use planner::reason::Wait;

/// Something that happened.
#[derive(Clone, Debug)]
pub(super) enum Occurrence<'a> {
    /// The run began, or went on after its pod was replaced.
    Began {
        /// The trigger digest.
        digest: &'a str,
        /// Whether an earlier pod of the same Job began it.
        again: bool,
    },
    /// The live fleet needs more time than the Job has.
    BudgetTooSmall {
        /// Seconds that it needs.
        needed: u64,
        /// Seconds that it has.
        budget: u64,
    },
    /// The clock of the pod and the API server's differ.
    ClockSkew {
        /// By how much the API server's is ahead.
        ahead: SignedDuration,
    },
    /// A wait of another kind than before. Only logged: an event each would be noise.
    Waits {
        /// What is waited for.
        wait: &'a Wait,
        /// What a person can do about it.
        advice: &'static str,
    },
    /// The NicClusterPolicy was annotated so that it stays.
    PolicyKept {
        /// What was put on it.
        annotations: &'a BTreeMap<String, String>,
    },
    /// A plugin was told to go.
    PluginReplaced {
        /// What it is part of.
        plugin: ReplacedPodKind,
        /// The node.
        node: &'a str,
        /// The pod.
        pod: &'a str,
        /// Why.
        cause: &'a str,
    },
    /// Its replacement serves.
    PluginBack {
        /// What it is part of.
        plugin: ReplacedPodKind,
        /// The node.
        node: &'a str,
    },
    /// The preflight found something.
    Found {
        /// What.
        finding: &'a PreflightFinding,
    },
    /// A node's upgrade has come to an end.
    NodeNews {
        /// The node.
        node: &'a str,
        /// Which one.
        news: &'a NodeNews,
    },
    /// A node is given up or left.
    NodeEnded {
        /// The node.
        node: &'a str,
        /// Whether that fails the run.
        failed: bool,
        /// Why.
        reason: &'a RecordedReason,
    },
    /// The run is over.
    Ended {
        /// How.
        verdict: &'a Verdict,
    },
}

impl Occurrence<'_> {
    /// Logs it, and publishes the event where it has one.
    pub(super) async fn record(&self, recorder: &EventRecorder, now: Timestamp) {
        let (about, warning, reason, note) = match self {
            Occurrence::Began { digest, again } => {
                tracing::info!(digest, again, "the run begins");
                let word = if *again { "goes on" } else { "begins" };
                (EventTarget::Run, false, "RolloutBegan", format!("the run {word}, trigger digest {}", shortened(digest, 16)))
            }
            Occurrence::BudgetTooSmall { needed, budget } => {
                tracing::warn!(needed, budget, "the budget is too small for the live fleet");
                let note = format!(
                    "the live fleet may need {needed} s and the Job has {budget} s: set rollout.budgetSeconds (and the deployer's timeout) to {needed} or more"
                );
                (EventTarget::Run, true, "BudgetTooSmall", note)
            }
            Occurrence::ClockSkew { ahead } => {
                let (seconds, direction) = (ahead.abs().as_secs(), if ahead.is_negative() { "behind" } else { "ahead of" });
                tracing::warn!(seconds, direction, "the API server's clock and the clock of this pod differ; using the API server's time");
                let note = format!(
                    "the API server's clock is {seconds} s {direction} the clock of the hook's pod: the run uses the API server's time; check the time synchronization of nodes and control plane"
                );
                (EventTarget::Run, true, "ClockSkew", note)
            }
            Occurrence::Waits { wait, advice } => {
                let node = wait.node.as_deref().unwrap_or("-");
                tracing::info!(node, reason = wait.reason.name(), advice, "waiting: {}", wait.reason);
                return;
            }
            Occurrence::PolicyKept { annotations } => {
                let list = annotations.iter().map(|(key, value)| format!("{key}: {value}")).collect::<Vec<_>>().join(", ");
                tracing::info!(annotations = list, "keeping the NicClusterPolicy");
                (EventTarget::Run, false, "NicClusterPolicyKept", format!("annotated the NicClusterPolicy with {list}"))
            }
            Occurrence::PluginReplaced { plugin, node, pod, cause } => {
                let (name, noun) = match plugin {
                    ReplacedPodKind::Dra => ("DraPluginReplaced", "DRA plugin pod"),
                    ReplacedPodKind::Device => ("DevicePluginRestarted", "device plugin's pod"),
                };
                tracing::info!(node, pod, cause, "replacing a stale {noun}");
                (EventTarget::Node { name: node }, false, name, format!("{noun} {pod} replaced: {cause}"))
            }
            Occurrence::PluginBack { plugin, node } => {
                let (name, text) = match plugin {
                    ReplacedPodKind::Dra => ("DraPluginBack", "the DRA plugin serves the new driver"),
                    ReplacedPodKind::Device => ("DevicePluginBack", "the device plugin's pods are back"),
                };
                tracing::info!(node, "{text}");
                (EventTarget::Node { name: node }, false, name, text.to_owned())
            }
            Occurrence::Found { finding } => {
                let blocks = finding.severity == CheckSeverity::Blocking;
                tracing::warn!(blocks, nodes = ?finding.nodes, pods = ?finding.pods, "preflight: {finding}");
                (EventTarget::Run, true, if blocks { "PreflightBlocked" } else { "PreflightWarning" }, finding.to_string())
            }
            Occurrence::NodeNews { node, news: NodeNews::Upgraded(text) } => {
                tracing::info!(node, "upgraded: {text}");
                (EventTarget::Node { name: node }, false, "DriverUpgraded", text.clone())
            }
            Occurrence::NodeNews { node, news: NodeNews::Failed(text) } => {
                tracing::warn!(node, "the upgrade failed: {text}");
                (EventTarget::Node { name: node }, true, "DriverUpgradeFailed", text.clone())
            }
            Occurrence::NodeNews { node, news: NodeNews::HandedBack(text) } => {
                tracing::warn!(node, "given back with its old driver: {text}");
                (
                    EventTarget::Node { name: node },
                    true,
                    "DriverUpgradePutOff",
                    format!("given back with its old driver, its turn comes again: {text}"),
                )
            }
            Occurrence::NodeEnded { node, failed, reason } => {
                tracing::warn!(node, failed, %reason, "a node does not get there");
                let name = if *failed { "RolloutFailed" } else { "RolloutDeferred" };
                (EventTarget::Node { name: node }, true, name, reason.to_string())
            }
            Occurrence::Ended { verdict } => {
                let failed = verdict.code != ExitCode::Success;
                if failed {
                    tracing::error!(code = verdict.code.name(), exit = verdict.code.number(), "{}", verdict.message);
                } else {
                    tracing::info!(code = verdict.code.name(), "{}", verdict.message);
                }
                (
                    EventTarget::Run,
                    failed,
                    if failed { "RolloutFailed" } else { "RolloutSettled" },
                    format!("{}: {}", verdict.code.name(), verdict.message),
                )
            }
        };
        recorder.publish(about, warning, reason, &note, now).await;
    }
}
