//! `gpu-rollout bundle archive`.

use std::path::PathBuf;

use super::images::NodeKindOptions;
use crate::cli::archive_file;
use crate::printer::Printer;
use ::archive::{below, tar_gz};
use bundle::air_gap::{AirGapArchive, air_gap};
use contract::count::with_noun;
use contract::digest::sha256;
use contract::exit::ExitCode;

/// Arguments of `gpu-rollout bundle archive`.
#[derive(Debug, clap::Args)]
pub struct ArchiveArguments {
    /// Directory of the bundle, without edits
    #[arg(value_name = "DIR")]
    directory: PathBuf,
    /// Path of the archive; `-` means standard output
    #[arg(short, long, value_name = "FILE.tar.gz")]
    output: PathBuf,
    /// Directory with the packaged charts (`*.tgz`) that the bundle needs, as `helm pull` writes
    /// them. Each is identified by the name and version inside it; other charts are ignored. If the
    /// directory does not exist yet, the command prints how to fill it
    #[arg(long, value_name = "CHARTS")]
    charts: PathBuf,
    #[command(flatten)]
    nodes: NodeKindOptions,
    /// Replace an existing file
    #[arg(long)]
    force: bool,
}

impl ArchiveArguments {
    /// Runs the command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { directory, output, charts, nodes, force } = self;
        if archive_file::is_taken(&output, force, "--output", printer) {
            return ExitCode::Input;
        }
        let AirGapArchive { folder, files, charts, images, notes } =
            match air_gap(&directory, &charts, &nodes.kinds()) {
                Ok(archive) => archive,
                Err(error) => {
                    printer.error(&error.to_string(), error.hint().as_deref());
                    return error.code();
                }
            };
        let count = with_noun(files.len(), "file");
        let archive = match tar_gz(&below(&folder, files)) {
            Ok(archive) => archive,
            Err(error) => {
                printer.error(&format!("cannot pack the archive: {error}"), None);
                return ExitCode::Internal;
            }
        };
        if !archive_file::write(&output, &archive, "--output", printer) {
            return ExitCode::Input;
        }
        printer.note(&format!(
            "wrote `{}`: {}, {}, {}, {} KiB",
            output.display(),
            count,
            with_noun(charts, "chart"),
            with_noun(images, "listed image"),
            archive.len().div_ceil(1024)
        ));
        printer.note(&format!("sha256: {}", sha256(&archive)));
        for note in notes {
            printer.note(&format!("note: {note}"));
        }
        printer.note(&format!(
            "next: unpack it behind the air gap, in a new directory; `{folder}/README.md` has the commands"
        ));
        ExitCode::Success
    }
}
