//! The scripts of a release: what users run (install, preview), and what gives the same files in
//! every directory. `make reproducible` builds a whole release twice.

#![expect(clippy::unwrap_used, reason = "a panic names the place in a failed test")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

mod release {
    mod install;
    mod parts;
    mod preview;
    mod publish;
}

/// Returns the command of a script of the repository.
fn script(path: &str) -> Command {
    Command::new(Path::new(env!("CARGO_MANIFEST_DIR")).join(path))
}

/// Runs a command, and returns its standard output. Fails with its messages if it does not succeed.
#[track_caller]
fn succeed(command: &mut Command) -> String {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", errors(&output));
    String::from_utf8(output.stdout).unwrap()
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Puts the programs of a directory before those of the machine.
#[expect(clippy::disallowed_methods, reason = "the scripts need the programs of the machine")]
fn path_with(directory: &Path) -> String {
    format!("{}:{}", directory.display(), std::env::var("PATH").unwrap())
}

/// Writes a script that can be run.
fn add_program(path: &Path, body: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
}
