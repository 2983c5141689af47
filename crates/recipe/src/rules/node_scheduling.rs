//! Node selectors and tolerations of whole components: the chart must have a place for them, and nothing else may set it.

use serde_json::Value;

use super::{KnownComponent, RuleTarget};
use crate::model::{PodScheduling, RecipeComponent};
use catalog::model::ValuePaths;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::tree::YamlNode;

/// Checks `nodeScheduling` of all components of the catalog.
pub fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        let Some(known) = subject.component(&component.name) else { continue };
        let places = &known.entry.node_scheduling;
        group(subject, known, ("system", &component.node_scheduling.system, &places.system), findings);
        group(subject, known, ("accelerated", &component.node_scheduling.accelerated, &places.accelerated), findings);
        labels(subject, component, findings);
    }
}

/// One group of pods: what the recipe says, and the places that the chart has for it.
fn group(
    subject: &RuleTarget<'_>,
    known: &KnownComponent<'_>,
    (name, asked, places): (&str, &PodScheduling, &ValuePaths),
    findings: &mut Vec<Diagnostic>,
) {
    let parts = [
        ("nodeSelector", asked.node_selector.is_empty(), &places.node_selector),
        ("tolerations", asked.tolerations.is_empty(), &places.tolerations),
    ];
    for (part, is_empty, paths) in parts {
        if is_empty {
            continue;
        }
        let written = ["components", known.name, "nodeScheduling", name, part];
        if paths.is_empty() {
            Diagnostic::error(format!("the chart `{}` has no place for the `{part}` of its {name} pods", known.entry.chart))
                .at(subject.place(&written))
                .hint(advice(known, name, part))
                .report(findings);
        }
        for path in paths {
            let place: Vec<&str> = ["components", known.name, "values"].into_iter().chain(path.split('.')).collect();
            if subject.node_at(&place).is_some_and(|node| !node.is_null()) {
                Diagnostic::error(format!("`{path}` is set twice"))
                    .lint(Lint::SetTwice)
                    .at(subject.place(&place))
                    .related(subject.place(&written), "and here for all such pods")
                    .hint("keep one of them")
                    .report(findings);
            }
        }
    }
}

fn advice(known: &KnownComponent<'_>, name: &str, part: &str) -> String {
    let obsolete = known.version.and_then(|version| version.obsolete_keys.get("daemonsets.nodeSelector"));
    match obsolete {
        Some(advice) if (name, part) == ("accelerated", "nodeSelector") => advice.clone(),
        Some(_) | None => "remove it, or set the keys that the chart has in `values`".to_owned(),
    }
}

/// Labels are texts: `true` without quotes is none.
fn labels(subject: &RuleTarget<'_>, component: &RecipeComponent, findings: &mut Vec<Diagnostic>) {
    let groups = [("system", &component.node_scheduling.system), ("accelerated", &component.node_scheduling.accelerated)];
    for (group, asked) in groups {
        for (label, _) in asked.node_selector.iter().filter(|(_, value)| !value.is_string()) {
            let keys = ["components", &component.name, "nodeScheduling", group, "nodeSelector", label];
            let node = subject.node_at(&keys);
            let hint = node
                .filter(|node| matches!(node.to_json(), Value::Bool(_) | Value::Number(_)))
                .map(|node| format!("quote it: `\"{}\"`", subject.sources.written(node.origin)));
            Diagnostic::error(format!("the value of a node label is a text, and this is {}", node.map_or("nothing", YamlNode::kind)))
                .at(subject.place(&keys))
                .maybe_hint(hint)
                .report(findings);
        }
    }
}
