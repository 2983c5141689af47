//! Questions about a reason: whether it waits for others, and why NVIDIA's controller waits.

use jiff::Timestamp;

use nvidia_upgrade::state::ControllerState;

use super::Reason;
use super::upgrade::UpgradeReason;

impl Reason {
    /// Returns whether it only waits for others; their reason says more.
    pub fn waits_for_others(&self) -> bool {
        if let Self::Upgrading(reason) = self {
            return reason.waits_for_others();
        }
        if let Self::DriverOutOfDate { state, .. } = self {
            return ControllerState::from_label(state.as_deref()).is_idle();
        }
        matches!(
            self,
            Self::PluginQueued { .. }
                | Self::PluginHeldUp { .. }
                | Self::RestartQueued { .. }
                | Self::RestartHeldUp { .. }
                | Self::Quiet { .. }
        )
    }

    /// Returns whether the node waits for its turn: for its upgrade, or for the replacement of a
    /// plugin.
    pub fn waits_for_turn(&self) -> bool {
        if let Self::Upgrading(reason) = self {
            // The old pod ends without a slot.
            return !matches!(reason, UpgradeReason::DriverEnding { .. });
        }
        self.asks_why()
            || matches!(
                self,
                Self::WriteRetried { .. } | Self::PluginQueued { .. } | Self::RestartQueued { .. }
            )
    }

    /// Returns the name under which the start of a wait is kept. A toolkit that is outdated, and
    /// then not ready, is one wait.
    pub fn wait_name(&self) -> &'static str {
        if let Self::ToolkitOutdated { .. } = self {
            return Self::ToolkitNotReady { trouble: None }.name();
        }
        self.name()
    }

    /// Returns the upgrade state of the node, if the wait depends on it.
    pub fn upgrade_state(&self) -> Option<&str> {
        if let Self::UpgradeUnfinished { state, .. } = self {
            return Some(state);
        }
        if let Self::DriverOutOfDate { state, .. } | Self::DriverNotReady { state, .. } = self {
            return state.as_deref();
        }
        None
    }

    /// Returns when the wait ends by itself, if that is known: at the end of a pause, or when a
    /// maintenance window opens.
    pub fn ends_at(&self) -> Option<Timestamp> {
        if let Self::Upgrading(UpgradeReason::OutsideWindow { opens, .. }) = self {
            return Some(*opens);
        }
        self.paused_until()
    }

    /// Returns when the pause ends that covers the node, if it ends by itself.
    pub(crate) fn paused_until(&self) -> Option<Timestamp> {
        if let Self::Upgrading(UpgradeReason::Paused { until, .. }) = self { *until } else { None }
    }

    /// Returns whether it can contain the reason for which NVIDIA's controller does not continue
    /// with the node.
    pub fn asks_why(&self) -> bool {
        matches!(self, Self::DriverOutOfDate { .. } | Self::UpgradeUnfinished { .. })
    }

    /// Adds the reason for which NVIDIA's controller does not continue with the node.
    #[must_use]
    pub fn with_why(mut self, wait: Option<&nvidia_upgrade::explain::ControllerWait>) -> Self {
        if let (
            Self::DriverOutOfDate { why, .. } | Self::UpgradeUnfinished { why, .. },
            Some(wait),
        ) = (&mut self, wait)
        {
            *why = Some(Box::new(wait.clone()));
        }
        self
    }

    /// Removes the parts that change all the time, for the run record: it is written when a reason
    /// changes.
    #[must_use]
    pub fn lasting(&self) -> Self {
        let mut lasting = self.clone();
        if let Self::DriverOutOfDate { why, .. } | Self::UpgradeUnfinished { why, .. } =
            &mut lasting
        {
            *why = None;
        }
        if let Self::Upgrading(UpgradeReason::Refused(refusal)) = &mut lasting {
            refusal.forget_holders();
        }
        if let Self::ToolkitOutdated { awaited } | Self::OperandOutdated { awaited, .. } =
            &mut lasting
            && awaited.as_ref().is_some_and(|node| node.is_ready)
        {
            *awaited = None;
        }
        lasting
    }

    /// Returns whether a node in progress gets time before it fails for this reason. Some waits need
    /// manual action on another node or object, and may end while the node waits.
    pub(crate) fn gets_time(&self) -> bool {
        self.resolves_itself()
            || matches!(
                self,
                Self::PluginHeldUp { .. }
                    | Self::RestartHeldUp { .. }
                    | Self::NodeInOtherPool { .. }
                    | Self::ToolkitOutdated { .. }
            )
    }

    /// Returns whether it is about restarts of the device plugin.
    pub fn is_device_plugins(&self) -> bool {
        matches!(
            self,
            Self::RestartQueued { .. }
                | Self::RestartHeldUp { .. }
                | Self::RestartRolling { .. }
                | Self::RestartPending { .. }
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A node in mode `drive` must not fail at once because other nodes need manual action.
    #[test]
    fn reasons_that_other_nodes_end_get_time() {
        let in_pool = |found| Reason::NodeInOtherPool { wanted: "new".to_owned(), found };
        for (reason, resolves_itself, gets_time) in [
            (Reason::PluginHeldUp { cause: String::new(), failed: 1 }, false, true),
            (Reason::RestartHeldUp { cause: String::new(), failed: 1 }, false, true),
            (in_pool(Some("old".to_owned())), false, true),
            (in_pool(None), true, true),
            (Reason::PluginStale { cause: String::new() }, false, false),
            (Reason::PluginMissing, true, true),
        ] {
            assert_eq!(
                (reason.resolves_itself(), reason.gets_time()),
                (resolves_itself, gets_time),
                "{reason}"
            );
        }
    }
}
