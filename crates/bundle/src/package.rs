//! Converts a bundle on disk into the content of artifacts for a registry, and back.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::{Map, Value};

use super::BundleTree;
use super::checksums::CHECKSUMS;
use super::directory::{BundleDirectory, MAX_DEPTH, MAX_ENTRIES, limit};
use super::error::BundleError;
use super::info::{BundleIdentity, BundleInfo, INFO};
use archive::{ArchiveFile, ArchiveFiles, may_be_git};
use contract::digest::sha256;
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
    pub files: ArchiveFiles,
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
    pub files: ArchiveFiles,
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
    let files = bundle.archive_files()?;
    for (path, file) in &files {
        text(&file.content).map_err(|reason| BundleError::file(&directory.join(path), &reason))?;
    }
    let checksums = files.get(CHECKSUMS).ok_or_else(|| incomplete(directory))?;
    let revision = sha256(&checksums.content);
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
    let mut packed = ArchiveFiles::new();
    for (name, file) in files {
        let path = path(name);
        if may_be_git(&path) {
            let reason = "it could be a part of a Git repository, which `bundle pull` refuses";
            return Err(BundleError::file(&directory.join(path), &reason));
        }
        packed.insert(path, file);
    }
    Ok(PackedBundle { info, registry, revision, files: packed, charts })
}

/// Creates a bundle from the files of an artifact. It may be in a directory of the artifact. The
/// files may be from an untrusted source, but [`archive::unpack`] has checked their paths. `place`
/// is the artifact, for messages.
///
/// # Errors
/// It is not a bundle, it is incomplete, it has too many files and directories, or a file cannot be
/// in a bundle.
pub fn unpack(place: &Path, files: ArchiveFiles) -> Result<UnpackedBundle, BundleError> {
    let Some(root) = root(&files).map(str::to_owned) else {
        return Err(BundleError::NoBundle { directory: place.to_owned(), file: INFO });
    };
    let mut found = Vec::new();
    for (full, ArchiveFile { content, executable }) in files {
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
        let content = text(&content).map_err(invalid)?.to_owned().into();
        found.push(BundleFile { path: path.to_owned(), content, executable });
    }
    if entry_count(&found) > MAX_ENTRIES {
        let reason = format!("it has more than {MAX_ENTRIES} files and directories");
        return Err(BundleError::file(place, &reason));
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

/// Returns the number of files and directories, as the limit of the commands that read bundles on
/// disk counts them.
fn entry_count(files: &[BundleFile]) -> usize {
    let folders: BTreeSet<&str> = files
        .iter()
        .flat_map(|file| file.path.match_indices('/').map(move |(end, _)| &file.path[..end]))
        .collect();
    files.len() + folders.len()
}

fn incomplete(directory: &Path) -> BundleError {
    BundleError::Incomplete { directory: directory.to_owned(), file: CHECKSUMS }
}

/// Returns the content of a file of a bundle as text.
///
/// # Errors
/// Why the file cannot be in a bundle.
fn text(content: &[u8]) -> Result<&str, &'static str> {
    std::str::from_utf8(content).map_err(|_| "not a text file")
}

/// Returns the directory of the bundle, with `/` at the end unless it is the root. All other files
/// must be in it, so it is the shortest one.
fn root(files: &ArchiveFiles) -> Option<&str> {
    let directories = files.keys().filter_map(|path| path.strip_suffix(INFO));
    directories.filter(|path| path.is_empty() || path.ends_with('/')).min_by_key(|path| path.len())
}

/// Returns the bundle's own charts in the order of their first use.
///
/// # Errors
/// A chart is invalid, or two folders have different charts with the same name and version.
fn charts(
    directory: &Path,
    info: &BundleInfo,
    files: &ArchiveFiles,
) -> Result<Vec<PackedChart>, BundleError> {
    let mut charts: Vec<PackedChart> = Vec::new();
    for release in &info.releases {
        if matches!(release.kind.as_str(), "upstream" | "kustomization") {
            continue;
        }
        let (name, version, metadata) = chart_file(directory, &release.folder, files)?;
        let files = chart_files(&release.folder, &name, files);
        let same = charts.iter().find(|chart| (&chart.name, &chart.version) == (&name, &version));
        match same {
            None => charts.push(PackedChart { name, version, metadata, files }),
            Some(chart) if chart.files == files => {}
            // Only one of them can be in the registry.
            Some(_) => {
                return Err(BundleError::OtherChart {
                    folder: directory.join(&release.folder),
                    chart: name,
                    version,
                });
            }
        }
    }
    Ok(charts)
}

/// Returns name and version of the chart in a folder of the bundle, and its `Chart.yaml` as JSON.
fn chart_file(
    directory: &Path,
    folder: &str,
    files: &ArchiveFiles,
) -> Result<(String, String, Vec<u8>), BundleError> {
    let path = format!("{folder}/{CHART}");
    let invalid =
        |reason: &dyn ToString| BundleError::file(&directory.join(&path), &reason.to_string());
    let file = files.get(&path).ok_or_else(|| invalid(&"missing"))?;
    let text = text(&file.content).map_err(|reason| invalid(&reason))?;
    let metadata: Map<String, Value> = yaml::from_str(text).map_err(|error| invalid(&error))?;
    let field = |key: &str| {
        let text = metadata.get(key).and_then(Value::as_str).map(str::to_owned);
        text.ok_or_else(|| invalid(&format!("it has no `{key}`")))
    };
    let (name, version) = (field("name")?, field("version")?);
    let metadata = serde_json::to_vec(&metadata).map_err(|error| invalid(&error))?;
    Ok((name, version, metadata))
}

/// Returns the files of the chart in a folder of the bundle, without the settings of its hook
/// release.
fn chart_files(folder: &str, name: &str, files: &ArchiveFiles) -> ArchiveFiles {
    let inside = files.iter().filter_map(|(path, file)| {
        let path = path.strip_prefix(folder)?.strip_prefix('/')?;
        (path != SETTINGS).then(|| (format!("{name}/{path}"), file.clone()))
    });
    inside.collect()
}
