//! What people read and run: `README.md`, and `push.sh` for a registry.

use serde::Serialize;

use super::chart::{Found, Origin};
use super::sync::{kind, timeout};
use super::{DIGEST, SYNC, label};
use crate::contract::duration::Duration;
use crate::deployer::Input;
use crate::deployer::file::File;
use crate::deployer::language::Written;
use crate::deployer::layout::{SETTINGS, budget, content, folders};
use crate::deployer::source::Source;
use crate::deployer::template::{RenderError, Templates};

#[derive(Serialize)]
struct Context<'a> {
    recipe: &'a str,
    /// What to say of the hook's image.
    image_note: Option<Written>,
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
    releases: Vec<Row<'a>>,
    charts: Vec<Chart<'a>>,
}

#[derive(Serialize)]
struct Row<'a> {
    name: &'a str,
    namespace: &'a str,
    kind: &'static str,
    what: String,
    budget: Option<&'a str>,
    timeout: String,
}

/// A chart of the bundle that is pushed.
#[derive(Serialize)]
struct Chart<'a> {
    folder: &'a str,
    name: &'a str,
    version: &'a str,
}

/// Both files, or only `README.md` for a Git repository.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(templates: &Templates, input: Input<'_>, source: &Source, found: &[Found]) -> Result<Vec<File>, RenderError> {
    let releases = folders(input.plan).map(|(_, release)| Row {
        name: &release.name,
        namespace: &release.namespace,
        kind: release.kind.name(),
        what: content(release),
        budget: budget(release),
        timeout: Duration::from_secs(release.timeout_seconds).to_string(),
    });
    let context = Context {
        recipe: input.recipe,
        image_note: input.plan.image_note().map(Written::fixed),
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
    let mut files = vec![File::text("README.md", templates.render("README.md.j2", &context)?)];
    if source.is_oci() {
        files.push(File::script("push.sh", templates.render("push.sh.j2", &context)?));
    }
    Ok(files)
}

/// The bundle's own charts, each once: all hook releases have the same one.
fn pushed(found: &[Found]) -> Vec<Chart<'_>> {
    let mut charts: Vec<Chart<'_>> = Vec::new();
    for chart in found.iter().filter(|chart| chart.is_local && matches!(chart.origin, Origin::Oci { .. })) {
        if !charts.iter().any(|other| (other.name, other.version) == (chart.name.as_str(), chart.version.as_str())) {
            charts.push(Chart { folder: &chart.folder, name: &chart.name, version: &chart.version });
        }
    }
    charts
}
