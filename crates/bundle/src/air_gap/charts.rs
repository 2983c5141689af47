//! The packaged charts of a bundle: which it needs, where they come from, and which of them a
//! folder has.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::error::AirGapError;
use crate::chart_package::{self, ChartPackage};
use crate::info::BundleInfo;
use contract::visible;
use deployer::shell_word;
use release::model::UpstreamRelease;
use release::{ChartOrigin, ReleasePlan};

/// The extension of packaged charts.
const PACKAGE: &str = "tgz";

/// A chart that a bundle deploys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct NeededChart {
    /// The chart's name.
    pub(super) name: String,
    /// Its version.
    pub(super) version: String,
    /// The name of its repository in `--chart-repository NAME=URL`.
    pub(super) repository: String,
    /// Where it comes from.
    origin: ChartOrigin,
}

impl NeededChart {
    /// Returns the name of the package in a folder that replaces the repository.
    pub(super) fn file(&self) -> String {
        format!("{}-{}.{PACKAGE}", self.name, self.version)
    }

    /// Returns the command that writes the package into `folder`.
    fn command(&self, folder: &str) -> String {
        let version = ["--version", &self.version, "--destination", folder];
        let words: Vec<&str> = match &self.origin {
            ChartOrigin::Repository { url, name } => {
                [["helm", "pull", name, "--repo", url].as_slice(), &version].concat()
            }
            ChartOrigin::Oci(reference) => {
                [["helm", "pull", reference].as_slice(), &version].concat()
            }
            ChartOrigin::File(file) => vec!["cp", file, folder],
        };
        words.into_iter().map(quoted).collect::<Vec<_>>().join(" ")
    }
}

/// Returns a word of a command. A control character, which no shell word can have, is shown.
fn quoted(word: &str) -> String {
    shell_word(word).unwrap_or_else(|| format!("{word:?}"))
}

/// Returns the charts that a bundle deploys, each once. `plan` is that of its recipe.
///
/// # Errors
/// The plan does not have a release of the bundle.
pub(super) fn needed(
    info: &BundleInfo,
    plan: &ReleasePlan,
) -> Result<Vec<NeededChart>, AirGapError> {
    let mut charts: Vec<NeededChart> = Vec::new();
    for release in info.releases.iter().filter(|release| release.kind == "upstream") {
        let planned = plan.releases.iter().find(|planned| planned.name == release.name);
        let upstream = planned
            .and_then(|planned| planned.kind.upstream())
            .filter(|upstream| release.version.as_ref() == Some(&upstream.version))
            .ok_or_else(|| {
                AirGapError::Origin(format!("its recipe gives another `{}`", release.name))
            })?;
        let chart = NeededChart {
            name: name(upstream).to_owned(),
            version: upstream.version.clone(),
            repository: repository(&release.name, &upstream.version).to_owned(),
            origin: upstream.chart.clone(),
        };
        if !charts.iter().any(|known| known.file() == chart.file()) {
            charts.push(chart);
        }
    }
    Ok(charts)
}

/// Returns the name of a vendor's chart.
fn name(upstream: &UpstreamRelease) -> &str {
    match &upstream.chart {
        ChartOrigin::Repository { name, .. } => name,
        ChartOrigin::Oci(place) | ChartOrigin::File(place) => {
            let last = place.rsplit('/').next().unwrap_or_default();
            last.strip_suffix(&format!("-{}.{PACKAGE}", upstream.version)).unwrap_or(last)
        }
    }
}

/// Returns the name of the chart repository of a component. That of a component that the recipe
/// describes has the component's name.
fn repository<'a>(component: &'a str, version: &str) -> &'a str {
    catalog::component(component)
        .map_or(component, |known| known.repository_in(version).name.as_str())
}

/// Returns the packages of `needed`, in this order. Files that are not needed are ignored. A folder
/// that does not exist has none, so that the error names the commands that fill it.
///
/// # Errors
/// The folder cannot be read, or does not have each chart exactly once.
pub(super) fn find(folder: &Path, needed: &[NeededChart]) -> Result<Vec<Vec<u8>>, AirGapError> {
    let mut search = PackageSearch::default();
    for path in packages(folder)? {
        search.read(&path, needed);
    }
    let mut problems = Vec::new();
    let mut commands = Vec::new();
    let mut packages = Vec::new();
    let word = folder.to_string_lossy();
    for chart in needed {
        let mut found = search.packages(chart);
        match (found.next(), found.next()) {
            (Some((_, package)), None) => packages.push(package.content.clone()),
            (Some((first, _)), Some((second, _))) => problems.push(format!(
                "`{first}` and `{second}` are both {} {}, and differ",
                chart.name, chart.version
            )),
            (None, _) => {
                problems.push(search.missing(chart));
                commands.push(chart.command(&word));
            }
        }
    }
    if problems.is_empty() {
        return Ok(packages);
    }
    if !commands.is_empty() && !folder.exists() {
        commands.insert(0, format!("mkdir -p {}", quoted(&word)));
    }
    problems.extend(search.refused);
    Err(AirGapError::Charts { folder: folder.to_owned(), problems, commands })
}

/// Returns the paths of all files of a folder that may be packages, sorted.
fn packages(folder: &Path) -> Result<Vec<PathBuf>, AirGapError> {
    let error = |source| AirGapError::Folder { folder: folder.to_owned(), source };
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(missing) if missing.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(other) => return Err(error(other)),
    };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry.map_err(error)?.path();
        if path.extension().is_some_and(|ending| ending == PACKAGE) {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// What the packages of a folder are.
#[derive(Default)]
struct PackageSearch {
    /// The needed charts, with the names of their files. Copies of one package are there once.
    found: Vec<(String, ChartPackage)>,
    /// Other charts: file, name and version.
    others: Vec<(String, String, String)>,
    /// What is not a chart, and why.
    refused: Vec<String>,
}

impl PackageSearch {
    fn read(&mut self, path: &Path, needed: &[NeededChart]) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let file = visible::line(&name).into_owned();
        match chart_package::read(path) {
            Err(error) => {
                let reason = error.to_string();
                self.refused.push(format!("`{file}` is not used: {}", visible::line(&reason)));
            }
            Ok(package) if needed.iter().any(|chart| is_package_of(&package, chart)) => {
                if !self.found.iter().any(|(_, known)| *known == package) {
                    self.found.push((file, package));
                }
            }
            Ok(package) => {
                self.others.push((file, package.identity.name, package.identity.version));
            }
        }
    }

    /// Returns the different packages of a chart, with the names of their files.
    fn packages<'a>(
        &'a self,
        chart: &'a NeededChart,
    ) -> impl Iterator<Item = &'a (String, ChartPackage)> {
        self.found.iter().filter(move |(_, package)| is_package_of(package, chart))
    }

    /// Describes a missing chart, and the files that look like it: by their name, or as another
    /// version.
    fn missing(&self, chart: &NeededChart) -> String {
        let similar = self
            .others
            .iter()
            .filter(|(file, name, _)| *name == chart.name || *file == chart.file())
            .map(|(file, name, version)| {
                format!("; `{file}` is {} {}", visible::line(name), visible::line(version))
            });
        let start = format!("{} {} is missing", chart.name, chart.version);
        similar.fold(start, |text, similar| text + &similar)
    }
}

fn is_package_of(package: &ChartPackage, chart: &NeededChart) -> bool {
    package.identity.name == chart.name && package.identity.version == chart.version
}
