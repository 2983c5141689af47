//! `gpu-rollout report`.

use clap::Args;

use super::cluster::{self, ClusterOptions};
use super::format::RolloutList;
use super::terminal;
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::report::{RunReport, format_metrics, report};

pub(super) mod page;
mod text;

/// Arguments of `gpu-rollout report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout report
  gpu-rollout report -o html > report.html
  gpu-rollout report -o metrics | curl --data-binary @- \\
    http://pushgateway:9091/metrics/job/gpu-rollout
  gpu-rollout report -o json | jq '.rollouts[].nodes[] | {node, seconds, evicted: [.evicted[]?.pod]}'")]
pub struct ReportArguments {
    /// Output format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// The output format of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// For people, wrapped to the width of the terminal.
    #[default]
    Text,
    /// One self-contained HTML page for a browser, a ticket or a printer.
    Html,
    /// One JSON document.
    Json,
    /// One YAML document with the same fields.
    Yaml,
    /// Prometheus text format, for the node exporter's textfile collector or a Pushgateway.
    Metrics,
}

impl ReportArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { output, cluster } = self;
        cluster::run(&cluster, printer, async |session, printer| {
            let reports: Vec<RunReport> = session.observe_all().await?.iter().map(report).collect();
            cluster::print_notes(&session, printer);
            let document = RolloutList { rollouts: &reports };
            match output {
                ReportFormat::Json => return Ok(printer.json(&document)),
                ReportFormat::Yaml => return Ok(printer.yaml(&document)),
                ReportFormat::Text => {
                    let width = terminal::width();
                    let texts: Vec<String> =
                        reports.iter().map(|report| text::report_text(report, width)).collect();
                    printer.data(&texts.join("\n"));
                }
                ReportFormat::Metrics => printer.data(&format_metrics(&reports)),
                ReportFormat::Html => match page::page(&reports) {
                    Ok(page) => printer.data(&page),
                    Err(error) => {
                        printer.error(&format!("cannot write the page: {error}"), None);
                        return Ok(ExitCode::Internal);
                    }
                },
            }
            Ok(ExitCode::Success)
        })
    }
}
