//! The folders of releases, named by position and release name, and the common template context.

use minijinja::{Value, context};

use super::DeployerInput;
use super::template_language::WrittenText;
pub use contract::chart_files::{CHART, FILES, SETTINGS, VALUES};
use contract::duration::Duration;
use release::model::{HookReleasePlan, ReleaseKind};
use release::{Release, ReleasePlan};

/// Returns the releases with their folders, in order.
pub fn folders(plan: &ReleasePlan) -> impl Iterator<Item = (String, &Release)> {
    plan.releases
        .iter()
        .enumerate()
        .map(|(index, release)| (format!("{:03}-{}", index + 1, release.name), release))
}

/// Returns the folder of the release `name`.
pub fn folder_of(plan: &ReleasePlan, name: &str) -> Option<String> {
    folders(plan).find(|(_, release)| release.name == name).map(|(folder, _)| folder)
}

/// Returns the hook release that consumes the values file of `release`; if there are several, the
/// last one.
pub fn hook_of<'a>(plan: &'a ReleasePlan, release: &str) -> Option<&'a str> {
    let consumes = |hook: &HookReleasePlan| hook.shares.iter().any(|shared| shared == release);
    plan.releases
        .iter()
        .rfind(|candidate| candidate.kind.hook().is_some_and(consumes))
        .map(|candidate| candidate.name.as_str())
}

/// Returns the values files that a release shares with other releases, as paths below the bundle.
/// They do not include its own.
pub fn values_of(plan: &ReleasePlan, release: &Release) -> Vec<String> {
    release
        .kind
        .shares()
        .iter()
        .filter_map(|name| folder_of(plan, name))
        .map(|folder| format!("{folder}/{VALUES}"))
        .collect()
}

/// Describes a release in one line.
pub fn content(release: &Release) -> String {
    match &release.kind {
        ReleaseKind::Upstream(upstream) => {
            format!("{} {}", upstream.chart.place(), upstream.version)
        }
        ReleaseKind::Crds(crds) => {
            format!("{} CRDs of {} {}", crds.crds.len(), crds.component, crds.version)
        }
        ReleaseKind::Kustomization(source) => source.summary(),
        ReleaseKind::Manifests(manifests) => manifests.description.clone(),
        ReleaseKind::Templates(templates) => templates.description.clone(),
        ReleaseKind::Hook(hook) => hook.summary(),
    }
}

/// Describes a release's time budget in one line; `None` if it has none.
pub fn budget(release: &Release) -> Option<&str> {
    release.kind.hook().map(|hook| hook.budget.explanation.as_str())
}

/// Returns the common template context of a release.
pub(super) fn release_context(folder: &str, release: &Release) -> Value {
    context! {
        name => &release.name,
        namespace => &release.namespace,
        folder,
        kind => release.kind.name(),
        content => content(release),
        budget => budget(release),
        timeout => Duration::from_secs(release.timeout_seconds).to_string(),
        takes_ownership => release.kind.takes_ownership(),
        stays => release.kind.stays(),
    }
}

/// Returns the common template context of a bundle's pages: the recipe, the note about the hook's
/// image, and the releases in order.
pub(super) fn bundle_context(input: DeployerInput<'_>) -> Value {
    context! {
        recipe => input.recipe,
        image_note => input.plan.image_note().map(WrittenText::fixed),
        releases => folders(input.plan).map(|(folder, release)| release_context(&folder, release)).collect::<Value>(),
    }
}
