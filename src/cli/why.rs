//! `gpu-rollout why NODE`.

use std::fmt::Write;

use clap::Args;
use schemars::JsonSchema;
use serde::Serialize;

use super::acceptance_result::acceptance_text;
use super::cluster::{self, ClusterOptions};
use super::format::ListingFormat;
use super::status::{driver, node_condition};
use super::user_request::request_text;
use super::{advice, table, terminal};
use crate::printer::Printer;
use contract::exit::ExitCode;
use diagnostics::nearest::nearest;
use ops::observe::RolloutSnapshot;
use ops::status::{NodeStage, state_meaning};
use ops::time::format_age;
use ops::why::{NodeExplanation, explain_node};

/// Arguments of `gpu-rollout why`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout why gpu-3
  gpu-rollout why gpu-3 -o json | jq -r '.rollouts[].row.waiting.remedy.run[]'")]
pub struct WhyArguments {
    /// Name of the node
    node: String,
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

#[derive(Serialize, JsonSchema)]
pub(super) struct WhyDocument<'a> {
    /// The rollouts that include the node.
    rollouts: &'a [NodeExplanation],
}

impl WhyArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { node, output, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let snapshots = session.observe_all().await?;
            let of_node = |snapshot| Some((explain_node(snapshot, &node)?, snapshot));
            let (explanations, of): (Vec<NodeExplanation>, Vec<&RolloutSnapshot>) =
                snapshots.iter().filter_map(of_node).unzip();
            cluster::print_notes(&session, printer);
            if explanations.is_empty() {
                return Ok(print_no_rollout(&snapshots, &node, printer));
            }
            let text = |wide| {
                let width = terminal::text_width(wide);
                let all = explanations.iter().zip(&of);
                all.map(|(explanation, snapshot)| node_text(explanation, snapshot, width))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            Ok(output.print(
                &WhyDocument { rollouts: &explanations },
                || format!("node/{node}\n"),
                text,
                printer,
            ))
        })
    }
}

fn node_text(explanation: &NodeExplanation, snapshot: &RolloutSnapshot, width: usize) -> String {
    let NodeExplanation { title, row, steps, acceptance, requests, fleet } = explanation;
    let mut text = format!("{title}: {}\n", row.node);
    let explained = |state: &str| format!(": {} (state `{state}`)", state_meaning(state));
    let state = row.state.as_deref().map(explained).unwrap_or_default();
    // Writing to a String cannot fail.
    let _ = writeln!(text, "  state:  {}{state}{}", row.stage.name(), node_condition(row));
    let _ = writeln!(text, "  driver: {}", driver(row));
    if let Some(plugin) = row.plugin {
        let _ = writeln!(text, "  plugin: {}", plugin.name());
    }
    for step in steps {
        let by = if step.or_earlier { "by " } else { "" };
        let meaning = state_meaning(&step.state);
        let _ = writeln!(text, "  {by}{:.0}  {} ({meaning})", step.at, step.state);
    }
    for result in acceptance {
        let _ = writeln!(text, "  {:.0}  {}", result.at, acceptance_text(result));
        for line in result.message.lines() {
            let _ = writeln!(text, "    {line}");
        }
        for line in &result.log {
            let _ = writeln!(text, "    | {line}");
        }
    }
    for request in requests {
        let _ = writeln!(text, "  request: {}", request_text(request, snapshot.now));
    }
    if let Some(held) = &row.held {
        let _ = writeln!(text, "  {}", held.text_with_age(held.since, snapshot.now));
    }
    // The node's own reason is printed below, and not repeated here.
    for waiting in
        fleet.iter().filter(|waiting| row.waiting.as_ref().is_none_or(|own| own.text != **waiting))
    {
        let _ = writeln!(text, "  the whole fleet waits: {waiting}");
    }
    let Some(waiting) = &row.waiting else {
        if row.stage == NodeStage::Done {
            text.push_str("  The node matches the settings and waits for nothing.\n");
        }
        return text;
    };
    let by = waiting.since.by.as_ref().map(|by| format!(" by {by}")).unwrap_or_default();
    let at = waiting.since.at.map(|at| format!(" ({at:.0}{by})")).unwrap_or_default();
    let ends = if waiting.is_stuck() { "needs manual action" } else { "can resolve itself" };
    let age = waiting
        .since
        .at
        .map(|at| format!(" for {}", format_age(Some(at), snapshot.now)))
        .unwrap_or_default();
    let fleet = if waiting.whole_fleet { "the whole fleet waits: " } else { "" };
    let _ = writeln!(text, "  {fleet}{}{age}{at}; {ends}:", waiting.reason);
    for line in table::wrapped(&waiting.text, width.saturating_sub(4).max(40)) {
        let _ = writeln!(text, "    {line}");
    }
    text.push_str(&advice::wait_text(waiting, width));
    text
}

/// Prints that no rollout includes the node.
fn print_no_rollout(snapshots: &[RolloutSnapshot], node: &str, printer: &mut Printer) -> ExitCode {
    let names = || snapshots.iter().flat_map(|snapshot| snapshot.observed.nodes.keys());
    if names().any(|name| **name == *node) {
        printer.data(&format!(
            "{node} is in no rollout: it has neither a device label nor a driver pod.\n"
        ));
        return ExitCode::Success;
    }
    let hint =
        nearest(node, names().map(|name| &**name)).map(|name| format!("did you mean `{name}`?"));
    printer.error(
        &format!("node `{node}` not found"),
        hint.as_deref().or(Some("`kubectl get nodes` lists the nodes")),
    );
    ExitCode::Input
}
