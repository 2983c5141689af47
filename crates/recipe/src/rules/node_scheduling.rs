//! Checks of `nodeScheduling`: the chart must have keys for the node selectors and tolerations, of
//! pods that exist, and nothing else may set these keys.

use serde_json::Value;

use super::{KnownComponent, RuleTarget};
use crate::model::{RecipeComponent, SchedulingPart};
use catalog::nested::{HostComponent, extras, is_within};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::tree::YamlNode;
use diagnostics::words::in_backticks;

/// Checks `nodeScheduling` of all components of the catalog.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.recipe.components {
        let Some(known) = subject.component(&component.name) else { continue };
        if component.node_scheduling.is_empty() {
            continue;
        }
        let off = off(subject, known, component);
        for part in component.node_scheduling.parts() {
            check_part(subject, known, &part, &off, findings);
        }
        labels(subject, component, findings);
    }
}

/// Returns what is off in the component's chart: what its values disable, and the sub-charts that
/// another component of the recipe runs instead.
fn off<'a>(
    subject: &'a RuleTarget<'_>,
    known: &KnownComponent<'_>,
    component: &RecipeComponent,
) -> Vec<&'a str> {
    let mut off: Vec<&'a str> = known.entry.off(known.number, &component.values);
    let hosts: Vec<HostComponent<'a>> = subject.hosts().collect();
    let own = extras(&hosts).into_iter().filter(|extra| extra.host == known.name);
    off.extend(own.map(|extra| extra.nested.key.as_str()));
    off
}

/// Checks one setting against the keys that the chart has for it.
fn check_part(
    subject: &RuleTarget<'_>,
    known: &KnownComponent<'_>,
    part: &SchedulingPart,
    off: &[&str],
    findings: &mut Vec<Diagnostic>,
) {
    let SchedulingPart { group, key, .. } = *part;
    let paths = part.paths(known.entry.scheduling_in(known.number));
    let written = ["components", known.name, "nodeScheduling", group, key];
    if paths.is_empty() {
        Diagnostic::error(format!(
            "the chart `{}` has no key for the `{key}` of its {group} pods",
            known.entry.chart
        ))
        .at(subject.place(&written))
        .hint(advice(known, group, key))
        .report(findings);
    } else if paths.iter().all(|path| is_within(path, off)) {
        let mut sub_charts: Vec<&str> =
            paths.iter().filter_map(|path| path.split('.').next()).collect();
        sub_charts.dedup();
        Diagnostic::warning(format!(
            "`nodeScheduling.{group}.{key}` has no effect: the chart `{}` has {group} pods only in sub-charts that are off: {}",
            known.entry.chart,
            in_backticks(sub_charts)
        ))
        .lint(Lint::NoEffect)
        .at(subject.place(&written))
        .hint("remove it, or enable a sub-chart; if another component of the recipe runs the program of this sub-chart, set `nodeScheduling` of that component")
        .report(findings);
    }
    for path in paths {
        let place: Vec<&str> =
            ["components", known.name, "values"].into_iter().chain(path.split('.')).collect();
        if subject.node_at(&place).is_some_and(|node| !node.is_null()) {
            Diagnostic::error(format!("`{path}` is set twice"))
                .lint(Lint::SetTwice)
                .at(subject.place(&place))
                .related(subject.place(&written), "also set here, for all such pods")
                .hint("keep one of them")
                .report(findings);
        }
    }
}

fn advice(known: &KnownComponent<'_>, group: &str, key: &str) -> String {
    let obsolete =
        known.version.and_then(|version| version.obsolete_keys.get("daemonsets.nodeSelector"));
    match obsolete {
        Some(advice) if (group, key) == ("accelerated", "nodeSelector") => advice.clone(),
        Some(_) | None => "remove it, or set the chart's own keys in `values`".to_owned(),
    }
}

/// Reports label values that are not strings, such as `true` without quotes.
fn labels(subject: &RuleTarget<'_>, component: &RecipeComponent, findings: &mut Vec<Diagnostic>) {
    let groups = [
        ("system", &component.node_scheduling.system),
        ("accelerated", &component.node_scheduling.accelerated),
    ];
    for (group, asked) in groups {
        for (label, _) in asked.node_selector.iter().filter(|(_, value)| !value.is_string()) {
            let keys =
                ["components", &component.name, "nodeScheduling", group, "nodeSelector", label];
            let node = subject.node_at(&keys);
            let hint = node
                .filter(|node| matches!(node.to_json(), Value::Bool(_) | Value::Number(_)))
                .map(|node| format!("quote it: `\"{}\"`", subject.sources.written(node.origin)));
            Diagnostic::error(format!(
                "expected a string as the value of a node label, found {}",
                node.map_or("nothing", YamlNode::kind)
            ))
            .at(subject.place(&keys))
            .maybe_hint(hint)
            .report(findings);
        }
    }
}
