//! Reports of the running loop: new blocking conditions, progress and the outcomes of nodes.

use std::time::Duration;

use jiff::Timestamp;

use contract::exit::ExitCode;
use contract::record::acceptance::AcceptanceResult;
use contract::record::proof::Halted;
use contract::record::{NodeOutcome, NodeRecord, RecordedReason, ReplacedPodKind, Verdict};
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
/// How many nodes get events after one decision. The record contains all nodes.
const NODES_WITH_EVENT: usize = 50;
/// How long the events about the end of a run may take. After the verdict, Kubernetes leaves the
/// process only the margin of the time budget.
const LAST_EVENTS: Duration = Duration::from_secs(10);

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
            let next = decision.waits.first().map(|wait| wait.to_string()).unwrap_or_default();
            tracing::info!(done, waiting = decision.waits.len(), next, deadline = %format_args!("{deadline:.0}"), "progress");
        }
    }

    /// Reports changes of nodes between two memories: plugins that are ready again, results of
    /// acceptance tests, nodes that failed or are deferred.
    pub(super) async fn report_nodes(&self, before: &RunMemory, after: &RunMemory) {
        let names = after.nodes.differing(&before.nodes);
        let news: Vec<(&str, NodeChanges<'_>)> = names
            .into_iter()
            .filter_map(|name| {
                let changes = self.changes(after.nodes.get(name)?, before.nodes.get(name))?;
                Some((&**name, changes))
            })
            .collect();
        for (name, changes) in news.iter().take(NODES_WITH_EVENT) {
            for plugin in &changes.back {
                self.events.plugin_back(*plugin, name).await;
            }
            for result in &changes.results {
                self.events.acceptance_test_ended(name, result).await;
            }
            if let Some((failed, reason)) = changes.given_up {
                self.events.node_given_up(name, failed, reason).await;
            }
        }
        let more = news.len().saturating_sub(NODES_WITH_EVENT);
        if more > 0 {
            self.events.more_nodes(more).await;
        }
    }

    /// Reports a halt of the rollout that is new: about the Job, and about each node that caused it.
    pub(super) async fn report_halt(&self, before: &RunMemory, after: &RunMemory) {
        let Some(halt) = new_halt(before, after) else { return };
        self.events.rollout_halted(halt).await;
        for node in halt.nodes.iter().take(NODES_WITH_EVENT) {
            self.events.node_halted(node, halt).await;
        }
    }

    /// Returns what is new about a node. `None`: nothing.
    fn changes<'n>(
        &self,
        node: &'n NodeRecord,
        earlier: Option<&NodeRecord>,
    ) -> Option<NodeChanges<'n>> {
        let is_back = |plugin: &ReplacedPodKind| {
            node.replaced.iter().any(|(uid, replacement)| {
                replacement.plugin == *plugin
                    && replacement.back_at.is_some()
                    && earlier
                        .and_then(|earlier| earlier.replaced.get(uid))
                        .is_some_and(|one| one.back_at.is_none())
            })
        };
        // In mode `drive`, one event at the end covers the whole upgrade of a node.
        let back: Vec<ReplacedPodKind> = if self.settings.has(Task::Drive) {
            Vec::new()
        } else {
            [ReplacedPodKind::Dra, ReplacedPodKind::Device].into_iter().filter(is_back).collect()
        };
        let is_new = node.outcome != earlier.and_then(|earlier| earlier.outcome);
        let given_up = match (node.outcome, &node.reason) {
            (Some(NodeOutcome::Failed), Some(reason)) if is_new => Some((true, reason)),
            (Some(NodeOutcome::Deferred), Some(reason)) if is_new => Some((false, reason)),
            _ => None,
        };
        let known = earlier.map_or(&[][..], |earlier| earlier.acceptance.as_slice());
        let results: Vec<&AcceptanceResult> =
            node.acceptance.iter().filter(|result| !known.contains(result)).collect();
        (!back.is_empty() || !results.is_empty() || given_up.is_some()).then_some(NodeChanges {
            back,
            results,
            given_up,
        })
    }

    /// Reports a verdict, and the nodes that made the run fail. The verdict comes first: after a
    /// slow event, there are no more events for a while.
    pub(super) async fn report_verdict(&self, verdict: &Verdict, waits: &Waits) {
        self.events.end_after(LAST_EVENTS);
        self.events.run_ended(verdict).await;
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
    }
}

/// Returns the halt in the later of two memories, if the earlier one does not have it.
fn new_halt<'m>(before: &RunMemory, after: &'m RunMemory) -> Option<&'m Halted> {
    let of_earlier = before.proof.as_deref().and_then(|proof| proof.halt.as_ref());
    let halt = after.proof.as_deref()?.halt.as_ref()?;
    (of_earlier != Some(halt)).then_some(halt)
}

/// What is new about a node.
struct NodeChanges<'n> {
    /// The plugins that are ready again.
    back: Vec<ReplacedPodKind>,
    /// The results of acceptance tests that are new.
    results: Vec<&'n AcceptanceResult>,
    /// Why it failed (`true`) or is deferred (`false`).
    given_up: Option<(bool, &'n RecordedReason)>,
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use contract::record::proof::{DriverProof, HaltCause};

    use super::*;

    #[test]
    fn halt_is_new_only_in_the_decision_that_makes_it() {
        let memory = |halt: Option<Halted>| RunMemory {
            proof: Some(Arc::new(DriverProof { halt, ..DriverProof::new("driver".to_owned()) })),
            ..RunMemory::default()
        };
        let halt = Halted {
            at: Timestamp::UNIX_EPOCH,
            cause: HaltCause::FailedProofs,
            nodes: vec!["gpu-0".to_owned()],
            labels: Vec::new(),
        };
        let (open, halted) = (memory(None), memory(Some(halt.clone())));
        assert_eq!(new_halt(&open, &halted), Some(&halt));
        assert_eq!(new_halt(&RunMemory::default(), &halted), Some(&halt));
        assert_eq!(new_halt(&halted, &halted), None);
        assert_eq!(new_halt(&halted, &open), None);
    }
}
