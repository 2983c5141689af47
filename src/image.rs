//! The command line of the hook's image: `gpu-rollout hook run` and nothing else.

use std::ffi::OsString;

use clap::{Parser, Subcommand};

use contract::exit::ExitCode;

use crate::hook_command::HookArguments;
use crate::printer::Printer;

/// Run the hook of gpu-rollout
///
/// This is the program of the hook's image. All other commands are in the program for workstations.
#[derive(Debug, Parser)]
#[command(name = "gpu-rollout", version, propagate_version = true)]
pub struct Cli {
    #[command(subcommand)]
    command: ImageCommand,
}

#[derive(Debug, Subcommand)]
enum ImageCommand {
    /// Perform the tasks of a hook Job; the hook chart runs this in the cluster
    ///
    /// The pod of the hook Job calls this command. You never need to run it yourself.
    Hook(HookArguments),
}

impl Cli {
    /// Parses the arguments of the process. Help and errors end the process.
    pub fn of_process(words: impl Iterator<Item = OsString>) -> Self {
        Self::parse_from(words)
    }

    /// Runs the command and returns its exit code.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let ImageCommand::Hook(arguments) = self.command;
        arguments.run(printer)
    }
}
