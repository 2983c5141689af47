//! Compares two bundles, release by release.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde_json::Value;

use super::checksums::{CHECKSUMS, SIGNATURE};
use super::directory::BundleDirectory;
use super::error::BundleError;
use super::info::{BundleInfo, INFO, RECIPE, ReleaseInfo};
use deployer::layout::{CHART, SETTINGS, VALUES};

pub mod values;

use values::{ValueChange, changes};

/// The differences between two bundles.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct BundleDifference {
    /// Changed releases, in the order of the new bundle; removed ones come last.
    pub releases: Vec<ReleaseDifference>,
    /// Changes of the bundles' own data: deployer, source, hook image, chart repositories.
    pub bundle: Vec<ValueChange>,
    /// Changed files outside releases: scripts, the deployer's own files, pages.
    pub files: Vec<FileDifference>,
}

impl BundleDifference {
    /// Whether there are no differences.
    pub fn is_empty(&self) -> bool {
        self.releases.is_empty() && self.bundle.is_empty() && self.files.is_empty()
    }
}

/// The kind of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum DifferenceKind {
    /// Only the new bundle has it.
    Added,
    /// Only the old bundle has it.
    Removed,
    /// Both have it.
    Changed,
}

/// A changed release.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ReleaseDifference {
    /// Its name.
    pub name: String,
    /// Its kind: `upstream`, `crds`, `manifests` or `hook`.
    pub release_kind: String,
    /// The kind of the difference.
    pub change: DifferenceKind,
    /// Changes of version, namespace, budget, order and similar data.
    pub facts: Vec<ValueChange>,
    /// Changes of values by path; for a hook, of its own settings.
    pub values: Vec<ValueChange>,
    /// Other changed files of the release.
    pub files: Vec<FileDifference>,
    /// Why the vendor does not support this change of version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unsupported: Option<String>,
    /// For a hook: whether its trigger digest changes, so that it fires with every deployer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fires: Option<bool>,
}

/// A changed file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FileDifference {
    /// Its path, below the release's folder if it belongs to one.
    pub path: String,
    /// The kind of the difference.
    pub change: DifferenceKind,
}

/// Compares two bundles on disk.
///
/// # Errors
/// A directory is not a bundle or cannot be read, or a YAML file is invalid.
pub fn diff(old: &Path, new: &Path) -> Result<BundleDifference, BundleError> {
    let (old, new) = (BundleOnDisk::read(old)?, BundleOnDisk::read(new)?);
    let mut difference = BundleDifference {
        bundle: changes(&old.about()?, &new.about()?),
        ..BundleDifference::default()
    };
    // Names of releases with changed values. Hooks that share these values fire.
    let mut edited = BTreeSet::new();
    for release in &new.info.releases {
        let found = match old.release(&release.name) {
            Some(before) => compare((&old, before), (&new, release))?,
            None => alone(&new, release, DifferenceKind::Added),
        };
        if found.change == DifferenceKind::Added || !found.values.is_empty() {
            edited.insert(release.name.as_str());
        }
        difference.releases.push(found);
    }
    for (release, found) in new
        .info
        .releases
        .iter()
        .zip(&mut difference.releases)
        .filter(|(release, _)| release.kind == HOOK)
    {
        let before = old.release(&release.name);
        let other_sharing = before.is_some_and(|before| before.shares != release.shares);
        let app = |bundle: &BundleOnDisk, release: &ReleaseInfo| {
            Ok::<_, BundleError>(bundle.yaml(&release.folder, CHART)?["appVersion"].clone())
        };
        // Determines the tag of the hook's image, unless the settings set one.
        let other_image = match before {
            Some(before) => app(&old, before)? != app(&new, release)?,
            None => true,
        };
        let fires = other_sharing || other_image || edited.contains(release.name.as_str());
        found.fires =
            Some(fires || release.shares.iter().any(|shared| edited.contains(shared.as_str())));
    }
    difference.releases.retain(|found| !found.is_same());
    let gone = old.info.releases.iter().filter(|release| new.release(&release.name).is_none());
    difference.releases.extend(gone.map(|release| alone(&old, release, DifferenceKind::Removed)));
    difference.files = files(&old.without_releases(), &new.without_releases());
    Ok(difference)
}

const HOOK: &str = "hook";
const UPSTREAM: &str = "upstream";

impl ReleaseDifference {
    fn new(release: &ReleaseInfo, change: DifferenceKind, files: Vec<FileDifference>) -> Self {
        let (name, release_kind) = (release.name.clone(), release.kind.clone());
        Self {
            name,
            release_kind,
            change,
            facts: Vec::new(),
            values: Vec::new(),
            files,
            unsupported: None,
            fires: None,
        }
    }

    fn is_same(&self) -> bool {
        let nothing = self.facts.is_empty() && self.values.is_empty() && self.files.is_empty();
        self.change == DifferenceKind::Changed && nothing && self.fires != Some(true)
    }
}

fn compare(
    (old, before): (&BundleOnDisk, &ReleaseInfo),
    (new, after): (&BundleOnDisk, &ReleaseInfo),
) -> Result<ReleaseDifference, BundleError> {
    let mut values = Vec::new();
    for file in [VALUES, SETTINGS] {
        // The hook chart's own values.yaml is compared as a file.
        if (file == SETTINGS) == (after.kind == HOOK) {
            values
                .extend(changes(&old.yaml(&before.folder, file)?, &new.yaml(&after.folder, file)?));
        }
    }
    let compared = if after.kind == HOOK { SETTINGS } else { VALUES };
    let (mut first, mut second) = (old.folder(&before.folder), new.folder(&after.folder));
    first.remove(compared);
    second.remove(compared);
    let facts = changes(&facts(before), &facts(after));
    Ok(ReleaseDifference {
        facts,
        values,
        unsupported: unsupported(before, after),
        ..ReleaseDifference::new(after, DifferenceKind::Changed, files(&first, &second))
    })
}

/// Returns why the vendor does not support the change of a component's version.
fn unsupported(before: &ReleaseInfo, after: &ReleaseInfo) -> Option<String> {
    let component = catalog::component(&after.name).filter(|_| after.kind == UPSTREAM)?;
    let (old, new) = (before.version.as_deref()?, after.version.as_deref()?);
    Some(component.crossed_limit(old, new)?.reason.clone())
}

/// Returns the difference for a release that only one bundle has.
fn alone(
    bundle: &BundleOnDisk,
    release: &ReleaseInfo,
    change: DifferenceKind,
) -> ReleaseDifference {
    let none = Value::Object(serde_json::Map::new());
    let (old, new) = if change == DifferenceKind::Added {
        (none, facts(release))
    } else {
        (facts(release), none)
    };
    let files = bundle
        .folder(&release.folder)
        .into_keys()
        .map(|path| FileDifference { path: path.to_owned(), change })
        .collect();
    ReleaseDifference {
        facts: changes(&old, &new),
        ..ReleaseDifference::new(release, change, files)
    }
}

/// Returns a release's own data, without folder and name.
fn facts(release: &ReleaseInfo) -> Value {
    without_keys(serde_json::to_value(release).unwrap_or_default(), &["folder", "name", "kind"])
}

fn without_keys(mut value: Value, keys: &[&str]) -> Value {
    if let Some(map) = value.as_object_mut() {
        map.retain(|key, _| !keys.contains(&key.as_str()));
    }
    value
}

fn files(old: &BTreeMap<&str, &[u8]>, new: &BTreeMap<&str, &[u8]>) -> Vec<FileDifference> {
    let paths: BTreeSet<&&str> = old.keys().chain(new.keys()).collect();
    let change = |path: &str| match (old.get(path), new.get(path)) {
        (None, _) => Some(DifferenceKind::Added),
        (_, None) => Some(DifferenceKind::Removed),
        (Some(before), Some(after)) => (before != after).then_some(DifferenceKind::Changed),
    };
    paths
        .into_iter()
        .filter_map(|path| Some(FileDifference { path: (*path).to_owned(), change: change(path)? }))
        .collect()
}

/// A bundle on disk.
struct BundleOnDisk {
    directory: PathBuf,
    info: BundleInfo,
    files: BTreeMap<String, Vec<u8>>,
}

impl BundleOnDisk {
    fn read(directory: &Path) -> Result<Self, BundleError> {
        let bundle = BundleDirectory::open(directory)?;
        let (info, files) = (bundle.info()?, bundle.complete_contents()?);
        Ok(Self { directory: directory.to_owned(), info, files })
    }

    /// Returns the bundle's own data without releases. Changes of recipe and chart are visible in
    /// other files.
    fn about(&self) -> Result<Value, BundleError> {
        let about = serde_json::to_value(&self.info)
            .map_err(|error| BundleError::file(&self.directory.join(INFO), &error))?;
        Ok(without_keys(about, &["releases", "recipe", "hookChart", "renderedBy"]))
    }

    fn release(&self, name: &str) -> Option<&ReleaseInfo> {
        self.info.releases.iter().find(|release| release.name == name)
    }

    /// Returns a YAML file of a release; null if it does not exist.
    fn yaml(&self, folder: &str, file: &str) -> Result<Value, BundleError> {
        let path = format!("{folder}/{file}");
        let Some(content) = self.files.get(&path) else { return Ok(Value::Null) };
        yaml::from_str(&String::from_utf8_lossy(content))
            .map_err(|error| BundleError::file(&self.directory.join(&path), &error))
    }

    /// Returns the files of a folder by their paths below it.
    fn folder(&self, folder: &str) -> BTreeMap<&str, &[u8]> {
        let below = |path: &'_ String| -> Option<usize> {
            path.strip_prefix(folder)?.starts_with('/').then_some(folder.len() + 1)
        };
        self.files
            .iter()
            .filter_map(|(path, content)| Some((&path[below(path)?..], content.as_slice())))
            .collect()
    }

    /// Returns the files outside releases, without those that derive from all others or sign them.
    fn without_releases(&self) -> BTreeMap<&str, &[u8]> {
        let belongs = |path: &str| {
            self.info.releases.iter().any(|release| {
                path.strip_prefix(&release.folder).is_some_and(|rest| rest.starts_with('/'))
            })
        };
        let files = self.files.iter().filter(|(path, _)| {
            ![INFO, RECIPE, CHECKSUMS, SIGNATURE].contains(&path.as_str()) && !belongs(path)
        });
        files.map(|(path, content)| (path.as_str(), content.as_slice())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_downgrade_is_named() {
        let release = |kind: &str, version: &str| ReleaseInfo {
            name: "nvidia-dra-driver-gpu".to_owned(),
            kind: kind.to_owned(),
            version: Some(version.to_owned()),
            ..ReleaseInfo::default()
        };
        for (kind, old, new, is_unsupported) in [
            (UPSTREAM, "0.4.1", "25.12.0", true),
            (UPSTREAM, "25.12.0", "0.4.1", false),
            (HOOK, "0.4.1", "25.12.0", false),
        ] {
            let found = unsupported(&release(kind, old), &release(kind, new));
            assert_eq!(found.is_some(), is_unsupported, "{kind} {old} {new}");
        }
    }
}
