//! Exit codes of the command line and the hook. A test checks `docs/exit-codes.md` against this
//! table.

use strum::{EnumCount, IntoStaticStr, VariantArray};

/// Exit code of the program, in the order of the numbers.
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
    /// The hook or the user lacks a right; nothing was written.
    Rights = 10,
    /// The operator's API is missing: its CustomResourceDefinition is not installed.
    ApiMissing = 11,
    /// The operator is missing, does not become ready, or cannot reconcile its custom resource.
    OperatorMissing = 12,
    /// The live custom resource does not match the values of this bundle.
    Precondition = 13,
    /// The preflight found a problem that would stop the upgrade; the operator's release was not
    /// reached.
    Preflight = 14,
    /// The time budget expired while nodes were still waiting.
    Budget = 20,
    /// Nodes failed and need manual action.
    NodesFailed = 21,
    /// There are no GPU nodes, and the operator does not confirm that.
    NoGpuNodes = 22,
    /// Proof of the new driver failed, and the rollout starts no more nodes until a user resumes it.
    Halted = 23,
    /// A DRA driver is required but missing.
    DraMissing = 30,
    /// A DRA kubelet plugin did not come back, or still serves the old driver.
    DraNotServing = 31,
    /// A device plugin, GPU feature discovery or MPS daemon did not come back after its restart.
    PluginsNotServing = 32,
    /// Another hook Job held the Lease until the time budget expired.
    LeaseHeld = 40,
    /// The API server, or a registry, could not be reached in time.
    ApiUnreachable = 41,
    /// A newer version wrote data that this version does not support.
    NewerFormat = 42,
    /// A signal ended the process; a replacement pod continues where this one stopped.
    Interrupted = 43,
    /// The run record could not be written, despite retries.
    Record = 44,
    /// An internal error of the program.
    Internal = 70,
}

impl ExitCode {
    /// Every code.
    pub const ALL: [Self; Self::COUNT] =
        *Self::VARIANTS.first_chunk().expect("there are as many variants as are counted");

    /// Returns the number that the process exits with.
    pub fn number(self) -> u8 {
        self as u8
    }

    /// Returns the name used in records, events and logs.
    pub fn name(self) -> &'static str {
        self.into()
    }
}

impl From<ExitCode> for std::process::ExitCode {
    fn from(code: ExitCode) -> Self {
        Self::from(code.number())
    }
}
