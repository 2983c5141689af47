//! Finds the source of each release's chart for Flux.

use serde::Deserialize;

use super::{CHARTS, NAME, chart_tag, from_root, repository};
use crate::file::BundleFile;
use crate::layout::{CHART, folders};
use crate::source::BundleSource;
use crate::template::RenderError;
use release::ReleasePlan;
use release::model::{ChartOrigin, KustomizationRelease, ReleaseKind};

/// The chart of one release.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FluxChart {
    /// The release's name.
    pub(super) release: String,
    /// The chart's own name.
    pub(super) name: String,
    /// The chart's version.
    pub(super) version: String,
    /// Whether the bundle contains it.
    pub(super) is_local: bool,
    /// The source of the chart.
    pub(super) origin: ChartSourceKind,
}

/// The source of a chart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ChartSourceKind {
    /// A HelmRepository: its name and address.
    Helm { repository: String, url: String },
    /// A folder of the Git repository with the bundle, from its root.
    Git { path: String },
    /// An OCIRepository: its name, address and tag.
    Oci { artifact: String, url: String, tag: String },
    /// A kustomization, which has no chart: the name of its GitRepository, and its source.
    Kustomization { repository: String, source: KustomizationRelease },
}

#[derive(Deserialize)]
struct ChartFile {
    name: String,
    version: String,
}

/// Returns the charts of all releases, in the plan's order. `files` are those of the numbered
/// folders.
///
/// # Errors
/// A chart is a local file, which a controller in the cluster cannot read.
pub(super) fn find_charts(
    plan: &ReleasePlan,
    source: &BundleSource,
    files: &[BundleFile],
) -> Result<Vec<FluxChart>, RenderError> {
    let urls: Vec<&str> =
        plan.releases.iter().filter_map(|release| repository_url(&release.kind)).collect();
    folders(plan)
        .map(|(folder, release)| {
            let found = |name: &str, version: &str, origin| FluxChart {
                release: release.name.clone(),
                name: name.to_owned(),
                version: version.to_owned(),
                is_local: !matches!(release.kind, ReleaseKind::Kustomization(_) | ReleaseKind::Upstream(_)),
                origin,
            };
            if let ReleaseKind::Kustomization(source) = &release.kind {
                // Another revision is another object, as for the charts of registries.
                let revision = format!("{} {}", source.repository, source.revision);
                let repository = repository::artifact(&release.name, &revision);
                let origin = ChartSourceKind::Kustomization { repository, source: source.clone() };
                return Ok(found(&release.name, &source.revision, origin));
            }
            let ReleaseKind::Upstream(upstream) = &release.kind else {
                let chart = chart_file(&folder, files)?;
                let origin = if source.is_oci() {
                    artifact(&release.name, format!("{}/{CHARTS}/{}", source.url, chart.name), &chart.version)
                } else {
                    ChartSourceKind::Git { path: from_root(source, &folder) }
                };
                return Ok(found(&chart.name, &chart.version, origin));
            };
            let (name, origin) = match &upstream.chart {
                ChartOrigin::Repository { url, name } => (name.as_str(), ChartSourceKind::Helm { repository: repository::name(url, &urls), url: url.clone() }),
                ChartOrigin::Oci(url) => (release.name.as_str(), artifact(&release.name, url.clone(), &upstream.version)),
                ChartOrigin::File(path) => {
                    return Err(RenderError::unable(NAME, format!("cannot take the chart of {} from `{path}`: Flux reads charts from inside the cluster", release.name), "serve the charts over https:// or push them to a registry, and name it: --chart-repository NAME=https://… or NAME=oci://…"));
                }
            };
            Ok(found(name, &upstream.version, origin))
        })
        .collect()
}

fn repository_url(kind: &ReleaseKind) -> Option<&str> {
    if let ChartOrigin::Repository { url, .. } = &kind.upstream()?.chart { Some(url) } else { None }
}

fn artifact(release: &str, url: String, version: &str) -> ChartSourceKind {
    let tag = chart_tag(version);
    ChartSourceKind::Oci { artifact: repository::artifact(release, version), url, tag }
}

fn chart_file(folder: &str, files: &[BundleFile]) -> Result<ChartFile, RenderError> {
    let path = format!("{folder}/{CHART}");
    let file = files.iter().find(|file| file.path == path);
    let text = file.and_then(|file| std::str::from_utf8(&file.content).ok()).unwrap_or_default();
    yaml::from_str(text).map_err(|_| RenderError::Yaml(path))
}
