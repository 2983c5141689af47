//! A node in mode `drive` of which a write was refused.

use crate::contract::record::RefusedWrite;
use crate::rollout::action::NodePatch;
use crate::rollout::reason::Reason;
use crate::rollout::reason::upgrade::Upgrading;
use crate::rollout::upgrade::cause::Cause;
use crate::rollout::upgrade::record::{Found, Record};

use super::super::Deciding;
use super::patch::remove;
use super::{Subject, Turn, needs_upgrade};

impl Deciding<'_> {
    /// The node is given up. As far as it still takes patches, it is left as any other failed node: with its old driver untouched it is
    /// uncordoned, else it keeps its cordon.
    pub(super) fn refused_turn(&mut self, subject: &Subject<'_>, refused: &RefusedWrite) -> Turn {
        let given_up = Turn::Waits(self.write_refused(subject.node, refused));
        if self.is_patched(subject.node) {
            return Turn::Waits(Reason::Upgrading(Upgrading::Cordoning));
        }
        if let Some(reason) = self.tried_again(subject.node) {
            return Turn::Waits(reason);
        }
        match &subject.found {
            Found::Newer(version) => Turn::Waits(Reason::Upgrading(Upgrading::NewerRecord { version: *version })),
            Found::Record(record) if record.state.is_in_progress() && !refused.stays => {
                let cause = self.cause_of_refusal(subject, record);
                self.fail(subject, record, cause, refused.message.clone())
            }
            Found::Nothing | Found::Broken if self.takes_back(subject, refused) => Turn::Waits(Reason::Upgrading(Upgrading::GivingBack)),
            // Somebody else saw to its driver, or it never needed another one.
            Found::Nothing if !(needs_upgrade(subject, self.settings.driver.traits()) || refused.cordon && subject.node.unschedulable) => {
                if subject.left.is_some() {
                    Turn::Left
                } else {
                    Turn::Over
                }
            }
            Found::Nothing | Found::Broken | Found::Record(_) => given_up,
        }
    }

    /// Admission changed a patch, and what it let through is not named by a record: what is known to be ours is taken back, once.
    fn takes_back(&mut self, subject: &Subject<'_>, refused: &RefusedWrite) -> bool {
        let node = subject.node;
        let cordoned = refused.cordon && node.unschedulable;
        if refused.stays || !cordoned && subject.found != Found::Broken {
            return false;
        }
        let mut patch = NodePatch::of(node);
        remove(&mut patch, self.settings.driver.traits());
        patch.unschedulable = cordoned.then_some(false);
        if !self.issue(patch, false) {
            return false;
        }
        self.record(node, |record| record.refused.iter_mut().for_each(|refused| refused.stays = true));
        true
    }

    /// Whether the node can be given back. A deletion that the server refused has touched nothing.
    fn cause_of_refusal(&self, subject: &Subject<'_>, record: &Record) -> Cause {
        if self.is_untouched(subject, record) { Cause::WriteRefused } else { Cause::WriteRefusedAfterRestart }
    }
}
