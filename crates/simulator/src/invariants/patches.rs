//! Checks of a patch of a node: before it is applied, and of the node and the limits after it.

use std::sync::Arc;

use contract::task::AllowedNodeChanges;
use contract::window::{self, WindowState};
use nvidia_upgrade::state::ControllerState;
use observed::ObservedNode;
use planner::action::NodePatch;
use planner::drive_upgrade::record::UpgradeRecord;
use planner::drive_upgrade::state::UpgradeState;

use super::{CLOCK_MARGIN, InvariantChecker, is_in_progress};
use crate::objects::timestamp;

impl InvariantChecker<'_, '_> {
    /// Checks a patch before it is applied.
    pub(crate) fn patch(&mut self, patch: &NodePatch) {
        let Some(node) = self.cluster.nodes.get(&patch.node) else { return };
        if patch.unschedulable == Some(false)
            && node.node.unschedulable
            && !node.is_cordoned_by_hook
        {
            self.context.violation(&format!("{}: the hook removes a foreign cordon", patch.node));
        }
        if patch.unschedulable == Some(false) && node.is_cordoned_by_hook {
            self.made_available(&patch.node);
        }
        if self.context.has_controller() {
            self.skip_label(patch, &node.node);
        }
        if patch.starts && self.is_paused() {
            let is_known = self.hook.knows_pauses(self.cluster);
            self.violates_if_known(
                is_known,
                &format!("{}: the hook starts it while the fleet is paused", patch.node),
            );
        }
        if patch.starts && self.is_outside_windows() {
            self.context.violation(&format!(
                "{}: the hook starts it outside of the maintenance windows",
                patch.node
            ));
        }
        let allowed = AllowedNodeChanges::of_job(&self.hook.settings);
        let mut foreign = patch.labels.keys().filter(|key| !allowed.has_label(key));
        let mut others = patch.annotations.keys().filter(|key| !allowed.has_annotation(key));
        if let Some(key) = foreign.next().or_else(|| others.next()) {
            self.context.violation(&format!(
                "{}: the hook writes {key}, which its tasks do not",
                patch.node
            ));
        }
        if patch.unschedulable.is_some_and(|now| !allowed.has_unschedulable(now)) {
            self.context.violation(&format!(
                "{}: the hook changes whether it is unschedulable, which its tasks do not",
                patch.node
            ));
        }
    }

    /// Checks that the hook leaves skip labels of others alone. It may write the label if it is the
    /// hook's hold, if there is none, or with a value that skips nothing.
    fn skip_label(&mut self, patch: &NodePatch, node: &ObservedNode) {
        let traits = self.driver_kind().traits();
        let skips = node.labels.get(traits.skip_label).is_some_and(|value| value == "true");
        if patch.labels.contains_key(traits.skip_label)
            && skips
            && !node.annotations.contains_key(traits.hold)
        {
            self.context
                .violation(&format!("{}: the hook changes a foreign skip label", patch.node));
        }
        let holds = patch
            .labels
            .get(traits.skip_label)
            .is_some_and(|value| value.as_deref() == Some("true"));
        if holds && patch.annotations.get(traits.hold).is_none_or(Option::is_none) {
            self.context.violation(&format!("{}: held without a hold annotation", patch.node));
        }
    }

    /// Checks a node after a patch.
    pub(crate) fn node(&mut self, name: &str) {
        let Some(node) =
            self.cluster.nodes.get(name).filter(|_| !self.cluster.admissions.drops_parts(name))
        else {
            return;
        };
        let record = self.record(&node.node);
        if node.is_cordoned_by_hook && !record.as_ref().is_some_and(|record| record.cordoned) {
            self.context
                .violation(&format!("{name}: cordoned by the hook, but no record shows it"));
        }
        let label = node.node.labels.get(self.driver_kind().traits().state_label);
        // The node is lifted and the operator has finished. Only the check is left, as in the
        // hook's own last state.
        let is_checked =
            ControllerState::from_label(label.map(String::as_str)) == ControllerState::Done;
        let in_progress = |record: Arc<UpgradeRecord>| {
            record.state <= UpgradeState::PodRestartRequired
                && !(record.state == UpgradeState::Lifted && is_checked)
        };
        if !node.node.unschedulable && record.is_some_and(in_progress) {
            self.context.violation(&format!("{name}: in progress, but not cordoned"));
        }
    }

    /// Returns whether no window is open, nor was or will be within the time by which the hook may
    /// miss one.
    fn is_outside_windows(&self) -> bool {
        let windows = &self.hook.settings.upgrade.windows;
        let now = self.context.now();
        [now.saturating_sub(CLOCK_MARGIN), now, now.saturating_add(CLOCK_MARGIN)].into_iter().all(
            |moment| {
                let state = window::state(windows, timestamp(moment));
                matches!(state, Some(WindowState::Closed(_)))
            },
        )
    }

    /// Checks the limits after a patch that starts a node. A node that was already in progress uses
    /// no additional slot.
    pub(crate) fn fleet(&mut self, patch: &NodePatch, was_in_progress: bool) {
        let nodes = &self.cluster.nodes;
        let sets = &self.cluster.nodes.sets;
        // A node in progress whose patches are refused has failed, and no record shows this.
        let holds_slot = |name: &&String| self.cluster.admissions.admits_all(name);
        let in_progress: Vec<&str> =
            sets.in_progress.iter().filter(holds_slot).map(String::as_str).collect();
        let cordoned = sets.cordoned_by_hook.len();
        let report = &mut self.context.report;
        report.peak_in_progress = report.peak_in_progress.max(in_progress.len());
        report.peak_unavailable = report.peak_unavailable.max(cordoned);
        let cordons = patch.unschedulable == Some(true);
        let starts = cordons
            || patch.annotations.values().flatten().any(|text| text.contains("\"started\""));
        let Some(node) =
            nodes.get(&patch.node).filter(|node| is_in_progress(&node.node, self.driver_kind()))
        else {
            return;
        };
        if !starts || was_in_progress {
            return;
        }
        let upgrade = &self.hook.settings.upgrade;
        // The hook may not yet know that a node left or joined.
        let total = nodes.len().max(self.hook.caches.observed.nodes.len());
        let parallel = upgrade.policy.max_parallel_upgrades as usize;
        if parallel > 0 && in_progress.len() > parallel {
            let names = in_progress.join(", ");
            self.context.violation(&format!(
                "{}: {} nodes are in progress, but at most {parallel} may be: {names}",
                patch.node,
                in_progress.len()
            ));
        }
        let limit = upgrade.policy.max_unavailable.map_or(total, |count| count.resolve(total));
        if cordons && cordoned > limit {
            self.context.violation(&format!(
                "{}: the hook has cordoned {cordoned} nodes, but at most {limit} may be unavailable",
                patch.node
            ));
        }
        if let Some(topology) = upgrade.topology.as_ref().filter(|_| cordons)
            && let Some(group) = node.node.labels.get(&topology.label)
        {
            let members =
                nodes.iter().filter(|node| node.node.labels.get(&topology.label) == Some(group));
            let (size, away) = members.fold((0, 0), |(size, away), node| {
                (size + 1, away + usize::from(node.is_cordoned_by_hook))
            });
            let limit = topology.max_unavailable.resolve(size);
            if away > limit {
                self.context.violation(&format!(
                    "{}: the hook has cordoned {away} nodes of group {group}, but at most {limit} may be",
                    patch.node
                ));
            }
        }
    }
}
