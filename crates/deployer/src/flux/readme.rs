//! Writes `README.md`, and `push.sh` for a registry.

use minijinja::{Value, context};

use super::chart::{ChartSourceKind, FluxChart};
use super::sync::{kind, timeout};
use super::{DIGEST, SYNC, has_kustomizations, label, verification};
use crate::DeployerInput;
use crate::file::BundleFile;
use crate::layout::{SETTINGS, bundle_context};
use crate::source::BundleSource;
use crate::template::{RenderError, TemplateSet};

/// Returns both files, or only `README.md` for a Git repository.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(
    templates: &TemplateSet,
    input: DeployerInput<'_>,
    source: &BundleSource,
    found: &[FluxChart],
) -> Result<Vec<BundleFile>, RenderError> {
    let context = context! {
        sync => SYNC,
        label => label(),
        digest => DIGEST,
        source => kind(source),
        is_oci => source.is_oci(),
        url => &source.url,
        path => &source.path,
        revision => &source.revision,
        // The default tag of `push.sh`; none if the revision is a digest.
        tag => (!source.revision.starts_with("sha256:")).then_some(&source.revision),
        timeout => timeout(input.plan).to_string(),
        settings => SETTINGS,
        has_kustomizations => has_kustomizations(input.plan),
        charts => pushed(found),
        // A reference for cosign has no scheme.
        registry => source.url.trim_start_matches("oci://"),
        signers => verification::signers(source),
        ..bundle_context(input)
    };
    let mut files =
        vec![BundleFile::text("README.md", templates.render("README.md.j2", &context)?)];
    if source.is_oci() {
        files.push(BundleFile::script("push.sh", templates.render("push.sh.j2", &context)?));
    }
    Ok(files)
}

/// Returns the bundle's own charts, each once. All hook releases have the same chart.
fn pushed(found: &[FluxChart]) -> Value {
    let mut charts: Vec<&FluxChart> = Vec::new();
    for chart in found
        .iter()
        .filter(|chart| chart.is_local && matches!(chart.origin, ChartSourceKind::Oci { .. }))
    {
        if !charts
            .iter()
            .any(|other| (&other.name, &other.version) == (&chart.name, &chart.version))
        {
            charts.push(chart);
        }
    }
    charts.into_iter().map(|chart| context! { folder => &chart.folder, name => &chart.name, version => &chart.version }).collect()
}
