//! Writes `README.md`.

use minijinja::context;

use super::sync::{kind, timeout};
use super::{SYNC, has_kustomizations, label, push_step, revision, verification};
use crate::DeployerInput;
use crate::file::BundleFile;
use crate::layout::{SETTINGS, bundle_context};
use crate::source::BundleSource;
use crate::template::{RenderError, TemplateSet};

/// Returns the file.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn file(
    templates: &TemplateSet,
    input: DeployerInput<'_>,
    source: &BundleSource,
) -> Result<BundleFile, RenderError> {
    let context = context! {
        sync => SYNC,
        label => label(),
        source => kind(source),
        is_oci => source.is_oci(),
        url => &source.url,
        path => &source.path,
        revision => &source.revision,
        is_tag => revision::kind(source) == "tag",
        push => push_step(".", source),
        timeout => timeout(input.plan).to_string(),
        settings => SETTINGS,
        has_kustomizations => has_kustomizations(input.plan),
        signers => verification::signers(source),
        ..bundle_context(input)
    };
    Ok(BundleFile::text("README.md", templates.render("README.md.j2", context)?))
}
