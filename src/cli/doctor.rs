//! `gpu-rollout doctor`.

use std::fmt::Write;

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::format::OutputFormat;
use super::table::push_wrapped;
use super::{advice, terminal};
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::deployed::{DeployedRecipe, describe_lost_settings};
use ops::doctor::{ComponentSummary, DoctorReport, DoctorSeverity};

/// Arguments of `gpu-rollout doctor`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout doctor
  gpu-rollout doctor --recipe > deployed.yaml    # write a recipe of what is deployed
  gpu-rollout doctor -o json | jq '.findings[] | select(.severity == \"problem\")'

docs/lints.md explains findings about versions and values, and docs/operate.md explains the others.")]
pub struct DoctorArguments {
    /// Print only what is deployed, as a recipe in YAML from which you can start your own
    #[arg(long, conflicts_with = "output")]
    recipe: bool,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = OutputFormat::Text)]
    output: OutputFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl DoctorArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { recipe, output, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let snapshots = session.observe_all().await?;
            let deployed = DeployedRecipe::read(&session, &snapshots, cluster.namespace()).await?;
            if recipe {
                let lost = session.hooks().filter_map(describe_lost_settings);
                for note in session.notes().iter().chain(&deployed.notes).cloned().chain(lost) {
                    printer.note(&format!("note: {note}"));
                }
                return Ok(printer.yaml(&deployed.document));
            }
            let report =
                DoctorReport::new(&session, &snapshots, deployed, cluster.namespace()).await?;
            let code = match output {
                OutputFormat::Json => printer.json(&report),
                OutputFormat::Text => {
                    printer.data(&report_text(&report, terminal::text_width(false)));
                    ExitCode::Success
                }
            };
            Ok(if code == ExitCode::Success && report.has_problems() {
                ExitCode::Preflight
            } else {
                code
            })
        })
    }
}

fn report_text(report: &DoctorReport, width: usize) -> String {
    let mut text = String::new();
    for ComponentSummary { name, version, namespace } in &report.components {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{name} {version} in {namespace}");
    }
    for finding in report.cluster_findings() {
        let lead = match finding.severity {
            DoctorSeverity::Problem => "problem",
            DoctorSeverity::Warning => "warning",
        };
        let nodes = match &finding.nodes[..] {
            [] => String::new(),
            nodes if nodes.len() <= 5 => format!(" ({})", nodes.join(", ")),
            nodes => format!(" ({} and {} more)", nodes[..5].join(", "), nodes.len() - 5),
        };
        text.push('\n');
        push_wrapped(
            &mut text,
            ("", "  "),
            &format!("{lead}: {}: {}{nodes}", finding.check, finding.text),
            width,
        );
        advice::push_remedy(&mut text, "hint: ", &finding.remedy, width);
    }
    if !report.diagnostics.is_empty() {
        let _ = writeln!(
            text,
            "\nFindings of the recipe rules in what is deployed (`-` is the output of `gpu-rollout doctor --recipe`):\n\n{}",
            report.diagnostics.render_plain()
        );
    }
    for note in &report.notes {
        let _ = writeln!(text, "note: {note}");
    }
    if report.findings.is_empty() {
        text.push_str("No problems found\n");
    }
    text
}
