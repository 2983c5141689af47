//! Reports of the running loop: new blocking conditions, progress and the outcomes of nodes.

use std::time::Duration;

use jiff::Timestamp;

use contract::exit::ExitCode;
use contract::record::{NodeOutcome, RecordedReason, ReplacedPodKind, Verdict};
use contract::settings::Settings;
use contract::task::Task;
use observed::Observed;
use planner::budget_estimate;
use planner::decide::Decision;
use planner::memory::RunMemory;
use planner::waits::Waits;

use crate::HookProcess;
use crate::clock::later;
use crate::run_events::RunEvents;

/// How often the log shows the progress and the blocking condition.
const PROGRESS: Duration = Duration::from_mins(1);
/// How many failed nodes get an event when the run ends. The record contains all of them.
const NODES_WITH_EVENT: usize = 50;

/// Reports decisions, and remembers the reported waits.
pub(super) struct RunReporter<'a> {
    settings: &'a Settings,
    pub(super) events: RunEvents,
    /// The last reported waits.
    waits: Waits,
    pub(super) progress_at: Timestamp,
    /// Whether the budget has been compared with the live fleet.
    budget_checked: bool,
}

impl<'a> RunReporter<'a> {
    pub(super) fn new(hook: &'a HookProcess) -> Self {
        Self {
            settings: &hook.settings,
            events: RunEvents::new(hook),
            waits: Waits::default(),
            progress_at: hook.clock.now(),
            budget_checked: false,
        }
    }

    /// Reports a budget that is too small for the nodes that are out of date. Checks it once, as
    /// soon as these nodes are known.
    pub(super) async fn check_budget(&mut self, observed: &Observed, decision: &Decision) {
        if self.budget_checked || decision.waits.iter().all(|wait| wait.node.is_none()) {
            return;
        }
        self.budget_checked = true;
        let budget = self.settings.budget_seconds;
        if let Some(needed) = budget_estimate::budget_seconds(observed, self.settings)
            .filter(|needed| *needed > budget)
        {
            self.events.budget_too_small(needed, budget).await;
        }
    }

    /// Logs waits with a new reason, and the progress once a minute. One event for each wait would
    /// be noise.
    pub(super) fn log_waits(&mut self, decision: &Decision, deadline: Timestamp, now: Timestamp) {
        let before = std::mem::replace(&mut self.waits, decision.waits.clone());
        for wait in decision.waits.new_since(&before) {
            let (node, advice) =
                (wait.node.as_deref().unwrap_or("-"), wait.reason.advice(self.settings.driver));
            tracing::info!(node, reason = wait.reason.name(), advice, "waiting: {}", wait.reason);
        }
        if now >= self.progress_at {
            self.progress_at = later(now, PROGRESS);
            let done = decision.outcomes.len();
            let next = decision.waits.first().map(ToString::to_string).unwrap_or_default();
            tracing::info!(done, waiting = decision.waits.len(), next, deadline = %format_args!("{deadline:.0}"), "progress");
        }
    }

    /// Reports changes of nodes between two memories: plugins that are ready again, nodes that
    /// failed or are deferred.
    pub(super) async fn report_nodes(&self, before: &RunMemory, after: &RunMemory) {
        for name in after.nodes.differing(&before.nodes) {
            let Some(node) = after.nodes.get(name) else { continue };
            let earlier = before.nodes.get(name);
            for plugin in [ReplacedPodKind::Dra, ReplacedPodKind::Device] {
                let back = node.replaced.iter().any(|(uid, replacement)| {
                    replacement.plugin == plugin
                        && replacement.back_at.is_some()
                        && earlier
                            .and_then(|earlier| earlier.replaced.get(uid))
                            .is_some_and(|one| one.back_at.is_none())
                });
                // In mode `drive`, one event at the end covers the whole upgrade of a node.
                if back && !self.settings.has(Task::Drive) {
                    self.events.plugin_back(plugin, name).await;
                }
            }
            let news = node.outcome != earlier.and_then(|earlier| earlier.outcome);
            if news
                && let (Some(outcome @ (NodeOutcome::Failed | NodeOutcome::Deferred)), Some(reason)) =
                    (node.outcome, &node.reason)
            {
                self.events.node_given_up(name, outcome == NodeOutcome::Failed, reason).await;
            }
        }
    }

    /// Reports a verdict, and the nodes that made the run fail.
    pub(super) async fn report_verdict(&self, verdict: &Verdict, waits: &Waits) {
        for wait in
            waits.iter().filter(|_| verdict.code != ExitCode::Success).take(NODES_WITH_EVENT)
        {
            if let Some(node) = &wait.node {
                self.events
                    .node_given_up(
                        node,
                        true,
                        &RecordedReason::new(wait.reason.name(), &wait.reason),
                    )
                    .await;
            }
        }
        self.events.run_ended(verdict).await;
    }
}
