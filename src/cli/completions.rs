//! `gpu-rollout completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Arguments of `gpu-rollout completions`.
#[derive(Debug, Args)]
pub struct CompletionsArguments {
    /// Shell for which to print the script
    shell: Shell,
}

impl CompletionsArguments {
    /// Prints the script.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { shell } = self;
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut super::Cli::command(), "gpu-rollout", &mut script);
        printer.data(&String::from_utf8_lossy(&script));
        ExitCode::Success
    }
}
