//! The HelmReleases: one object a file in `releases/`.

use serde::Serialize;

use super::chart::{ChartSourceKind, FluxChart};
use super::{DIGEST, SYNC, consumed, label};
use crate::file::BundleFile;
use crate::layout::{budget, content, folders};
use crate::template::{RenderError, TemplateSet};
use contract::duration::Duration;
use release::model::ReleaseKind;
use release::{Release, ReleasePlan};

/// How long Flux waits after a failure before it tries the release again.
const RETRY: &str = "10m";

#[derive(Serialize)]
struct HelmReleaseContext<'a> {
    what: String,
    name: &'a str,
    namespace: &'a str,
    label: String,
    digest: &'static str,
    chart: HelmReleaseChart<'a>,
    needs: &'a [String],
    timeout: String,
    budget: Option<&'a str>,
    retry: &'static str,
    crds: &'static str,
    brings_crds: bool,
    values: Vec<String>,
}

#[derive(Serialize)]
struct HelmReleaseChart<'a> {
    /// The OCIRepository; with it nothing else counts.
    artifact: Option<&'a str>,
    kind: &'static str,
    repository: &'a str,
    /// Its name, or its folder.
    place: &'a str,
    version: &'a str,
}

/// One file a release, in the plan's order.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(templates: &TemplateSet, plan: &ReleasePlan, found: &[FluxChart]) -> Result<Vec<BundleFile>, RenderError> {
    folders(plan)
        .zip(found)
        .map(|((folder, release), found)| {
            let text = templates.render("helmrelease.yaml.j2", context(plan, &folder, release, found))?;
            Ok(BundleFile::text(format!("releases/{folder}.yaml"), text))
        })
        .collect()
}

fn context<'a>(plan: &ReleasePlan, folder: &str, release: &'a Release, found: &'a FluxChart) -> HelmReleaseContext<'a> {
    let (crds, brings_crds) = match &release.kind {
        ReleaseKind::Upstream(upstream) if !upstream.skip_crds => ("CreateReplace", true),
        ReleaseKind::Crds(_) => ("Skip", true),
        ReleaseKind::Upstream(_) | ReleaseKind::Manifests(_) | ReleaseKind::Hook(_) => ("Skip", false),
    };
    HelmReleaseContext {
        what: content(release),
        name: &release.name,
        namespace: &release.namespace,
        label: label(),
        digest: DIGEST,
        chart: chart(found),
        needs: &release.needs,
        timeout: Duration::from_secs(release.timeout_seconds).to_string(),
        budget: budget(release),
        retry: RETRY,
        crds,
        brings_crds,
        values: consumed(plan, folder, release),
    }
}

fn chart(found: &FluxChart) -> HelmReleaseChart<'_> {
    let from = |kind, repository, place| HelmReleaseChart { artifact: None, kind, repository, place, version: &found.version };
    match &found.origin {
        ChartSourceKind::Helm { repository, .. } => from("HelmRepository", repository, &found.name),
        ChartSourceKind::Git { path } => from("GitRepository", SYNC, path),
        ChartSourceKind::Oci { artifact, .. } => {
            HelmReleaseChart { artifact: Some(artifact), ..from("OCIRepository", artifact, &found.name) }
        }
    }
}
