//! `gpu-rollout hook`.

use super::printer::Printer;
use crate::contract::exit::ExitCode;

/// Arguments of `gpu-rollout hook`.
#[derive(Debug, clap::Args)]
pub struct Arguments {}

impl Arguments {
    /// Runs the command.
    pub fn run(self, _printer: &mut Printer) -> ExitCode {
        ExitCode::Success
    }
}
