//! Where the pinned programs are: `tests/tools/build.sh` builds what is missing and prints the directory.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, bail};

/// What was asked for already, and where it is.
static BUILT: Mutex<BTreeMap<String, Result<PathBuf, String>>> = Mutex::new(BTreeMap::new());

/// The path of one of the pinned programs, which is built if it is not there.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    Ok(directory(name)?.join(name))
}

/// The CRDs of a deployer that runs in the cluster, from the module that `program` is built from: the directory of their files.
pub(crate) fn crds(program: &str, module: &str) -> Result<PathBuf> {
    Ok(directory(program)?.with_file_name("crds").join(module))
}

/// The directory of the programs, once this one is among them. Builds are one after another, also for scenarios at the same time.
fn directory(name: &str) -> Result<PathBuf> {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    match built.entry(name.to_owned()).or_insert_with(|| build(name).map_err(|error| format!("{error:#}"))) {
        Ok(directory) => Ok(directory.clone()),
        Err(error) => bail!("{error}"),
    }
}

fn build(name: &str) -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/build.sh");
    let output = Command::new(&script).arg(name).stderr(Stdio::inherit()).output();
    let output = output.with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} {name} failed: {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
