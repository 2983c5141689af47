//! What the loop tells while it runs: waits of a new kind, progress, what has become of nodes.

use jiff::{SignedDuration, Timestamp};

use crate::occurrence::Occurrence;
use contract::record::{NodeOutcome, ReplacedPodKind};
use contract::task::Task;
use planner::decide::Decision;
use planner::memory::RunMemory;
use planner::reason::Wait;

use super::RunLoop;

/// How often the log says that the run is alive and what it waits for.
const PROGRESS_SECONDS: i64 = 60;

impl RunLoop<'_> {
    /// Logs waits of a new kind, and once a minute how it stands.
    pub(super) async fn report(&mut self, decision: &Decision) {
        // Both in one order, the fleet first: what a large fleet waits for is hardly ever looked up.
        let mut waits: Vec<&Wait> = decision.waits.iter().collect();
        waits.sort_by(|one, other| one.node.cmp(&other.node));
        let mut before = std::mem::replace(&mut self.told, Vec::with_capacity(waits.len())).into_iter().peekable();
        for wait in waits {
            let kind = wait.reason.name();
            while before.next_if(|(node, _)| *node < wait.node).is_some() {}
            if before.next_if(|(node, _)| *node == wait.node).is_none_or(|(_, known)| known != kind) {
                let advice = wait.reason.advice(self.hook.settings.driver);
                self.record(Occurrence::Waits { wait, advice }).await;
            }
            self.told.push((wait.node.clone(), kind));
        }
        let now = self.now();
        if now >= self.progress_at {
            self.progress_at = now.saturating_add(SignedDuration::from_secs(PROGRESS_SECONDS)).unwrap_or(Timestamp::MAX);
            let done = decision.outcomes.len();
            let next = decision.waits.first().map(ToString::to_string).unwrap_or_default();
            tracing::info!(done, waiting = decision.waits.len(), next, deadline = %self.memory.deadline, "progress");
        }
    }

    /// Tells what has become of nodes since the memory before.
    pub(super) async fn tell_nodes(&self, before: &RunMemory) {
        for name in self.memory.nodes.differing(&before.nodes) {
            let Some(node) = self.memory.nodes.get(name) else { continue };
            let earlier = before.nodes.get(name);
            for plugin in [ReplacedPodKind::Dra, ReplacedPodKind::Device] {
                let back = node.replaced.iter().any(|(uid, replacement)| {
                    replacement.plugin == plugin
                        && replacement.back_at.is_some()
                        && earlier.and_then(|earlier| earlier.replaced.get(uid)).is_some_and(|one| one.back_at.is_none())
                });
                // Where the hook drives, one event tells the whole story of a node.
                if back && !self.hook.settings.has(Task::Drive) {
                    self.record(Occurrence::PluginBack { plugin, node: name }).await;
                }
            }
            let news = node.outcome != earlier.and_then(|earlier| earlier.outcome);
            if news && let (Some(outcome @ (NodeOutcome::Failed | NodeOutcome::Deferred)), Some(reason)) = (node.outcome, &node.reason) {
                self.record(Occurrence::NodeEnded { node: name, failed: outcome == NodeOutcome::Failed, reason }).await;
            }
        }
    }
}
