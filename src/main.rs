//! Entry point: parses arguments, runs the command, maps the result to an exit code.

use std::process::ExitCode;

use gpu_rollout::Cli;
use gpu_rollout::printer::Printer;

/// Musl's own allocator would take four times as long for a simulation. glibc's searches longer for
/// memory the more the program holds in small pieces, as the hook's caches of a large fleet do: with
/// it, listing the fleet of `crates/hook/benches/memory.rs` again takes 1.8 times as long.
#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    Cli::of_process(std::env::args_os()).run(&mut Printer::standard()).into()
}
