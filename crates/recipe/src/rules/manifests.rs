//! Checks of manifest templates.

use super::RuleTarget;
use crate::manifests::{CRD, fixed_hook, is_crds, kinds};
use crate::model::RecipeComponent;
use diagnostics::diagnostic::Diagnostic;

/// Checks the manifests of all components.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        let path = ["components", component.name.as_str()];
        for (file, manifest) in &component.manifests {
            let place = subject.place(&[&path[..], &["manifests", file]].concat());
            let problem = problem(&manifest.template);
            findings.extend(problem.map(|(problem, hint)| {
                Diagnostic::error(format!(
                    "the manifest `{file}` of `{}` {problem}",
                    component.name
                ))
                .at(place)
                .hint(hint)
            }));
        }
        if component.manifests.is_empty() && !component.manifest_values.is_empty() {
            Diagnostic::error(format!(
                "`manifestValues` of `{}` have no effect, because it has no `manifests`",
                component.name
            ))
            .at(subject.place(&[&path[..], &["manifestValues"]].concat()))
            .hint("move them into `values`, or remove them")
            .report(findings);
        }
    }
}

/// Checks a component that is not in the catalog and has no chart.
pub(super) fn alone(
    subject: &RuleTarget<'_>,
    component: &RecipeComponent,
    findings: &mut Vec<Diagnostic>,
) {
    if component.namespace.is_none() {
        let name = component.name.as_str();
        Diagnostic::error(format!("`{name}` is not in the catalog and has no `namespace`"))
            .at(subject.place(&["components", name]))
            .hint("add `namespace: …`")
            .report(findings);
    }
}

/// Returns what is wrong with a template, and what to do.
fn problem(template: &str) -> Option<(String, &'static str)> {
    let has = |wanted: &str| kinds(template).iter().any(|(_, kind)| *kind == wanted);
    if has("Secret") {
        return Some((
            "contains a Secret: bundles must not contain secrets".to_owned(),
            "create the Secret in the cluster, and name it in the values",
        ));
    }
    if has(CRD) && !is_crds(template) {
        return Some((
            "contains a CRD next to other objects or actions, so uninstalling it would delete the CRD".to_owned(),
            "put CRDs into a file of their own, without template actions: a bundle keeps them",
        ));
    }
    let line = fixed_hook(template)?;
    Some((
        format!(
            "is a Helm hook, and the bundle cannot change that: `{}`",
            contract::grammar::shown(line)
        ),
        "write each annotation on a line of its own: a bundle deploys all objects of manifests as ordinary objects",
    ))
}
