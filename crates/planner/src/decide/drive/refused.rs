//! A node in mode `drive` of which a write was refused.

use crate::action::NodePatch;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::cause::FailureCause;
use crate::upgrade::record::{NodeRecordState, UpgradeRecord};
use contract::record::RefusedWrite;

use super::super::Deciding;
use super::patch::remove;
use super::{DriveVerdict, DrivenNode, needs_upgrade};

impl Deciding<'_> {
    /// The node is given up. As far as it still takes patches, it is left as any other failed node: with its old driver untouched it is
    /// uncordoned, else it keeps its cordon.
    pub(super) fn refused_turn(&mut self, subject: &DrivenNode<'_>, refused: &RefusedWrite) -> DriveVerdict {
        let given_up = DriveVerdict::Waits(self.write_refused(subject.node, refused));
        if self.is_patched(subject.node) {
            return DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::Cordoning));
        }
        if let Some(reason) = self.tried_again(subject.node) {
            return DriveVerdict::Waits(reason);
        }
        match &subject.found {
            NodeRecordState::Newer(version) => DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::NewerRecord { version: *version })),
            NodeRecordState::Record(record) if record.state.is_in_progress() && !refused.stays => {
                let cause = self.cause_of_refusal(subject, record);
                self.fail(subject, record, cause, refused.message.clone())
            }
            NodeRecordState::Nothing | NodeRecordState::Broken if self.takes_back(subject, refused) => {
                DriveVerdict::Waits(Reason::Upgrading(UpgradeReason::GivingBack))
            }
            // Somebody else saw to its driver, or it never needed another one.
            NodeRecordState::Nothing
                if !(needs_upgrade(subject, self.settings.driver.traits()) || refused.cordon && subject.node.unschedulable) =>
            {
                if subject.left.is_some() { DriveVerdict::Left } else { DriveVerdict::Over }
            }
            NodeRecordState::Nothing | NodeRecordState::Broken | NodeRecordState::Record(_) => given_up,
        }
    }

    /// Admission changed a patch, and what it let through is not named by a record: what is known to be ours is taken back, once.
    fn takes_back(&mut self, subject: &DrivenNode<'_>, refused: &RefusedWrite) -> bool {
        let node = subject.node;
        let cordoned = refused.cordon && node.unschedulable;
        if refused.stays || !cordoned && subject.found != NodeRecordState::Broken {
            return false;
        }
        let mut patch = NodePatch::for_node(node);
        remove(&mut patch, self.settings.driver.traits());
        patch.unschedulable = cordoned.then_some(false);
        if !self.issue(patch, false) {
            return false;
        }
        self.record(node, |record| record.refused.iter_mut().for_each(|refused| refused.stays = true));
        true
    }

    /// Whether the node can be given back. A deletion that the server refused has touched nothing.
    fn cause_of_refusal(&self, subject: &DrivenNode<'_>, record: &UpgradeRecord) -> FailureCause {
        if self.is_untouched(subject, record) { FailureCause::WriteRefused } else { FailureCause::WriteRefusedAfterRestart }
    }
}
