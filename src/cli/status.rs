//! `gpu-rollout status`.

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use super::format::{ListingFormat, node_names};
use super::terminal;
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::status::{NodeStage, RolloutStatus, status};

mod text;
mod watch;

pub(super) use text::{driver, node_condition};

/// Arguments of `gpu-rollout status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout status
  gpu-rollout status --watch
  gpu-rollout status -o json | jq '.rollouts[].nodes[] | select(.stage == \"failed\") | .node'
  gpu-rollout status -o name | xargs -n1 kubectl describe")]
pub struct StatusArguments {
    /// Update the output while a node is pending or in progress, or a hook Job is running; then
    /// exit, with 21 if nodes have failed. A stuck node keeps the command running even after the
    /// Job has failed. A failed node does not keep it running
    #[arg(short, long)]
    watch: bool,
    /// Show every node, including nodes that are done
    #[arg(short, long)]
    all: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The `-o json` document of `status`.
#[derive(Serialize, JsonSchema)]
pub(super) struct StatusDocument<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [RolloutStatus],
    /// Notes for people, for example about what could not be read.
    notes: &'a [String],
}

impl StatusArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { watch, all, output, cluster } = self;
        if watch && output != ListingFormat::Text && output != ListingFormat::Wide {
            printer.error(
                "--watch supports only the formats `text` and `wide`",
                Some("omit -o, or run the command repeatedly without --watch"),
            );
            return ExitCode::Usage;
        }
        cluster::run(&cluster, printer, async |session, printer| {
            if watch {
                return Ok(
                    watch::run(&session, all || output == ListingFormat::Wide, printer).await?
                );
            }
            let rollouts: Vec<RolloutStatus> =
                session.observe_all().await?.iter().map(status).collect();
            let open = || {
                rollouts
                    .iter()
                    .flat_map(|rollout| &rollout.nodes)
                    .filter(|row| row.stage != NodeStage::Done)
            };
            let names = || node_names(open().map(|row| &row.node));
            let text = |wide| {
                text::text(&rollouts, all || wide, if wide { None } else { terminal::width() })
            };
            let code = output.print(
                &StatusDocument { rollouts: &rollouts, notes: session.notes() },
                names,
                text,
                printer,
            );
            if !output.is_document() {
                cluster::print_notes(&session, printer);
            }
            Ok(code)
        })
    }
}

/// Returns the full status of all rollouts as text for a file.
pub(super) fn whole(rollouts: &[RolloutStatus]) -> String {
    text::text(rollouts, true, None)
}
