//! The template context of the READMEs of Applications.

use minijinja::{Value, context};

use super::{all_waves_seconds, longest_sync_seconds, waves};
use crate::layout::{bundle_context, folders, release_context};
use crate::{BundleSource, DeployerInput};
use contract::duration::Duration;
use release::model::ChartOrigin;

/// Returns the context of every page of a bundle, with the wave of each release and the longest
/// syncs.
pub(crate) fn readme_context(input: DeployerInput<'_>) -> Value {
    let plan = input.plan;
    let waves = waves(plan);
    let row = |(folder, release): (String, &release::Release)| {
        context! { wave => waves[release.name.as_str()], ..release_context(&folder, release) }
    };
    let all = all_waves_seconds(plan);
    let mut upstreams = plan.releases.iter().filter_map(|release| release.kind.upstream());
    context! {
        releases => folders(plan).map(row).collect::<Value>(),
        longest_sync => Duration::from_secs(longest_sync_seconds(plan)).to_string(),
        all_waves => Duration::from_secs(all).to_string(),
        all_waves_seconds => all,
        // Whether the bundle is in an OCI registry.
        registry => input.source.is_some_and(BundleSource::is_oci),
        // Whether a chart comes from an OCI registry.
        oci => upstreams.any(|upstream| matches!(upstream.chart, ChartOrigin::Oci(_))),
        ..bundle_context(input)
    }
}
