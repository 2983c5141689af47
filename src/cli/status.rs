//! `gpu-rollout status`.

use std::io::IsTerminal;

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use super::format::Listing;
use super::printer::Printer;
use crate::console::status::{Stage, Status, status};
use crate::contract::exit::ExitCode;

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
pub struct Arguments {
    /// Follow it until no node is pending or in progress
    #[arg(short, long)]
    watch: bool,
    /// Show every node, also those that are done
    #[arg(short, long)]
    all: bool,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    output: Listing,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// All rollouts of a cluster, for programs.
#[derive(Serialize, JsonSchema)]
struct Document<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [Status],
    /// What is worth knowing, for people.
    notes: &'a [String],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(Document<'static>)
}

impl Arguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { watch, all, output, cluster } = self;
        if watch && output != Listing::Text && output != Listing::Wide {
            printer.error("--watch shows text", Some("leave -o away, or ask again and again without --watch"));
            return ExitCode::Usage;
        }
        cluster::run(&cluster, printer, async |found, printer| {
            if watch {
                return watch::run(&found, all || output == Listing::Wide, printer).await;
            }
            let rollouts: Vec<Status> = found.look().await?.iter().map(status).collect();
            Ok(print(&rollouts, found.notes(), all, output, printer))
        })
    }
}

fn print(rollouts: &[Status], notes: &[String], all: bool, output: Listing, printer: &mut Printer) -> ExitCode {
    match output {
        Listing::Json => return printer.json(&Document { rollouts, notes }),
        Listing::Yaml => return printer.yaml(&Document { rollouts, notes }),
        Listing::Name => {
            let open = rollouts.iter().flat_map(|rollout| &rollout.nodes).filter(|row| row.stage != Stage::Done);
            let mut names: Vec<String> = open.map(|row| format!("node/{}\n", row.node)).collect();
            names.sort();
            names.dedup();
            printer.data(&names.concat());
        }
        Listing::Text | Listing::Wide => {
            let wide = output == Listing::Wide;
            printer.data(&text::text(rollouts, all || wide, if wide { None } else { width() }));
        }
    }
    for note in notes {
        printer.note(&format!("note: {note}"));
    }
    ExitCode::Success
}

/// Everything of all rollouts, for a file.
pub(super) fn whole(rollouts: &[Status]) -> String {
    text::text(rollouts, true, None)
}

/// The terminal's width in characters; `None`: standard output is none.
pub(super) fn width() -> Option<usize> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    terminal_size::terminal_size().map(|(width, _)| usize::from(width.0))
}
