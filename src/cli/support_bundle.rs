//! `gpu-rollout support-bundle`.

use std::fmt::Write as _;
use std::io;
use std::path::PathBuf;

use clap::Args;
use jiff::Timestamp;

use super::archive_file;
use super::cluster::{self, ClusterOptions};
use super::report::page;
use crate::printer::Printer;
use archive::{ArchiveFile, tar_gz_at};
use contract::count::with_noun;
use contract::exit::ExitCode;
use kube_io::client::server_version;
use ops::observe::{ObserveError, RolloutSnapshot};
use ops::report::{RunReport, report};
use ops::session::ClusterSession;
use ops::status::{RolloutStatus, status};
use ops::support_bundle::{SupportBundle, SupportFile, support};

/// Arguments of `gpu-rollout support-bundle`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  gpu-rollout support-bundle
  gpu-rollout support-bundle -f rollout.tar.gz --logs
  gpu-rollout support-bundle -f - | tar tz              # list what is in it")]
pub struct SupportBundleArguments {
    /// Path of the archive; `-` means standard output [default: gpu-rollout-support-TIME.tar.gz]
    #[arg(short, long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Include logs of operators, operands and hooks. Text in known secret formats is removed from
    /// them, but no list of formats is complete: read the logs before you send the archive
    #[arg(long)]
    logs: bool,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    cluster: ClusterOptions,
}

impl SupportBundleArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { file, logs, force, cluster } = self;
        if file.as_deref().is_some_and(|file| archive_file::is_taken(file, force, "-f", printer)) {
            return ExitCode::Input;
        }
        cluster::run(&cluster, printer, async |session, printer| {
            let now = session.now();
            let name = format!("gpu-rollout-support-{}", now.strftime("%Y%m%d-%H%M%S"));
            let mut support = Box::pin(gather(&session, logs, printer)).await?;
            let readme = readme(&support, now, logs);
            support.add("README.txt", &readme);
            let archive = match archive(&name, &support.files, now) {
                Ok(archive) => archive,
                Err(error) => {
                    printer.error(&format!("cannot pack the archive: {error}"), None);
                    return Ok(ExitCode::Internal);
                }
            };
            let file = file.unwrap_or_else(|| PathBuf::from(format!("{name}.tar.gz")));
            if !archive_file::write(&file, &archive, "-f", printer) {
                return Ok(ExitCode::Input);
            }
            let size = archive.len().div_ceil(1024);
            printer.note(&format!(
                "{}: {}, {size} KiB, {} redacted",
                file.display(),
                with_noun(support.files.len(), "file"),
                with_noun(support.redacted, "text")
            ));
            for missing in &support.missing {
                printer.note(&format!("note: not included: {missing}"));
            }
            printer.note(
                "Check the archive before you send it: it contains names of nodes, pods and registries. Secrets in known forms were removed, but others may be left.",
            );
            if !logs {
                printer.note("note: logs are not included; --logs adds them");
            }
            Ok(ExitCode::Success)
        })
    }
}

/// Collects status, reports, objects and logs.
async fn gather(
    session: &ClusterSession,
    logs: bool,
    printer: &mut Printer,
) -> Result<SupportBundle, ObserveError> {
    printer.note("Observing the rollouts …");
    let snapshots: Vec<RolloutSnapshot> = session.observe_all().await?;
    let statuses: Vec<RolloutStatus> = snapshots.iter().map(status).collect();
    let reports: Vec<RunReport> = snapshots.iter().map(report).collect();
    printer.note(if logs {
        "Reading objects, events and logs …"
    } else {
        "Reading objects and events …"
    });
    let hooks: Vec<_> = session.hooks().collect();
    let mut support = support(session.client(), &snapshots, &hooks, &statuses, logs).await;
    let mut file = |path: &str, text: Result<String, String>| match text {
        Ok(text) => support.add(path, &text),
        Err(error) => support.missing.push(format!("{path}: {error}")),
    };
    let json = |value: serde_json::Result<String>| value.map_err(|error| error.to_string());
    file("status.json", json(serde_json::to_string_pretty(&statuses)));
    file("status.txt", Ok(super::status::whole(&statuses)));
    file("report.json", json(serde_json::to_string_pretty(&reports)));
    file("report.html", page::page(&reports).map_err(|error| error.to_string()));
    let version =
        server_version(session.client()).await.unwrap_or_else(|error| format!("unknown: {error}"));
    file(
        "versions.txt",
        Ok(format!("gpu-rollout {}\nKubernetes {version}\n", env!("CARGO_PKG_VERSION"))),
    );
    Ok(support)
}

/// Returns the README of the archive: what it contains, and what is missing.
fn readme(support: &SupportBundle, now: Timestamp, logs: bool) -> String {
    let mut text = format!(
        "Support bundle of gpu-rollout {}, {now:.0}

status.txt, status.json   status of the rollouts
report.html, report.json  report of the last run
versions.txt              versions of the program and the API server
objects/                  nodes, the operators' custom resources, PodDisruptionBudgets,
                          ResourceSlices and ResourceClaims;
                          Deployments, DaemonSets and pods of the operators' and hooks' namespaces;
                          the hooks' ConfigMaps and Jobs; the Leases of the hooks and of the GPU
                          Operator's leader; events
logs/                     logs of hooks and operators, and of operands on nodes that failed or are in
                          progress{}

Secrets were not read. {} texts that look like secrets, or have such a name, are replaced by
[redacted]. Only secrets in known formats are found, and others may be left: check the files,
especially logs, before you send them. Pods of workloads are not included. ResourceClaims and
PodDisruptionBudgets name workloads.
",
        env!("CARGO_PKG_VERSION"),
        if logs { "" } else { " (not included: --logs adds them)" },
        support.redacted
    );
    if !support.missing.is_empty() {
        text.push_str("\nNot included:\n");
    }
    for missing in &support.missing {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "  {missing}");
    }
    text
}

/// Returns a gzipped tar archive with all files in one directory.
fn archive(name: &str, files: &[SupportFile], now: Timestamp) -> io::Result<Vec<u8>> {
    let file = |SupportFile { path, text }: &SupportFile| {
        (format!("{name}/{path}"), ArchiveFile::new(text.as_str()))
    };
    let seconds = u64::try_from(now.as_second()).unwrap_or_default();
    tar_gz_at(&files.iter().map(file).collect(), seconds)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::SupportBundleArguments;

    #[derive(Parser)]
    struct SupportBundle {
        #[command(flatten)]
        arguments: SupportBundleArguments,
    }

    #[test]
    fn logs_are_included_only_on_request() {
        let logs = |words: &[&str]| SupportBundle::parse_from(words).arguments.logs;
        assert!(!logs(&["support-bundle"]));
        assert!(logs(&["support-bundle", "--logs"]));
    }
}
