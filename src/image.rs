//! The command line of the hook's image: `gpu-rollout hook run` and nothing else.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use contract::exit::ExitCode;

use crate::hook_command::HookArguments;
use crate::printer::Printer;

/// The hook of gpu-rollout. All other commands are in the program for workstations.
#[derive(Debug, Parser)]
#[command(name = "gpu-rollout", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Run what the bundle's hook Job runs inside the cluster.
    Hook(HookArguments),
}

impl Cli {
    /// Reads the words of the command line. Help and errors end the process.
    pub fn of_process(words: impl Iterator<Item = OsString>) -> Self {
        Self::parse_from(words)
    }

    /// Runs the command and returns how it ended.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let ImageCommand::Hook(arguments) = self.command;
        arguments.run(printer)
    }
}
