//! Start: parse, run, exit code. Nothing else.

use std::process::ExitCode;

use gpu_rollout::cli::Arguments;
use gpu_rollout::cli::printer::Printer;

fn main() -> ExitCode {
    Arguments::of_process(std::env::args_os()).run(&mut Printer::standard()).into()
}
