//! What people read and run: `README.md`, and `push.sh` for a registry.

use serde::Serialize;

use super::chart::{ChartSourceKind, FluxChart};
use super::sync::{kind, timeout};
use super::{DIGEST, SYNC, label};
use crate::DeployerInput;
use crate::file::BundleFile;
use crate::language::WrittenText;
use crate::layout::{SETTINGS, budget, content, folders};
use crate::source::BundleSource;
use crate::template::{RenderError, TemplateSet};
use contract::duration::Duration;

#[derive(Serialize)]
struct FluxReadmeContext<'a> {
    recipe: &'a str,
    /// What to say of the hook's image.
    image_note: Option<WrittenText>,
    sync: &'static str,
    label: String,
    digest: &'static str,
    source: &'static str,
    is_oci: bool,
    url: &'a str,
    path: &'a str,
    revision: &'a str,
    /// What `push.sh` pushes to, unless it is told otherwise; `None` where the revision is a digest.
    tag: Option<&'a str>,
    timeout: String,
    settings: &'static str,
    releases: Vec<FluxReadmeRow<'a>>,
    charts: Vec<PushedChart<'a>>,
}

#[derive(Serialize)]
struct FluxReadmeRow<'a> {
    name: &'a str,
    namespace: &'a str,
    kind: &'static str,
    what: String,
    budget: Option<&'a str>,
    timeout: String,
}

/// A chart of the bundle that is pushed.
#[derive(Serialize)]
struct PushedChart<'a> {
    folder: &'a str,
    name: &'a str,
    version: &'a str,
}

/// Both files, or only `README.md` for a Git repository.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(
    templates: &TemplateSet,
    input: DeployerInput<'_>,
    source: &BundleSource,
    found: &[FluxChart],
) -> Result<Vec<BundleFile>, RenderError> {
    let releases = folders(input.plan).map(|(_, release)| FluxReadmeRow {
        name: &release.name,
        namespace: &release.namespace,
        kind: release.kind.name(),
        what: content(release),
        budget: budget(release),
        timeout: Duration::from_secs(release.timeout_seconds).to_string(),
    });
    let context = FluxReadmeContext {
        recipe: input.recipe,
        image_note: input.plan.image_note().map(WrittenText::fixed),
        sync: SYNC,
        label: label(),
        digest: DIGEST,
        source: kind(source),
        is_oci: source.is_oci(),
        url: &source.url,
        path: &source.path,
        revision: &source.revision,
        tag: (!source.revision.starts_with("sha256:")).then_some(source.revision.as_str()),
        timeout: timeout(input.plan).to_string(),
        settings: SETTINGS,
        releases: releases.collect(),
        charts: pushed(found),
    };
    let mut files = vec![BundleFile::text("README.md", templates.render("README.md.j2", &context)?)];
    if source.is_oci() {
        files.push(BundleFile::script("push.sh", templates.render("push.sh.j2", &context)?));
    }
    Ok(files)
}

/// The bundle's own charts, each once: all hook releases have the same one.
fn pushed(found: &[FluxChart]) -> Vec<PushedChart<'_>> {
    let mut charts: Vec<PushedChart<'_>> = Vec::new();
    for chart in found.iter().filter(|chart| chart.is_local && matches!(chart.origin, ChartSourceKind::Oci { .. })) {
        if !charts.iter().any(|other| (other.name, other.version) == (chart.name.as_str(), chart.version.as_str())) {
            charts.push(PushedChart { folder: &chart.folder, name: &chart.name, version: &chart.version });
        }
    }
    charts
}
