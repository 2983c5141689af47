//! Writes the objects that a user applies once: the bundle's source, and the Kustomization that
//! applies the bundle.

use std::collections::BTreeMap;

use minijinja::context;

use super::{NAME, SYNC, from_root, revision, verification};
use crate::file::BundleFile;
use crate::source::BundleSource;
use crate::template::{RenderError, TemplateSet};
use contract::duration::Duration;
use release::ReleasePlan;

/// Seconds after which helm-controller checks again whether a dependency is ready
/// (`--requeue-dependency`).
const REQUEUE_SECONDS: u64 = 30;
/// Seconds for fetching repositories and charts before the first release can start.
const FETCH_SECONDS: u64 = 300;

/// Checks that Flux can read from `source`.
///
/// # Errors
/// Flux cannot read it.
pub(super) fn check(source: &BundleSource) -> Result<(), RenderError> {
    if source.url.starts_with("file://") {
        return Err(RenderError::unable(
            NAME,
            format!(
                "cannot read the bundle from `{}`: Flux reads it from inside the cluster",
                source.url
            ),
            "name a repository that the cluster can reach: --repo https://…, ssh://… or oci://…",
        ));
    }
    revision::check(source)
}

/// Returns both files.
///
/// # Errors
/// See [`RenderError`].
pub(super) fn files(
    templates: &TemplateSet,
    plan: &ReleasePlan,
    source: &BundleSource,
) -> Result<Vec<BundleFile>, RenderError> {
    let chain = longest_chain(plan);
    let context = context! {
        name => SYNC,
        kind => kind(source),
        url => &source.url,
        ref_kind => revision::kind(source),
        revision => &source.revision,
        path => from_root(source, ""),
        verify => verification::spec(source),
        timeout => timeout(plan).to_string(),
        explanation => format!("The sum of the timeouts of {} releases that wait for each other, and of the time between them.", chain.releases),
    };
    Ok(vec![
        BundleFile::text("flux-system/source.yaml", templates.render("source.yaml.j2", &context)?),
        BundleFile::text("flux-system/sync.yaml", templates.render("sync.yaml.j2", &context)?),
    ])
}

/// Returns the kind of the bundle's source.
pub(super) fn kind(source: &BundleSource) -> &'static str {
    if source.is_oci() { "OCIRepository" } else { "GitRepository" }
}

/// Returns how long the whole bundle may take. This timeout ends the wait, and never the work.
pub(super) fn timeout(plan: &ReleasePlan) -> Duration {
    let chain = longest_chain(plan);
    Duration::from_secs(
        FETCH_SECONDS + chain.seconds + chain.releases.saturating_sub(1) * REQUEUE_SECONDS,
    )
}

/// Releases that wait for each other.
#[derive(Clone, Copy, Default)]
struct ReleaseChain {
    seconds: u64,
    releases: u64,
}

/// Returns the chain that takes longest. A release comes after all that it needs.
fn longest_chain(plan: &ReleasePlan) -> ReleaseChain {
    let total = |chain: &ReleaseChain| chain.seconds + chain.releases * REQUEUE_SECONDS;
    let mut chains: BTreeMap<&str, ReleaseChain> = BTreeMap::new();
    for release in &plan.releases {
        let before = release
            .needs
            .iter()
            .filter_map(|need| chains.get(need.as_str()))
            .max_by_key(|chain| total(chain));
        let before = before.copied().unwrap_or_default();
        chains.insert(
            &release.name,
            ReleaseChain {
                seconds: before.seconds + release.timeout_seconds,
                releases: before.releases + 1,
            },
        );
    }
    chains.into_values().max_by_key(total).unwrap_or_default()
}
