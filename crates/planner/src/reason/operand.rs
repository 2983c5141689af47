//! Operands in reasons.

use std::fmt;

use contract::operand::Operand;

use super::Reason;

/// An operand of the GPU operator, by its DaemonSet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperandName {
    /// Name of the DaemonSet.
    pub daemon_set: String,
    /// Its row in the table of operands, if it has one.
    pub known: Option<Operand>,
}

impl OperandName {
    /// What a person can do when it is not ready.
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
    /// The operand that a node waits for.
    pub fn operand(&self) -> Option<&OperandName> {
        if let Self::OperandMissing { operand }
        | Self::OperandOutdated { operand, .. }
        | Self::OperandNotReady { operand, .. } = self
        {
            return Some(operand);
        }
        None
    }

    /// Returns whether it is about operands besides driver and toolkit, or about the GPUs that come of it.
    pub fn is_about_operands(&self) -> bool {
        self.operand().is_some()
            || matches!(
                self,
                Self::MigReconfiguring { .. } | Self::GpusNotOffered | Self::GpusDegraded { .. }
            )
    }

    /// Whether what becomes of the node follows from the operands' own rule: a taint keeps operands away as it does the driver.
    pub fn follows_operand_rule(&self) -> bool {
        self.is_about_operands() || matches!(self, Self::NodeTainted { .. })
    }
}
