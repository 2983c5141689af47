//! `gpu-rollout bundle`.

use crate::printer::Printer;
use contract::exit::ExitCode;

pub mod diff;
pub mod facts;
pub mod images;
pub mod parity;
pub mod render;
pub mod verify;

/// Arguments of `gpu-rollout bundle`.
#[derive(Debug, clap::Args)]
pub struct BundleArguments {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, clap::Subcommand)]
enum BundleCommand {
    /// Turn a recipe into a bundle: a directory of files that a deployer installs.
    Render(Box<render::RenderArguments>),
    /// Check that a bundle is as it was rendered, and that its parts still fit together.
    Verify(verify::VerifyArguments),
    /// Show what is new in a bundle: releases, versions, values, and which hooks fire because of it.
    Diff(diff::DiffArguments),
    /// Say what a bundle's files mean: releases, order, charts, values, timeouts, hooks and their rights.
    Facts(facts::FactsArguments),
    /// Compare what bundles mean, whichever deployers they are for: no difference is exit code 0.
    Parity(parity::ParityArguments),
    /// List the images that a bundle has pulled, its hook's among them.
    Images(images::ImagesArguments),
}

impl BundleArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            BundleCommand::Render(arguments) => arguments.run(printer),
            BundleCommand::Verify(arguments) => arguments.run(printer),
            BundleCommand::Diff(arguments) => arguments.run(printer),
            BundleCommand::Facts(arguments) => arguments.run(printer),
            BundleCommand::Parity(arguments) => arguments.run(printer),
            BundleCommand::Images(arguments) => arguments.run(printer),
        }
    }
}
