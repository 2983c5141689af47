//! Exit codes: one table for the command line and the hook. `docs/exit-codes.md` is checked against it.

use strum::{EnumCount, IntoStaticStr, VariantArray};

/// How the program exits, in the order of the numbers.
#[derive(
    Clone,
    Copy,
    Debug,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    EnumCount,
    VariantArray,
    IntoStaticStr,
)]
#[strum(serialize_all = "kebab-case")]
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
    /// Ended by a signal; a replacement pod goes on where this one stopped.
    Interrupted = 43,
    /// The run record cannot be written, however often it is tried.
    Record = 44,
    /// An error of this program.
    Internal = 70,
}

impl ExitCode {
    /// Every code.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// The number that the process ends with.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// The name used in records, events and logs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
