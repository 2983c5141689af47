//! Writes the HelmReleases, one for each file in `releases/`.

use minijinja::{Value, context};

use super::chart::{ChartSourceKind, FluxChart};
use super::{DIGEST, SYNC, consumed, label};
use crate::file::BundleFile;
use crate::layout::{folders, release_context};
use crate::template::{RenderError, TemplateSet};
use release::model::ReleaseKind;
use release::{Release, ReleasePlan};

/// How long Flux waits before it retries a failed release.
const RETRY: &str = "10m";

/// Returns one file for each release, in the plan's order.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(
    templates: &TemplateSet,
    plan: &ReleasePlan,
    found: &[FluxChart],
) -> Result<Vec<BundleFile>, RenderError> {
    folders(plan)
        .zip(found)
        .map(|((folder, release), found)| {
            let text = match &found.origin {
                ChartSourceKind::Kustomization { repository, source } => templates.render(
                    "flux-kustomization.yaml.j2",
                    context! {
                        label => label(),
                        digest => DIGEST,
                        needs => &release.needs,
                        repository,
                        path => format!("./{}", source.path.trim_start_matches("./")),
                        ..release_context(&folder, release)
                    },
                )?,
                ChartSourceKind::Helm { .. }
                | ChartSourceKind::Git { .. }
                | ChartSourceKind::Oci { .. } => templates
                    .render("helmrelease.yaml.j2", helm_release(plan, &folder, release, found))?,
            };
            Ok(BundleFile::text(format!("releases/{folder}.yaml"), text))
        })
        .collect()
}

fn helm_release(plan: &ReleasePlan, folder: &str, release: &Release, found: &FluxChart) -> Value {
    let (crds, brings_crds) = match &release.kind {
        ReleaseKind::Upstream(upstream) if !upstream.skip_crds => ("CreateReplace", true),
        ReleaseKind::Crds(_) => ("Skip", true),
        ReleaseKind::Upstream(_)
        | ReleaseKind::Manifests(_)
        | ReleaseKind::Templates(_)
        | ReleaseKind::Kustomization(_)
        | ReleaseKind::Hook(_) => ("Skip", false),
    };
    context! {
        label => label(),
        digest => DIGEST,
        chart => chart_context(found),
        needs => &release.needs,
        retry => RETRY,
        crds,
        brings_crds,
        values => consumed(plan, folder, release),
        ..release_context(folder, release)
    }
}

fn chart_context(found: &FluxChart) -> Value {
    // With an OCIRepository, Flux uses only `artifact`. `place` is the chart's name or its folder.
    let (artifact, kind, repository, place) = match &found.origin {
        ChartSourceKind::Helm { repository, .. } => {
            (None, "HelmRepository", repository.as_str(), &found.name)
        }
        ChartSourceKind::Git { path } => (None, "GitRepository", SYNC, path),
        ChartSourceKind::Oci { artifact, .. } => {
            (Some(artifact), "OCIRepository", artifact.as_str(), &found.name)
        }
        ChartSourceKind::Kustomization { repository, .. } => {
            (None, "GitRepository", repository.as_str(), &found.name)
        }
    };
    context! { artifact, kind, repository, place, version => &found.version }
}
