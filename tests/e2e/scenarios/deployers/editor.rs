//! A user's edits of a bundle. Files are named by their path in the bundle. A `*` in a name matches
//! anything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// Changes each file of this name. At least one has to be there, and each has to change.
pub(super) fn edit(bundle: &Path, name: &str, change: impl Fn(&str) -> String) -> Result<()> {
    for file in named(bundle, name)? {
        let text = fs::read_to_string(&file)?;
        let new = change(&text);
        ensure!(new != text, "nothing to change in {}", file.display());
        fs::write(&file, new)?;
    }
    Ok(())
}

/// The same: writes `to` wherever it says `from`.
pub(super) fn replace(bundle: &Path, name: &str, from: &str, to: &str) -> Result<()> {
    edit(bundle, name, |text| text.replace(from, to))
}

/// The same: in the lines that begin so, what comes after.
pub(super) fn set_lines(bundle: &Path, name: &str, begin: &str, end: &str) -> Result<()> {
    let set = |line: &str| {
        if line.starts_with(begin) { format!("{begin}{end}\n") } else { line.to_owned() }
    };
    edit(bundle, name, |text| text.split_inclusive('\n').map(set).collect())
}

/// Takes each file of this name away.
pub(super) fn remove(bundle: &Path, name: &str) -> Result<()> {
    Ok(named(bundle, name)?.iter().try_for_each(fs::remove_file)?)
}

/// Writes another GPU driver into the operator's values.
pub(super) fn replace_driver(bundle: &Path, from: &str, to: &str) -> Result<()> {
    replace(bundle, "*-gpu-operator/values.yaml", from, to)
}

/// Argo CD tries a hook that failed again twice, after a minute and more: the Applications' own
/// setting. Here it does once, and soon. (A limit of 0 is dropped by it, as everything that says
/// nothing.)
pub(super) fn try_again_soon(bundle: &Path) -> Result<()> {
    for folder in ["apps", "templates"].into_iter().filter(|folder| bundle.join(folder).is_dir()) {
        for hook in ["pre", "post"] {
            let file = format!("{folder}/*-{hook}.yaml");
            replace(bundle, &file, "limit: 2\n", "limit: 1\n")?;
            replace(bundle, &file, "duration: \"1m\"", "duration: \"5s\"")?;
        }
    }
    Ok(())
}

fn named(bundle: &Path, name: &str) -> Result<Vec<PathBuf>> {
    let mut found = vec![bundle.to_owned()];
    for part in name.split('/') {
        let (begin, end) = part.split_once('*').unwrap_or((part, ""));
        let fits = |name: &str| {
            if part.contains('*') {
                name.starts_with(begin) && name.ends_with(end)
            } else {
                name == part
            }
        };
        let mut next = Vec::new();
        for folder in found.iter().filter(|path| path.is_dir()) {
            for entry in fs::read_dir(folder)? {
                let entry = entry?;
                if fits(&entry.file_name().to_string_lossy()) {
                    next.push(entry.path());
                }
            }
        }
        found = next;
    }
    ensure!(!found.is_empty(), "nothing in {} is called {name}", bundle.display());
    Ok(found)
}
