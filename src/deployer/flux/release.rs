//! The HelmReleases: one object a file in `releases/`.

use serde::Serialize;

use super::chart::{Found, Origin};
use super::{DIGEST, SYNC, consumed, label};
use crate::contract::duration::Duration;
use crate::deployer::file::File;
use crate::deployer::layout::{budget, content, folders};
use crate::deployer::template::{RenderError, Templates};
use crate::release::model::Kind;
use crate::release::{Plan, Release};

/// How long Flux waits after a failure before it tries the release again.
const RETRY: &str = "10m";

#[derive(Serialize)]
struct Context<'a> {
    what: String,
    name: &'a str,
    namespace: &'a str,
    label: String,
    digest: &'static str,
    chart: Chart<'a>,
    needs: &'a [String],
    timeout: String,
    budget: Option<&'a str>,
    retry: &'static str,
    crds: &'static str,
    brings_crds: bool,
    values: Vec<String>,
}

#[derive(Serialize)]
struct Chart<'a> {
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
pub(super) fn files(templates: &Templates, plan: &Plan, found: &[Found]) -> Result<Vec<File>, RenderError> {
    folders(plan)
        .zip(found)
        .map(|((folder, release), found)| {
            let text = templates.render("helmrelease.yaml.j2", context(plan, &folder, release, found))?;
            Ok(File::text(format!("releases/{folder}.yaml"), text))
        })
        .collect()
}

fn context<'a>(plan: &Plan, folder: &str, release: &'a Release, found: &'a Found) -> Context<'a> {
    let (crds, brings_crds) = match &release.kind {
        Kind::Upstream(upstream) if !upstream.skip_crds => ("CreateReplace", true),
        Kind::Crds(_) => ("Skip", true),
        Kind::Upstream(_) | Kind::Manifests(_) | Kind::Hook(_) => ("Skip", false),
    };
    Context {
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

fn chart(found: &Found) -> Chart<'_> {
    let from = |kind, repository, place| Chart { artifact: None, kind, repository, place, version: &found.version };
    match &found.origin {
        Origin::Helm { repository, .. } => from("HelmRepository", repository, &found.name),
        Origin::Git { path } => from("GitRepository", SYNC, path),
        Origin::Oci { artifact, .. } => Chart { artifact: Some(artifact), ..from("OCIRepository", artifact, &found.name) },
    }
}
