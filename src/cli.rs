//! The command line as types: help, completion and reference come from here. One file a command in `cli/`.

use clap::{Parser, Subcommand};

use crate::contract::exit::ExitCode;

pub mod bundle;
pub mod completions;
pub mod device_plugin;
pub mod format;
pub mod hook;
pub mod man;
pub mod printer;
pub mod recipe;
pub mod simulate;

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
    /// Show how an upgrade of the GPU driver would go: how long, how many nodes and pods are away, and what if.
    ///
    /// The recipe's own engine, limits and time budget drive an upgrade in a model of the world in virtual time: nodes whose drivers take
    /// their time, training pods that are evicted and come back on other nodes, caches that lag behind. Everything follows from the seed: the
    /// same on every machine. Times are drawn for each node by its name, so another policy meets the same nodes.
    ///
    /// In mode `drive` the engine does the work; in `observe`, `assist` and `steer` a model of NVIDIA's controller does, in fleets of up to 1,000 nodes.
    Simulate(simulate::Arguments),
    /// Check configurations of NVIDIA's device plugin.
    DevicePlugin(device_plugin::Arguments),
    /// Print a script that lets a shell complete commands and options.
    ///
    /// For bash: `source <(gpu-rollout completions bash)`, also in ~/.bashrc.
    Completions(completions::Arguments),
    /// Write a manual page for each command into a directory.
    ///
    /// For one user: `gpu-rollout man ~/.local/share/man/man1`, then `man gpu-rollout`.
    Man(man::Arguments),
    /// What the bundle's hook Job runs inside the cluster.
    Hook(hook::Arguments),
}

impl Arguments {
    /// Runs the command. Output goes through `printer`; the exit code says how it ended.
    pub fn run(self, printer: &mut printer::Printer) -> ExitCode {
        match self.command {
            Command::Recipe(arguments) => arguments.run(printer),
            Command::Bundle(arguments) => arguments.run(printer),
            Command::Simulate(arguments) => arguments.run(printer),
            Command::DevicePlugin(arguments) => arguments.run(printer),
            Command::Completions(arguments) => arguments.run(printer),
            Command::Man(arguments) => arguments.run(printer),
            Command::Hook(arguments) => arguments.run(printer),
        }
    }
}
