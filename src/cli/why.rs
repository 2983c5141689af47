//! `gpu-rollout why NODE`.

use std::fmt::Write;

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use super::format::ListingFormat;
use super::status::driver;
use super::time::since;
use super::{advice, table};
use crate::printer::Printer;
use contract::exit::ExitCode;
use contract::record::{NodeRecord, RecordedStep};
use diagnostics::nearest::nearest;
use ops::observe::RolloutSnapshot;
use ops::status::{NodeRow, NodeStage, RolloutStatus, status};

/// Arguments of `gpu-rollout why`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout why gpu-3
  gpu-rollout why gpu-3 -o json | jq -r '.rollouts[].row.waiting.remedy.run[]'")]
pub struct WhyArguments {
    /// The node
    node: String,
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What there is to say of a node, in one rollout.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct NodeExplanation {
    /// What it is about, for people.
    title: String,
    /// How it stands with the node.
    row: NodeRow,
    /// How its upgrade went so far: each state with the time at which it was entered.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    steps: Vec<RecordedStep>,
    /// What the whole fleet waits for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fleet: Vec<String>,
}

#[derive(Serialize, JsonSchema)]
struct WhyDocument<'a> {
    /// The rollouts that have the node.
    rollouts: &'a [NodeExplanation],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(WhyDocument<'static>)
}

impl WhyArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { node, output, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| {
            let snapshots = found.look().await?;
            let whys: Vec<NodeExplanation> = snapshots.iter().filter_map(|snapshot| why(snapshot, &node)).collect();
            for note in found.notes() {
                printer.note(&format!("note: {note}"));
            }
            if whys.is_empty() {
                return Ok(nothing(&snapshots, &node, printer));
            }
            Ok(match output {
                ListingFormat::Json => printer.json(&WhyDocument { rollouts: &whys }),
                ListingFormat::Yaml => printer.yaml(&WhyDocument { rollouts: &whys }),
                ListingFormat::Name => {
                    printer.data(&format!("node/{node}\n"));
                    ExitCode::Success
                }
                ListingFormat::Text | ListingFormat::Wide => {
                    let width = if output == ListingFormat::Wide { usize::MAX } else { super::status::width().unwrap_or(120) };
                    let texts: Vec<String> = whys.iter().zip(&snapshots).map(|(why, snapshot)| text(why, snapshot, width)).collect();
                    printer.data(&texts.join("\n"));
                    ExitCode::Success
                }
            })
        })
    }
}

fn why(snapshot: &RolloutSnapshot, node: &str) -> Option<NodeExplanation> {
    let RolloutStatus { title, nodes, fleet, .. } = status(snapshot);
    let row = nodes.into_iter().find(|row| row.node == node)?;
    let steps = snapshot.record.nodes.get(node).map(|record: &NodeRecord| record.steps.clone()).unwrap_or_default();
    Some(NodeExplanation { title, row, steps, fleet: fleet.into_iter().map(|waiting| waiting.text).collect() })
}

fn text(why: &NodeExplanation, snapshot: &RolloutSnapshot, width: usize) -> String {
    let NodeExplanation { title, row, steps, fleet } = why;
    let mut text = format!("{title}: {}\n", row.node);
    let cordoned = if row.cordoned { ", cordoned" } else { "" };
    let state = row.state.as_ref().map(|state| format!(" ({state})")).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  state:  {}{state}{cordoned}", row.stage.name());
    let _ = writeln!(text, "  driver: {}", driver(row));
    if let Some(plugin) = row.plugin {
        let _ = writeln!(text, "  plugin: {}", plugin.name());
    }
    for step in steps {
        let _ = writeln!(text, "  {:.0}  {}", step.at, step.state);
    }
    if let Some(held) = &row.held {
        let _ = writeln!(text, "  {} for {}", held.text(), since(held.since, snapshot.now));
    }
    for waiting in fleet {
        let _ = writeln!(text, "  the whole fleet waits: {waiting}");
    }
    let Some(waiting) = &row.waiting else {
        let _ = writeln!(text, "{}", if row.stage == NodeStage::Done { "  It is as asked for: there is nothing to wait for." } else { "" });
        return text;
    };
    let by = waiting.since.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let at = waiting.since.at.map(|at| format!(" ({at:.0}{by})")).unwrap_or_default();
    let ends = if waiting.resolves_itself { "can end by itself" } else { "does not end by itself" };
    let _ = writeln!(text, "  {} for {}{at}; {ends}:", waiting.reason, since(waiting.since.at, snapshot.now));
    for line in table::wrapped(&waiting.text, width.saturating_sub(4).max(40)) {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str(&advice::of_wait(waiting, width));
    text
}

/// The node is none that any rollout is about.
fn nothing(snapshots: &[RolloutSnapshot], node: &str, printer: &mut Printer) -> ExitCode {
    let names = || snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys());
    if names().any(|name| **name == *node) {
        printer.data(&format!("{node} has no driver that is rolled out here: no label of a device, and no pod of a driver.\n"));
        return ExitCode::Success;
    }
    let hint = nearest(node, names().map(|name| &**name)).map(|name| format!("did you mean `{name}`?"));
    printer.error(&format!("there is no node `{node}`"), hint.as_deref().or(Some("kubectl get nodes lists them")));
    ExitCode::Input
}
