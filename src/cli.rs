//! The command line as types: the source of help, completion, manual pages and `docs/cli.md`.
//! Each command has one file in `cli/`.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use schemars::{Schema, schema_for};

use contract::exit::ExitCode;
use contract::user_info::mask_user_info;
use contract::visible;

use crate::hook_command::HookArguments;
use crate::printer::Printer;
use format::RolloutList;
use ops::doctor::DoctorReport;
use ops::node_request::NodeRequest;
use ops::plan::RolloutPrediction;
use ops::preflight::PreflightReport;
use ops::report::RunReport;

pub mod abort;
pub mod accept;
mod acceptance_result;
mod advice;
mod archive_file;
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
mod runtime;
pub mod simulate;
pub mod status;
pub mod support_bundle;
mod table;
mod terminal;
mod user_request;
pub mod why;

/// The first exit code about a cluster or a registry. Smaller codes are about the command line and
/// its input, and their messages need no further explanation.
const FIRST_OF_CLUSTER: u8 = 10;

/// Roll out NVIDIA GPU drivers on Kubernetes
///
/// On a workstation or in CI, gpu-rollout turns a recipe into a bundle for Helm, helmfile, Flux or
/// Argo CD. In the cluster, gpu-rollout is the hook Job that every bundle carries. Other commands
/// show, preview, pause and repair rollouts. They need only a kubeconfig, and also work where
/// NVIDIA's controllers upgrade the drivers without gpu-rollout.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-rollout",
    version,
    propagate_version = true,
    max_term_width = 100,
    after_help = "Data goes to standard output, messages to standard error.
`gpu-rollout COMMAND --help` describes a command, `gpu-rollout explain` the exit codes."
)]
pub struct Cli {
    #[command(subcommand)]
    command: CliCommand,
}

#[derive(Debug, Subcommand)]
enum CliCommand {
    /// Check, show and explain recipes
    ///
    /// A recipe is a YAML file: components with versions and values, facts about the cluster, and
    /// the rollout policy. The program contains a library of recipes, which your own recipes can
    /// extend. These commands need no cluster.
    Recipe(recipe::RecipeArguments),
    /// Render, verify, compare and push bundles
    ///
    /// A bundle is the directory of files that `render` writes for one deployer. `push` and `pull`
    /// exchange bundles with a registry, `archive` writes an archive. The other commands only read.
    /// None of them needs a cluster.
    Bundle(bundle::BundleArguments),
    /// Simulate a GPU driver upgrade: duration, nodes and pods affected
    ///
    /// Use it to compare modes and policies before you deploy. It needs no cluster. The output
    /// shows how long the upgrade takes, how many nodes are unavailable at the same time and how
    /// many pods are evicted, with one line per node.
    ///
    /// The upgrade runs in a model of a cluster, in virtual time, with the recipe's limits and time
    /// budget. Drivers take time to start, evicted pods are recreated on other nodes, and watch
    /// caches lag behind the API server. In mode `drive`, the hook's own engine upgrades the nodes.
    /// In `observe`, `assist` and `steer`, a model of NVIDIA's controller upgrades them; in `assist`
    /// and `steer`, the hook's engine wakes or steers it.
    ///
    /// The same seed gives the same result on every machine. The random times of each node come
    /// from the seed and the node's name, so that you can compare policies on identical nodes.
    Simulate(simulate::SimulateArguments),
    /// Show rollout status: what each node waits for, and what to do
    ///
    /// Use it during a rollout, and when a rollout is stuck. For each node that is not done, it shows
    /// the state, the driver, the DRA plugin, and what the node waits for and since when. Below the
    /// nodes, it lists the commands for the problems that do not resolve themselves.
    ///
    /// It reads the cluster and changes nothing. It also works without a bundle, where only
    /// NVIDIA's controllers upgrade the drivers. Where a bundle is deployed, it uses the settings
    /// of its hook.
    Status(status::StatusArguments),
    /// Show why a node is stuck, since when, and what to do
    ///
    /// Use it when `status` is not enough: `why` shows everything about one node, in each rollout
    /// that includes the node. It reads the cluster and changes nothing.
    Why(why::WhyArguments),
    /// Preview what a deployment would change in this cluster
    ///
    /// Use it before you deploy a recipe or a bundle. It shows which nodes are upgraded in which
    /// waves, and which pods are evicted. It also shows how many nodes are unavailable at the same
    /// time, how long the upgrade takes, and what blocks it.
    ///
    /// For the preview, the hook's engine runs in virtual time, with the live nodes, pods and
    /// PodDisruptionBudgets as its input. In all modes but `drive`, it runs together with a model
    /// of NVIDIA's controller. `plan` reads the cluster and changes nothing. It exits with 14 if
    /// something blocks the rollout.
    Plan(plan::PlanArguments),
    /// Check the cluster for anything that would block a rollout
    ///
    /// Use it at any time before a rollout. It runs the checks that the hook runs before the
    /// operator is upgraded, with the settings that are deployed. These checks find, for example,
    /// evictions that can never succeed, another upgrade controller, or a time budget that is too
    /// small. `preflight` reads the cluster and changes nothing. It exits with 14 if a finding
    /// blocks the rollout. To check a recipe or a bundle that is not deployed yet, use `plan`.
    Preflight(preflight::PreflightArguments),
    /// Show how the last run went: timeline, failures, evicted pods
    ///
    /// Use it during or after a rollout. The report comes from the run record of the hook release,
    /// which stays when pods and events are gone. For each node it shows the successive states, why
    /// the node failed, which pods the hook evicted and which plugin pods it replaced. It reads the
    /// cluster and changes nothing.
    Report(report::ReportArguments),
    /// Check a cluster for configuration problems
    ///
    /// Use it at any time, even if no rollout is in progress. It finds incompatible versions and
    /// values, DRA plugins that serve a driver that is no longer loaded, and limits that allow no
    /// upgrade at all. It also finds nodes that were left cordoned or skipped, and rights that a
    /// hook lacks.
    ///
    /// It reads the cluster and changes nothing. It exits with 14 if something does not work now,
    /// and with 0 if it finds only warnings.
    Doctor(doctor::DoctorArguments),
    /// Collect diagnostics into an archive
    ///
    /// Use it to let a colleague without access to the cluster find out why a rollout is stuck. The
    /// archive contains the status, the report of the last run, and the objects and events of
    /// operators and hooks; with --logs, also their logs. Secret objects are not read. Text that
    /// looks like a secret is removed from all other objects. Only secrets in known formats are
    /// found, so check the archive before you send it. Workload pods are not included. The command
    /// reads the cluster and changes nothing.
    SupportBundle(support_bundle::SupportBundleArguments),
    /// Prevent further node upgrades until `resume`, or until a given time
    ///
    /// A running hook notices the pause within a second. In `observe` and `assist`, `pause` also
    /// sets NVIDIA's skip label, so that NVIDIA's controllers leave the nodes alone (in `steer`,
    /// the hook already holds them). The pause does not extend the time budget of the Job. If the budget
    /// ends during the pause, the Job fails with code 20: deploy again after `resume`. The pause
    /// survives every sync of a deployer.
    ///
    /// If a node's driver is already being replaced, that upgrade is completed. In mode `drive`, a
    /// node in progress whose old driver still runs stays cordoned and waits; the time of the pause
    /// does not count toward the node's time limits. In the other modes, NVIDIA's controller
    /// finishes the nodes that it has started.
    ///
    /// A pause with `--until` or `--for` is a freeze. It ends by itself, and a running hook then
    /// continues. If no hook Job is running at that time, deploy the bundle again. In `observe`, run
    /// `resume` after the pause, because the hook removes no skip label in this mode.
    ///
    /// Pauses of different users exist side by side. A user's own pause with the same selector is
    /// replaced.
    Pause(pause::PauseArguments),
    /// Continue a paused rollout where it stopped
    ///
    /// `resume` removes the pause, and releases the nodes that the pause held, unless another pause
    /// covers them. It also ends a halt, in which the hook starts no more nodes because too many have
    /// failed. Before it asks, it lists each halt with its cause and nodes. A running hook Job
    /// continues. If the Job ended during the pause, or because of the halt, deploy the bundle again.
    ///
    /// After a halt, failed nodes stay failed, and those whose driver was touched stay cordoned.
    /// With `--accept`, the next run takes the named nodes as proven and uncordons them, although
    /// their checks failed.
    Resume(pause::ResumeArguments),
    /// Stop all rollouts and remove their cordons, labels, annotations and Lease
    ///
    /// Use it to stop every rollout, or to remove what a hook left behind. `abort` ends
    /// the hook Jobs first, and then removes what gpu-rollout has written to nodes, including holds
    /// (skip labels that a hook or `pause` has set), except those of paused nodes. Foreign cordons
    /// stay, and so do skip labels that `gpu-rollout skip` has set. Users' pauses stay too, whether
    /// they come from `gpu-rollout pause` or from the annotation `gpu-rollout.dev/pause`. In all modes
    /// but `drive`, a paused node keeps its hold, or gets one, because NVIDIA's controller would
    /// upgrade the node otherwise.
    ///
    /// Without --stay-paused, upgrades can go on: a deployer that retries starts the hook again,
    /// and in all modes but `drive`, NVIDIA's controller upgrades the nodes that still have an old
    /// driver. Even with --stay-paused, NVIDIA's controller finishes the nodes that it has started.
    /// In mode `drive`, nothing finishes a node whose driver is being replaced: `abort` uncordons it
    /// although its driver may not work.
    ///
    /// You can interrupt `abort` at any time and run it again. It also works after the bundle has
    /// been removed. If a hook release cannot be read, `abort` names it and changes nothing.
    Abort(abort::AbortArguments),
    /// Leave nodes on their current driver
    ///
    /// Use it for nodes that must not be upgraded now. It sets the driver's skip label, so that
    /// NVIDIA's controllers and the hook leave the nodes alone. If a node is being upgraded, its
    /// upgrade is finished first. `unskip` removes the label.
    #[command(after_help = "Examples:
  gpu-rollout skip gpu-3 gpu-4
  gpu-rollout skip gpu-3 --driver gpu --yes")]
    Skip(node_request::NodeRequestArguments),
    /// Undo `skip`
    ///
    /// Removes the skip label, so that the nodes are upgraded like all others. Holds stay: these are
    /// skip labels that a hook or `pause` has set. The hook or `resume` removes them later.
    #[command(after_help = "Example:
  gpu-rollout unskip gpu-3 gpu-4")]
    Unskip(node_request::NodeRequestArguments),
    /// Retry failed nodes
    ///
    /// Use it after you have removed the cause of the failure. In mode `drive`, the running hook
    /// upgrades the node again. If no hook is running, the hook of the next deployment does. A foreign
    /// cordon does not prevent this, and stays. In the other modes, NVIDIA's controller upgrades the
    /// node again; if the controller gave up because the new driver did not start, `retry` also deletes
    /// the driver pod.
    #[command(after_help = "Examples:
  gpu-rollout retry gpu-3
  gpu-rollout retry gpu-3 gpu-4 --dry-run")]
    Retry(node_request::NodeRequestArguments),
    /// Run the acceptance tests on nodes by hand
    ///
    /// Use it to test a node that you have repaired, or to find out whether a failed test fails again.
    /// It runs the tests that the bundle has deployed (`rollout.acceptance` in the recipe), one after
    /// the other on each node, prints a table of their results, and deletes their pods. Ctrl-C ends
    /// the tests and deletes the pods.
    ///
    /// It takes no GPUs from workloads: it refuses a node on which pods use GPUs, and a node whose
    /// driver is being upgraded. A test does not change the state of the node
    /// in the rollout: to release a failed node, run `gpu-rollout resume --accept NODE`. The command
    /// exits with 21 if a test was not passed.
    Accept(accept::AcceptArguments),
    /// Explain an exit code, a lint or a preflight check
    ///
    /// Use it when a command or a hook Job fails: it prints what the code or name means, what to
    /// look at and what to do. It needs no cluster.
    Explain(explain::ExplainArguments),
    /// Check configurations of NVIDIA's device plugin
    DevicePlugin(device_plugin::DevicePluginArguments),
    /// Print a shell completion script
    ///
    /// For bash, run `source <(gpu-rollout completions bash)`, or add this line to `~/.bashrc`.
    Completions(completions::CompletionsArguments),
    /// Write a manual page for each command into a directory
    ///
    /// For one user: `gpu-rollout man ~/.local/share/man/man1`, then `man gpu-rollout`.
    Man(man::ManArguments),
    /// Perform the tasks of a hook Job; the hook chart runs this in the cluster
    ///
    /// The pod of the hook Job calls this command. You never need to run it yourself.
    Hook(HookArguments),
}

/// Returns the JSON schema of the `-o json` output of each command that reads a cluster: the source
/// of `docs/json.md`.
pub fn documents() -> [(&'static str, Schema); 7] {
    [
        ("status", schema_for!(status::StatusDocument<'static>)),
        ("why", schema_for!(why::WhyDocument<'static>)),
        ("plan", schema_for!(RolloutList<'static, RolloutPrediction>)),
        ("preflight", schema_for!(RolloutList<'static, PreflightReport>)),
        ("report", schema_for!(RolloutList<'static, RunReport>)),
        ("doctor", schema_for!(DoctorReport)),
        ("accept", schema_for!(accept::AcceptDocument<'static>)),
    ]
}

/// The file name that kubectl looks for when a user types `kubectl gpu-rollout`
/// (kubernetes.io/docs/tasks/extend-kubectl/kubectl-plugins).
const PLUGIN: &str = "kubectl-gpu_rollout";

/// Prints help or an error of the command line `words`, and ends the process. Control characters in
/// an argument are visible, and passwords in addresses are not, at the price of colors.
fn end_with(error: &clap::Error, words: &[OsString]) -> ! {
    let rendered = error.render().to_string();
    let text = words
        .iter()
        .fold(rendered.clone(), |text, word| mask_user_info(&text, &word.to_string_lossy()));
    if text == rendered && !text.contains(|one| visible::is_hidden(one) && one != '\n') {
        error.exit()
    }
    Printer::standard().note(text.trim_end());
    #[expect(clippy::exit, reason = "clap itself ends the process here")]
    std::process::exit(error.exit_code())
}

impl Cli {
    /// Parses the arguments of the process; the first one is the program's name as the user typed
    /// it. Help and errors end the process.
    pub fn of_process(words: impl Iterator<Item = OsString>) -> Self {
        let words: Vec<OsString> = words.collect();
        let matches = Self::command_called(words.first()).try_get_matches_from(&words);
        matches
            .and_then(|matches| Self::from_arg_matches(&matches))
            .unwrap_or_else(|error| end_with(&error, &words))
    }

    /// Returns the command with the name that the user typed.
    fn command_called(by: Option<&OsString>) -> clap::Command {
        let is_plugin =
            by.and_then(|by| Path::new(by).file_stem()).is_some_and(|stem| stem == PLUGIN);
        if is_plugin { Self::command().bin_name("kubectl gpu-rollout") } else { Self::command() }
    }

    /// Runs the command. Output goes through `printer`. For an exit code about a cluster or a
    /// registry, it also prints the `explain` command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let code = self.run_command(printer);
        let code = match printer.lost() {
            Some(error) => {
                printer.error(
                    &format!("cannot write to standard output: {error}"),
                    Some(
                        "the output is incomplete; apart from the output, the command ran as usual",
                    ),
                );
                if code == ExitCode::Success { ExitCode::Input } else { code }
            }
            None => code,
        };
        if code.number() >= FIRST_OF_CLUSTER {
            printer.note(&format!(
                "hint: exit code {code}: run `gpu-rollout explain {code}` for what to look at and what to do",
                code = code.number()
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
            CliCommand::Accept(arguments) => arguments.run(printer),
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
