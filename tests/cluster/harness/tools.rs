//! Where the pinned programs are: `tests/tools/build.sh` builds what is missing and prints the directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// What has been built, by folder of `tests/tools`; the empty name is the set that every scenario needs.
static BUILT: Mutex<BTreeMap<&str, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());

/// The path of one of the programs that every scenario needs.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    Ok(directory("")?.join(name))
}

/// The path of a program of another folder of `tests/tools`.
pub(crate) fn program_of(folder: &'static str, name: &str) -> Result<PathBuf> {
    Ok(directory(folder)?.join(name))
}

/// The CustomResourceDefinitions of a folder's programs: one YAML file each, by name.
pub(crate) fn definitions_of(folder: &'static str) -> Result<Vec<PathBuf>> {
    let definitions = directory(folder)?.join("../crds").join(folder);
    let files = std::fs::read_dir(&definitions).with_context(|| format!("reading {}", definitions.display()))?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    Ok(files)
}

/// Builds a folder's programs, unless they are there. Minutes of work: scenarios with programs of their own do it before their time begins.
pub(crate) fn build(folder: &'static str) -> Result<()> {
    directory(folder).map(drop)
}

fn directory(folder: &'static str) -> Result<PathBuf> {
    // Whoever panicked here has left whole entries.
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    match built.entry(folder).or_insert_with(|| run(folder).map_err(|error| format!("{error:#}"))) {
        Ok(directory) => Ok(directory.clone()),
        Err(error) => bail!("{error}"),
    }
}

fn run(folder: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/build.sh");
    let names = (!folder.is_empty()).then_some(folder);
    let output = Command::new(&script).args(names).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
