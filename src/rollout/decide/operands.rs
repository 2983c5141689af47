//! Operands beside driver and toolkit in a decision: what a node waits for, and what becomes of it.

use std::sync::Arc;

use crate::contract::driver::Driver;
use crate::contract::record::Outcome;
use crate::contract::settings::MissingGpus;
use crate::rollout::baseline::{baseline, still_failing};
use crate::rollout::hold::is_expected_to_render;
use crate::rollout::node::is_driver_node;
use crate::rollout::observed::Node;
use crate::rollout::operands::OperandSets;
use crate::rollout::reason::{Reason, Wait};
use crate::rollout::spec::leadership::{OperatorActivity, quiet_seconds};

use super::{Deciding, after};

/// A node offers fewer GPUs than before only when it has done so for this long: the kubelet updates a node's status every 10 s.
const DEGRADED_SECONDS: u64 = 30;
/// How many nodes a note about an operand names.
const NAMED: usize = 3;

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
        self.memory.baseline = Some(Arc::new(baseline(self.observed, &operands, nodes, self.memory.started_at, earlier)));
    }

    /// What a node still waits for of its operands and GPUs.
    pub(super) fn operands(&mut self, node: &Node, operands: Option<&OperandSets<'_>>) -> Option<Reason> {
        let operands = operands.filter(|_| is_driver_node(node, Driver::Gpu))?;
        let mut entry = self.memory.baseline.as_ref().and_then(|baseline| baseline.of(&node.uid)).cloned();
        if let Some(before) = &entry
            && before.failing.iter().any(|failing| operands.works(node, failing))
            && let Some(baseline) = &mut self.memory.baseline
        {
            let now = Arc::new(still_failing(before, operands, node));
            Arc::make_mut(baseline).insert(&node.uid, Arc::clone(&now));
            entry = Some(now);
        }
        let reason = operands.fault(node, entry.as_deref());
        if let Some(Reason::OperandOutdated { .. }) = reason {
            // Which node stalls the update depends on the others.
            self.judge_again(node);
        }
        reason
    }

    /// What has become of a node that waits for its operands; `None`: it still waits.
    pub(super) fn outcome_of_operands(&mut self, node: &Node, reason: &Reason, since: jiff::Timestamp) -> Option<Outcome> {
        if self.failed_before(node, reason) {
            self.judge_again(node);
            self.notes.push(format!("{}: {reason}, as before the run", node.name));
            return Some(Outcome::Deferred);
        }
        if matches!(reason, Reason::NodeTainted { .. }) {
            // The operator does not serve the node, and cannot. A new node has taints that go by themselves.
            return self.passed(since, self.settings.per_node_seconds).then_some(Outcome::Deferred);
        }
        if let Reason::GpusDegraded { .. } = reason {
            if !self.passed(since, DEGRADED_SECONDS) {
                return None;
            }
            self.judge_again(node);
            self.notes.push(format!("{}: {reason}", node.name));
            return Some(match self.settings.settle.gpus_missing {
                MissingGpus::Report => Outcome::Done,
                MissingGpus::Fail => Outcome::Failed,
            });
        }
        if let Reason::OperandOutdated { stalled_by: Some(stalling), .. } = reason {
            // A node that is tolerated and stalls the update is tolerated with what it stalls.
            let tolerated = self.outcomes.get(stalling) == Some(&Outcome::Deferred);
            return tolerated.then_some(Outcome::Deferred);
        }
        None
    }

    /// Whether what a node waits for is an operand that was failing before the run, and has not worked since.
    pub(super) fn failed_before(&self, node: &Node, reason: &Reason) -> bool {
        let entry = self.memory.baseline.as_ref().and_then(|baseline| baseline.of(&node.uid));
        reason.operand().is_some_and(|operand| entry.is_some_and(|entry| entry.failing.contains(&operand.daemon_set)))
    }

    /// Operands that do not gate and are not ready, for people: one note each.
    pub(super) fn reported_operands(&self) -> Vec<String> {
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
        let note = |(operand, waits): (String, Vec<Wait>)| {
            let named: Vec<String> = waits.iter().take(NAMED).map(Wait::to_string).collect();
            let advice = waits.first().map(|wait| wait.reason.advice(self.settings.driver)).unwrap_or_default();
            format!(
                "daemonset/{operand} is not ready on {} nodes, which does not gate: {}; what to do: {advice}",
                waits.len(),
                named.join(", ")
            )
        };
        found.into_iter().map(note).collect()
    }
}
