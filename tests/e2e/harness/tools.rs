//! Where the pinned programs are: `tests/tools/build.sh` builds what is missing and prints the directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use anyhow::{Context, Result, anyhow, bail};

use super::repository::repository;

/// The directory, as soon as everything has been built: minutes of work the first time, and done before the time of a scenario begins.
static BUILT: LazyLock<Result<PathBuf, String>> = LazyLock::new(|| build(&[]).map_err(|error| format!("{error:#}")));

/// The path of a program. One that only few scenarios run is built now, if it was not before.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let path = directory()?.join(name);
    if !path.exists() {
        build(&[name])?;
    }
    Ok(path)
}

/// The CustomResourceDefinitions of the programs of a folder of `tests/tools`: one YAML file each, by name.
pub(crate) fn definitions(folder: &str) -> Result<Vec<PathBuf>> {
    let definitions = directory()?.join("../crds").join(folder);
    let files = std::fs::read_dir(&definitions).with_context(|| format!("reading {}", definitions.display()))?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

fn directory() -> Result<&'static Path> {
    BUILT.as_deref().map_err(|error| anyhow!("{error}"))
}

/// Some programs, or all that are usual.
fn build(names: &[&str]) -> Result<PathBuf> {
    let script = repository("tests/tools/build.sh");
    let output = Command::new(&script).args(names).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
