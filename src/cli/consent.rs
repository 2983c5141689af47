//! Confirmation of commands that change the cluster.

use std::io::{BufRead, IsTerminal};

use clap::Args;

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Options for confirmation.
#[derive(Clone, Debug, Args)]
pub struct Consent {
    /// Do not ask for confirmation
    #[arg(short, long)]
    yes: bool,
    /// Print what would be done, and change nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Consent {
    /// Asks for confirmation, unless an option answers. Call it after printing what will be done.
    ///
    /// # Errors
    /// Returns the exit code of the command if the user has not confirmed.
    pub(super) fn given(&self, printer: &mut Printer) -> Result<(), ExitCode> {
        if self.dry_run {
            printer.note("no changes made (--dry-run)");
            return Err(ExitCode::Success);
        }
        if self.yes {
            return Ok(());
        }
        let input = std::io::stdin();
        if !input.is_terminal() {
            printer.error(
                "no changes made: standard input is not a terminal, so confirmation is not possible",
                Some("pass `--yes` to confirm, or `--dry-run` to only print what would be done"),
            );
            return Err(ExitCode::Usage);
        }
        printer.ask("Continue? [y/N] ");
        let mut answer = String::new();
        // Input that cannot be read counts as no.
        let read = input.lock().read_line(&mut answer).unwrap_or(0);
        if read > 0 && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        printer.note("no changes made");
        Err(ExitCode::Success)
    }
}
