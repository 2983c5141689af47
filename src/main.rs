//! Entry point: parses arguments, runs the command, maps the result to an exit code.

use std::process::ExitCode;

use gpu_rollout::Cli;
use gpu_rollout::printer::Printer;

fn main() -> ExitCode {
    Cli::of_process(std::env::args_os()).run(&mut Printer::standard()).into()
}
