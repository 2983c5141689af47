//! Checks of components that are kustomizations.

use super::RuleTarget;
use crate::model::RecipeComponent;
use contract::grammar::grammar;
use diagnostics::diagnostic::Diagnostic;

/// Checks all kustomizations.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let components = subject.recipe.components.iter();
    for component in components.filter(|component| component.kustomize.is_some()) {
        check_component(subject, component, findings);
    }
}

fn check_component(
    subject: &RuleTarget<'_>,
    component: &RecipeComponent,
    findings: &mut Vec<Diagnostic>,
) {
    let name = component.name.as_str();
    let place = |key: &str| subject.place(&["components", name, key]);
    if catalog::component(name).is_some() {
        Diagnostic::error(format!("the catalog already has the chart of `{name}`"))
            .at(place("kustomize"))
            .hint("remove `kustomize`, or give the component another name")
            .report(findings);
        return;
    }
    if component.namespace.is_none() {
        Diagnostic::error(format!("`{name}` is not in the catalog and has no `namespace`"))
            .at(subject.place(&["components", name]))
            .hint("add `namespace: …`")
            .report(findings);
    }
    let repository = component.kustomize.as_ref().map(|source| source.repository.as_str());
    let grammar = grammar("gitRepository");
    if let Some((_, grammar)) =
        repository.zip(grammar).filter(|(text, grammar)| !(grammar.fits)(text))
    {
        // The text may contain a password, so the message does not show it.
        Diagnostic::error(format!("the repository of `{name}` {}", grammar.what))
            .at(subject.place(&["components", name, "kustomize", "repository"]))
            .secret()
            .hint(grammar.hint)
            .report(findings);
    }
    for (key, is_set) in [
        ("chart", component.chart.is_some()),
        ("version", component.version.is_some()),
        ("values", !component.values.is_empty()),
        ("customResources", !component.custom_resources.is_empty()),
        ("manifests", !component.manifests.is_empty()),
        ("manifestValues", !component.manifest_values.is_empty()),
        ("nodeScheduling", !component.node_scheduling.is_empty()),
        ("devicePluginConfig", component.device_plugin_config.is_some()),
    ] {
        if is_set {
            Diagnostic::error(format!(
                "`{key}` has no effect on `{name}`, which is a kustomization"
            ))
            .at(place(key))
            .hint(format!(
                "remove `{key}`: a kustomization in its Git repository contains all settings"
            ))
            .report(findings);
        }
    }
}
