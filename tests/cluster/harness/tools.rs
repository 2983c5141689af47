//! Where the pinned programs are: `tests/tools/build.sh` builds what is missing and prints the directory.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use anyhow::{Context, Result, bail};

static DIRECTORY: OnceLock<Result<PathBuf, String>> = OnceLock::new();

/// The path of one of the pinned programs.
pub(crate) fn program(name: &str) -> Result<PathBuf> {
    let directory = DIRECTORY.get_or_init(|| build().map_err(|error| format!("{error:#}"))).as_ref();
    match directory {
        Ok(directory) => Ok(directory.join(name)),
        Err(error) => bail!("{error}"),
    }
}

fn build() -> Result<PathBuf> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tools/build.sh");
    let output = Command::new(&script).stderr(Stdio::inherit()).output().with_context(|| format!("running {}", script.display()))?;
    if !output.status.success() {
        bail!("{} failed: {}", script.display(), output.status);
    }
    Ok(PathBuf::from(String::from_utf8(output.stdout)?.trim()))
}
