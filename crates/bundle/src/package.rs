//! Converts a bundle on disk into the content of artifacts for a registry, and back.

use std::path::Path;

use serde_json::{Map, Value};

use super::BundleTree;
use super::checksums::CHECKSUMS;
use super::directory::{BundleDirectory, MAX_DEPTH, limit, text};
use super::error::BundleError;
use super::info::{BundleIdentity, BundleInfo, INFO};
use deployer::layout::{CHART, SETTINGS};
use deployer::{BundleFile, BundleSource, flux};

/// A bundle on disk.
#[derive(Clone, Debug)]
pub struct PackedBundle {
    /// Its `bundle-info.yaml`.
    pub info: BundleInfo,
    /// The registry from which its deployer reads it, if its files name one.
    pub registry: Option<BundleSource>,
    /// SHA-256 of `checksums.txt`, which identifies what was rendered.
    pub revision: String,
    /// All files, with their paths in the artifact.
    pub files: Vec<BundleFile>,
    /// The bundle's own charts that its deployer reads from the registry, each once.
    pub charts: Vec<PackedChart>,
}

/// A chart of a bundle. All hook releases have the same chart.
#[derive(Clone, Debug)]
pub struct PackedChart {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// Its `Chart.yaml` as JSON.
    pub metadata: Vec<u8>,
    /// Its files, in a folder with its name.
    pub files: Vec<BundleFile>,
}

/// A file of an artifact from an untrusted source. Its path is relative, without `..`.
#[derive(Clone, Debug)]
pub struct UnpackedFile {
    /// The path in the artifact.
    pub path: String,
    /// The content.
    pub content: Vec<u8>,
    /// Whether it is executable.
    pub executable: bool,
}

/// A bundle from an artifact.
#[derive(Clone, Debug)]
pub struct UnpackedBundle {
    /// Its files.
    pub tree: BundleTree,
    /// Its recipe and deployer.
    pub identity: BundleIdentity,
}

/// Reads the bundle in `directory`.
///
/// # Errors
/// It is not a bundle, it is incomplete, or a file cannot be in a bundle.
pub fn pack(directory: &Path) -> Result<PackedBundle, BundleError> {
    let bundle = BundleDirectory::open(directory)?;
    let info = bundle.info()?;
    let files = bundle.bundle_files()?;
    let checksums = files.iter().find(|file| file.path == CHECKSUMS);
    let checksums = checksums.ok_or_else(|| incomplete(directory))?;
    let revision = checksums.content.sha256().to_owned();
    // The file may be edited, and has not been checked when it was read.
    let registry = info.source.as_ref().filter(|source| source.is_oci());
    let registry = registry
        .map(|source| BundleSource::new(&source.url, &source.revision, &source.path))
        .transpose()
        .map_err(|error| BundleError::file(&directory.join(INFO), &error))?;
    let charts = if registry.is_some() && info.deployer == flux::NAME {
        charts(directory, &info, &files)?
    } else {
        Vec::new()
    };
    let path = |path: String| match &registry {
        Some(source) => source.join(&path),
        None => path,
    };
    let files =
        files.into_iter().map(|file| BundleFile { path: path(file.path), ..file }).collect();
    Ok(PackedBundle { info, registry, revision, files, charts })
}

/// Creates a bundle from the files of an artifact. It may be in a directory of the artifact.
/// `place` is the artifact, for messages.
///
/// # Errors
/// It is not a bundle, it is incomplete, or a file cannot be in a bundle.
pub fn unpack(place: &Path, files: Vec<UnpackedFile>) -> Result<UnpackedBundle, BundleError> {
    let Some(root) = root(&files).map(str::to_owned) else {
        return Err(BundleError::NoBundle { directory: place.to_owned(), file: INFO });
    };
    let mut found = Vec::new();
    for UnpackedFile { path: full, content, executable } in files {
        let invalid = |reason: &str| BundleError::file(&place.join(&full), &reason);
        let Some(path) = full.strip_prefix(&root) else {
            return Err(invalid("it is not in the directory of the bundle"));
        };
        if content.len() as u64 > limit(path) {
            return Err(invalid("larger than any file of a bundle"));
        }
        if path.split('/').count() > MAX_DEPTH {
            return Err(invalid(&format!("its directories are more than {MAX_DEPTH} deep")));
        }
        let content = text(content).map_err(invalid)?.into();
        found.push(BundleFile { path: path.to_owned(), content, executable });
    }
    let tree = BundleTree::complete(found);
    if tree.get(CHECKSUMS).is_none() {
        return Err(incomplete(place));
    }
    let info = tree.get(INFO).map(|file| file.content.as_str()).unwrap_or_default();
    let identity = BundleIdentity::parse(info).ok_or_else(|| {
        BundleError::file(&place.join(&root).join(INFO), &"it names no recipe and deployer")
    })?;
    Ok(UnpackedBundle { tree, identity })
}

fn incomplete(directory: &Path) -> BundleError {
    BundleError::Incomplete { directory: directory.to_owned(), file: CHECKSUMS }
}

/// Returns the directory of the bundle, with `/` at the end unless it is the root. All other files
/// must be in it, so it is the shortest one.
fn root(files: &[UnpackedFile]) -> Option<&str> {
    let directories = files.iter().filter_map(|file| file.path.strip_suffix(INFO));
    directories.filter(|path| path.is_empty() || path.ends_with('/')).min_by_key(|path| path.len())
}

/// Returns the bundle's own charts in the order of their first use.
fn charts(
    directory: &Path,
    info: &BundleInfo,
    files: &[BundleFile],
) -> Result<Vec<PackedChart>, BundleError> {
    let mut charts: Vec<PackedChart> = Vec::new();
    for release in &info.releases {
        if matches!(release.kind.as_str(), "upstream" | "kustomization") {
            continue;
        }
        let chart = chart(directory, &release.folder, files)?;
        let is_same =
            |other: &PackedChart| (&other.name, &other.version) == (&chart.name, &chart.version);
        if !charts.iter().any(is_same) {
            charts.push(chart);
        }
    }
    Ok(charts)
}

/// Returns the chart in a folder of the bundle, without the settings of its hook release.
fn chart(directory: &Path, folder: &str, files: &[BundleFile]) -> Result<PackedChart, BundleError> {
    let path = format!("{folder}/{CHART}");
    let invalid =
        |reason: &dyn ToString| BundleError::file(&directory.join(&path), &reason.to_string());
    let file = files.iter().find(|file| file.path == path).ok_or_else(|| invalid(&"missing"))?;
    let metadata: Map<String, Value> =
        yaml::from_str(file.content.as_str()).map_err(|error| invalid(&error))?;
    let field = |key: &str| {
        let text = metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| invalid(&format!("it has no `{key}`")))
    };
    let (name, version) = (field("name")?, field("version")?);
    let metadata = serde_json::to_vec(&metadata).map_err(|error| invalid(&error))?;
    let inside = files.iter().filter_map(|file| {
        let path = file.path.strip_prefix(folder)?.strip_prefix('/')?;
        let path = Some(path).filter(|path| *path != SETTINGS)?;
        Some(BundleFile { path: format!("{name}/{path}"), ..file.clone() })
    });
    let files = inside.collect();
    Ok(PackedChart { name, version, metadata, files })
}
