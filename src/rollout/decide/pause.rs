//! Pauses: nothing is begun with a paused node, and what was begun and has not touched its driver stands still.

use jiff::SignedDuration;

use crate::contract::driver::Traits;
use crate::rollout::action::NodePatch;
use crate::rollout::hold;
use crate::rollout::observed::Node;
use crate::rollout::pause;
use crate::rollout::reason::Reason;
use crate::rollout::reason::upgrade::Upgrading;
use crate::rollout::upgrade::record::Record;

use super::Deciding;
use super::drive::put;

impl Deciding<'_> {
    /// What a paused node waits for. `None`: it is not paused.
    pub(super) fn paused(&self, node: &Node) -> Option<Reason> {
        let pause = pause::of(self.observed, node)?;
        let (by, why) = (pause.by.clone(), pause.reason.clone());
        Some(Reason::Upgrading(Upgrading::Paused { by, why, at: pause.at }))
    }

    /// The same for a node with which the vendor's controller has not begun.
    pub(super) fn paused_before(&self, node: &Node, reason: Reason) -> Reason {
        let waits = matches!(&reason, Reason::DriverOutOfDate { .. }) && reason.waits_for_others();
        if waits { self.paused(node).unwrap_or(reason) } else { reason }
    }

    /// Stops the clock of a node in progress: the time of the pause counts for none of its limits.
    pub(super) fn freeze(&mut self, node: &Node, record: &Record, traits: &Traits) {
        if record.paused.is_some() {
            return;
        }
        let stopped = Record { paused: Some(self.now), ..record.clone() };
        let mut patch = NodePatch::of(node);
        put(&mut patch, &stopped, traits);
        self.issue(patch, false);
    }

    /// Lets the clock of a node go on that was stopped. Whether it was.
    pub(super) fn thaw(&mut self, node: &Node, record: &Record, traits: &Traits) -> bool {
        let Some(stopped) = record.paused else { return false };
        let pause = self.now.duration_since(stopped).max(SignedDuration::ZERO);
        let since = record.since.saturating_add(pause).unwrap_or(self.now);
        let mut patch = NodePatch::of(node);
        put(&mut patch, &Record { paused: None, since, ..record.clone() }, traits);
        self.issue(patch, false);
        true
    }

    /// Has the vendor's controller leave a paused node alone, where we may: whoever paused it may have had no right to, and nodes join.
    pub(super) fn hold_paused(&mut self, node: &Node) {
        let driver = self.settings.driver;
        // The hold of an operator's upgrade becomes the pause's, so that `resume` releases it.
        let taken_over = matches!(hold::Purpose::of(node, driver), Some(hold::Purpose::OperatorUpgrade(_)));
        if taken_over || hold::can_be_held(node, driver) {
            self.issue(hold::hold_as(node, driver, pause::HOLD), false);
        }
    }
}
