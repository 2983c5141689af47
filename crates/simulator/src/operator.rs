//! The operator's own pod: while it is replaced nobody reconciles, and when the new one is available the old one's Lease has still to expire.

use super::world::{HookWatch, World, WorldEvent};

/// From the operator's rollout to the start of the hook behind its release.
const HOOK_STARTS: u64 = 1_000;

impl World<'_> {
    /// The operator's pod is gone; another one is available after so long.
    pub(super) fn operator_down(&mut self, milliseconds: u64) {
        self.fixed.operator_up = false;
        self.fixed.operator_pod += 1;
        self.publish(HookWatch::Operator, None);
        self.after(milliseconds, WorldEvent::OperatorUp);
        // What the candidate waits for is the Lease, counted from the last renewal; it cannot lead before it is there.
        let gap = self.draw(self.setup.times.lease, "lease", "").max(milliseconds + 200);
        let pod = self.fixed.operator_pod;
        self.after(gap, WorldEvent::OperatorLeads(pod));
    }

    pub(super) fn operator_up(&mut self) {
        self.fixed.operator_up = true;
        self.log(|| "the operator is available".to_owned());
        self.publish(HookWatch::Operator, None);
    }

    /// The operator's new version: its pod is ready, and waits for the Lease of the old one, which ends.
    pub(super) fn operator_replaced(&mut self) {
        self.fixed.operator_pod += 1;
        self.fixed.operator_version.clone_from(&self.setup.operator);
        self.log(|| "the operator's new version is rolled out".to_owned());
        self.publish(HookWatch::Operator, None);
        let gap = self.draw(self.setup.times.lease, "lease", "");
        let pod = self.fixed.operator_pod;
        self.after(gap, WorldEvent::OperatorLeads(pod));
    }

    /// What the operator that leads renders for the driver that is asked for.
    pub(super) fn rendered(&self) -> String {
        // The version before it is upgraded renders another template with the same image.
        let is_old = self.setup.operator_upgrade.is_some() && self.fixed.operator_leader == 0;
        if is_old { format!("{}-by-old-operator", self.fixed.asked) } else { self.fixed.asked.clone() }
    }

    /// The leader has rendered what is asked for.
    pub(super) fn template_made(&mut self) {
        if !self.operator_works() {
            // The next leader makes it.
            return;
        }
        self.fixed.template = self.rendered();
        if self.fixed.revisions.last() != Some(&self.fixed.template) {
            self.fixed.revisions.push(self.fixed.template.clone());
        }
        self.publish(HookWatch::Operator, None);
        self.vendor_hears();
    }

    /// When the hook behind the operator's release starts.
    pub(super) fn hook_begins(&self) -> u64 {
        self.setup.operator_upgrade.as_ref().map_or(0, |upgrade| upgrade.ready + HOOK_STARTS)
    }

    /// Whether somebody reconciles.
    pub(super) fn operator_works(&self) -> bool {
        self.fixed.operator_up && self.fixed.operator_leader == self.fixed.operator_pod
    }

    pub(super) fn operator_leads(&mut self, pod: u32) {
        if pod != self.fixed.operator_pod || !self.fixed.operator_up {
            return;
        }
        self.fixed.operator_leader = pod;
        self.log(|| "the operator leads".to_owned());
        self.publish(HookWatch::Operator, None);
        if self.fixed.template != self.rendered() {
            let made = self.draw(self.setup.times.operator, "operator", "");
            self.after(made, WorldEvent::TemplateMade);
        }
        self.vendor_starts();
    }
}
