//! `gpu-rollout report`.

use clap::Args;
use schemars::{JsonSchema, Schema, schema_for};
use serde::Serialize;

use super::cluster::{self, ClusterOptions};
use crate::printer::Printer;
use contract::exit::ExitCode;
use ops::report::{RunReport, report};

mod metrics;
pub(super) mod page;
mod text;
mod timeline;

/// Arguments of `gpu-rollout report`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout report
  gpu-rollout report -o html > report.html
  gpu-rollout report -o metrics | curl --data-binary @- http://pushgateway:9091/metrics/job/gpu-rollout
  gpu-rollout report -o json | jq '.rollouts[].nodes[] | {node, seconds, evicted: [.evicted[]?.pod]}'")]
pub struct ReportArguments {
    /// The format
    #[arg(short, long, value_enum, default_value_t)]
    output: ReportFormat,
    #[command(flatten)]
    cluster: ClusterOptions,
}

/// `-o` of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum ReportFormat {
    /// For people, as wide as the terminal.
    #[default]
    Text,
    /// A page that needs nothing beside itself: for a browser, a ticket, or print.
    Html,
    /// One JSON document.
    Json,
    /// The same as YAML.
    Yaml,
    /// Text of Prometheus: for the textfile collector of the node exporter, or a Pushgateway.
    Metrics,
}

#[derive(Serialize, JsonSchema)]
struct ReportDocument<'a> {
    /// The rollouts of the cluster.
    rollouts: &'a [RunReport],
}

/// What `-o json` prints.
pub(super) fn schema() -> Schema {
    schema_for!(ReportDocument<'static>)
}

impl ReportArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { output, cluster } = self;
        cluster::run(&cluster, printer, async |found, printer| {
            let reports: Vec<RunReport> = found.look().await?.iter().map(report).collect();
            for note in found.notes() {
                printer.note(&format!("note: {note}"));
            }
            Ok(match output {
                ReportFormat::Json => printer.json(&ReportDocument { rollouts: &reports }),
                ReportFormat::Yaml => printer.yaml(&ReportDocument { rollouts: &reports }),
                ReportFormat::Text => {
                    let width = super::status::width();
                    let texts: Vec<String> = reports.iter().map(|report| text::report_text(report, width)).collect();
                    printer.data(&texts.join("\n"));
                    ExitCode::Success
                }
                ReportFormat::Metrics => {
                    printer.data(&metrics::metrics(&reports));
                    ExitCode::Success
                }
                ReportFormat::Html => match page::page(&reports) {
                    Ok(page) => {
                        printer.data(&page);
                        ExitCode::Success
                    }
                    Err(error) => {
                        printer.error(&format!("unable to write the page: {error}"), None);
                        ExitCode::Internal
                    }
                },
            })
        })
    }
}
