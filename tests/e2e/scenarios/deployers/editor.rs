//! A user's edits of a bundle. Files are named by their path in the bundle. A `*` in a name matches
//! anything.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

/// Changes each file of this name. Fails if no such file exists, or if one stays unchanged.
pub(super) fn edit(bundle: &Path, name: &str, change: impl Fn(&str) -> String) -> Result<()> {
    for file in named(bundle, name)? {
        let text = fs::read_to_string(&file)?;
        let new = change(&text);
        ensure!(new != text, "nothing to change in {}", file.display());
        fs::write(&file, new)?;
    }
    Ok(())
}

/// Replaces `from` by `to` in each file of this name.
pub(super) fn replace(bundle: &Path, name: &str, from: &str, to: &str) -> Result<()> {
    edit(bundle, name, |text| text.replace(from, to))
}

/// Replaces the rest of each line that starts with `begin`, in each file of this name.
pub(super) fn set_lines(bundle: &Path, name: &str, begin: &str, end: &str) -> Result<()> {
    let set = |line: &str| {
        if line.starts_with(begin) { format!("{begin}{end}\n") } else { line.to_owned() }
    };
    edit(bundle, name, |text| text.split_inclusive('\n').map(set).collect())
}

/// Deletes each file of this name.
pub(super) fn remove(bundle: &Path, name: &str) -> Result<()> {
    Ok(named(bundle, name)?.iter().try_for_each(fs::remove_file)?)
}

/// Writes another GPU driver into the operator's values.
pub(super) fn replace_driver(bundle: &Path, from: &str, to: &str) -> Result<()> {
    replace(bundle, "*-gpu-operator/values.yaml", from, to)
}

/// Lets Argo CD retry a failed hook once, after 5 s. The Applications of a bundle set two retries,
/// after 1 minute and more. (A limit of 0 does not work: Argo CD drops zero values.)
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
    ensure!(!found.is_empty(), "{} has no file {name}", bundle.display());
    Ok(found)
}
