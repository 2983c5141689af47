//! Checks of a decision against the state that the hook observes.

use std::collections::BTreeSet;

use observed::ObservedNode;
use planner::decide::{Action, Decision};
use planner::node::DriverNodes;

use super::{InvariantChecker, is_in_progress};

impl<'w> InvariantChecker<'w, '_> {
    /// Checks a decision against the state that the hook observes.
    pub(crate) fn decision(&mut self, decision: &Decision) {
        let view = &self.hook.caches.observed;
        // Count lazily: it visits every node, and most decisions cordon none.
        let mut counted = None;
        for action in &decision.actions {
            let node = view.nodes.get(action.node());
            match action {
                Action::PatchNode(patch) => {
                    // A node that already had the hook's cordon does not count again.
                    let is_new = node.is_none_or(|node| !is_in_progress(node, self.driver_kind()));
                    if patch.unschedulable == Some(true) && is_new {
                        let (away, limit) = counted.get_or_insert_with(|| self.away());
                        if away.insert(&patch.node) && away.len() > *limit {
                            let text = format!(
                                "{}: {} nodes would be unavailable, but at most {limit} may be",
                                patch.node,
                                away.len()
                            );
                            self.context.violation(&text);
                        }
                    }
                }
                Action::Evict(_) | Action::DeleteDriver(_) => {
                    if node.is_none_or(|node| !node.unschedulable) {
                        self.context.violation(&format!(
                            "{}: {action:?} on a node that accepts new pods",
                            action.node()
                        ));
                    }
                }
                Action::CreateAcceptancePod(creation) => {
                    self.test_decided(creation, &decision.actions);
                }
                Action::ReadTestLog(reading) => self.log_decided(reading),
                Action::ReplacePlugin { .. } | Action::DeleteAcceptancePod(_) => {}
            }
        }
        if decision.verdict.is_some() || self.context.setup.nodes <= 50 {
            self.explained(decision);
        }
    }

    /// Returns the nodes that the hook observes as unavailable, and the limit.
    fn away(&self) -> (BTreeSet<&'w str>, usize) {
        let view = &self.hook.caches.observed;
        let driver = self.driver_kind();
        let drivers = DriverNodes::new(view, driver);
        let is_member =
            |name: &&String| view.nodes.get(name).is_some_and(|node| drivers.contains(node));
        // Only the labels of a node show whether it needs the driver of an operator.
        let members = if driver.has_operator() {
            self.hook.caches.driver_nodes
        } else {
            view.nodes.values().filter(|node| drivers.contains(node)).count()
        };
        let started = &self.cluster.nodes.sets.in_progress;
        let away = self.hook.caches.unavailable.iter().chain(started).filter(is_member);
        let limit = self
            .hook
            .settings
            .upgrade
            .policy
            .max_unavailable
            .map_or(members, |count| count.resolve(members));
        (away.map(String::as_str).collect(), limit)
    }

    /// Checks that every node has an outcome or a wait, unless the whole fleet waits.
    fn explained(&mut self, decision: &Decision) {
        if decision.waits.of_fleet().next().is_some() {
            return;
        }
        let view = &self.hook.caches.observed;
        let drivers = DriverNodes::new(view, self.driver_kind());
        let of_run = |node: &&ObservedNode| {
            decision.memory.is_in_cohort(&node.uid) && drivers.contains(node)
        };
        let is_silent = |node: &&ObservedNode| {
            decision.waits.of_node(&node.name).is_none()
                && !decision.outcomes.contains_key(&node.name)
        };
        if let Some(found) = view.nodes.values().filter(of_run).find(is_silent) {
            self.context.violation(&format!(
                "{}: it does not progress, and no wait explains it",
                found.name
            ));
        }
    }
}
