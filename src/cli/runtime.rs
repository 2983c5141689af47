//! The runtime of commands that talk to a cluster or to a registry.

use crate::printer::Printer;
use contract::exit::ExitCode;

/// Runs `command` on a single-threaded runtime of its own.
pub(super) fn run(
    printer: &mut Printer,
    command: impl AsyncFnOnce(&mut Printer) -> ExitCode,
) -> ExitCode {
    match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(command(printer)),
        Err(error) => {
            printer.error(&format!("cannot start: {error}"), None);
            ExitCode::Internal
        }
    }
}
