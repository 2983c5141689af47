//! Exit codes: one table for the command line and the hook. `docs/exit-codes.md` is checked against it.

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ExitCode {
    /// Done, or nothing to do.
    Success,
    /// The input is wrong: the user must change something.
    Input,
    /// Wrong usage of the command line.
    Usage,
    /// Two bundles differ.
    Different,
    /// The hook lacks a right; nothing was written.
    Rights,
    /// The API of the operator is not there: its CustomResourceDefinition is missing.
    ApiMissing,
    /// The operator is not there, does not get ready, or cannot act on its custom resource.
    OperatorMissing,
    /// The live custom resource does not say what this bundle's values say.
    Precondition,
    /// The preflight found what would stop the upgrade; the operator's release was not reached.
    Preflight,
    /// The time budget is over and nodes still wait.
    Budget,
    /// Nodes have failed and will not go on by themselves.
    NodesFailed,
    /// No GPU nodes, and it is not certain that there should be none.
    NoGpuNodes,
    /// A DRA driver is required and is not there.
    DraMissing,
    /// A DRA kubelet plugin did not come back, or still serves the old driver.
    DraNotServing,
    /// A device plugin, GPU feature discovery or MPS daemon did not come back after its restart.
    PluginsNotServing,
    /// Another hook Job held the Lease until the budget was over.
    LeaseHeld,
    /// The API server could not be reached in time.
    ApiUnreachable,
    /// A newer version has written what this one does not understand.
    NewerFormat,
    /// The run record cannot be written, however often it is tried.
    Record,
    /// Ended by a signal; a replacement pod goes on where this one stopped.
    Interrupted,
    /// An error of this program.
    Internal,
}

impl ExitCode {
    /// Every code, in the order of the numbers.
    pub const ALL: [Self; 21] = [
        Self::Success,
        Self::Input,
        Self::Usage,
        Self::Different,
        Self::Rights,
        Self::ApiMissing,
        Self::OperatorMissing,
        Self::Precondition,
        Self::Preflight,
        Self::Budget,
        Self::NodesFailed,
        Self::NoGpuNodes,
        Self::DraMissing,
        Self::DraNotServing,
        Self::PluginsNotServing,
        Self::LeaseHeld,
        Self::ApiUnreachable,
        Self::NewerFormat,
        Self::Interrupted,
        Self::Record,
        Self::Internal,
    ];

    /// The number that the process ends with.
    pub fn number(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Input => 1,
            Self::Usage => 2,
            Self::Different => 3,
            Self::Rights => 10,
            Self::ApiMissing => 11,
            Self::OperatorMissing => 12,
            Self::Precondition => 13,
            Self::Preflight => 14,
            Self::Budget => 20,
            Self::NodesFailed => 21,
            Self::NoGpuNodes => 22,
            Self::DraMissing => 30,
            Self::DraNotServing => 31,
            Self::PluginsNotServing => 32,
            Self::LeaseHeld => 40,
            Self::ApiUnreachable => 41,
            Self::NewerFormat => 42,
            Self::Interrupted => 43,
            Self::Record => 44,
            Self::Internal => 70,
        }
    }

    /// The name used in records, events and logs.
    pub fn name(self) -> &'static str {
        match self {
            Self::Success => "success",
            Self::Input => "input",
            Self::Usage => "usage",
            Self::Different => "different",
            Self::Rights => "rights",
            Self::ApiMissing => "api-missing",
            Self::OperatorMissing => "operator-missing",
            Self::Precondition => "precondition",
            Self::Preflight => "preflight",
            Self::Budget => "budget",
            Self::NodesFailed => "nodes-failed",
            Self::NoGpuNodes => "no-gpu-nodes",
            Self::DraMissing => "dra-missing",
            Self::DraNotServing => "dra-not-serving",
            Self::PluginsNotServing => "plugins-not-serving",
            Self::LeaseHeld => "lease-held",
            Self::ApiUnreachable => "api-unreachable",
            Self::NewerFormat => "newer-format",
            Self::Interrupted => "interrupted",
            Self::Record => "record",
            Self::Internal => "internal",
        }
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
