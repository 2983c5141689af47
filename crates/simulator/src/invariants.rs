//! The invariants, checked from outside of the engine.
//!
//! A broken invariant is only counted as a race if the hook could not know about it yet, because
//! its caches lag behind.

use std::collections::BTreeSet;

use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::mode::Mode;
use contract::record::NodeOutcome;
use nvidia_upgrade::state::ControllerState;
use observed::ObservedNode;
use observed::pause::has_hold;
use observed::workload::{PodPhase, Workload};
use planner::action::{NodePatch, PodDeletion, PodEviction};
use planner::decide::{Action, Decision, WAKE_VALUE};
use planner::drive_upgrade::record::{UpgradeRecord, read};
use planner::drive_upgrade::state::UpgradeState;
use planner::node::DriverNodes;

use super::cluster::SimulatedCluster;
use super::context::SimulationContext;
use super::fault::{Fault, OperandFault, ScheduledFault};
use super::hook_state::HookState;
use super::nodes::SimulatedNode;
use super::objects::SimulatedOperand;

/// Returns the record of the hook's own upgrade on a node.
fn record(node: &ObservedNode, driver: Driver) -> Option<UpgradeRecord> {
    read(node, driver.traits()).record().cloned()
}

/// Whether the hook's own upgrade of the node is in progress.
pub(super) fn is_in_progress(node: &ObservedNode, driver: Driver) -> bool {
    record(node, driver).is_some_and(|record| record.state.is_in_progress())
}

/// Checks the actions of the hook and the upgrade controller against the state of the cluster. It
/// changes only the report.
pub(super) struct InvariantChecker<'w, 'a> {
    pub(super) hook: &'w HookState,
    pub(super) cluster: &'w SimulatedCluster,
    pub(super) context: &'w mut SimulationContext<'a>,
}

impl<'w> InvariantChecker<'w, '_> {
    /// Reports a violation, or a race if the hook could not know.
    fn violates_if_known(&mut self, is_known: bool, what: &str) {
        if is_known {
            self.context.violation(what);
        } else {
            self.context.report.races += 1;
        }
    }

    fn driver_kind(&self) -> Driver {
        self.hook.settings.driver
    }

    fn record(&self, node: &ObservedNode) -> Option<UpgradeRecord> {
        record(node, self.driver_kind())
    }

    fn knows_node(&self, name: &str) -> bool {
        self.hook.knows_node(name, self.cluster)
    }

    /// Whether the node uses a slot. A node in progress whose patches are refused has failed, and
    /// no record shows this.
    fn holds_slot(&self, node: &ObservedNode) -> bool {
        is_in_progress(node, self.driver_kind()) && self.cluster.admissions.admits_all(&node.name)
    }

    /// Returns the node if the hook's writes arrive and no label or annotation was edited by hand.
    /// Otherwise a hold, or the note on a cordon, may be missing, and the controller applies its
    /// own limits.
    fn untampered(&self, name: &str) -> Option<&'w SimulatedNode> {
        self.cluster
            .nodes
            .get(name)
            .filter(|node| !node.is_edited && self.cluster.admissions.admits_all(name))
    }

    /// Checks a patch before it is applied.
    pub(super) fn patch(&mut self, patch: &NodePatch) {
        let Some(node) = self.cluster.nodes.get(&patch.node) else { return };
        if patch.unschedulable == Some(false)
            && node.node.unschedulable
            && !node.is_cordoned_by_hook
        {
            self.context.violation(&format!("{}: the hook removes a foreign cordon", patch.node));
        }
        let traits = self.driver_kind().traits();
        let mut ours =
            vec![traits.own_state_label, traits.own_record, traits.requested, traits.safe_load];
        if self.context.has_controller() {
            self.skip_label(patch, &node.node);
            ours.extend([
                traits.skip_label,
                traits.hold,
                traits.retries,
                traits.wake,
                traits.state_label,
            ]);
            ours.extend([
                traits.initially_unschedulable,
                traits.wait_start,
                traits.validation_start,
            ]);
        }
        if patch.starts && !self.cluster.pauses.is_empty() {
            let is_known = self.hook.knows_pauses(self.cluster);
            self.violates_if_known(
                is_known,
                &format!("{}: the hook starts it while the fleet is paused", patch.node),
            );
        }
        let foreign = patch
            .labels
            .keys()
            .chain(patch.annotations.keys())
            .find(|key| !ours.contains(&key.as_str()));
        if let Some(key) = foreign {
            self.context.violation(&format!(
                "{}: the hook writes {key}, which it does not own",
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
            self.context.violation(&format!("{}: held without an owner annotation", patch.node));
        }
    }

    /// Checks a node that the upgrade controller starts. In mode `steer`, it must start only nodes
    /// that the hook has released.
    pub(super) fn controller_starts(&mut self, name: &str, state: ControllerState) {
        let Some(node) = self.untampered(name) else { return };
        let is_lifted =
            self.record(&node.node).is_some_and(|record| record.state == UpgradeState::Lifted);
        // If a template is changed without the bundle, the hook holds no node. The operator's own
        // limits apply.
        let operator = &self.cluster.operator.objects;
        let is_planned = operator.asked == self.context.setup.to && operator.revisions.len() <= 2;
        let is_steered = self.context.setup.settings.mode == Mode::Steer;
        if is_planned && is_steered && state == ControllerState::CordonRequired && !is_lifted {
            self.context.violation(&format!(
                "{name}: the operator starts it, but the hook has not released it"
            ));
        }
    }

    /// Checks a driver that the upgrade controller deletes. In mode `steer`, its node must be
    /// cordoned.
    pub(super) fn controller_deletes(&mut self, name: &str) {
        let is_open = self.untampered(name).is_some_and(|node| !node.node.unschedulable);
        if self.context.setup.settings.mode == Mode::Steer
            && is_open
            && self.hook.is_running
            && self.knows_node(name)
        {
            self.context
                .violation(&format!("{name}: its driver is deleted while it accepts new pods"));
        }
    }

    /// Checks a cordon that the upgrade controller removes. The note on the node must prevent it
    /// from removing a cordon of the hook.
    pub(super) fn controller_uncordons(&mut self, name: &str) {
        if self.untampered(name).is_some() {
            self.context.violation(&format!("{name}: the operator removes the hook's cordon"));
        }
    }

    /// Checks a node after a patch.
    pub(super) fn node(&mut self, name: &str) {
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
        let in_progress = |record: UpgradeRecord| {
            record.state <= UpgradeState::PodRestartRequired
                && !(record.state == UpgradeState::Lifted && is_checked)
        };
        if !node.node.unschedulable && record.is_some_and(in_progress) {
            self.context.violation(&format!("{name}: in progress, but not cordoned"));
        }
    }

    /// Checks the limits after a patch that starts a node. A node that was already in progress uses
    /// no additional slot.
    pub(super) fn fleet(&mut self, patch: &NodePatch, was_in_progress: bool) {
        let nodes = self.cluster.nodes.all();
        let in_progress: Vec<&str> = self
            .cluster
            .nodes
            .observed()
            .filter(|node| self.holds_slot(node))
            .map(|node| node.name.as_str())
            .collect();
        let cordoned = nodes.values().filter(|node| node.is_cordoned_by_hook).count();
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
                nodes.values().filter(|node| node.node.labels.get(&topology.label) == Some(group));
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

    /// Checks a decision against the state that the hook observes.
    pub(super) fn decision(&mut self, decision: &Decision) {
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
                Action::ReplacePlugin { .. } => {}
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
        let members: Vec<&ObservedNode> =
            view.nodes.values().filter(|node| drivers.contains(node)).collect();
        let is_started = |node: &ObservedNode| {
            self.cluster
                .nodes
                .get(&node.name)
                .is_some_and(|node| is_in_progress(&node.node, driver))
        };
        let is_away = |node: &ObservedNode| {
            node.unschedulable || !node.ready || is_started(node) || is_in_progress(node, driver)
        };
        let limit = self
            .hook
            .settings
            .upgrade
            .policy
            .max_unavailable
            .map_or(members.len(), |count| count.resolve(members.len()));
        (
            members
                .into_iter()
                .filter(|node| is_away(node))
                .map(|node| node.name.as_str())
                .collect(),
            limit,
        )
    }

    /// Checks that every node has an outcome or a wait, unless the whole fleet waits.
    fn explained(&mut self, decision: &Decision) {
        if decision.waits.iter().any(|wait| wait.node.is_none()) {
            return;
        }
        let view = &self.hook.caches.observed;
        let waits: BTreeSet<&str> =
            decision.waits.iter().filter_map(|wait| wait.node.as_deref()).collect();
        let drivers = DriverNodes::new(view, self.driver_kind());
        let of_run = |node: &&ObservedNode| {
            decision.memory.is_in_cohort(&node.uid) && drivers.contains(node)
        };
        let is_silent = |node: &&ObservedNode| {
            !waits.contains(node.name.as_str()) && !decision.outcomes.contains_key(&node.name)
        };
        if let Some(found) = view.nodes.values().filter(of_run).find(is_silent) {
            self.context.violation(&format!(
                "{}: it does not progress, and no wait explains it",
                found.name
            ));
        }
    }

    /// Checks that no action disturbs a node with an untouched driver while the fleet is paused.
    fn pause(&mut self, name: &str, what: &str) {
        let Some(node) = self.cluster.nodes.get(name).filter(|_| !self.cluster.pauses.is_empty())
        else {
            return;
        };
        let started = self
            .record(&node.node)
            .filter(|record| record.attempts.is_empty())
            .map(|record| record.started);
        let driver = self
            .cluster
            .operands
            .pod(name, SimulatedOperand::Driver)
            .filter(|pod| pod.containers_ready && !pod.deleting);
        if started.zip(driver).is_some_and(|(started, pod)| pod.created <= started) {
            let is_known = self.hook.knows_pauses(self.cluster) && self.knows_node(name);
            self.violates_if_known(is_known, &format!("{name}: {what} while the fleet is paused"));
        }
    }

    /// Whether the node accepts new pods.
    fn is_open(&self, name: &str) -> bool {
        self.cluster.nodes.get(name).is_some_and(|node| !node.node.unschedulable)
    }

    pub(super) fn eviction(&mut self, eviction: &PodEviction) {
        let node = &eviction.node;
        self.pause(node, &format!("{} is evicted", eviction.pod));
        if self.is_open(node) {
            let text =
                format!("{node}: {} is evicted from a node that accepts new pods", eviction.pod);
            self.violates_if_known(self.knows_node(node), &text);
        }
        if (eviction.namespace.clone(), eviction.pod.clone()) == self.hook.own_pod() {
            self.context.violation(&format!("{node}: the hook evicts its own pod"));
        }
        let policy = &self.hook.settings.upgrade.policy;
        let (drain, deletion) = (policy.drain.as_ref(), policy.pod_deletion.as_ref());
        let forces = drain.is_some_and(|drain| drain.force)
            || deletion.is_some_and(|deletion| deletion.force);
        let empties = drain.is_some_and(|drain| drain.delete_empty_dir)
            || deletion.is_some_and(|deletion| deletion.delete_empty_dir);
        let pod =
            self.cluster.workloads.pods.get(&eviction.uid).filter(|pod| pod.deleted_at.is_none());
        if pod.is_some_and(|pod| {
            pod.controller.is_none() && !forces || (pod.empty_dir || pod.memory_dir) && !empties
        }) {
            self.context
                .violation(&format!("{node}: {} may not be evicted by this policy", eviction.pod));
        }
    }

    pub(super) fn driver(&mut self, deletion: &PodDeletion) {
        let name = &deletion.node;
        self.pause(name, "its driver is deleted");
        let Some(node) = self.cluster.nodes.get(name) else { return };
        if self.is_open(name) {
            self.violates_if_known(
                self.knows_node(name),
                &format!("{name}: its driver is deleted while it accepts new pods"),
            );
        }
        let record = self.record(&node.node);
        let newest = self.cluster.operator.objects.newest();
        let driver = self.cluster.operands.pod(name, SimulatedOperand::Driver);
        let is_retried = record.as_ref().is_some_and(|record| !record.attempts.is_empty());
        if driver.is_some_and(|pod| pod.revision.as_deref() == Some(newest)) && !is_retried {
            let is_known = self.hook.knows_revision(self.cluster);
            self.violates_if_known(
                is_known,
                &format!("{name}: its driver is up to date, but is deleted"),
            );
        }
        if !record.is_some_and(|record| record.restart_only) {
            self.device_users(name);
        }
    }

    /// Checks that no pod uses the GPU when the driver is deleted, if the policy removes such pods.
    fn device_users(&mut self, name: &str) {
        let policy = &self.hook.settings.upgrade.policy;
        if policy.pod_deletion.is_none() && policy.drain.is_none() {
            return;
        }
        let own = self.hook.own_pod();
        let uses_gpu = |pod: &&Workload| {
            let is_daemon =
                pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet");
            let runs =
                matches!(pod.phase, PodPhase::Running | PodPhase::Pending | PodPhase::Unknown);
            let is_own = (pod.namespace.clone(), pod.name.clone()) == own;
            let stays = is_own || is_daemon && policy.drain.is_some();
            runs && !pod.resources.is_empty() && !stays
        };
        if let Some(pod) = self.cluster.workloads.pods.on_node(name).find(uses_gpu) {
            let text = format!("{name}: its driver is deleted while {} uses the GPU", pod.name);
            self.violates_if_known(self.hook.knows_pod(name, &pod.uid), &text);
        }
    }

    /// Checks that the plugin is replaced only once for each start of driver and toolkit.
    pub(super) fn plugin(&mut self, name: &str) {
        let container = |operand| {
            let pod = self.cluster.operands.pod(name, operand);
            pod.map_or(String::new(), |pod| format!("{}/{}", pod.uid, pod.containers[0].restarts))
        };
        let containers = format!(
            "{}+{}",
            container(SimulatedOperand::Driver),
            container(SimulatedOperand::Toolkit)
        );
        let count = self.context.report.replaced.entry((name.to_owned(), containers)).or_default();
        *count += 1;
        if *count > 1 {
            self.context
                .violation(&format!("{name}: its plugin is replaced twice for the same driver"));
        }
    }

    /// Checks the end of the run. Returns whether it succeeded with caches that were up to date.
    pub(super) fn end(&mut self) -> bool {
        let Some(verdict) = self.context.report.verdict.as_ref().map(|verdict| verdict.code) else {
            if !self.context.report.is_hopeless() {
                self.context.violation("no events are left, and there is no verdict");
            }
            return false;
        };
        for node in self.cluster.nodes.all().values() {
            if self.context.report.outcomes.get(&node.node.name) == Some(&NodeOutcome::Done) {
                self.done_node(node, verdict);
            } else {
                self.excuse(&node.node.name);
            }
        }
        let knows_all = self.hook.knows_revision(self.cluster)
            && self.cluster.nodes.all().keys().all(|name| self.knows_node(name));
        verdict == ExitCode::Success && knows_all
    }

    /// Checks a node that is done at the end of the run.
    fn done_node(&mut self, simulated: &SimulatedNode, verdict: ExitCode) {
        let (node, driver, cluster) = (&simulated.node, self.driver_kind(), self.cluster);
        let (name, traits) = (&node.name, driver.traits());
        let wakes =
            node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE));
        // `resume` removes the holds of a pause.
        let is_paused = !cluster.pauses.is_empty() && has_hold(node, driver);
        let is_left = node.labels.contains_key(traits.own_state_label)
            || [traits.own_record, traits.retries]
                .iter()
                .any(|key| node.annotations.contains_key(*key))
            || node.annotations.contains_key(traits.hold) && !is_paused
            || wakes;
        let is_known = self.knows_node(name) && self.hook.knows_revision(cluster);
        if is_left || simulated.is_cordoned_by_hook {
            self.violates_if_known(
                is_known,
                &format!("{name}: done, but the hook left labels, annotations or a cordon on it"),
            );
        }
        let trouble = cluster.operands.trouble(node, &cluster.operator.objects, self.context.setup);
        if let Some(trouble) = trouble.filter(|_| verdict == ExitCode::Success) {
            let is_known = is_known && self.hook.knows_operands(name, cluster);
            self.violates_if_known(is_known, &format!("{name}: done, but {trouble}"));
        }
        let pod = cluster.operands.pod(name, SimulatedOperand::Driver);
        if !pod.is_some_and(|pod| {
            pod.revision.as_deref() == Some(cluster.operator.objects.newest())
                && pod.containers_ready
        }) {
            self.violates_if_known(
                is_known,
                &format!("{name}: done, but its driver is not the newest"),
            );
        }
    }

    /// Checks a node that was excused because of an operand: the operand must have been broken
    /// before the run.
    fn excuse(&mut self, name: &str) {
        if self.context.report.outcomes.get(name) != Some(&NodeOutcome::Deferred) {
            return;
        }
        let reason = self.hook.memory.nodes.get(name).and_then(|record| record.reason.as_ref());
        let Some(reason) = reason.filter(|reason| reason.name == "OperandNotReady") else { return };
        let was_broken = |scheduled: &ScheduledFault| {
            let Fault::Operand(OperandFault::Fails(node, operand, _)) = &scheduled.fault else {
                return false;
            };
            scheduled.at == 0 && node == name && reason.text.contains(operand.traits().daemon_set)
        };
        if !self.context.setup.faults.iter().any(was_broken) {
            self.context
                .violation(&format!("{name}: excused, but healthy before the run: {reason}"));
        }
    }
}
