//! What others do to a node: it is theirs until they are done.

use crate::reason::Reason;
use crate::reason::upgrade::UpgradeReason;
use crate::upgrade::record::is_anothers;
use contract::driver::Driver;
use observed::ObservedNode;

use super::super::Deciding;

impl Deciding<'_> {
    /// Whoever else has the node.
    pub(super) fn others_have_it(&self, node: &ObservedNode) -> Option<Reason> {
        let traits = self.settings.driver.traits();
        if node.annotations.contains_key(traits.requestor) {
            return Some(Reason::Upgrading(UpgradeReason::Requestor));
        }
        let maintenances = self.observed.workloads.maintenances.served().into_iter().flatten();
        if let Some(theirs) = maintenances.into_iter().find(|maintenance| maintenance.node == node.name) {
            return Some(Reason::Upgrading(UpgradeReason::Maintenance { name: theirs.name.clone(), requestor: theirs.requestor.clone() }));
        }
        // The vendor's controller may have been switched off a moment ago: what it was doing goes on until it has taken its label away.
        let state = node.labels.get(traits.state_label).map(String::as_str).unwrap_or_default();
        if is_active(state) {
            return Some(Reason::UpgradeUnfinished { state: state.to_owned(), why: None });
        }
        if is_anothers(node, traits, self.settings.own_daemon_set().as_deref()) {
            let state = node.labels.get(traits.own_state_label).cloned().unwrap_or_default();
            return Some(Reason::Upgrading(UpgradeReason::OtherDriver { driver: self.settings.driver, state, ours: true }));
        }
        self.other_driver(node)
            .map(|(driver, state, ours)| Reason::Upgrading(UpgradeReason::OtherDriver { driver, state: state.to_owned(), ours }))
    }

    /// Another driver of the node that is being upgraded, or has to be before this one: network before GPU. And whether its record is ours.
    pub(super) fn other_driver<'n>(&self, node: &'n ObservedNode) -> Option<(Driver, &'n str, bool)> {
        Driver::ALL.into_iter().filter(|driver| *driver != self.settings.driver).find_map(|driver| {
            let traits = driver.traits();
            let state = |label: &str| node.labels.get(label).map(String::as_str).filter(|state| !state.is_empty());
            if let Some(own) = state(traits.own_state_label) {
                return Some((driver, own, true));
            }
            let theirs = state(traits.state_label)?;
            let first = driver == Driver::Ofed && theirs == "upgrade-required";
            (is_active(theirs) || first).then_some((driver, theirs, false))
        })
    }
}

/// Whether a state of the vendor's means that its controller is at work on the node.
fn is_active(state: &str) -> bool {
    !matches!(state, "" | "upgrade-done" | "upgrade-required" | "upgrade-failed")
}
