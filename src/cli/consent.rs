//! Commands that write say what they will do, and ask.

use std::io::{BufRead, IsTerminal};

use clap::Args;

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Whether to go on.
#[derive(Clone, Debug, Args)]
pub struct Consent {
    /// Do it without asking
    #[arg(short, long)]
    yes: bool,
    /// Say what would be done, and do nothing
    #[arg(long, conflicts_with = "yes")]
    dry_run: bool,
}

impl Consent {
    /// Whether it was given; asks on a terminal, after what will be done was said.
    ///
    /// # Errors
    /// It was not: the exit code of the command.
    pub(super) fn given(&self, printer: &mut Printer) -> Result<(), ExitCode> {
        if self.dry_run {
            printer.note("nothing was changed (--dry-run)");
            return Err(ExitCode::Success);
        }
        if self.yes {
            return Ok(());
        }
        let input = std::io::stdin();
        if !input.is_terminal() {
            printer.error(
                "nothing was changed: there is nobody to ask",
                Some("--yes does it without asking, --dry-run only says what would be done"),
            );
            return Err(ExitCode::Usage);
        }
        printer.ask("Go on? [y/N] ");
        let mut answer = String::new();
        // An input that cannot be read says nothing, which is no.
        let read = input.lock().read_line(&mut answer).unwrap_or(0);
        if read > 0 && matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") {
            return Ok(());
        }
        printer.note("nothing was changed");
        Err(ExitCode::Success)
    }
}
