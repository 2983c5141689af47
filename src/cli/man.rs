//! `gpu-rollout man`.

use std::fs;
use std::path::PathBuf;

use clap::{Args, CommandFactory};

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Arguments of `gpu-rollout man`.
#[derive(Debug, Args)]
pub struct ManArguments {
    /// Directory for the pages; it is created if it does not exist
    directory: PathBuf,
}

impl ManArguments {
    /// Writes one page per command.
    pub fn run(self, printer: &mut Printer) -> ExitCode {
        let Self { directory } = self;
        let written = fs::create_dir_all(&directory)
            .and_then(|()| clap_mangen::generate_to(super::Cli::command(), &directory));
        if let Err(error) = written {
            printer.error(
                &format!("cannot write manual pages into {}: {error}", directory.display()),
                Some("name a directory that you can write to"),
            );
            return ExitCode::Input;
        }
        printer.note(&format!(
            "wrote manual pages into {}; read them with: man -l {}",
            directory.display(),
            directory.join("gpu-rollout.1").display()
        ));
        ExitCode::Success
    }
}
