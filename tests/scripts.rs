//! The scripts check that programs are installed before they build anything.

#![expect(clippy::unwrap_used, reason = "a panic names the place in a failed test")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

/// Returns the command of a script of the repository, without the environment variables that change
/// its behavior.
fn script(path: &str) -> Command {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new(root.join(path));
    command.env_clear();
    command
}

/// Returns the Debian package of each program that `scripts/needs.sh` checks for some sets.
fn packages(sets: &str) -> BTreeMap<String, String> {
    let path = std::env::var_os("PATH").unwrap();
    let output = script("scripts/needs.sh")
        .arg("--list")
        .args(sets.split(' '))
        .env("PATH", path)
        .output()
        .unwrap();
    let rows = String::from_utf8(output.stdout).unwrap();
    let columns = rows.lines().map(|row| row.split(' ').skip(1).collect::<Vec<_>>());
    columns
        .map(|columns| (columns[0].split('|').next().unwrap().to_owned(), columns[1].to_owned()))
        .collect()
}

/// A machine on which some programs that the scripts need are missing and cannot be installed.
struct Machine(TempDir);

impl Machine {
    /// Creates a machine without these programs. The other programs of the tables fail, and record
    /// their calls in `called`. All further programs are those of the real machine.
    fn without(missing: &[&str]) -> Self {
        let machine = Self(tempfile::tempdir().unwrap());
        let bin = machine.0.path().join("bin");
        fs::create_dir(&bin).unwrap();
        let checked = packages("image stack scenarios e2e ci");
        for name in checked.keys().filter(|name| !missing.contains(&name.as_str())) {
            machine.add(
                name,
                "echo \"${0##*/} $*\" >>\"${0%/*}/../called\"; echo too old >&2; exit 3",
            );
        }
        let path = std::env::var_os("PATH").unwrap();
        for entry in std::env::split_paths(&path)
            .filter_map(|directory| fs::read_dir(directory).ok())
            .flatten()
        {
            let entry = entry.unwrap();
            let name = entry.file_name().into_string().unwrap();
            let alternative = name.starts_with("chromium") || name == "google-chrome";
            if name != "apt-get"
                && !checked.contains_key(&name)
                && !alternative
                && !bin.join(&name).exists()
            {
                // Replace a dangling link.
                symlink(entry.path(), bin.join(name)).ok();
            }
        }
        machine
    }

    fn add(&self, name: &str, body: &str) {
        let program = self.0.path().join("bin").join(name);
        fs::write(&program, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn run(&self, path: &str, arguments: &[&str]) -> Output {
        let home = self.0.path();
        script(path)
            .args(arguments)
            .env("PATH", home.join("bin"))
            .env("HOME", home)
            .output()
            .unwrap()
    }

    /// Returns the calls of programs that the scripts check, one per line.
    fn called(&self) -> String {
        fs::read_to_string(self.0.path().join("called")).unwrap_or_default()
    }
}

fn errors(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The scripts, each with the sets of programs that it needs.
const SCRIPTS: [(&str, &[&str], &str); 7] = [
    ("scripts/image.sh", &["quick"], "image"),
    ("scripts/stack.sh", &["quick"], "image stack"),
    ("scripts/e2e.sh", &["quick"], "image stack scenarios e2e"),
    ("scripts/e2e.sh", &["quick", "--full"], "image stack scenarios e2e"),
    ("scripts/e2e.sh", &["quick", "tutorial"], "image stack scenarios"),
    ("tests/e2e/run.sh", &["--stack"], "stack"),
    ("tests/e2e/run.sh", &[], "stack scenarios e2e"),
];

#[test]
fn scripts_name_all_missing_programs_first() {
    for (path, arguments, sets) in SCRIPTS {
        let packages = packages(sets);
        assert!(packages.len() > 3, "{sets}: {packages:?}");
        let machine = Machine::without(&packages.keys().map(String::as_str).collect::<Vec<_>>());
        let output = machine.run(path, arguments);
        let errors = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{path} {arguments:?}: {errors}");
        let mut named: Vec<&str> =
            errors.lines().filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).collect();
        named.sort_unstable();
        assert!(packages.keys().eq(&named), "{path} {arguments:?} names {named:?}: {errors}");
        for package in packages.values().filter(|package| *package != "-") {
            assert!(
                errors.contains(&format!(" {package}")),
                "{path} {arguments:?} does not name the package {package}: {errors}"
            );
        }
        assert_eq!(machine.called(), "", "{path} {arguments:?}");
    }
}

#[test]
fn one_missing_program_is_named_before_go_runs() {
    for (path, arguments, _) in SCRIPTS.into_iter().filter(|(_, _, sets)| sets.starts_with("image"))
    {
        let machine = Machine::without(&["buildah"]);
        let output = machine.run(path, arguments);
        let errors = errors(&output);
        assert_eq!(output.status.code(), Some(1), "{path} {arguments:?}: {errors}");
        assert!(
            errors.contains("\n  buildah builds the image\nhint: ")
                && errors.contains("apt-get install buildah)"),
            "{path} {arguments:?}: {errors}"
        );
        assert_eq!(machine.called(), "", "{path} {arguments:?}");
    }
}

#[test]
fn old_go_is_refused_before_the_build() {
    let machine = Machine::without(&[]);
    let output = machine.run("scripts/stack.sh", &["quick"]);
    let errors = errors(&output);
    assert_eq!(output.status.code(), Some(1), "{errors}");
    assert!(errors.contains("tests/tools/etcd: too old\nhint: install Go 1."), "{errors}");
    assert_eq!(machine.called(), "go list -m\n");
}

/// A user of the tutorial does not wait for the programs of other tests, such as Argo CD.
#[test]
fn stack_builds_only_what_it_runs() {
    let listed = script("tests/tools/build.sh")
        .args(["--list", "stack"])
        .env("PATH", std::env::var_os("PATH").unwrap())
        .env("HOME", "/")
        .output()
        .unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    let expected: Vec<&str> =
        listed.lines().filter_map(|line| line.split(' ').next_back()).collect();
    assert!(expected.contains(&"kwok"), "{listed}");
    let machine = Machine::without(&[]);
    machine.add("bwrap", "exit 0");
    // Builds empty programs.
    machine.add(
        "go",
        "[ \"$1\" = build ] || exit 0\nwhile [ $# -gt 1 ]; do [ \"$1\" != -o ] || output=$2; shift; done\necho \"${output##*/}\" >>\"${0%/*}/../called\"\n: >\"$output\"\nchmod +x \"$output\"",
    );
    machine.run("scripts/stack.sh", &["quick"]);
    let called = machine.called();
    // The name of the program, a digest, and the number of the process.
    let built: Vec<&str> = called
        .lines()
        .filter_map(|line| line.split_once(".tmp")?.0.rsplit_once('-'))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(built, expected, "{called}");
}

/// As root on Debian, the scripts install missing programs before anything else runs.
#[test]
fn missing_packages_are_installed_for_root() {
    let machine = Machine::without(&["buildah", "readelf"]);
    fs::remove_file(machine.0.path().join("bin/id")).unwrap();
    machine.add("id", "echo 0");
    machine.add("apt-get", "echo \"${0##*/} $*\" >>\"${0%/*}/../called\"");
    let output = machine.run("scripts/needs.sh", &["image"]);
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(
        machine.called(),
        "apt-get update -qq\napt-get install -y -qq --no-install-recommends buildah binutils\n"
    );
}

#[test]
fn unknown_names_are_refused() {
    let machine = Machine::without(&[]);
    for (names, message) in [
        (vec!["image", "nothing"], "no set or program is called nothing"),
        (vec![], "expected the name"),
    ] {
        let output = machine.run("scripts/needs.sh", &names);
        assert_eq!(output.status.code(), Some(2), "{names:?}");
        assert!(errors(&output).contains(message), "{names:?}: {}", errors(&output));
    }
}
