//! `gpu-rollout bundle`.

use super::printer::Printer;
use crate::contract::exit::ExitCode;

pub mod diff;
pub mod images;
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
            Command::Images(arguments) => arguments.run(printer),
        }
    }
}
