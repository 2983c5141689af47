//! Questions about a reason: whether it waits for others, and why NVIDIA's controller waits.

use nvidia_upgrade::state::ControllerState;

use super::Reason;

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
        self.asks_why()
            || matches!(
                self,
                Self::Upgrading(_)
                    | Self::WriteRetried { .. }
                    | Self::PluginQueued { .. }
                    | Self::RestartQueued { .. }
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
        if let Self::ToolkitOutdated { awaited } = &mut lasting {
            *awaited = None;
        }
        lasting
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
