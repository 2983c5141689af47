//! How a node's upgrade ends: given back, failed, cleared away.

use jiff::Timestamp;

use crate::action::NodeNews;
use crate::action::NodePatch;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::{FailureCause, pause};
use crate::upgrade::record::{NodeFailure, UpgradeRecord};
use crate::upgrade::state::UpgradeState;
use contract::record::PluginReplacement;

use super::super::Deciding;
use super::patch::{put, remove, take_note};
use super::{DriveVerdict, DrivenNode, reason_of};

impl Deciding<'_> {
    /// Takes away what is ours, except for a cordon that is not known to be.
    pub(in crate::decide) fn clear_away(&mut self, subject: &DrivenNode<'_>) {
        let mut patch = NodePatch::for_node(subject.node);
        remove(&mut patch, self.settings.driver.traits());
        self.issue(patch, false);
    }

    /// [`Self::give_back`], [`Self::cordon_again`] and [`Self::fail`] for those who only want the reason.
    pub(in crate::decide) fn handed_back(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> Reason {
        reason_of(self.give_back(subject, record))
    }

    pub(in crate::decide) fn cordoned_again(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> Reason {
        reason_of(self.cordon_again(subject, record.clone()))
    }

    pub(in crate::decide) fn failed_for(
        &mut self,
        subject: &DrivenNode<'_>,
        record: &UpgradeRecord,
        cause: FailureCause,
        message: String,
    ) -> Reason {
        reason_of(self.fail(subject, record, cause, message))
    }

    /// The node is done: cordon, state and record go in one patch.
    pub(super) fn give_back(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> DriveVerdict {
        let mut patch = NodePatch::for_node(subject.node);
        remove(&mut patch, self.settings.driver.traits());
        if record.cordoned && subject.node.unschedulable {
            patch.unschedulable = Some(false);
        }
        take_note(&mut patch, subject.node, record, self.settings.driver.traits());
        let stays = if !record.cordoned && subject.node.unschedulable { "; it stays cordoned, as it was found" } else { "" };
        let plugins = self.memory.nodes.get(&subject.node.name).filter(|known| known.uid == subject.node.uid);
        let since = |one: &&PluginReplacement| one.at >= record.started;
        let replaced: Vec<String> = plugins
            .iter()
            .flat_map(|known| known.replaced.values())
            .filter(since)
            .map(|one| format!("; plugin {} replaced: {}", one.pod, one.cause))
            .collect();
        patch.news = Some(NodeNews::Upgraded(format!("{}{}{stays}", record.describe_steps(self.now), replaced.concat())));
        if self.issue(patch, false) {
            self.record(subject.node, |known| known.steps = record.steps());
        }
        DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack))
    }

    /// The node failed. With its old driver untouched it is given back at once; else it keeps its cordon.
    pub(super) fn fail(&mut self, subject: &DrivenNode<'_>, record: &UpgradeRecord, cause: FailureCause, message: String) -> DriveVerdict {
        let traits = self.settings.driver.traits();
        let mut failed = record.clone();
        let attempts = record.attempts(cause, &self.settings.digest) + 1;
        if failed.digest != self.settings.digest {
            failed.attempts.clear();
            failed.digest.clone_from(&self.settings.digest);
        }
        failed.attempts.insert(cause, attempts);
        failed.failure = Some(NodeFailure { cause, message: message.clone() });
        failed.enter(UpgradeState::UpgradeFailed, self.now);
        let mut patch = NodePatch::for_node(subject.node);
        // With a driver that does not run it would take workloads that cannot work.
        let broken = subject.pod.as_ref().is_some_and(|driver| !driver.pod.containers_ready);
        if cause.is_before_restart() && record.cordoned && !broken {
            failed.cordoned = false;
            take_note(&mut patch, subject.node, record, traits);
            patch.unschedulable = subject.node.unschedulable.then_some(false);
        }
        put(&mut patch, &failed, traits);
        let limit = self.settings.upgrade.attempts;
        let refused = if cause.is_refusal() { self.refused_write(subject.node) } else { None };
        let reason = if let Some(refused) = refused {
            Reason::WriteRefused { write: refused.write, message, cordoned: failed.cordoned && subject.node.unschedulable }
        } else if attempts >= limit {
            Reason::Upgrading(UpgradeReason::Failed { cause, message, attempts, cordoned: failed.cordoned })
        } else {
            let at = self.now.saturating_add(pause(attempts)).unwrap_or(Timestamp::MAX);
            self.wakes(at);
            Reason::Upgrading(UpgradeReason::Retry { message, attempts, limit, at })
        };
        patch.news = Some(NodeNews::Failed(format!("{cause}: {reason}; {}", failed.describe_steps(self.now))));
        if self.issue(patch, false) {
            self.record(subject.node, |known| known.steps = failed.steps());
        }
        DriveVerdict::Waits(reason)
    }
}
