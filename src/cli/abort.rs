//! `gpu-rollout abort`.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use super::pause::print_pauses;
use super::user_request::{ReasonOption, write_request};
use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::pause::Pause;
use contract::settings::Settings;
use contract::user_request::RequestCommand;
use ops::abort::{abort, find_in_progress, find_leftovers};
use ops::node_write;
use ops::pause::FINISHED_BY_CONTROLLER;
use ops::user_request::new_request;
use planner::pods::listed;

/// Arguments of `gpu-rollout abort`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout abort --dry-run
  gpu-rollout abort --stay-paused --reason INC-4711")]
pub struct AbortArguments {
    /// Keep the fleet paused until `resume`, so that no upgrade starts even if a deployer retries
    #[arg(long)]
    stay_paused: bool,
    #[command(flatten)]
    reason: ReasonOption,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl AbortArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { stay_paused, reason: ReasonOption { reason }, consent, cluster } = self;
        cluster::run_anywhere(&cluster, printer, async |session, printer| {
            cluster::print_notes(&session, printer);
            let hooks: Vec<&Settings> = session.every_hook()?;
            let now = session.now();
            let leftovers = find_leftovers(session.client(), &hooks, stay_paused, now).await?;
            for job in &leftovers.jobs {
                printer.note(&format!("job {job}: will be ended"));
            }
            for pod in &leftovers.tests {
                printer.note(&format!("pod {pod} of an acceptance test: will be deleted"));
            }
            for (node, change) in &leftovers.nodes {
                printer.note(&format!("node {node}: {change}"));
            }
            print_pauses(&leftovers.pauses, &leftovers.annotated, printer);
            if !(leftovers.pauses.is_empty() && leftovers.annotated.is_empty()) {
                printer.note("these pauses stay; in all modes but drive, the nodes that they cover keep their hold or get one");
            }
            if let Some(holder) = &leftovers.holder {
                printer.note(&format!(
                    "Lease held by {holder}: will be taken, and deleted at the end"
                ));
            }
            if leftovers.jobs.is_empty() && leftovers.nodes.is_empty() {
                printer.note("no hook is running, and there is nothing to change on any node");
            }
            if let Some(in_progress) = describe_in_progress(&leftovers.in_progress) {
                printer.note(&in_progress);
            }
            if let Err(code) = consent.given(printer) {
                return Ok(code);
            }
            let request = new_request(&session, RequestCommand::Abort, None, reason.clone()).await;
            write_request(&session, hooks.iter().copied(), &request, printer).await;
            let reason = Some(reason.unwrap_or_else(|| "aborted".to_owned()));
            let (by, at) = (request.by, request.at);
            let pause = Pause { selector: None, by, reason, at, until: None };
            let clock = session.clock().clone();
            let failures = abort(session.client(), &hooks, &pause, (stay_paused, clock), |step| {
                printer.note(step);
            })
            .await?;
            if !failures.is_empty() {
                let nodes = listed(&node_write::texts(&failures));
                printer.error(
                    &format!("cannot restore some nodes, and the fleet stays paused: {nodes}"),
                    node_write::hint(&failures),
                );
                return Ok(node_write::exit_code(&failures));
            }
            printer.data("aborted\n");
            if let Some(in_progress) =
                describe_in_progress(&find_in_progress(session.client(), &hooks).await?)
            {
                printer.note(&in_progress);
            }
            printer.note(if stay_paused {
                "the fleet stays paused: no more upgrades start until `gpu-rollout resume`"
            } else {
                "if a deployer retries, it starts the rollout again; --stay-paused prevents that"
            });
            Ok(ExitCode::Success)
        })
    }
}

/// Describes the nodes whose upgrade an abort does not stop.
fn describe_in_progress(in_progress: &[String]) -> Option<String> {
    (!in_progress.is_empty())
        .then(|| format!("in progress on {}: {FINISHED_BY_CONTROLLER}", listed(in_progress)))
}
