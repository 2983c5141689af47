//! Checks of the components' names, versions and charts.

use semver::Version;

use super::{RuleTarget, described_components, manifests};
use crate::model::RecipeComponent;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::nearest::{did_you_mean, nearest};

/// Checks the list of components.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    if subject.recipe.components.is_empty() {
        Diagnostic::error("the recipe has no components")
            .at(subject.place(&["components"]))
            .hint("add a component, or extend a recipe that has components: `extends: [base]`")
            .report(findings);
    }
    for component in &subject.recipe.components {
        match (catalog::component(&component.name), &component.chart) {
            (None, _) if component.kustomize.is_some() => {}
            (None, None) if !component.manifests.is_empty() => {
                manifests::alone(subject, component, findings);
            }
            (None, None) => findings.push(unknown(subject, &component.name)),
            (None, Some(chart)) => described_components::check(subject, component, chart, findings),
            (Some(entry), chart) => {
                version(subject, component, entry, findings);
                if chart.is_some() {
                    findings.push(described_components::needless(subject, component));
                }
            }
        }
        described_components::after(subject, component, findings);
    }
}

fn unknown(subject: &RuleTarget<'_>, name: &str) -> Diagnostic {
    let place = subject.place(&["components", name]);
    let hint = did_you_mean(name, catalog::component_names()).unwrap_or_else(|| {
        format!("the catalog has: {}", catalog::component_names().collect::<Vec<_>>().join(", "))
    });
    Diagnostic::error(format!("the catalog has no component `{name}`")).at(place).hint(hint).hint(
        "to deploy any other chart, set `chart: {repository: https://…, name: …}`, `version` and `namespace`",
    )
}

fn version(
    subject: &RuleTarget<'_>,
    component: &RecipeComponent,
    entry: &catalog::model::CatalogComponent,
    findings: &mut Vec<Diagnostic>,
) {
    let Some(version) = &component.version else { return };
    if entry.version(version).is_some() {
        return;
    }
    let place = subject.place(&["components", &component.name, "version"]);
    let known = || entry.versions.iter().map(|known| known.version.as_str());
    let bare = version.strip_prefix('v').unwrap_or(version);
    let written_with_v = entry.default_version.starts_with('v');
    if let Some(right) = known().find(|known| known.strip_prefix('v').unwrap_or(known) == bare) {
        Diagnostic::error(format!("the chart `{}` has no version `{version}`", entry.chart))
            .at(place)
            .hint(format!("write `{right}`"))
            .report(findings);
    } else if Version::parse(bare).is_ok() && version.starts_with('v') != written_with_v {
        let right = if written_with_v { format!("v{bare}") } else { bare.to_owned() };
        let with = if written_with_v { "begin with `v`" } else { "have no `v`" };
        Diagnostic::error(format!("`{version}` is not a version of the chart `{}`", entry.chart))
            .at(place)
            .hint(format!("did you mean `{right}`? The versions of this chart {with}"))
            .report(findings);
    } else if Version::parse(bare).is_err() {
        let near = nearest(version, known()).unwrap_or(&entry.default_version);
        Diagnostic::error(format!("`{version}` is not a version of the chart `{}`", entry.chart))
            .at(place)
            .hint(format!("versions look like `{near}`"))
            .report(findings);
    } else {
        Diagnostic::warning(format!(
            "the catalog does not have version `{version}` of `{}`, so the keys of its values are not checked",
            component.name
        ))
        .lint(Lint::Unchecked)
        .at(place)
        .hint(format!("known versions: {}", known().collect::<Vec<_>>().join(", ")))
        .report(findings);
    }
}
