//! The directory of one run, with the files of its processes. It is removed after success. After a
//! failure, it is kept and its path is printed.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The variable that keeps the directories of successful runs too.
const KEEP: &str = "GPU_ROLLOUT_E2E_KEEP";

/// Owns the directory.
pub(crate) struct RunDirectory {
    path: PathBuf,
    failed: bool,
}

impl RunDirectory {
    /// Creates an empty directory for a scenario.
    pub(crate) fn create(scenario: &str) -> Result<Self> {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("{scenario}-{}", std::process::id()));
        if path.exists() {
            fs::remove_dir_all(&path).with_context(|| format!("removing {}", path.display()))?;
        }
        fs::create_dir_all(path.join("logs"))
            .with_context(|| format!("creating {}", path.display()))?;
        Ok(Self { path, failed: true })
    }

    /// The directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Marks the run as successful.
    pub(crate) fn succeeded(&mut self) {
        self.failed = false;
    }
}

impl Drop for RunDirectory {
    fn drop(&mut self) {
        if self.failed || std::env::var_os(KEEP).is_some() {
            eprintln!("kept: {} (logs/, audit.log, objects/)", self.path.display());
        } else if let Err(error) = fs::remove_dir_all(&self.path) {
            eprintln!("could not remove {}: {error}", self.path.display());
        }
    }
}
