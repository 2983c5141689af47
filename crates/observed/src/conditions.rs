//! The conditions that NVIDIA's operators write into their custom resources: `Ready` and `Error`,
//! always as a pair.

/// The condition reasons that mean "operands are still being rolled out". Every other reason of a
/// true `Error` condition is a failed reconciliation (gpu-operator `internal/conditions`).
const PROGRESS_REASONS: [&str; 2] = ["OperandNotReady", "DriverNotReady"];

/// The reason of a reconciliation without an error. A disabled NVIDIADriver has it in a true
/// `Error` condition.
const RECONCILED_REASON: &str = "Reconciled";

/// The conditions of a ClusterPolicy, an NVIDIADriver or a GPUCluster. They carry no generation,
/// and an unchanged condition is not written again: none of them proves that the operator has
/// observed the newest spec.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyConditions {
    /// The condition `Ready`.
    pub ready: Option<PolicyCondition>,
    /// The condition `Error`.
    pub error: Option<PolicyCondition>,
}

/// One condition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PolicyCondition {
    /// Its status is `True`.
    pub is_true: bool,
    /// Its reason.
    pub reason: String,
    /// Its message, on one line and shortened.
    pub message: String,
}

impl PolicyConditions {
    /// Returns whether `Ready` is true. A resource without the condition is not ready. In contrast
    /// to `status.state`, the condition is correct while an NVIDIADriver is rolled out:
    /// gpu-operator up to v26.3.3 restores the old state `ready`.
    pub fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.is_true)
    }

    /// Returns the reason of the `Ready` condition, if its status is true.
    pub fn ready_reason(&self) -> Option<&str> {
        self.ready.as_ref().filter(|ready| ready.is_true).map(|ready| ready.reason.as_str())
    }

    /// Returns the `Error` condition of a failed reconciliation: true, and not only about operands
    /// that are not ready yet.
    pub fn failure(&self) -> Option<&PolicyCondition> {
        let error = self.error.as_ref().filter(|error| error.is_true)?;
        (!PROGRESS_REASONS.contains(&error.reason.as_str()) && error.reason != RECONCILED_REASON)
            .then_some(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(ready: (bool, &str), error: (bool, &str)) -> PolicyConditions {
        let condition = |(is_true, reason): (bool, &str)| {
            Some(PolicyCondition { is_true, reason: reason.to_owned(), message: String::new() })
        };
        PolicyConditions { ready: condition(ready), error: condition(error) }
    }

    #[test]
    fn only_failed_reconciliation_is_failure() {
        for (ready, error, fails) in [
            ((true, "Reconciled"), (false, "Ready"), false),
            ((true, "NoGPUNodes"), (false, "Ready"), false),
            ((false, "Error"), (true, "OperandNotReady"), false),
            ((false, "Error"), (true, "DriverNotReady"), false),
            ((false, "Error"), (true, "ReconcileFailed"), true),
            ((false, "Error"), (true, "ConflictingNodeSelector"), true),
            ((false, "Error"), (true, "PrerequisiteNotMet"), true),
            // The spec of a disabled NVIDIADriver is not acted on; nothing has failed.
            ((false, "Error"), (true, "Reconciled"), false),
        ] {
            assert_eq!(pair(ready, error).failure().is_some(), fails, "{error:?}");
        }
        assert_eq!(PolicyConditions::default().failure(), None);
    }

    #[test]
    fn only_true_ready_condition_is_ready() {
        assert!(!PolicyConditions::default().is_ready());
        let rolling = pair((false, "Error"), (true, "DriverNotReady"));
        assert!(!rolling.is_ready());
        assert_eq!(rolling.ready_reason(), None);
        assert_eq!(pair((true, "NoGPUNodes"), (false, "Ready")).ready_reason(), Some("NoGPUNodes"));
    }
}
