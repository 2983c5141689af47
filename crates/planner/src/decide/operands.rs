//! Operands beside driver and toolkit in a decision: what a node waits for, and what becomes of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;

use crate::baseline::take_baseline;
use crate::hold::is_expected_to_render;
use crate::node::{is_driver_node, node_tainted};
use crate::note::DecisionNote;
use crate::operands::OperandSets;
use crate::reason::{Reason, Wait};
use crate::spec::leadership::{OperatorActivity, quiet_seconds};
use contract::driver::Driver;
use contract::record::NodeOutcome;
use contract::record::baseline::NodeBaseline;
use contract::settings::MissingGpus;
use observed::ObservedNode;

use super::{Deciding, after};

/// A node offers fewer GPUs than before only when it has done so for this long: the kubelet updates a node's status every 10 s.
const DEGRADED_SECONDS: u64 = 30;
/// What was failing before the run has recovered when it has been ready for this long: a container without a probe is ready for a moment each time
/// that it starts, and then crashes again.
const RECOVERED_SECONDS: u64 = 60;

impl Deciding<'_> {
    /// The operator has led, and left its DaemonSets and its spec alone, for a while.
    pub(super) fn operator_is_quiet(&mut self) -> Result<(), Reason> {
        if self.settings.driver != Driver::Gpu {
            return Ok(());
        }
        let activity = OperatorActivity::updated(self.memory.operator.as_ref(), self.observed, self.now);
        let since = activity.since;
        let settled = self.memory.settled_version.as_deref();
        let renders_until = activity.expected_until(self.now).filter(|_| is_expected_to_render(self.observed, self.settings, settled));
        self.memory.operator = Some(activity);
        if let Some(until) = renders_until {
            self.wakes(until);
            return Err(Reason::OperatorActing { until });
        }
        let quiet = quiet_seconds(self.observed);
        if self.passed(since, quiet) {
            return Ok(());
        }
        Err(Reason::OperatorActing { until: after(since, quiet) })
    }

    /// Remembers the fleet as it is when the run looks at it first.
    pub(super) fn record_baseline(&mut self) {
        if self.memory.baseline.is_some() || self.settings.driver != Driver::Gpu {
            return;
        }
        let operands = OperandSets::new(self.observed, self.settings);
        let nodes = self.observed.nodes.values().filter(|node| is_driver_node(node, Driver::Gpu));
        let earlier = self.memory.earlier_baseline.as_deref();
        self.memory.baseline = Some(Arc::new(take_baseline(self.observed, &operands, nodes, self.memory.started_at, earlier)));
    }

    /// What a node still waits for of its operands and GPUs.
    pub(super) fn operands(&mut self, node: &ObservedNode, operands: Option<&OperandSets<'_>>) -> Option<Reason> {
        let operands = operands.filter(|_| is_driver_node(node, Driver::Gpu))?;
        self.recovers(node, operands);
        let entry = self.memory.baseline.as_ref().and_then(|baseline| baseline.get(&node.uid));
        let reason = operands.fault(node, entry.map(|entry| &**entry));
        if let Some(Reason::OperandOutdated { .. }) = reason {
            // Which node stalls the update depends on the others.
            self.judge_again(node);
        }
        reason
    }

    /// What was failing and has worked for a while fails for the first time when it fails again.
    fn recovers(&mut self, node: &ObservedNode, operands: &OperandSets<'_>) {
        let Some(entry) = self.memory.baseline.as_ref().and_then(|baseline| baseline.get(&node.uid)).cloned() else { return };
        if entry.failing.is_empty() {
            return;
        }
        let before = self.memory.recovering.remove(&node.name).unwrap_or_default();
        let works = entry.failing.iter().filter(|failing| operands.works(node, failing));
        let mut recovering: BTreeMap<String, Timestamp> =
            works.map(|failing| (failing.clone(), before.get(failing).copied().unwrap_or(self.now))).collect();
        let still: BTreeSet<String> =
            entry.failing.iter().filter(|failing| !self.has_recovered(recovering.get(*failing))).cloned().collect();
        if still.len() < entry.failing.len()
            && let Some(baseline) = &mut self.memory.baseline
        {
            recovering.retain(|failing, _| still.contains(failing));
            Arc::make_mut(baseline).insert(&node.uid, Arc::new(NodeBaseline { failing: still, ..(*entry).clone() }));
        }
        if !recovering.is_empty() {
            self.memory.recovering.insert(node.name.clone(), recovering);
        }
    }

    fn has_recovered(&mut self, since: Option<&Timestamp>) -> bool {
        since.is_some_and(|since| self.passed(*since, RECOVERED_SECONDS))
    }

    /// Whether pods of a DaemonSet get past the taints of any GPU node: where they do on none, that is no matter of single nodes.
    fn gets_somewhere(&mut self, daemon_set: &str) -> bool {
        if let Some(known) = self.gets_somewhere.get(daemon_set) {
            return *known;
        }
        let driver = self.settings.driver;
        let found = self.observed.daemon_sets.iter().find(|found| found.name == daemon_set);
        let mut nodes = self.observed.nodes.values().filter(|node| is_driver_node(node, driver));
        let somewhere = nodes.any(|node| found.is_none_or(|found| node_tainted(found, node).is_none()));
        self.gets_somewhere.insert(daemon_set.to_owned(), somewhere);
        somewhere
    }

    /// What has become of a node that waits for its operands; `None`: it still waits.
    pub(super) fn outcome_of_operands(&mut self, node: &ObservedNode, reason: &Reason, since: Timestamp) -> Option<NodeOutcome> {
        if self.failed_before(node, reason) {
            self.judge_again(node);
            self.notes.push(DecisionNote::FailedBefore { node: node.name.as_str().into(), reason: reason.clone().into() });
            return Some(NodeOutcome::Deferred);
        }
        if let Reason::NodeTainted { daemon_set, .. } = reason {
            // The operator does not serve the node, and cannot. A new node has taints that go by themselves.
            let over = self.passed(since, self.settings.per_node_seconds) && self.gets_somewhere(daemon_set);
            self.judge_again(node);
            if over {
                self.note_tolerated(node, reason);
            }
            return over.then_some(NodeOutcome::Deferred);
        }
        if let Reason::GpusDegraded { .. } = reason {
            if !self.passed(since, DEGRADED_SECONDS) {
                return None;
            }
            self.judge_again(node);
            self.note_tolerated(node, reason);
            return Some(match self.settings.settle.gpus_missing {
                MissingGpus::Report => NodeOutcome::Done,
                MissingGpus::Fail => NodeOutcome::Failed,
            });
        }
        if let Reason::OperandOutdated { stalled_by: Some(stalling), .. } = reason {
            // A node that is tolerated and stalls the update is tolerated with what it stalls.
            let tolerated = self.outcomes.get(stalling) == Some(&NodeOutcome::Deferred);
            return tolerated.then_some(NodeOutcome::Deferred);
        }
        None
    }

    /// Whether what a node waits for is an operand that was failing before the run, and has not worked since.
    pub(super) fn failed_before(&self, node: &ObservedNode, reason: &Reason) -> bool {
        let entry = self.memory.baseline.as_ref().and_then(|baseline| baseline.get(&node.uid));
        reason.operand().is_some_and(|operand| entry.is_some_and(|entry| entry.failing.contains(&operand.daemon_set)))
    }

    /// Operands that do not gate and are not ready: one note each.
    pub(super) fn reported_operands(&self) -> Vec<DecisionNote> {
        if self.settings.driver != Driver::Gpu {
            return Vec::new();
        }
        let operands = OperandSets::new(self.observed, self.settings);
        let mut found: Vec<(String, Vec<Wait>)> = Vec::new();
        for (name, node) in self.observed.nodes.iter().filter(|(_, node)| is_driver_node(node, Driver::Gpu) && node.ready) {
            let Some(reason) = operands.reported_fault(node) else { continue };
            let Some(operand) = reason.operand().map(|operand| operand.daemon_set.clone()) else { continue };
            let wait = Wait { node: Some(Arc::clone(name)), reason: reason.into(), since: self.now };
            match found.iter_mut().find(|(known, _)| *known == operand) {
                Some((_, waits)) => waits.push(wait),
                None => found.push((operand, vec![wait])),
            }
        }
        let note = |(daemon_set, waits): (String, Vec<Wait>)| {
            let advice = waits.first().map(|wait| wait.reason.advice(self.settings.driver)).unwrap_or_default();
            DecisionNote::OperandReported { daemon_set, waits, advice }
        };
        found.into_iter().map(note).collect()
    }
}
