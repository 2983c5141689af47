//! How it stands for each node, and when the run is over.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

use jiff::Timestamp;

use crate::node::{DriverStatus, PluginBase, is_driver_node};
use crate::note::DecisionNote;
use crate::reason::upgrade::UpgradeReason;
use crate::reason::{Reason, Wait};
use contract::budget::MARGIN_SECONDS;
use contract::driver::Driver;
use contract::exit::ExitCode;
use contract::record::{NodeOutcome, NodeRecord, PluginReplacement, RecordedReason, ReplacedPodKind, Verdict, VerdictReason};
use contract::settings::DraRequired;
use contract::task::Task;
use observed::ObservedNode;

use super::sweep::{Seen, Sweep};
use super::{Action, Deciding, Decision, FleetInputs, after};

/// How many waits a message names before it only counts the rest.
const NAMED: usize = 5;
/// More replacements of plugins on one node in one run than a driver, a toolkit and the attempts at both come to.
const RESTLESS: usize = 5;

/// How soon it is looked at again whether nodes have been given back after the deadline.
const HANDING_BACK_SECONDS: u64 = 10;

/// A leader that has not renewed its Lease for longer may have ended: it gives up by itself then (`renewDeadline` of controller-runtime).
const RENEWED_SECONDS: u64 = 10;
/// How soon it is looked again whether the operator's leader lives; it renews its Lease every two seconds.
const LEADER_SECONDS: u64 = 2;

impl Deciding<'_> {
    /// Sees to it that the node has a record; one that came back under the same name gets a new one.
    pub(super) fn recorded(&mut self, node: &ObservedNode) {
        if self.memory.nodes.get(&node.name).is_none_or(|record| record.uid != node.uid) {
            let record = NodeRecord { uid: node.uid.clone(), ..NodeRecord::default() };
            self.memory.nodes.insert(node.name.as_str(), record);
        }
    }

    /// Changes the node's record, which is made if need be.
    pub(super) fn record(&mut self, node: &ObservedNode, change: impl FnOnce(&mut NodeRecord)) {
        self.recorded(node);
        // It has just been seen to be there.
        if let Some(record) = self.memory.nodes.get_mut(&node.name) {
            change(record);
        }
    }

    /// What the node still waits for.
    pub(super) fn node(&mut self, node: &ObservedNode, fleet: &FleetInputs<'_>) -> Option<Reason> {
        let operands = fleet.operands.as_ref().filter(|_| is_driver_node(node, self.settings.driver));
        let (base, left): (Option<PluginBase>, Option<Reason>) = match operands.map(|operands| operands.status(node)) {
            None => (None, None),
            Some(DriverStatus::Current(base)) => (Some(base), None),
            Some(DriverStatus::Finishing(base, reason)) => (Some(base), Some(reason)),
            Some(DriverStatus::Skipped(base)) => {
                let label = self.settings.driver.traits().skip_label;
                (base.filter(|base| base.served_since.is_some()), Some(Reason::Skipped { label }))
            }
            // With its driver the node's plugins are replaced anyway, or the driver is what has to be seen to first.
            Some(DriverStatus::Waiting(reason)) => return Some(self.paused_before(node, reason)),
        };
        let plugin = base.as_ref().and_then(|base| self.plugins(node, base, &fleet.plugins, fleet.replacement_limit));
        let restart = if fleet.restarts { self.restarts(node, base.as_ref(), &fleet.devices, fleet.restart_limit) } else { None };
        // What the settings tolerate of the DRA driver must not hide what is still to come.
        let (plugin, tolerated) = match plugin {
            Some(reason) if self.tolerates(&reason) => (None, Some(reason)),
            plugin => (plugin, None),
        };
        let operands =
            if left.is_none() || self.settings.has(Task::Drive) { self.operands(node, fleet.operand_sets.as_ref()) } else { None };
        plugin.or(restart).or(left).or(operands).or(tolerated)
    }

    /// Whether the settings take a DRA driver that does not serve for no failure.
    pub(super) fn tolerates(&self, reason: &Reason) -> bool {
        let required = self.settings.dra.required;
        // With re-rolls off nobody was asked to mend a stale plugin.
        let asked = !matches!(reason, Reason::PluginStale { .. }) || required == DraRequired::True;
        reason.exit_code() == ExitCode::DraNotServing && (required == DraRequired::False || !asked)
    }

    /// A reason either still waits or has become an outcome. And since when it has been the reason.
    pub(super) fn waits_or_ends(
        &mut self,
        seen: &Seen<'_>,
        reason: &Arc<Reason>,
        not_ready: &mut usize,
        tolerated: usize,
    ) -> (Option<NodeOutcome>, Timestamp) {
        let node = seen.node;
        let since = self.memory.waits(Some(&node.name), reason, self.now);
        let wait = || Wait { node: Some(Arc::clone(seen.name)), reason: Arc::clone(reason), since };
        let ended = self.outcome_of(node, reason, since, not_ready, tolerated);
        if let Some(outcome) = ended {
            match outcome {
                NodeOutcome::Failed => self.failures.push(wait()),
                NodeOutcome::Deferred => self.deferred.push(wait()),
                NodeOutcome::Done | NodeOutcome::Gone => {}
            }
            self.ends(node, outcome, Some(reason));
        } else {
            if !self.settings.has(Task::Drive) {
                self.note_record(node, None, Some(reason));
            } else if self.memory.nodes.contains_key(&node.name) {
                // How far it is stands on the node itself; the run record has what came of it.
                self.note_record(node, None, None);
            }
            self.waits.push(wait());
        }
        (ended, since)
    }

    /// What a reason has become after so long; `None`: it is still waited for.
    fn outcome_of(
        &mut self,
        node: &ObservedNode,
        reason: &Reason,
        since: Timestamp,
        not_ready: &mut usize,
        tolerated: usize,
    ) -> Option<NodeOutcome> {
        let per_node = self.settings.per_node_seconds;
        if let Reason::Upgrading(UpgradeReason::OtherDriver { ours: true, .. }) = reason {
            // While we hold the one Lease nobody works on it: waiting would not help.
            return Some(NodeOutcome::Deferred);
        }
        let left_alone = matches!(
            reason,
            Reason::Skipped { .. } | Reason::Upgrading(UpgradeReason::ForeignCordon | UpgradeReason::FailureBudget { .. })
        );
        if left_alone {
            return Some(NodeOutcome::Deferred);
        }
        if let Reason::Upgrading(UpgradeReason::Failed { .. } | UpgradeReason::NewerRecord { .. } | UpgradeReason::NoTime { .. }) = reason {
            return Some(NodeOutcome::Failed);
        }
        if let Reason::WriteRefused { .. } = reason {
            return Some(NodeOutcome::Failed);
        }
        if let Reason::UpgradeFailed { .. } = reason {
            // The time that a healthy node would have taken is over.
            return self.passed(since, per_node).then_some(NodeOutcome::Failed);
        }
        if let Reason::NodeNotReady { .. } = reason
            && node.annotations.contains_key(self.settings.driver.traits().own_record)
        {
            // What our upgrade took down is not tolerated: it comes back, or it has failed.
            return None;
        }
        if let Reason::NodeNotReady { .. } = reason {
            // How many are tolerated depends on the others.
            self.judge_again(node);
            // Since when it has been down by its condition is told by another clock: what we have seen counts.
            let long = self.passed(since, per_node);
            *not_ready += usize::from(long);
            return (long && *not_ready <= tolerated).then_some(NodeOutcome::Deferred);
        }
        if reason.follows_operand_rule() {
            return self.outcome_of_operands(node, reason, since);
        }
        if reason.exit_code() == ExitCode::PluginsNotServing {
            let over =
                matches!(reason, Reason::RestartHeldUp { .. }) || self.passed(since, self.settings.device_plugin.replacement_seconds);
            return over.then_some(NodeOutcome::Failed);
        }
        if reason.exit_code() != ExitCode::DraNotServing {
            return None;
        }
        if self.tolerates(reason) {
            self.judge_again(node);
            self.note_tolerated(node, reason);
            return Some(NodeOutcome::Deferred);
        }
        if let Reason::PluginHeldUp { .. } = reason {
            return Some(NodeOutcome::Failed);
        }
        let over = !reason.resolves_itself() || self.passed(since, self.settings.dra.replacement_seconds);
        over.then_some(NodeOutcome::Failed)
    }

    /// Reports what the policy tolerates of a node.
    pub(super) fn note_tolerated(&mut self, node: &ObservedNode, reason: &Reason) {
        self.notes.push(DecisionNote::Tolerated { node: Some(node.name.as_str().into()), reason: reason.clone().into() });
    }

    pub(super) fn ends(&mut self, node: &ObservedNode, outcome: NodeOutcome, reason: Option<&Reason>) {
        if reason.is_none() {
            self.memory.goes_on(&node.name);
        }
        if self.outcomes.get(&node.name) != Some(&outcome) {
            self.outcomes.insert(node.name.as_str(), outcome);
        }
        // A node that was never out of date is no news and gets no record.
        if outcome != NodeOutcome::Done || self.memory.nodes.contains_key(&node.name) {
            self.note_record(node, Some(outcome), reason);
        }
    }

    /// Notes outcome and reason; since when is a matter of the kind of reason, not of its numbers.
    fn note_record(&mut self, node: &ObservedNode, outcome: Option<NodeOutcome>, reason: Option<&Reason>) {
        let now = self.now;
        let reason = reason.map(|reason| RecordedReason::new(reason.name(), reason.lasting()));
        self.recorded(node);
        let Some(record) = self.memory.nodes.get(&node.name) else { return };
        let name = |reason: &Option<RecordedReason>| reason.as_ref().map(|reason| reason.name.clone());
        let news = record.since.is_none() || record.outcome != outcome || name(&record.reason) != name(&reason);
        if !news && record.reason == reason {
            return;
        }
        self.record(node, |record| {
            if news {
                record.outcome = outcome;
                record.since = Some(now);
            }
            record.reason = reason;
        });
    }

    /// Puts the decision together: quiet period, deadline, verdict.
    pub(super) fn finish(mut self, sweep: &Sweep<'_>) -> Decision {
        if !self.memory.evictions.is_empty() || !self.memory.issued.is_empty() {
            let pods: BTreeSet<&str> = self.observed.workloads.pods.values().flatten().map(|pod| pod.uid.as_str()).collect();
            self.memory.prune(|uid| pods.contains(uid), self.now);
        }
        // What is tried again on a node that has failed does not keep the run from ending.
        let failed_nodes: Vec<&str> = self.failures.iter().filter_map(|failure| failure.node.as_deref()).collect();
        let tried_again =
            |action: &Action| !matches!(action, Action::PatchNode(_)) && failed_nodes.iter().any(|failed| *failed == action.node());
        let pending = self.actions.iter().any(|action| !tried_again(action));
        let well = self.waits.is_empty() && !pending;
        let quiet = self.quiet_seconds();
        let mut verdict = None;
        if well {
            let uids = || sweep.nodes().map(|node| &node.uid);
            let same = |(before, _): &(Arc<[String]>, Timestamp)| before.iter().eq(uids());
            let (fleet, since) = self.memory.well.take().filter(same).unwrap_or_else(|| (uids().cloned().collect(), self.now));
            self.memory.well = Some((fleet, since));
            if self.passed(since, quiet) && self.leader_was_seen(since) {
                verdict = Some(self.settled());
            } else {
                let until = after(since, quiet);
                self.waits.push(Wait { node: None, reason: Reason::Quiet { until }.into(), since });
            }
        } else {
            self.memory.well = None;
            // What the whole fleet waits for in vain ends the run; failed nodes do not keep the others from finishing.
            if let Some(failure) = self.failures.iter().find(|failure| failure.node.is_none()).cloned() {
                verdict = Some(self.failed(failure.reason.exit_code(), &[failure]));
            }
        }
        // A quiet period that is all that is missing may still end, within the margin that the deadline leaves.
        let nearly = well
            && self.memory.well.as_ref().is_some_and(|(_, since)| after(*since, quiet) <= after(self.memory.deadline, MARGIN_SECONDS / 2));
        // Nodes that were not touched are given back first: the verdict is the last word, and nobody would come back for them.
        let handing_back = self.handing_back && self.now < after(self.memory.deadline, MARGIN_SECONDS / 2);
        if handing_back {
            // The deadline is behind us; a patch that was not taken is asked for again.
            self.wake_at = after(self.now, HANDING_BACK_SECONDS).min(after(self.memory.deadline, MARGIN_SECONDS / 2));
        }
        if verdict.is_none() && self.now >= self.memory.deadline && !nearly && !handing_back {
            verdict = Some(self.out_of_time());
        }
        if nearly && self.now >= self.memory.deadline {
            // The deadline is behind us: what is left to wait for is the end of the quiet period.
            self.wake_at = self.memory.well.as_ref().map_or(self.wake_at, |(_, since)| after(*since, quiet));
        }
        let failed = !self.failures.is_empty();
        Decision {
            well: well && !failed,
            memory: self.memory,
            // With the last word nothing is begun; what gives nodes back, or says what became of them, is still written.
            actions: if verdict.is_some() { self.actions.into_iter().filter(Action::is_last).collect() } else { self.actions },
            focus: self.focus,
            waits: self.waits,
            outcomes: self.outcomes,
            ended: self.failures.into_iter().chain(self.deferred).collect(),
            notes: self.notes,
            verdict,
            wake_at: self.wake_at,
        }
    }

    /// Whether the operator's leader was seen to renew its Lease since then; if not, it is looked again in a moment.
    fn leader_was_seen(&mut self, since: Timestamp) -> bool {
        if self.settings.driver != Driver::Gpu || !self.settings.has(Task::Settle) {
            return true;
        }
        let renewed = self.observed.operator_lease.as_ref().and_then(|lease| lease.renewed);
        let seen = renewed.is_some_and(|renewed| renewed >= since && after(renewed, RENEWED_SECONDS) >= self.now);
        if !seen {
            self.wakes(after(self.now, LEADER_SECONDS));
        }
        seen
    }

    fn settled(&self) -> Verdict {
        let failures = &self.failures;
        // Nodes that have failed weigh more than plugins that did not come back; within a code the order is that of the nodes.
        let mut failures = failures.clone();
        failures.sort_by_key(|failure| (failure.reason.exit_code() != ExitCode::NodesFailed, failure.reason.waits_for_others()));
        if let Some(first) = failures.first() {
            return self.failed(first.reason.exit_code(), &failures);
        }
        let count = |outcome| self.outcomes.values().filter(|found| **found == outcome).count();
        let replaced = |plugin: ReplacedPodKind| -> usize {
            let ours = |one: &&PluginReplacement| one.at >= self.memory.started_at && one.plugin == plugin;
            self.memory.nodes.values().map(|record| record.replaced.values().filter(ours).count()).sum()
        };
        let mut message = format!("settled: {} of {} nodes done", count(NodeOutcome::Done), self.outcomes.len());
        for (outcome, word) in [(NodeOutcome::Deferred, "deferred"), (NodeOutcome::Gone, "gone")] {
            if count(outcome) > 0 {
                // Writing to a String cannot fail.
                let _ = write!(message, ", {} {word}", count(outcome));
            }
        }
        if self.rerolls() {
            let _ = write!(message, "; {} DRA plugins replaced", replaced(ReplacedPodKind::Dra));
        }
        if self.settings.has(Task::RestartPlugins) {
            let _ = write!(message, "; {} pods of the device plugin restarted", replaced(ReplacedPodKind::Device));
        }
        let mut reasons = vec![VerdictReason::new(None, "Settled")];
        let mut of_nodes = 0;
        for note in self.notes.iter().chain(&self.reported_operands()) {
            of_nodes += usize::from(note.node().is_some());
            if note.node().is_none() || of_nodes <= NAMED {
                let _ = write!(message, "; {note}");
                reasons.push(note.verdict_reason());
            }
        }
        if of_nodes > NAMED {
            let _ = write!(message, "; and {} more nodes", of_nodes - NAMED);
        }
        Verdict { code: ExitCode::Success, message, reasons, at: self.now }
    }

    fn out_of_time(&self) -> Verdict {
        let mut waits: Vec<Wait> = self.failures.iter().chain(&self.waits).cloned().collect();
        waits.sort_by_key(|wait| wait.reason.waits_for_others());
        let codes: Vec<ExitCode> = waits.iter().map(|wait| wait.reason.exit_code()).collect();
        let code = match codes.first() {
            Some(first) if codes.iter().all(|code| code == first) => *first,
            Some(_) | None => ExitCode::Budget,
        };
        let mut verdict = self.failed(code, &waits);
        let (told, reasons) = self.restless();
        verdict.message = format!("the time budget of {} s is over: {}{told}", self.settings.budget_seconds, verdict.message);
        verdict.reasons.extend(reasons);
        verdict
    }

    /// Nodes whose driver was started again and again: what the last look found of them may be that all is well.
    fn restless(&self) -> (String, Vec<VerdictReason>) {
        let replaced = |record: &NodeRecord| record.replaced.values().filter(|one| one.at >= self.memory.started_at).count();
        let counts = self.memory.nodes.iter().map(|(name, record)| (name, replaced(record))).filter(|(_, count)| *count > RESTLESS);
        let told = counts.take(NAMED).map(|(name, count)| {
            let text = format!("; {name}: its plugins were replaced {count} times, each time for another start of its driver or toolkit");
            (text, VerdictReason::new(Some(name), "PluginsReplacedRepeatedly"))
        });
        told.unzip()
    }

    fn failed(&self, code: ExitCode, waits: &[Wait]) -> Verdict {
        let mut named: Vec<String> = waits.iter().take(NAMED).map(Wait::to_string).collect();
        if waits.len() > NAMED {
            named.push(format!("and {} more", waits.len() - NAMED));
        }
        let advice = waits.first().map(|wait| format!("; what to do: {}", wait.reason.advice(self.settings.driver))).unwrap_or_default();
        let (handed_back, more) = self.told_handed_back();
        let reasons = waits.iter().take(NAMED).map(Wait::verdict_reason).chain(more).collect();
        Verdict { code, message: format!("{}{advice}{handed_back}", named.join("; ")), reasons, at: self.now }
    }
}
