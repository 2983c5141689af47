//! `gpu-rollout bundle`.

use super::printer::Printer;
use crate::contract::exit::ExitCode;

pub mod diff;
pub mod facts;
pub mod images;
pub mod parity;
pub mod render;
pub mod verify;

/// Arguments of `gpu-rollout bundle`.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Turn a recipe into a bundle: a directory of files that a deployer installs.
    Render(Box<render::Arguments>),
    /// Check that a bundle is as it was rendered, and that its parts still fit together.
    Verify(verify::Arguments),
    /// Show what is new in a bundle: releases, versions, values, and which hooks fire because of it.
    Diff(diff::Arguments),
    /// Say what a bundle's files mean: releases, order, charts, values, timeouts, hooks and their rights.
    Facts(facts::Arguments),
    /// Compare what bundles mean, whichever deployers they are for: no difference is exit code 0.
    Parity(parity::Arguments),
    /// List the images that a bundle has pulled, its hook's among them.
    Images(images::Arguments),
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            Command::Render(arguments) => arguments.run(printer),
            Command::Verify(arguments) => arguments.run(printer),
            Command::Diff(arguments) => arguments.run(printer),
            Command::Facts(arguments) => arguments.run(printer),
            Command::Parity(arguments) => arguments.run(printer),
            Command::Images(arguments) => arguments.run(printer),
        }
    }
}
