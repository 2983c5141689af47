//! Start: parse, run, exit code. Nothing else.

use std::process::ExitCode;

use clap::Parser;
use gpu_rollout::cli::Arguments;
use gpu_rollout::cli::printer::Printer;

fn main() -> ExitCode {
    Arguments::parse().run(&mut Printer::standard()).into()
}
