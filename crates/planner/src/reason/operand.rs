//! Operands in reasons.

use std::fmt;

use contract::operand::Operand;

use super::Reason;

/// An operand of the GPU Operator, by its DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandName {
    /// Name of the DaemonSet.
    pub daemon_set: String,
    /// Its row in the table of operands, if it has one.
    pub known: Option<Operand>,
}

impl OperandName {
    /// Returns what the user can do if it is not ready.
    pub(super) fn remedy(&self) -> &'static str {
        self.known.map_or("check the pod of the DaemonSet on the node, and its log", |operand| {
            operand.traits().remedy
        })
    }
}

impl fmt::Display for OperandName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "daemonset/{}", self.daemon_set)
    }
}

impl Reason {
    /// Returns the operand that a node waits for.
    pub fn operand(&self) -> Option<&OperandName> {
        if let Self::OperandMissing { operand }
        | Self::OperandOutdated { operand, .. }
        | Self::OperandNotReady { operand, .. } = self
        {
            return Some(operand);
        }
        None
    }

    /// Returns whether it is about operands other than driver and toolkit, or about the GPUs that
    /// they offer.
    pub fn is_about_operands(&self) -> bool {
        self.operand().is_some()
            || matches!(
                self,
                Self::MigReconfiguring { .. } | Self::GpusNotOffered | Self::GpusDegraded { .. }
            )
    }

    /// Returns whether the rule for operands decides the node's outcome: a taint keeps operands
    /// away, as it does the driver.
    pub fn follows_operand_rule(&self) -> bool {
        self.is_about_operands() || matches!(self, Self::NodeTainted { .. })
    }
}
