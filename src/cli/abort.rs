//! `gpu-rollout abort`.

use std::sync::Arc;

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::consent::Consent;
use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::pause::Pause;
use contract::settings::Settings;
use kube_io::pause::who;
use ops::abort::{abort, left};
use planner::pods::listed;

/// Arguments of `gpu-rollout abort`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout abort --dry-run
  gpu-rollout abort --stay-paused --reason INC-4711")]
pub struct AbortArguments {
    /// Leave the fleet paused, so that no deployer begins anew
    #[arg(long)]
    stay_paused: bool,
    /// Why: whoever looks at the rollout is told
    #[arg(long, value_name = "TEXT")]
    reason: Option<String>,
    #[command(flatten)]
    consent: Consent,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl AbortArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { stay_paused, reason, consent, cluster } = self;
        cluster::run_anywhere(&cluster, printer, async |found, printer| {
            let hooks: Vec<&Settings> = found.hooks().collect();
            let there = left(found.client(), &hooks, stay_paused).await?;
            for job in &there.jobs {
                printer.note(&format!("job {job} is ended"));
            }
            for (node, what) in &there.nodes {
                printer.note(&format!("node {node}: {what}"));
            }
            if let Some(holder) = &there.holder {
                printer.note(&format!("the Lease that {holder} holds is taken, and deleted in the end"));
            }
            if there.jobs.is_empty() && there.nodes.is_empty() {
                printer.note("no hook is at work, and there is nothing to change on any node");
            }
            if let Err(code) = consent.given(printer) {
                return Ok(code);
            }
            // A server that does not tell (before 1.28) keeps nobody from aborting.
            let by = who(found.client()).await.ok().flatten().unwrap_or_else(|| "somebody".to_owned());
            let reason = Some(reason.unwrap_or_else(|| "aborted".to_owned()));
            let pause = Pause { selector: None, by, reason, at: found.clock().now() };
            let clock = found.clock().clone();
            let now = Arc::new(move || clock.now());
            let wrong = abort(found.client(), &hooks, &pause, (stay_paused, now), |step| printer.note(step)).await?;
            if !wrong.is_empty() {
                printer.error(
                    &format!("not every node could be given back: {}", listed(&wrong)),
                    Some("nothing begins meanwhile (the fleet is paused); ask again: it goes on with those that are left"),
                );
                return Ok(ExitCode::NodesFailed);
            }
            printer.data("aborted\n");
            printer.note(if stay_paused {
                "the fleet stays paused: gpu-rollout resume lets deployers and NVIDIA's controller begin again"
            } else {
                "a deployer that tries again begins anew; --stay-paused keeps it from that"
            });
            Ok(ExitCode::Success)
        })
    }
}
