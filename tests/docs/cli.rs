//! `docs/cli.md` contains the `--help` of every command. `UPDATE=1` updates it.

use std::fmt::Write as _;

use clap::{Command, CommandFactory as _};
use gpu_rollout::cli::Cli;

use crate::root;

const PAGE: &str = "docs/cli.md";
const HEAD: &str = "# Command reference

This page lists every command and option of `gpu-rollout`, for use in a terminal or in a script. It
shows the output of `--help` for each command.

| You want | Command |
|---|---|
| shorter help | `gpu-rollout COMMAND -h` |
| manual pages | `gpu-rollout man DIRECTORY` |
| completion in your shell | `gpu-rollout completions SHELL` |

Commands print data to standard output, and messages to standard error.
[exit-codes.md](exit-codes.md) describes the exit codes.
";

#[test]
fn page_contains_the_help_of_every_command() {
    let mut wanted = HEAD.to_owned();
    // The width of a wide terminal, and no values from the environment of the user who runs the
    // test.
    let mut command = Cli::command().term_width(100).disable_help_subcommand(true);
    command.build();
    describe(&command, &mut wanted);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(root(PAGE), wanted).unwrap();
    } else {
        let page = std::fs::read_to_string(root(PAGE)).unwrap_or_default();
        assert!(page == wanted, "{PAGE} differs from --help: run UPDATE=1 cargo test --test docs");
    }
}

/// Appends the help of a command and of its subcommands.
fn describe(command: &Command, page: &mut String) {
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let help = command
        .clone()
        .mut_args(|argument| argument.hide_env_values(true))
        .render_long_help()
        .to_string();
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    write!(page, "\n## {name}\n\n```text\n{}\n```\n", help.join("\n").trim_end()).unwrap();
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        describe(inner, page);
    }
}
