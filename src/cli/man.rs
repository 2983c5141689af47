//! `gpu-rollout man`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Arguments of `gpu-rollout man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// The directory; it is made if it is not there
    directory: PathBuf,
}

impl ManArguments {
    /// Writes a page for each command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { directory } = self;
        let written = fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(super::Cli::command(), &directory));
        if let Err(error) = written {
            printer.error(
                &format!("unable to write manual pages into {}: {error}", directory.display()),
                Some("name a directory that you may write to"),
            );
            return ExitCode::Input;
        }
        printer.note(&format!(
            "manual pages are in {}: man -l {}",
            directory.display(),
            directory.join("gpu-rollout.1").display()
        ));
        ExitCode::Success
    }
}
