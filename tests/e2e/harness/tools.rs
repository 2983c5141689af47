//! The pinned programs. `tests/tools/build.sh` builds missing ones and prints the directory.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};

use super::repository::repository;

/// The name in `tests/tools/build.sh` of the programs that the cluster of every scenario runs.
const STACK: &str = "stack";

/// The directory with the programs of every stack. The first build takes minutes, and happens
/// before the deadline of a scenario starts.
static BUILT: LazyLock<Result<PathBuf, String>> =
    LazyLock::new(|| build(STACK).map_err(|error| format!("{error:#}")));

thread_local! {
    /// The names that [`program`] was called with. Each scenario has a thread of its own.
    static USED: RefCell<BTreeSet<String>> = const { RefCell::new(BTreeSet::new()) };
}

/// Returns the path of a program. A program of only some scenarios is built now, if
/// `tests/e2e/run.sh` did not build it.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    USED.with_borrow_mut(|used| used.insert(name.to_owned()));
    let path = directory()?.join(name);
    if !path.exists() {
        build(name)?;
    }
    Ok(path)
}

/// Returns the pinned programs that the scenario of this thread has used so far.
pub(crate) fn used_programs() -> BTreeSet<String> {
    USED.with_borrow(BTreeSet::clone)
}

/// Returns the programs that `make stack` builds.
pub(crate) fn stack_programs() -> Result<BTreeSet<String>> {
    let list = run_script("tests/tools/build.sh", &["--list", STACK])?;
    Ok(list.lines().filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect())
}

/// Checks a program that no Go module pins, and installs its package if `scripts/needs.sh` can.
pub(crate) fn require(name: &str) -> Result<()> {
    run_script("scripts/needs.sh", &[name]).map(drop)
}

/// Returns the YAML files with the CustomResourceDefinitions of a folder of `tests/tools`, by name.
pub(crate) fn definitions(folder: &str) -> Result<Vec<PathBuf>> {
    let definitions = directory()?.join("../crds").join(folder);
    if !definitions.exists() {
        build(folder)?;
    }
    let files = std::fs::read_dir(&definitions)
        .with_context(|| format!("reading {}", definitions.display()))?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn directory() -> Result<&'static Path> {
    BUILT.as_deref().map_err(|error| anyhow!("{error}"))
}

/// Builds a program, those of a folder, or those of [`STACK`], and returns their directory.
fn build(name: &str) -> Result<PathBuf> {
    Ok(PathBuf::from(run_script("tests/tools/build.sh", &[name])?.trim()))
}

/// Runs a script of the repository, and returns its standard output.
pub(crate) fn run_script(script: &str, arguments: &[&str]) -> Result<String> {
    let script = repository(script);
    let output = Command::new(&script).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", script.display(), output.status);
    }
    Ok(String::from_utf8(output.stdout)?)
}
