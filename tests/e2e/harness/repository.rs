//! Paths in the repository, and the path of the built program.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The variable with the path of the full program, which `tests/e2e/run.sh` builds.
const PROGRAM: &str = "GPU_ROLLOUT_PROGRAM";

/// Returns a path in the repository. This package is two directories below its root.
pub(crate) fn repository(path: &str) -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.ancestors().nth(2).unwrap_or(package).join(path)
}

/// The program at a workstation. The hook's pods have an image of their own.
///
/// # Errors
/// The environment does not name it.
pub(crate) fn gpu_rollout() -> Result<PathBuf> {
    std::env::var_os(PROGRAM)
        .map(PathBuf::from)
        .with_context(|| format!("{PROGRAM} is not set: run the scenarios with tests/e2e/run.sh"))
}
