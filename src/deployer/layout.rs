//! Which folder a release has: its place in the order, then its name.

use crate::release::model::{Hook, Kind};
use crate::release::{Plan, Release};

/// The values that a component shares with its hook.
pub const VALUES: &str = "values.yaml";
/// What makes a folder a chart.
pub const CHART: &str = "Chart.yaml";
/// The hook's own settings.
pub const SETTINGS: &str = "rollout.yaml";

/// The releases with their folders, in order.
pub fn folders(plan: &Plan) -> impl Iterator<Item = (String, &Release)> {
    plan.releases.iter().enumerate().map(|(index, release)| (format!("{:03}-{}", index + 1, release.name), release))
}

/// The folder of the release called `name`.
pub fn folder_of(plan: &Plan, name: &str) -> Option<String> {
    folders(plan).find(|(_, release)| release.name == name).map(|(folder, _)| folder)
}

/// The hook release that consumes the values file of `release`; the last one, if there are several.
pub fn hook_of<'a>(plan: &'a Plan, release: &str) -> Option<&'a str> {
    plan.releases.iter().rev().find_map(|candidate| match &candidate.kind {
        Kind::Hook(hook) if hook.shares.iter().any(|shared| shared == release) => Some(candidate.name.as_str()),
        Kind::Hook(_) | Kind::Upstream(_) | Kind::Crds(_) | Kind::Manifests(_) => None,
    })
}

/// The values files that a hook shares with other releases, below the bundle; its own [`SETTINGS`] come last and are not among them.
pub fn values_of(plan: &Plan, hook: &Hook) -> Vec<String> {
    hook.shares.iter().filter_map(|name| folder_of(plan, name)).map(|folder| format!("{folder}/{VALUES}")).collect()
}

/// What a release is, as one line for people.
pub fn content(release: &Release) -> String {
    match &release.kind {
        Kind::Upstream(upstream) => format!("{} {}", upstream.chart.place(), upstream.version),
        Kind::Crds(crds) => format!("{} CRDs of {} {}", crds.crds.len(), crds.component, crds.version),
        Kind::Manifests(manifests) => manifests.description.clone(),
        Kind::Hook(hook) => hook.summary(),
    }
}

/// What a release may take, as one line for people; `None` if it has no time budget of its own.
pub fn budget(release: &Release) -> Option<&str> {
    match &release.kind {
        Kind::Hook(hook) => Some(&hook.budget.explanation),
        Kind::Upstream(_) | Kind::Crds(_) | Kind::Manifests(_) => None,
    }
}
