//! The command line as types: help, completion and reference come from here. One file a command in `cli/`.

use clap::{Parser, Subcommand};

use crate::console::change::Wish;
use crate::contract::exit::ExitCode;

pub mod abort;
mod advice;
pub mod bundle;
pub mod cluster;
mod coming;
pub mod completions;
pub mod consent;
pub mod device_plugin;
pub mod doctor;
pub mod format;
pub mod hook;
pub mod man;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod printer;
pub mod range;
pub mod recipe;
pub mod report;
pub mod simulate;
pub mod status;
mod table;
mod time;
pub mod why;
pub mod wish;

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
    /// Show how the rollouts of a cluster stand: each node, what it waits for, since when, and what to do.
    ///
    /// Reads the cluster and changes nothing. It works beside NVIDIA's controllers without any bundle of ours; where a bundle is deployed it goes
    /// by what its hook goes by.
    Status(status::Arguments),
    /// Say why a node does not move, since when, and what to do about it.
    ///
    /// Reads the cluster and changes nothing.
    Why(why::Arguments),
    /// Tell what the next deployment of a recipe or bundle would do to this very cluster.
    ///
    /// Which nodes are upgraded, in which waves, and which pods leave them; how many nodes are away at once, how long it takes, and what stands in the way.
    /// The engine, or a model of NVIDIA's controller, is run in virtual time on the nodes, pods and PodDisruptionBudgets that are there. Reads the cluster and
    /// changes nothing.
    Plan(plan::Arguments),
    /// Look for what would stand in the way of a rollout: evictions that can never succeed, a second actor, a budget that is too small.
    ///
    /// The checks that the hook makes before the operator is upgraded, at any time. Reads the cluster and changes nothing. Ends with 14 if something
    /// blocks.
    Preflight(preflight::Arguments),
    /// Tell how the last run went: a time line of each node, what failed and why, which pods were evicted.
    ///
    /// From the run record of the hook release, which stays when pods and events are long gone. Reads the cluster and changes nothing.
    Report(report::Arguments),
    /// Say whether a cluster is set up well, whether or not anything is being rolled out.
    ///
    /// Versions and values that do not go together, DRA plugins that serve a driver that is gone, limits under which no node can begin, nodes that somebody has
    /// left cordoned or skipped, rights that a hook lacks. Reads the cluster and changes nothing. Ends with 14 if something does not work.
    Doctor(doctor::Arguments),
    /// Begin with no node any more, until `resume`.
    ///
    /// Our hooks see it within a second, and NVIDIA's controllers are kept from the nodes by the skip label. It survives every sync of a deployer. A node whose
    /// driver is being replaced is finished; nodes in progress whose driver still runs stand still (mode `drive`), and their time does not run.
    Pause(pause::PauseArguments),
    /// Let a paused rollout go on where it stopped.
    Resume(pause::ResumeArguments),
    /// Stop, and give back everything of ours: cordons, labels, records, the Lease.
    ///
    /// Ends the hook Jobs first. Nodes whose driver is being replaced are given back as they are. It may be killed and begun again at any moment, and works
    /// where the bundle is gone.
    Abort(abort::Arguments),
    /// Leave nodes on the driver that they have: NVIDIA's controllers and our hook pass them over.
    ///
    /// Sets the driver's skip label. A node that is being upgraded is finished first.
    #[command(after_help = "Examples:
  gpu-rollout skip gpu-3 gpu-4
  gpu-rollout skip gpu-3 --driver gpu --yes")]
    Skip(wish::Arguments),
    /// Take the wish of `skip` back: the nodes' turn comes like any other's.
    Unskip(wish::Arguments),
    /// Have nodes tried again whose upgrade failed, when what they failed for is removed.
    ///
    /// In mode `drive` the hook does it, also on a node that somebody has cordoned (it stays cordoned); otherwise NVIDIA's controller does.
    #[command(after_help = "Examples:
  gpu-rollout retry gpu-3
  gpu-rollout retry gpu-3 gpu-4 --dry-run")]
    Retry(wish::Arguments),
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
            Command::Status(arguments) => arguments.run(printer),
            Command::Why(arguments) => arguments.run(printer),
            Command::Plan(arguments) => arguments.run(printer),
            Command::Preflight(arguments) => arguments.run(printer),
            Command::Report(arguments) => arguments.run(printer),
            Command::Doctor(arguments) => arguments.run(printer),
            Command::Pause(arguments) => arguments.run(printer),
            Command::Resume(arguments) => arguments.run(printer),
            Command::Abort(arguments) => arguments.run(printer),
            Command::Skip(arguments) => arguments.run(Wish::Skip, printer),
            Command::Unskip(arguments) => arguments.run(Wish::Unskip, printer),
            Command::Retry(arguments) => arguments.run(Wish::Retry, printer),
            Command::DevicePlugin(arguments) => arguments.run(printer),
            Command::Completions(arguments) => arguments.run(printer),
            Command::Man(arguments) => arguments.run(printer),
            Command::Hook(arguments) => arguments.run(printer),
        }
    }
}
