//! What must always hold, judged from outside of the engine.
//!
//! What the hook could not know yet (its caches lag behind) is no violation: it is counted as a race.

use std::collections::BTreeSet;

use contract::exit::ExitCode;
use contract::mode::Mode;
use nvidia_upgrade::state::ControllerState as VendorState;
use observed::ObservedNode;
use observed::pause::has_hold;
use observed::workload::{PodPhase, Workload};
use planner::action::{NodePatch, PodDeletion, PodEviction};
use planner::decide::{Action, Decision, WAKE_VALUE};
use planner::node::DriverNodes;
use planner::own_upgrade::record::{NodeRecordState, UpgradeRecord, read};
use planner::own_upgrade::state::UpgradeState;

use super::objects::SimulatedOperand;
use super::refusals::WriteAdmission;
use super::world::World;

impl World<'_> {
    fn violates(&mut self, what: &str) {
        self.report.violation(self.now, what);
    }

    /// A violation, unless the hook could not know.
    fn violates_if_known(&mut self, known: bool, what: &str) {
        if known {
            self.violates(what);
        } else {
            self.report.races += 1;
        }
    }

    fn record(&self, node: &ObservedNode) -> Option<UpgradeRecord> {
        match read(node, self.setup.settings.driver.traits()) {
            NodeRecordState::Record(record) => Some(*record),
            NodeRecordState::Nothing | NodeRecordState::Newer(_) | NodeRecordState::Broken => None,
        }
    }

    pub(super) fn in_progress(&self, node: &ObservedNode) -> bool {
        self.record(node).is_some_and(|record| record.state.is_in_progress())
    }

    /// Whether what is written to the node arrives: without a hold, or the note on a cordon, the vendor's controller goes by its own limits.
    fn is_admitted(&self, node: &str) -> bool {
        !self.admissions.contains_key(node)
    }

    /// A node in progress that takes no patch was given up, and says so nowhere.
    fn holds_slot(&self, node: &ObservedNode) -> bool {
        self.in_progress(node) && self.is_admitted(&node.name)
    }

    /// A patch, before it is applied.
    pub(super) fn check_patch(&mut self, patch: &NodePatch) {
        let Some(host) = self.hosts.get(&patch.node) else { return };
        if patch.unschedulable == Some(false) && host.node.unschedulable && !host.ours {
            self.violates(&format!("{}: somebody else's cordon is removed", patch.node));
        }
        let traits = self.setup.settings.driver.traits();
        let mut ours = vec![traits.own_state_label, traits.own_record, traits.requested, traits.safe_load];
        if self.vendor.is_some() {
            self.check_skip_label(patch);
            ours.extend([traits.skip_label, traits.hold, traits.retries, traits.wake, traits.state_label]);
            ours.extend([traits.initially_unschedulable, traits.wait_start, traits.validation_start]);
        }
        if patch.starts && !self.pauses.is_empty() {
            self.violates_if_known(self.knows_pauses(), &format!("{}: it is begun with, and the fleet is paused", patch.node));
        }
        let foreign = patch.labels.keys().chain(patch.annotations.keys()).find(|key| !ours.contains(&key.as_str()));
        if let Some(key) = foreign.cloned() {
            self.violates(&format!("{}: {key} is not ours to write", patch.node));
        }
    }

    /// The skip label is its owner's: we write it where it is our hold, where there is none, or with a value that skips nothing.
    fn check_skip_label(&mut self, patch: &NodePatch) {
        let traits = self.setup.settings.driver.traits();
        let Some(host) = self.hosts.get(&patch.node) else { return };
        let skips = host.node.labels.get(traits.skip_label).is_some_and(|value| value == "true");
        if patch.labels.contains_key(traits.skip_label) && skips && !host.node.annotations.contains_key(traits.hold) {
            self.violates(&format!("{}: somebody's skip label is changed", patch.node));
        }
        let holds = patch.labels.get(traits.skip_label).is_some_and(|value| value.as_deref() == Some("true"));
        if holds && patch.annotations.get(traits.hold).is_none_or(Option::is_none) {
            self.violates(&format!("{}: it is held, and nothing says by whom", patch.node));
        }
    }

    /// The vendor's controller begins with a node: where we steer, only with one that we let go of.
    pub(super) fn check_vendor_starts(&mut self, node: &str, state: VendorState) {
        let Some(host) = self.hosts.get(node).filter(|host| !host.meddled && self.is_admitted(node)) else { return };
        let record = self.record(&host.node);
        let lifted = record.is_some_and(|record| record.state == UpgradeState::Lifted);
        // A template that was changed past the bundle was held back by nobody; the operator's own limits are there for that.
        let planned = self.fixed.asked == self.setup.to && self.fixed.revisions.len() <= 2;
        if planned && self.setup.settings.mode == Mode::Steer && state == VendorState::CordonRequired && !lifted {
            self.violates(&format!("{node}: the operator begins with it, and nobody let go of it"));
        }
    }

    /// It deletes a driver: where we steer, on a node that is cordoned.
    pub(super) fn check_vendor_deletes(&mut self, node: &str) {
        let open = self.hosts.get(node).is_some_and(|host| !host.node.unschedulable && !host.meddled);
        let open = open && self.hook.is_alive() && self.knows_node(node) && self.is_admitted(node);
        if self.setup.settings.mode == Mode::Steer && open {
            self.violates(&format!("{node}: its driver is deleted while it takes new pods"));
        }
    }

    /// It takes our cordon away: the note on the node is there to keep it from that.
    pub(super) fn check_vendor_uncordons(&mut self, node: &str) {
        if self.hosts.get(node).is_some_and(|host| !host.meddled) && self.is_admitted(node) {
            self.violates(&format!("{node}: the operator takes our cordon away"));
        }
    }

    /// A node after it was patched.
    pub(super) fn check_node(&mut self, node: &str) {
        if matches!(self.admissions.get(node), Some(WriteAdmission::Drops(_))) {
            return;
        }
        let Some(host) = self.hosts.get(node) else { return };
        if host.ours && !self.record(&host.node).is_some_and(|record| record.cordoned) {
            self.violates(&format!("{node}: cordoned by us, and no record says so"));
        }
        let Some(host) = self.hosts.get(node) else { return };
        let label = host.node.labels.get(self.setup.settings.driver.traits().state_label);
        // Lifted, and the operator has done its part: what is left is the check, as in our own last state.
        let checked = VendorState::from_label(label.map(String::as_str)) == VendorState::Done;
        let in_progress =
            |record: UpgradeRecord| record.state <= UpgradeState::PodRestartRequired && !(record.state == UpgradeState::Lifted && checked);
        if !host.node.unschedulable && self.record(&host.node).is_some_and(in_progress) {
            self.violates(&format!("{node}: it is in progress, and takes new pods"));
        }
    }

    /// The limits, after a patch that starts a node. One that was in progress takes nothing from the others.
    pub(super) fn check_fleet(&mut self, patch: &NodePatch, was_in_progress: bool) {
        let in_progress: Vec<&str> =
            self.hosts.values().filter(|host| self.holds_slot(&host.node)).map(|host| host.node.name.as_str()).collect();
        let ours = self.hosts.values().filter(|host| host.ours).count();
        self.report.peak_in_progress = self.report.peak_in_progress.max(in_progress.len());
        self.report.peak_unavailable = self.report.peak_unavailable.max(ours);
        let starts = patch.unschedulable == Some(true) || patch.annotations.values().flatten().any(|text| text.contains("\"started\""));
        if !starts || was_in_progress || !self.hosts.get(&patch.node).is_some_and(|host| self.in_progress(&host.node)) {
            return;
        }
        let upgrade = &self.hook.settings.upgrade;
        // A node that left may not be known of yet, nor one that joined.
        let total = self.hosts.len().max(self.hook.view.observed.nodes.len());
        let parallel = upgrade.policy.max_parallel_upgrades as usize;
        let mut wrong = Vec::new();
        if parallel > 0 && in_progress.len() > parallel {
            wrong.push(format!("{} nodes are in progress and {parallel} may be: {}", in_progress.len(), in_progress.join(", ")));
        }
        let limit = upgrade.policy.max_unavailable.map_or(total, |count| count.resolve(total));
        if patch.unschedulable == Some(true) && ours > limit {
            wrong.push(format!("{ours} nodes are cordoned by us and {limit} may be unavailable"));
        }
        if let Some(topology) = upgrade.topology.as_ref().filter(|_| patch.unschedulable == Some(true)) {
            let group = |name: &str| self.hosts.get(name).and_then(|host| host.node.labels.get(&topology.label));
            let own = group(&patch.node);
            let members = self.hosts.values().filter(|host| own.is_some() && host.node.labels.get(&topology.label) == own);
            let (size, away) = members.fold((0, 0), |(size, away), host| (size + 1, away + usize::from(host.ours)));
            let limit = topology.max_unavailable.resolve(size);
            if own.is_some() && away > limit {
                wrong.push(format!("{away} nodes of group {} are cordoned by us and {limit} may be", own.map_or("", String::as_str)));
            }
        }
        for what in wrong {
            self.violates(&format!("{}: {what}", patch.node));
        }
    }

    /// A decision, held against what the hook sees.
    pub(super) fn check_decision(&mut self, decision: &Decision) {
        let view = &self.hook.view.observed;
        // It costs a look at every node, and most decisions cordon none.
        let mut counted = None;
        let mut wrong = Vec::new();
        for action in &decision.actions {
            let node = view.nodes.get(action.node());
            match action {
                Action::PatchNode(patch) => {
                    // One that had our cordon already takes nothing from the others.
                    let again = node.is_some_and(|node| self.in_progress(node));
                    if patch.unschedulable == Some(true) && !again {
                        let (away, limit) = counted.get_or_insert_with(|| self.away());
                        if away.insert(&patch.node) && away.len() > *limit {
                            wrong.push(format!("{}: {} nodes would be unavailable and {limit} may be", patch.node, away.len()));
                        }
                    }
                }
                Action::Evict(_) | Action::DeleteDriver(_) => {
                    if node.is_none_or(|node| !node.unschedulable) {
                        wrong.push(format!("{}: it takes new pods, and {action:?}", action.node()));
                    }
                }
                Action::ReplacePlugin { .. } => {}
            }
        }
        if decision.verdict.is_some() || self.setup.nodes <= 50 {
            wrong.extend(self.unexplained(decision));
        }
        for what in wrong {
            self.violates(&what);
        }
    }

    /// The nodes that cannot be used, as the hook sees it, and how many there may be.
    fn away(&self) -> (BTreeSet<&str>, usize) {
        let view = &self.hook.view.observed;
        let drivers = DriverNodes::new(view, self.hook.settings.driver);
        let members: Vec<&ObservedNode> = view.nodes.values().filter(|node| drivers.contains(node)).collect();
        let started = |node: &ObservedNode| self.hosts.get(&node.name).is_some_and(|host| self.in_progress(&host.node));
        let is_away = |node: &ObservedNode| node.unschedulable || !node.ready || started(node) || self.in_progress(node);
        let limit = self.hook.settings.upgrade.policy.max_unavailable.map_or(members.len(), |count| count.resolve(members.len()));
        (members.into_iter().filter(|node| is_away(node)).map(|node| node.name.as_str()).collect(), limit)
    }

    /// A node that neither has an outcome nor a reason to wait, while nothing concerns the fleet as a whole.
    fn unexplained(&self, decision: &Decision) -> Option<String> {
        let view = &self.hook.view.observed;
        let waits: BTreeSet<&str> = decision.waits.iter().filter_map(|wait| wait.node.as_deref()).collect();
        let fleet = decision.waits.iter().any(|wait| wait.node.is_none());
        let drivers = DriverNodes::new(view, self.hook.settings.driver);
        let of_run = |node: &&ObservedNode| decision.memory.is_in_cohort(&node.uid) && drivers.contains(node);
        let silent = |node: &&ObservedNode| !waits.contains(node.name.as_str()) && !decision.outcomes.contains_key(&node.name);
        let found = view.nodes.values().filter(of_run).find(silent).filter(|_| !fleet)?;
        Some(format!("{}: it does not move, and nobody says why", found.name))
    }

    /// What takes something from a node whose driver still runs as it did, while the fleet is paused.
    fn check_pause(&mut self, node: &str, what: &str) {
        if self.pauses.is_empty() {
            return;
        }
        let Some(host) = self.hosts.get(node) else { return };
        let started = self.record(&host.node).filter(|record| record.attempts.is_empty()).map(|record| record.started);
        let driver = host.operand(SimulatedOperand::Driver).filter(|pod| pod.containers_ready && !pod.deleting);
        let untouched = started.zip(driver).is_some_and(|(started, pod)| pod.created <= started);
        if untouched {
            let known = self.knows_pauses() && self.knows_node(node);
            self.violates_if_known(known, &format!("{node}: {what}, and the fleet is paused"));
        }
    }

    pub(super) fn check_eviction(&mut self, eviction: &PodEviction) {
        let node = &eviction.node;
        self.check_pause(node, &format!("{} is evicted", eviction.pod));
        let open = self.hosts.get(node).is_some_and(|host| !host.node.unschedulable);
        if open {
            self.violates_if_known(self.knows_node(node), &format!("{node}: {} is evicted from a node that takes new pods", eviction.pod));
        }
        if (eviction.namespace.clone(), eviction.pod.clone()) == self.hook.own_pod() {
            self.violates(&format!("{node}: the hook evicts its own pod"));
        }
        let policy = &self.hook.settings.upgrade.policy;
        let force = policy.drain.as_ref().is_some_and(|drain| drain.force) || policy.pod_deletion.as_ref().is_some_and(|step| step.force);
        let empties = policy.drain.as_ref().is_some_and(|drain| drain.delete_empty_dir)
            || policy.pod_deletion.as_ref().is_some_and(|step| step.delete_empty_dir);
        let pod = self.pods.get(&eviction.uid).filter(|pod| pod.deleted_at.is_none());
        if pod.is_some_and(|pod| pod.controller.is_none() && !force || (pod.empty_dir || pod.memory_dir) && !empties) {
            self.violates(&format!("{node}: {} may not be evicted by this policy", eviction.pod));
        }
    }

    pub(super) fn check_driver(&mut self, deletion: &PodDeletion) {
        let node = &deletion.node;
        self.check_pause(node, "its driver is deleted");
        let Some(host) = self.hosts.get(node) else { return };
        let record = self.record(&host.node);
        if !host.node.unschedulable {
            self.violates_if_known(self.knows_node(node), &format!("{node}: its driver is deleted while it takes new pods"));
        }
        let Some(host) = self.hosts.get(node) else { return };
        let current = host.operand(SimulatedOperand::Driver).is_some_and(|pod| pod.revision.as_deref() == Some(self.newest()));
        let again = record.as_ref().is_some_and(|record| !record.attempts.is_empty());
        if current && !again {
            self.violates_if_known(self.knows_revision(), &format!("{node}: its driver is in sync, and is deleted"));
        }
        let policy = &self.hook.settings.upgrade.policy;
        if policy.pod_deletion.is_none() && policy.drain.is_none() || record.is_some_and(|record| record.restart_only) {
            return;
        }
        let drains = policy.drain.is_some();
        let own = self.hook.own_pod();
        let protected = |pod: &&Workload| {
            let daemon = pod.controller.as_ref().is_some_and(|controller| controller.kind == "DaemonSet");
            let runs = matches!(pod.phase, PodPhase::Running | PodPhase::Pending | PodPhase::Unknown);
            runs && !pod.resources.is_empty() && !(daemon && drains) && (pod.namespace.clone(), pod.name.clone()) != own
        };
        let found = self.placed.get(node).into_iter().flatten().filter_map(|uid| self.pods.get(uid)).find(protected);
        if let Some(pod) = found {
            let (uid, name) = (pod.uid.clone(), pod.name.clone());
            self.violates_if_known(self.knows_pod(node, &uid), &format!("{node}: its driver is deleted while {name} uses the GPU"));
        }
    }

    pub(super) fn check_plugin(&mut self, node: &str) {
        let key = (node.to_owned(), self.identity(node));
        let count = self.report.replaced.entry(key).or_default();
        *count += 1;
        if *count > 1 {
            self.violates(&format!("{node}: its plugin is replaced twice for the same driver"));
        }
    }

    /// What holds when the run is over.
    pub(super) fn finish(&mut self) {
        let Some(verdict) = self.report.verdict.clone() else {
            if !self.report.is_hopeless() {
                self.violates("nothing happens any more, and there is no verdict");
            }
            return;
        };
        let names: Vec<String> = self.hosts.keys().cloned().collect();
        for name in names {
            if self.outcome(&name) != Some(contract::record::NodeOutcome::Done) {
                self.check_excuse(&name);
                continue;
            }
            let Some(host) = self.hosts.get(&name) else { continue };
            let traits = self.setup.settings.driver.traits();
            let wakes = host.node.labels.get(traits.skip_label).is_some_and(|value| value.starts_with(WAKE_VALUE));
            // Whoever has paused the fleet takes the holds off again.
            let paused = !self.pauses.is_empty() && has_hold(&host.node, self.setup.settings.driver);
            let left = host.node.labels.contains_key(traits.own_state_label)
                || [traits.own_record, traits.retries].iter().any(|key| host.node.annotations.contains_key(*key))
                || host.node.annotations.contains_key(traits.hold) && !paused
                || wakes;
            let driver = host.operand(SimulatedOperand::Driver);
            let current = driver.is_some_and(|pod| pod.revision.as_deref() == Some(self.newest()) && pod.containers_ready);
            let (ours, known) = (host.ours, self.knows_node(&name) && self.knows_revision());
            if left || ours {
                self.violates_if_known(known, &format!("{name}: it is done, and something of ours is left on it"));
            }
            let trouble = self.operand_trouble(&name).filter(|_| verdict.code == ExitCode::Success);
            if let Some(trouble) = trouble {
                let known = known && self.knows_operands(&name);
                self.violates_if_known(known, &format!("{name}: it is done, and {trouble}"));
            }
            if !current {
                self.violates_if_known(known, &format!("{name}: it is done, and its driver is not the newest"));
            }
        }
        let known = self.knows_revision() && self.hosts.keys().all(|name| self.knows_node(name));
        if verdict.code == ExitCode::Success && known {
            self.run_again();
        }
    }
}
