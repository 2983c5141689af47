//! What a user changes in a bundle with an editor.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

/// Argo CD waits a minute and more before it tries a hook again: the Application's own setting, which is made shorter here.
pub(super) fn hasten(bundle: &Path) -> Result<()> {
    for folder in ["apps", "templates"].map(|folder| bundle.join(folder)) {
        for file in folder.read_dir().into_iter().flatten() {
            let file = file?.path();
            let text = std::fs::read_to_string(&file)?;
            std::fs::write(&file, text.replace("duration: \"1m\"", "duration: \"5s\""))?;
        }
    }
    Ok(())
}

/// Changes the value of the lines that are chosen.
pub(super) fn edit(file: &Path, chosen: impl Fn(&str) -> bool, key: &str, value: impl Display) -> Result<()> {
    let text = std::fs::read_to_string(file).with_context(|| format!("reading {}", file.display()))?;
    let changed = |line: &str| {
        let indentation = &line[..line.len() - line.trim_start().len()];
        if chosen(line) { format!("{indentation}{key}: {value}\n") } else { format!("{line}\n") }
    };
    std::fs::write(file, text.lines().map(changed).collect::<String>())?;
    Ok(())
}

/// The numbered folder of a release.
pub(super) fn folder_of(bundle: &Path, release: &str) -> Result<PathBuf> {
    for entry in bundle.read_dir()? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if name.split_once('-').is_some_and(|(_, name)| name == release) {
            return Ok(path);
        }
    }
    bail!("no folder of {release} in {}", bundle.display())
}
