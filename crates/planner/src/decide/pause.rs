//! Pauses: nothing is begun with a paused node, and what was begun and has not touched its driver stands still.

use jiff::SignedDuration;

use crate::action::NodePatch;
use crate::hold;
use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::record::UpgradeRecord;
use contract::driver::DriverTraits;
use observed::ObservedNode;
use observed::pause;

use super::Deciding;
use super::drive::put;

impl Deciding<'_> {
    /// What a paused node waits for. `None`: it is not paused.
    pub(super) fn paused(&self, node: &ObservedNode) -> Option<Reason> {
        let pause = pause::find_pause(self.observed, node)?;
        let (by, why) = (pause.by.clone(), pause.reason.clone());
        Some(Reason::Upgrading(UpgradeReason::Paused { by, why, at: pause.at }))
    }

    /// The same for a node with which the vendor's controller has not begun.
    pub(super) fn paused_before(&self, node: &ObservedNode, reason: Reason) -> Reason {
        let waits = matches!(&reason, Reason::DriverOutOfDate { .. }) && reason.waits_for_others();
        if waits { self.paused(node).unwrap_or(reason) } else { reason }
    }

    /// Stops the clock of a node in progress: the time of the pause counts for none of its limits.
    pub(super) fn freeze(&mut self, node: &ObservedNode, record: &UpgradeRecord, traits: &DriverTraits) {
        if record.paused.is_some() {
            return;
        }
        let stopped = UpgradeRecord { paused: Some(self.now), ..record.clone() };
        let mut patch = NodePatch::for_node(node);
        put(&mut patch, &stopped, traits);
        self.issue(patch, false);
    }

    /// Lets the clock of a node go on that was stopped. Whether it was.
    pub(super) fn thaw(&mut self, node: &ObservedNode, record: &UpgradeRecord, traits: &DriverTraits) -> bool {
        let Some(stopped) = record.paused else { return false };
        let pause = self.now.duration_since(stopped).max(SignedDuration::ZERO);
        let since = record.since.saturating_add(pause).unwrap_or(self.now);
        let mut patch = NodePatch::for_node(node);
        put(&mut patch, &UpgradeRecord { paused: None, since, ..record.clone() }, traits);
        self.issue(patch, false);
        true
    }

    /// Has the vendor's controller leave a paused node alone, where we may: whoever paused it may have had no right to, and nodes join.
    pub(super) fn hold_paused(&mut self, node: &ObservedNode) {
        let driver = self.settings.driver;
        // The hold of an operator's upgrade becomes the pause's, so that `resume` releases it.
        let taken_over = matches!(hold::HoldPurpose::from_node(node, driver), Some(hold::HoldPurpose::OperatorUpgrade(_)));
        if taken_over || hold::can_be_held(node, driver) {
            self.issue(hold::hold_as(node, driver, pause::HOLD), false);
        }
    }
}
