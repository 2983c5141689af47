//! `gpu-rollout status`.

use std::io::IsTerminal;

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use super::format::ListingFormat;
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::status::{NodeStage, RolloutStatus, status};

mod text;
mod watch;

pub(super) use text::driver;

/// Arguments of `gpu-rollout status`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout status
  gpu-rollout status --watch
  gpu-rollout status -o json | jq '.rollouts[].nodes[] | select(.stage == \"failed\") | .node'
  gpu-rollout status -o name | xargs -n1 kubectl describe")]
pub struct StatusArguments {
    /// Follow it until no node is pending or in progress
    #[arg(short, long)]
    watch: bool,
    /// Show every node, also those that are done
    #[arg(short, long)]
    all: bool,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// All rollouts of a cluster, for programs.
#[derive(Serialize, JsonSchema)]
struct StatusDocument<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [RolloutStatus],
    /// What is worth knowing, for people.
    notes: &'a [String],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(StatusDocument<'static>)
}

impl StatusArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { watch, all, output, cluster } = self;
        if watch && output != ListingFormat::Text && output != ListingFormat::Wide {
            printer.error("--watch shows text", Some("leave -o away, or ask again and again without --watch"));
            return ExitCode::Usage;
        }
        cluster::run(&cluster, printer, async |found, printer| {
            if watch {
                return watch::run(&found, all || output == ListingFormat::Wide, printer).await;
            }
            let rollouts: Vec<RolloutStatus> = found.look().await?.iter().map(status).collect();
            Ok(print(&rollouts, found.notes(), all, output, printer))
        })
    }
}

fn print(rollouts: &[RolloutStatus], notes: &[String], all: bool, output: ListingFormat, printer: &mut Printer) -> ExitCode {
    match output {
        ListingFormat::Json => return printer.json(&StatusDocument { rollouts, notes }),
        ListingFormat::Yaml => return printer.yaml(&StatusDocument { rollouts, notes }),
        ListingFormat::Name => {
            let open = rollouts.iter().flat_map(|rollout| &rollout.nodes).filter(|row| row.stage != NodeStage::Done);
            let mut names: Vec<String> = open.map(|row| format!("node/{}\n", row.node)).collect();
            names.sort();
            names.dedup();
            printer.data(&names.concat());
        }
        ListingFormat::Text | ListingFormat::Wide => {
            let wide = output == ListingFormat::Wide;
            printer.data(&text::text(rollouts, all || wide, if wide { None } else { width() }));
        }
    }
    for note in notes {
        printer.note(&format!("note: {note}"));
    }
    ExitCode::Success
}

/// Everything of all rollouts, for a file.
pub(super) fn whole(rollouts: &[RolloutStatus]) -> String {
    text::text(rollouts, true, None)
}

/// The terminal's width in characters; `None`: standard output is none.
pub(super) fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
