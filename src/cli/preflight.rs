//! `gpu-rollout preflight`.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::format::{ListingFormat, RolloutList, node_names};
use super::table::push_wrapped;
use super::terminal;
use crate::printer::Printer;
use contract::check::CheckSeverity;
use contract::count::with_noun;
use contract::exit::ExitCode;
use ops::preflight::{PreflightReport, check_rollout};
use planner::preflight::PreflightFinding;

/// Arguments of `gpu-rollout preflight`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout preflight
  gpu-rollout preflight -o json | jq '.rollouts[].findings[] | select(.severity == \"blocking\")'
  gpu-rollout preflight -o name      # nodes with findings

docs/preflight.md describes what each check examines.")]
pub struct PreflightArguments {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ListingFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl PreflightArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { output, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let mut rollouts = Vec::new();
            for target in session.driver_targets() {
                rollouts.push(check_rollout(&session, target).await?);
            }
            let names = || {
                node_names(
                    rollouts
                        .iter()
                        .flat_map(|rollout| &rollout.findings)
                        .flat_map(|finding| &finding.nodes),
                )
            };
            let text = |wide| {
                let width = terminal::text_width(wide);
                rollouts
                    .iter()
                    .map(|rollout| rollout_text(rollout, width))
                    .collect::<Vec<_>>()
                    .join("\n")
            };
            let code = output.print(&RolloutList { rollouts: &rollouts }, names, text, printer);
            let blocked = rollouts.iter().any(|rollout| !rollout.can_start);
            Ok(if code == ExitCode::Success && blocked { ExitCode::Preflight } else { code })
        })
    }
}

/// Appends a finding as one sentence.
pub(super) fn push_finding(text: &mut String, finding: &PreflightFinding, width: usize) {
    let lead = match finding.severity {
        CheckSeverity::Blocking => "blocks",
        CheckSeverity::Warning => "warning",
    };
    push_wrapped(
        text,
        ("", "    "),
        &format!("{lead}: {}: {}", finding.check.name(), finding.text),
        width,
    );
}

fn rollout_text(rollout: &PreflightReport, width: usize) -> String {
    let mut text = format!(
        "{}\n{}, {} on them\n",
        rollout.title,
        with_noun(rollout.nodes, "node"),
        with_noun(rollout.pods, "pod")
    );
    for finding in &rollout.findings {
        push_finding(&mut text, finding, width);
        push_wrapped(&mut text, ("    ", "    "), &format!("hint: {}", finding.advice), width);
    }
    text.push_str(if rollout.can_start {
        "A rollout can start.\n"
    } else {
        "A rollout must not start.\n"
    });
    text
}
