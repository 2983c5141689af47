//! Which nodes are started: what forbids every start, what a limit refuses, and the patch with which an upgrade begins.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::action::NodePatch;
use crate::decide::rest::Driven;
use crate::decide::sweep::Sweep;
use crate::decide::{Deciding, after};
use crate::hold;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::record::{UpgradeRecord, VERSION};
use crate::upgrade::state::UpgradeState;
use crate::upgrade::throttle::{StartThrottle, ThrottledNode};
use contract::driver::DriverTraits;
use contract::record::{NodeOutcome, NodeRecord};
use observed::ObservedNode;

use super::patch::put;
use super::{DrivenNode, asked_for, is_requested, is_restart_only};

impl Deciding<'_> {
    /// Starts as many nodes as may be. The answer: by the places of the nodes, what those wait for that are not started, and that are.
    pub(super) fn begin<'s>(
        &mut self,
        sweep: &Sweep<'s>,
        all: &[(&Driven, Option<&DrivenNode<'_>>)],
        ends: bool,
        as_subject: impl Fn(&'s ObservedNode, Option<Arc<Reason>>) -> DrivenNode<'s>,
    ) -> Vec<Option<Arc<Reason>>> {
        let mut candidates: Vec<(u32, usize)> =
            all.iter().enumerate().filter_map(|(place, (driven, _))| Some((driven.candidate?, place))).collect();
        if candidates.is_empty() {
            self.evict();
            return Vec::new();
        }
        // Nodes that were tried before come last: they must not keep the others from their turn.
        candidates.sort_unstable();
        let named = || sweep.listed.iter().zip(all).map(|(seen, (driven, _))| (&**seen.name, *driven));
        let members: Vec<(&str, &ThrottledNode)> = named().filter_map(|(name, driven)| Some((name, driven.member.as_ref()?))).collect();
        let failed: Vec<String> = named().filter(|(_, driven)| driven.given_up).map(|(name, _)| name.to_owned()).collect();
        let mut throttle = StartThrottle::new(&self.settings.upgrade, &members);
        let barrier = self.barrier(failed, members.len(), ends);
        let mut turns: Vec<Option<Arc<Reason>>> = vec![None; all.len()];
        let mut last: Option<Arc<Reason>> = None;
        for (again, place) in candidates {
            let (seen, (driven, subject)) = (&sweep.listed[place], all[place]);
            let Some(member) = &driven.member else {
                // Limits know nothing of it: it has no driver pod that could be replaced.
                turns[place] = Some(Reason::DriverPodMissing.into());
                continue;
            };
            let refused = self.refused((&**seen.name, member), barrier.as_ref(), &mut throttle);
            let reason = Reason::Upgrading(refused.unwrap_or_else(|| match subject {
                Some(subject) => self.start(subject, again, self.settings.driver.traits()),
                None => self.start(&as_subject(seen.node, None), again, self.settings.driver.traits()),
            }));
            // Most of them are refused for one and the same reason.
            let reason = last.take().filter(|last| **last == reason).unwrap_or_else(|| Arc::new(reason));
            turns[place] = Some(Arc::clone(&reason));
            last = Some(reason);
        }
        self.evict();
        turns
    }

    /// What forbids the node's start: what forbids every one, or a limit. A node whose start was asked for has its slot already: it must not wait for itself when the
    /// server did not take the patch.
    pub(in crate::decide) fn refused<'m>(
        &self,
        (name, member): (&'m str, &'m ThrottledNode),
        barrier: Option<&UpgradeReason>,
        throttle: &mut StartThrottle<'m>,
    ) -> Option<UpgradeReason> {
        let over = self.now >= self.memory.deadline;
        if !over && self.memory.patched.get(name).is_some_and(|patched| patched.starts) {
            return None;
        }
        if let Some(UpgradeReason::NoTime { deadline, per_node, .. }) = barrier {
            // More time is the wrong advice to somebody whose nodes are held up by others.
            return Some(UpgradeReason::NoTime { deadline: *deadline, per_node: *per_node, held: throttle.standing(member) });
        }
        if let Some(barrier) = barrier {
            return Some(barrier.clone());
        }
        throttle.start(name, member).err().map(UpgradeReason::Refused)
    }

    /// Whether the run has waited for the node so far.
    pub(in crate::decide) fn is_under_way(&self, node: &ObservedNode) -> bool {
        let is_open = |record: &NodeRecord| record.uid == node.uid && record.outcome.is_none();
        self.memory.is_in_cohort(&node.uid) && self.memory.nodes.get(&node.name).is_some_and(is_open)
    }

    /// What forbids every start. `failed`: the nodes that were given up, of so many; `ends`: a node comes to its end in this very decision.
    pub(in crate::decide) fn barrier(&mut self, failed: Vec<String>, of: usize, ends: bool) -> Option<UpgradeReason> {
        let budget = self.settings.upgrade.failure_budget.resolve(of);
        if failed.len() > budget {
            return Some(UpgradeReason::FailureBudget { failed: failed.into(), budget });
        }
        let per_node = self.settings.per_node_seconds;
        if after(self.now, per_node) > self.memory.deadline {
            return Some(UpgradeReason::NoTime { deadline: self.memory.deadline, per_node, held: None });
        }
        let soak = self.settings.upgrade.soak_seconds;
        if soak == 0 {
            return None;
        }
        // Nodes that are left alone were not upgraded.
        let upgraded = |record: &&NodeRecord| matches!(record.outcome, Some(NodeOutcome::Done | NodeOutcome::Failed));
        let ended = self.memory.nodes.values().filter(upgraded).filter_map(|record| record.since);
        let last = ended.filter(|since| *since >= self.memory.started_at).chain(ends.then_some(self.now)).max()?;
        let until = after(last, soak);
        (!self.passed(last, soak)).then_some(UpgradeReason::Soak { until })
    }

    /// Starts a node: cordon, state and record in one patch. `again`: it failed before, and this is one more attempt.
    fn start(&mut self, subject: &DrivenNode<'_>, again: u32, traits: &DriverTraits) -> UpgradeReason {
        let requested = asked_for(subject.node, traits) || subject.record().is_some_and(|record| record.requested);
        let restart_only = again == 0 && is_restart_only(subject, traits);
        let before = subject.record().filter(|record| record.digest == self.settings.digest);
        // What it failed for stays known: it tells how far the node's driver was.
        let anew = is_requested(subject.node, traits);
        let after_restart = before.and_then(|record| record.failure.as_ref()).is_some_and(|failure| !failure.cause.is_before_restart());
        let state = if restart_only || after_restart {
            UpgradeState::PodRestartRequired
        } else if self.settings.upgrade.policy.wait_for_completion.is_some() {
            UpgradeState::WaitForJobsRequired
        } else {
            self.after_jobs()
        };
        let cordoned = !subject.node.unschedulable || subject.record().is_some_and(|record| record.cordoned);
        let record = UpgradeRecord {
            version: VERSION,
            state,
            since: self.now,
            started: self.now,
            digest: self.settings.digest.clone(),
            cordoned,
            recordoned: 0,
            paused: None,
            steps: BTreeMap::from([(state, self.now)]),
            restart_only,
            requested,
            daemon_set: self.settings.own_daemon_set(),
            driver_pod: subject.pod.as_ref().map(|driver| driver.pod.uid.clone()),
            attempts: before
                .map(|record| record.attempts.iter().map(|(cause, count)| (*cause, if anew { 0 } else { *count })).collect())
                .unwrap_or_default(),
            failure: None,
        };
        let mut patch = NodePatch::for_node(subject.node);
        put(&mut patch, &record, traits);
        if subject.node.annotations.contains_key(traits.requested) {
            patch.annotations.insert(traits.requested.to_owned(), None);
        }
        hold::release(subject.node, self.settings.driver, &mut patch);
        patch.unschedulable = (!subject.node.unschedulable).then_some(true);
        self.issue(patch, true);
        UpgradeReason::Cordoning
    }
}
