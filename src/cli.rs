//! The command line as types: help, completion and reference come from here. One file a command in `cli/`.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use schemars::{Schema, schema_for};

use contract::exit::ExitCode;

use crate::hook_command::HookArguments;
use crate::printer::Printer;
use format::RolloutList;
use ops::change::NodeRequest;
use ops::doctor::DoctorReport;
use ops::plan::RolloutPrediction;
use ops::preflight::PreflightReport;
use ops::report::RunReport;

pub mod abort;
mod advice;
pub mod bundle;
pub mod cluster;
pub mod completions;
pub mod consent;
pub mod device_plugin;
pub mod doctor;
pub mod explain;
pub mod format;
pub mod man;
pub mod node_request;
mod parallel;
pub mod pause;
pub mod plan;
pub mod preflight;
pub mod range;
pub mod recipe;
pub mod report;
mod runs;
pub mod simulate;
pub mod status;
pub mod support_bundle;
mod table;
mod terminal;
mod user_request;
pub mod why;

/// Exit codes from here on are about a cluster; those before are about the command line and its input, and their messages say all.
const FIRST_OF_CLUSTER: u8 = 10;

/// Rolls GPU fleets out on Kubernetes: turns a recipe into a bundle for your deployer, and is the hook that every bundle carries.
#[derive(Debug, Parser)]
#[command(name = "gpu-rollout", version, propagate_version = true, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Check, show and explain recipes.
    Recipe(recipe::RecipeArguments),
    /// Render and verify bundles.
    Bundle(bundle::BundleArguments),
    /// Show how an upgrade of the GPU driver would go: how long, how many nodes and pods are away, and what if.
    ///
    /// The recipe's own engine, limits and time budget drive an upgrade in a model of the world in virtual time: nodes whose drivers take
    /// their time, training pods that are evicted and come back on other nodes, caches that lag behind. Everything follows from the seed: the
    /// same on every machine. Times are drawn for each node by its name, so another policy meets the same nodes.
    ///
    /// In mode `drive` the engine does the work; in `observe`, `assist` and `steer` a model of NVIDIA's controller does, in fleets of up to 1,000 nodes.
    Simulate(simulate::SimulateArguments),
    /// Show how the rollouts of a cluster stand: each node, what it waits for, since when, and what to do.
    ///
    /// Reads the cluster and changes nothing. It works beside NVIDIA's controllers without any bundle of ours; where a bundle is deployed it goes
    /// by what its hook goes by.
    Status(status::StatusArguments),
    /// Say why a node does not move, since when, and what to do about it.
    ///
    /// Reads the cluster and changes nothing.
    Why(why::WhyArguments),
    /// Tell what the next deployment of a recipe or bundle would do to this very cluster.
    ///
    /// Which nodes are upgraded, in which waves, and which pods leave them; how many nodes are away at once, how long it takes, and what stands in the way.
    /// The engine, or a model of NVIDIA's controller, is run in virtual time on the nodes, pods and PodDisruptionBudgets that are there. Reads the cluster and
    /// changes nothing.
    Plan(plan::PlanArguments),
    /// Look for what would stand in the way of a rollout: evictions that can never succeed, a second actor, a budget that is too small.
    ///
    /// The checks that the hook makes before the operator is upgraded, at any time. Reads the cluster and changes nothing. Ends with 14 if something
    /// blocks.
    Preflight(preflight::PreflightArguments),
    /// Tell how the last run went: a time line of each node, what failed and why, which pods were evicted.
    ///
    /// From the run record of the hook release, which stays when pods and events are long gone. Reads the cluster and changes nothing.
    Report(report::ReportArguments),
    /// Say whether a cluster is set up well, whether or not anything is being rolled out.
    ///
    /// Versions and values that do not go together, DRA plugins that serve a driver that is gone, limits under which no node can begin, nodes that somebody has
    /// left cordoned or skipped, rights that a hook lacks. Reads the cluster and changes nothing. Ends with 14 if something does not work.
    Doctor(doctor::DoctorArguments),
    /// Write what somebody else needs to find out why a rollout does not go on into one archive.
    ///
    /// How it stands, the last run's report, objects, events and logs of what takes part in rollouts. Secrets are not read, and what looks like one is
    /// taken out of everything else; pods of workloads are not in it. Look at it before you hand it on. Reads the cluster and changes nothing.
    SupportBundle(support_bundle::SupportBundleArguments),
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
    Abort(abort::AbortArguments),
    /// Leave nodes on the driver that they have: NVIDIA's controllers and our hook pass them over.
    ///
    /// Sets the driver's skip label. A node that is being upgraded is finished first.
    #[command(after_help = "Examples:
  gpu-rollout skip gpu-3 gpu-4
  gpu-rollout skip gpu-3 --driver gpu --yes")]
    Skip(node_request::NodeRequestArguments),
    /// Take the wish of `skip` back: the nodes' turn comes like any other's.
    Unskip(node_request::NodeRequestArguments),
    /// Have nodes tried again whose upgrade failed, when what they failed for is removed.
    ///
    /// In mode `drive` the hook does it, also on a node that somebody has cordoned (it stays cordoned); otherwise NVIDIA's controller does.
    #[command(after_help = "Examples:
  gpu-rollout retry gpu-3
  gpu-rollout retry gpu-3 gpu-4 --dry-run")]
    Retry(node_request::NodeRequestArguments),
    /// Say what an exit code, a lint or a check means, what to look at, and what to do.
    Explain(explain::ExplainArguments),
    /// Check configurations of NVIDIA's device plugin.
    DevicePlugin(device_plugin::DevicePluginArguments),
    /// Print a script that lets a shell complete commands and options.
    ///
    /// For bash: `source <(gpu-rollout completions bash)`, also in ~/.bashrc.
    Completions(completions::CompletionsArguments),
    /// Write a manual page for each command into a directory.
    ///
    /// For one user: `gpu-rollout man ~/.local/share/man/man1`, then `man gpu-rollout`.
    Man(man::ManArguments),
    /// What the bundle's hook Job runs inside the cluster.
    Hook(HookArguments),
}

/// What the commands that read a cluster print with `-o json`, by command: the source of `docs/json.md`.
pub fn documents() -> [(&'static str, Schema); 6] {
    [
        ("status", schema_for!(status::StatusDocument<'static>)),
        ("why", schema_for!(why::WhyDocument<'static>)),
        ("plan", schema_for!(RolloutList<'static, RolloutPrediction>)),
        ("preflight", schema_for!(RolloutList<'static, PreflightReport>)),
        ("report", schema_for!(RolloutList<'static, RunReport>)),
        ("doctor", schema_for!(DoctorReport)),
    ]
}

/// What kubectl calls the program by when somebody types `kubectl gpu-rollout` (kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins).
const PLUGIN: &str = "kubectl-gpu_rollout";

impl Cli {
    /// Reads the words of the command line; the first one is what the program was called by. Help and errors end the process.
    pub fn of_process(words: impl Iterator<Item = OsString>) -> Self {
        let words: Vec<OsString> = words.collect();
        let matches = Self::command_called(words.first()).get_matches_from(words);
        Self::from_arg_matches(&matches).unwrap_or_else(|error| error.exit())
    }

    /// The command, with the name by which people called it.
    fn command_called(by: Option<&OsString>) -> clap::Command {
        let is_plugin =
            by.and_then(|by| Path::new(by).file_stem()).is_some_and(|stem| stem == PLUGIN);
        if is_plugin { Self::command().bin_name("kubectl gpu-rollout") } else { Self::command() }
    }

    /// Runs the command. Output goes through `printer`; the exit code says how it ended, and one of the cluster's own says where it is explained.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let code = self.run_command(printer);
        let code = match printer.lost() {
            Some(error) => {
                printer.error(
                    &format!("unable to write to standard output: {error}"),
                    Some("what was to be read there is not whole; what the command does beside printing is done"),
                );
                if code == ExitCode::Success { ExitCode::Input } else { code }
            }
            None => code,
        };
        if code.number() >= FIRST_OF_CLUSTER {
            printer.note(&format!(
                "hint: exit code {}: `gpu-rollout explain {}` says what to look at and what to do",
                code.number(),
                code.name()
            ));
        }
        code
    }

    fn run_command(self, printer: &mut Printer) -> ExitCode {
        match self.command {
            CliCommand::Recipe(arguments) => arguments.run(printer),
            CliCommand::Bundle(arguments) => arguments.run(printer),
            CliCommand::Simulate(arguments) => arguments.run(printer),
            CliCommand::Status(arguments) => arguments.run(printer),
            CliCommand::Why(arguments) => arguments.run(printer),
            CliCommand::Plan(arguments) => arguments.run(printer),
            CliCommand::Preflight(arguments) => arguments.run(printer),
            CliCommand::Report(arguments) => arguments.run(printer),
            CliCommand::Doctor(arguments) => arguments.run(printer),
            CliCommand::SupportBundle(arguments) => arguments.run(printer),
            CliCommand::Pause(arguments) => arguments.run(printer),
            CliCommand::Resume(arguments) => arguments.run(printer),
            CliCommand::Abort(arguments) => arguments.run(printer),
            CliCommand::Skip(arguments) => arguments.run(NodeRequest::Skip, printer),
            CliCommand::Unskip(arguments) => arguments.run(NodeRequest::Unskip, printer),
            CliCommand::Retry(arguments) => arguments.run(NodeRequest::Retry, printer),
            CliCommand::Explain(arguments) => arguments.run(printer),
            CliCommand::DevicePlugin(arguments) => arguments.run(printer),
            CliCommand::Completions(arguments) => arguments.run(printer),
            CliCommand::Man(arguments) => arguments.run(printer),
            CliCommand::Hook(arguments) => arguments.run(printer),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_says_what_people_typed() {
        let usage = |by: &str| Cli::command_called(Some(&by.into())).render_usage().to_string();
        assert!(
            usage("/usr/bin/kubectl-gpu_rollout").starts_with("Usage: kubectl gpu-rollout <"),
            "{}",
            usage("/usr/bin/kubectl-gpu_rollout")
        );
        assert!(
            usage("./gpu-rollout").starts_with("Usage: gpu-rollout <"),
            "{}",
            usage("./gpu-rollout")
        );
    }
}
