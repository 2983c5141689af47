//! Entry point: parses arguments, runs the command, maps the result to an exit code.

use std::process::ExitCode;

use gpu_rollout::Cli;
use gpu_rollout::printer::Printer;

/// The programs for Linux that users get are linked with musl (docs/release.md). With musl's own
/// allocator, a simulation takes four times as long, and a render a third longer.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::of_process(std::env::args_os()).run(&mut Printer::standard()).into()
}
