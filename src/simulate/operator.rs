//! The operator's own pod: while it is replaced nobody reconciles, and when the new one is available the old one's Lease has still to expire.

use super::world::{Event, Watch, World};

impl World<'_> {
    /// The operator's pod is gone; another one is available after so long.
    pub(super) fn operator_down(&mut self, milliseconds: u64) {
        self.fixed.operator_up = false;
        self.fixed.operator_pod += 1;
        self.publish(Watch::Operator, None);
        self.after(milliseconds, Event::OperatorUp);
        // What the candidate waits for is the Lease, counted from the last renewal; it cannot lead before it is there.
        let gap = self.draw(self.setup.times.lease, "lease", "").max(milliseconds + 200);
        let pod = self.fixed.operator_pod;
        self.after(gap, Event::OperatorLeads(pod));
    }

    pub(super) fn operator_up(&mut self) {
        self.fixed.operator_up = true;
        self.tell(|| "the operator is available".to_owned());
        self.publish(Watch::Operator, None);
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
        self.tell(|| "the operator leads".to_owned());
        self.publish(Watch::Operator, None);
        if self.fixed.template != self.fixed.asked {
            let made = self.draw(self.setup.times.operator, "operator", "");
            self.after(made, Event::TemplateMade);
        }
        self.vendor_starts();
    }
}
