//! Reads packaged charts (`NAME-VERSION.tgz`) of others. The `Chart.yaml` in a package says what it
//! is; the name of its file says nothing.

use std::io::{self, Read as _};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use serde::Deserialize;
use tar::Archive;

use recipe::regular_file::open_regular;

/// The largest package in bytes. The largest chart of the catalog has less than a tenth of it.
const MAX_PACKAGE: u64 = 20 << 20;
/// The largest size of all files of a chart together, in bytes. It is Helm's limit too.
const MAX_UNPACKED: u64 = 100 << 20;
/// The largest `Chart.yaml` in bytes.
const MAX_CHART_FILE: u64 = 1 << 20;
/// The file of a chart that identifies it.
const CHART_FILE: &[u8] = b"Chart.yaml";

/// A chart as its vendor packaged it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ChartPackage {
    /// Name and version in `Chart.yaml`.
    pub(super) identity: ChartIdentity,
    /// The package.
    pub(super) content: Vec<u8>,
}

/// The part of `Chart.yaml` that identifies a chart.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ChartIdentity {
    /// The chart's name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Why a file is not a packaged chart.
#[derive(Debug, thiserror::Error)]
pub enum ChartPackageError {
    /// The file cannot be read, or is not a regular file.
    #[error("{0}")]
    Read(io::Error),
    /// The file is larger than any package.
    #[error("larger than {} MiB", MAX_PACKAGE >> 20)]
    TooLarge,
    /// The file is not compressed, or damaged.
    #[error("not a complete gzip file: {0}")]
    Gzip(io::Error),
    /// The files are larger than those of any chart.
    #[error("its files have more than {} MiB", MAX_UNPACKED >> 20)]
    UnpackedTooLarge,
    /// The content is not an archive, or damaged.
    #[error("not a complete tar archive: {0}")]
    Tar(io::Error),
    /// The archive is not a chart.
    #[error("no chart: it has no `NAME/Chart.yaml`")]
    NoChart,
    /// Helm and this program could read different ones.
    #[error("it has more than one `NAME/Chart.yaml`")]
    SeveralCharts,
    /// `Chart.yaml` is too large, or has no name or version.
    #[error("its `Chart.yaml` cannot be read: {0}")]
    ChartFile(String),
}

/// Reads the package at `path`, which must not be a link.
///
/// # Errors
/// See [`ChartPackageError`].
pub(super) fn read(path: &Path) -> Result<ChartPackage, ChartPackageError> {
    let mut content = Vec::new();
    open_regular(path)
        .and_then(|file| file.take(MAX_PACKAGE + 1).read_to_end(&mut content))
        .map_err(ChartPackageError::Read)?;
    if content.len() as u64 > MAX_PACKAGE {
        return Err(ChartPackageError::TooLarge);
    }
    let identity = identity(&unpacked(&content)?)?;
    Ok(ChartPackage { identity, content })
}

/// Returns the tar archive in a package. It is read to its end, which finds a damaged file.
fn unpacked(content: &[u8]) -> Result<Vec<u8>, ChartPackageError> {
    let mut archive = Vec::new();
    MultiGzDecoder::new(content)
        .take(MAX_UNPACKED + 1)
        .read_to_end(&mut archive)
        .map_err(ChartPackageError::Gzip)?;
    if archive.len() as u64 > MAX_UNPACKED {
        return Err(ChartPackageError::UnpackedTooLarge);
    }
    Ok(archive)
}

/// Returns name and version of the chart in a tar archive: a package without its compression.
///
/// # Errors
/// See [`ChartPackageError`].
pub fn identity(archive: &[u8]) -> Result<ChartIdentity, ChartPackageError> {
    let mut found = None;
    let mut archive = Archive::new(archive);
    for entry in archive.entries().map_err(ChartPackageError::Tar)? {
        let entry = entry.map_err(ChartPackageError::Tar)?;
        if !entry.header().entry_type().is_file() || !is_chart_file(&entry.path_bytes()) {
            continue;
        }
        if found.is_some() {
            return Err(ChartPackageError::SeveralCharts);
        }
        let mut text = String::new();
        entry
            .take(MAX_CHART_FILE + 1)
            .read_to_string(&mut text)
            .map_err(|error| ChartPackageError::ChartFile(error.to_string()))?;
        if text.len() as u64 > MAX_CHART_FILE {
            return Err(ChartPackageError::ChartFile("it is too large".to_owned()));
        }
        let read = yaml::from_str(&text);
        found = Some(read.map_err(|error| ChartPackageError::ChartFile(error.to_string()))?);
    }
    found.ok_or(ChartPackageError::NoChart)
}

/// Returns whether a path in a package is that of the chart's own `Chart.yaml`. Charts that it
/// contains are in folders below.
fn is_chart_file(path: &[u8]) -> bool {
    let mut parts = path.split(|byte| *byte == b'/');
    parts.next().is_some_and(|folder| !folder.is_empty())
        && parts.next() == Some(CHART_FILE)
        && parts.next().is_none()
}

#[cfg(test)]
mod tests {
    use std::fs::{self, File};
    use std::os::unix::fs::symlink;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use tempfile::TempDir;

    use super::*;
    use archive::{ArchiveFile, tar_gz};

    const CHART: &str = "apiVersion: v2\nname: queue\nversion: v1.2.0\ndescription: a queue\n";

    /// Returns a package with these files.
    fn package(files: &[(&str, &str)]) -> Vec<u8> {
        let file = |(path, text): &(&str, &str)| ((*path).to_owned(), ArchiveFile::new(*text));
        tar_gz(&files.iter().map(file).collect()).unwrap()
    }

    /// Returns the result of reading a file with this content.
    fn read_bytes(content: &[u8]) -> Result<ChartPackage, ChartPackageError> {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("chart.tgz");
        fs::write(&path, content).unwrap();
        read(&path)
    }

    #[test]
    fn package_is_identified_by_its_chart_file() {
        let content = package(&[
            ("queue/Chart.yaml", CHART),
            ("queue/charts/redis/Chart.yaml", "name: redis\nversion: 1.0.0\n"),
            ("queue/templates/Chart.yaml", "{{"),
        ]);
        let found = read_bytes(&content).unwrap();
        assert_eq!(
            (found.identity.name.as_str(), found.identity.version.as_str()),
            ("queue", "v1.2.0")
        );
        assert_eq!(found.content, content);
    }

    #[test]
    fn damaged_or_other_files_are_refused() {
        let whole = package(&[("queue/Chart.yaml", CHART)]);
        let mut changed = whole.clone();
        let middle = changed.len() / 2;
        changed[middle] ^= 1;
        let mut text = GzEncoder::new(Vec::new(), Compression::default());
        io::copy(&mut io::repeat(b'x').take(4096), &mut text).unwrap();
        let large = format!("{CHART}# {}\n", "x".repeat(1 << 20));
        for (name, content, expected) in [
            ("page of a proxy", b"<!doctype html>".to_vec(), "not a complete gzip file"),
            ("cut off", whole[..whole.len() - 1].to_vec(), "not a complete gzip file"),
            ("changed", changed, "not a complete gzip file"),
            ("no archive", text.finish().unwrap(), "not a complete tar archive"),
            ("other files", package(&[("queue/values.yaml", "")]), "no chart"),
            ("no folder", package(&[("Chart.yaml", CHART)]), "no chart"),
            (
                "two charts",
                package(&[("a/Chart.yaml", CHART), ("b/Chart.yaml", CHART)]),
                "more than one",
            ),
            ("no version", package(&[("a/Chart.yaml", "name: a\n")]), "cannot be read"),
            ("no YAML", package(&[("a/Chart.yaml", "{")]), "cannot be read"),
            ("large list", package(&[("a/Chart.yaml", &large)]), "too large"),
        ] {
            let error = read_bytes(&content).unwrap_err().to_string();
            assert!(error.contains(expected), "{name}: {error}");
        }
    }

    #[test]
    fn package_that_unpacks_without_end_is_refused() {
        let mut bomb = GzEncoder::new(Vec::new(), Compression::fast());
        io::copy(&mut io::repeat(0).take(MAX_UNPACKED + 1), &mut bomb).unwrap();
        let bomb = bomb.finish().unwrap();
        assert!(matches!(read_bytes(&bomb), Err(ChartPackageError::UnpackedTooLarge)));
    }

    /// Creates one path that must not be read.
    type Trap = fn(&TempDir, &Path);

    #[test]
    fn only_regular_files_of_limited_size_are_read() {
        let traps: [(&str, Trap); 4] = [
            ("link to a chart", |directory, path| {
                let chart = directory.path().join("real");
                fs::write(&chart, package(&[("queue/Chart.yaml", CHART)])).unwrap();
                symlink(chart, path).unwrap();
            }),
            ("directory", |_, path| fs::create_dir(path).unwrap()),
            ("pipe without a writer", |_, path| {
                let made = std::process::Command::new("mkfifo").arg(path).status().unwrap();
                assert!(made.success());
            }),
            ("large file", |_, path| {
                File::create(path).unwrap().set_len(MAX_PACKAGE + 1).unwrap();
            }),
        ];
        for (name, trap) in traps {
            let directory = tempfile::tempdir().unwrap();
            let path = directory.path().join("chart.tgz");
            trap(&directory, &path);
            let error = read(&path).unwrap_err();
            let is_refused =
                matches!(error, ChartPackageError::Read(_) | ChartPackageError::TooLarge);
            assert!(is_refused, "{name}: {error}");
        }
    }
}
