//! The command line as types: help, completion and reference come from here. One file a command in `cli/`.

use clap::{Parser, Subcommand};

use crate::contract::exit::ExitCode;

pub mod bundle;
pub mod completions;
pub mod device_plugin;
pub mod format;
pub mod hook;
pub mod printer;
pub mod recipe;

/// Rolls GPU fleets out on Kubernetes: turns a recipe into a bundle for your deployer, and is the hook that every bundle carries.
#[derive(Debug, Parser)]
#[command(name = "gpu-rollout", version, propagate_version = true, max_term_width = 100)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check, show and explain recipes.
    Recipe(recipe::Arguments),
    /// Render and verify bundles.
    Bundle(bundle::Arguments),
    /// Check configurations of NVIDIA's device plugin.
    DevicePlugin(device_plugin::Arguments),
    /// Print a script that lets a shell complete commands and options.
    ///
    /// For bash: `source <(gpu-rollout completions bash)`, also in ~/.bashrc.
    Completions(completions::Arguments),
    /// What the bundle's hook Job runs inside the cluster.
    Hook(hook::Arguments),
}

impl Arguments {
    /// Runs the command. Output goes through `printer`; the exit code says how it ended.
    pub fn run(self, printer: &mut printer::Printer) -> ExitCode {
        match self.command {
            Command::Recipe(arguments) => arguments.run(printer),
            Command::Bundle(arguments) => arguments.run(printer),
            Command::DevicePlugin(arguments) => arguments.run(printer),
            Command::Completions(arguments) => arguments.run(printer),
            Command::Hook(arguments) => arguments.run(printer),
        }
    }
}
