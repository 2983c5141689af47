//! `gpu-rollout preflight`.

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use super::format::ListingFormat;
use super::table::push_wrapped;
use crate::printer::Printer;
use contract::check::CheckSeverity;
use contract::exit::ExitCode;
use contract::task::Task;
use ops::preflight::look;
use planner::preflight::{PreflightFinding, may_begin};

/// Arguments of `gpu-rollout preflight`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout preflight
  gpu-rollout preflight -o json | jq '.rollouts[].findings[] | select(.severity == \"blocking\")'
  gpu-rollout preflight -o name      # the nodes that are concerned

docs/preflight.md tells what each check looks at.")]
pub struct PreflightArguments {
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// What was found for one rollout.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct PreflightEntry {
    /// What it is about, for people.
    title: String,
    /// Who decides when a node goes.
    mode: &'static str,
    /// Nodes that were looked at.
    nodes: usize,
    /// Pods on them.
    pods: usize,
    /// Nothing of what was found blocks.
    may_begin: bool,
    /// What was found.
    findings: Vec<PreflightFinding>,
}

#[derive(Serialize, JsonSchema)]
struct PreflightDocument<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [PreflightEntry],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(PreflightDocument<'static>)
}

impl PreflightArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { output, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| {
            let mut rollouts = Vec::new();
            for target in found.targets().iter().filter(|target| target.settings.has(Task::Settle)) {
                let snapshot = found.follow(target).await?.observe(|| found.clock().now()).await?;
                let before = found.before(&target.settings);
                let looked = look(found.client(), &snapshot, before).await?;
                rollouts.push(PreflightEntry {
                    title: target.title(),
                    mode: target.settings.mode.name(),
                    nodes: looked.nodes,
                    pods: looked.pods,
                    may_begin: may_begin(&looked.findings),
                    findings: looked.findings,
                });
            }
            let code = match output {
                ListingFormat::Json => printer.json(&PreflightDocument { rollouts: &rollouts }),
                ListingFormat::Yaml => printer.yaml(&PreflightDocument { rollouts: &rollouts }),
                ListingFormat::Name => {
                    let mut names: Vec<String> = rollouts
                        .iter()
                        .flat_map(|rollout| &rollout.findings)
                        .flat_map(|finding| &finding.nodes)
                        .map(|node| format!("node/{node}\n"))
                        .collect();
                    names.sort();
                    names.dedup();
                    printer.data(&names.concat());
                    ExitCode::Success
                }
                ListingFormat::Text | ListingFormat::Wide => {
                    let width = if output == ListingFormat::Wide { usize::MAX } else { super::status::width().unwrap_or(120) };
                    printer.data(&rollouts.iter().map(|rollout| text(rollout, width)).collect::<Vec<_>>().join("\n"));
                    ExitCode::Success
                }
            };
            let blocked = rollouts.iter().any(|rollout| !rollout.may_begin);
            Ok(if code == ExitCode::Success && blocked { ExitCode::Preflight } else { code })
        })
    }
}

/// A finding in one sentence.
pub(super) fn push_finding(text: &mut String, finding: &PreflightFinding, width: usize) {
    let lead = match finding.severity {
        CheckSeverity::Blocking => "blocks",
        CheckSeverity::Warning => "warning",
    };
    push_wrapped(text, ("", "    "), &format!("{lead}: {}: {}", finding.check.name(), finding.text), width);
}

fn text(rollout: &PreflightEntry, width: usize) -> String {
    let mut text = format!("{}\n{} nodes, {} pods on them\n", rollout.title, rollout.nodes, rollout.pods);
    for finding in &rollout.findings {
        push_finding(&mut text, finding, width);
        push_wrapped(&mut text, ("    ", "    "), &format!("what to do: {}", finding.advice), width);
    }
    text.push_str(if rollout.may_begin { "A rollout may begin.\n" } else { "A rollout must not begin.\n" });
    text
}
