//! Checks of components that the recipe itself describes, and of `after`.

use super::RuleTarget;
use crate::model::{ChartSource, RecipeComponent};
use contract::grammar::repository_problem;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::nearest::did_you_mean;
use diagnostics::tree::YamlNode;

/// Checks a component that is not in the catalog.
pub(super) fn check(
    subject: &RuleTarget<'_>,
    component: &RecipeComponent,
    chart: &ChartSource,
    findings: &mut Vec<Diagnostic>,
) {
    let name = component.name.as_str();
    for (key, value) in [("version", &component.version), ("namespace", &component.namespace)] {
        if value.is_none() {
            Diagnostic::error(format!("`{name}` is not in the catalog and has no `{key}`"))
                .at(subject.place(&["components", name]))
                .hint(format!("add `{key}: …`"))
                .report(findings);
        }
    }
    if let Some(problem) = repository_problem(&chart.repository) {
        // The text may contain a password, so the message does not show it.
        Diagnostic::error(format!("the repository of `{name}` {problem}"))
            .at(subject.place(&["components", name, "chart", "repository"]))
            .secret()
            .hint("write `https://…` or `oci://…`, without the chart's name; if it needs a password, log in with Helm")
            .report(findings);
    }
    Diagnostic::warning(format!("`{name}` is not in the catalog: its values cannot be checked, and its CRDs stay with its chart"))
        .lint(Lint::Unchecked)
        .at(subject.place(&["components", name]))
        .report(findings);
}

/// Returns the finding for a component that is in the catalog and also sets `chart`.
pub(super) fn needless(subject: &RuleTarget<'_>, component: &RecipeComponent) -> Diagnostic {
    Diagnostic::error(format!("the catalog already has the chart of `{}`", component.name))
        .at(subject.place(&["components", &component.name, "chart"]))
        .hint("remove `chart`; use `bundle render --chart-repository NAME=URL` to take charts from another repository")
}

/// Checks that every name in `after` is that of a component of the recipe, enabled or not.
pub(super) fn after(
    subject: &RuleTarget<'_>,
    component: &RecipeComponent,
    findings: &mut Vec<Diagnostic>,
) {
    let list =
        subject.node_at(&["components", &component.name, "after"]).map_or(&[][..], YamlNode::items);
    let components = subject.node_at(&["components"]).map_or(&[][..], YamlNode::items);
    let names = || components.iter().filter_map(|item| item.get("name").and_then(YamlNode::text));
    for item in list {
        let Some(name) = item.text() else { continue };
        if name == component.name {
            Diagnostic::error(format!("`{name}` cannot come after itself"))
                .at(item.origin)
                .report(findings);
        } else if !names().any(|known| known == name) {
            Diagnostic::error(format!(
                "`{}` comes after `{name}`, which is not a component of the recipe",
                component.name
            ))
            .at(item.origin)
            .hint(
                did_you_mean(name, names())
                    .unwrap_or_else(|| "add the component, or remove the name here".to_owned()),
            )
            .report(findings);
        }
    }
}
