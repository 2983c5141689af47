//! Exit codes: one table for the command line and the hook. `docs/exit-codes.md` is checked against it.

/// How the program ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ExitCode {
    /// Done, or nothing to do.
    Success = 0,
    /// The input is wrong: the user must change something.
    Input = 1,
    /// Wrong usage of the command line.
    Usage = 2,
    /// Two bundles differ.
    Different = 3,
    /// The hook lacks a right; nothing was written.
    Rights = 10,
    /// The API of the operator is not there: its CustomResourceDefinition is missing.
    ApiMissing = 11,
    /// The operator is not there, does not get ready, or cannot act on its custom resource.
    OperatorMissing = 12,
    /// The live custom resource does not say what this bundle's values say.
    Precondition = 13,
    /// The preflight found what would stop the upgrade; the operator's release was not reached.
    Preflight = 14,
    /// The time budget is over and nodes still wait.
    Budget = 20,
    /// Nodes have failed and will not go on by themselves.
    NodesFailed = 21,
    /// No GPU nodes, and it is not certain that there should be none.
    NoGpuNodes = 22,
    /// A DRA driver is required and is not there.
    DraMissing = 30,
    /// A DRA kubelet plugin did not come back, or still serves the old driver.
    DraNotServing = 31,
    /// A device plugin, GPU feature discovery or MPS daemon did not come back after its restart.
    PluginsNotServing = 32,
    /// Another hook Job held the Lease until the budget was over.
    LeaseHeld = 40,
    /// The API server could not be reached in time.
    ApiUnreachable = 41,
    /// A newer version has written what this one does not understand.
    NewerFormat = 42,
    /// The run record cannot be written, however often it is tried.
    Record = 44,
    /// Ended by a signal; a replacement pod goes on where this one stopped.
    Interrupted = 43,
    /// An error of this program.
    Internal = 70,
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
        self as u8
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
