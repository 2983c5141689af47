//! The order in which AICR deploys components, and their dependencies.

use std::collections::BTreeSet;

use super::components::{ComponentReference, texts};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::did_you_mean;
use diagnostics::source::SourceSpan;
use diagnostics::tree::YamlNode;

/// A component with its dependencies.
#[derive(Clone, Debug)]
pub(super) struct OrderedComponent<'a> {
    /// The component.
    pub(super) reference: ComponentReference<'a>,
    /// Deployed components that come before it. An omitted component is replaced by its own
    /// dependencies.
    pub(super) after: Vec<(&'a str, SourceSpan)>,
}

/// Returns the deployed components, in AICR's order.
pub(super) fn sort<'a>(
    result: &'a YamlNode,
    references: &[ComponentReference<'a>],
    findings: &mut Vec<Diagnostic>,
) -> Vec<OrderedComponent<'a>> {
    let mut order = deployment_order(result, references, findings);
    dependencies(references, findings);
    let is_ordered = !order.is_empty();
    let omitted: Vec<&ComponentReference<'_>> = references
        .iter()
        .filter(|reference| reference.is_deployed && !order.contains(&reference.name))
        .collect();
    order.extend(omitted.iter().map(|reference| reference.name));
    if is_ordered {
        findings.extend(omitted.into_iter().map(comes_last));
        against(references, &order, findings);
    } else {
        findings.extend(cycle(references));
    }
    let deployed = order
        .iter()
        .filter_map(|name| find(references, name))
        .filter(|reference| reference.is_deployed);
    deployed
        .map(|reference| OrderedComponent {
            reference: *reference,
            after: after(references, reference),
        })
        .collect()
}

/// Returns the components that `deploymentOrder` names.
fn deployment_order<'a>(
    result: &'a YamlNode,
    references: &[ComponentReference<'a>],
    findings: &mut Vec<Diagnostic>,
) -> Vec<&'a str> {
    let mut order: Vec<&str> = Vec::new();
    if let Some(entry) = result.entry("deploymentOrder").filter(|entry| !entry.node.is_null()) {
        texts(entry, findings);
    }
    for item in result.get("deploymentOrder").map_or(&[][..], YamlNode::items) {
        let Some(name) = item.text() else { continue };
        if find(references, name).is_none() {
            findings.push(unknown(references, name, "`deploymentOrder` names", item.origin));
        } else if order.contains(&name) {
            Diagnostic::error(format!("`{name}` is in `deploymentOrder` twice"))
                .at(item.origin)
                .report(findings);
        } else {
            order.push(name);
        }
    }
    order
}

/// Reports a deployed component that `deploymentOrder` does not name.
fn comes_last(omitted: &ComponentReference<'_>) -> Diagnostic {
    Diagnostic::warning(format!("`deploymentOrder` omits `{}`, so it comes last", omitted.name))
        .at(omitted.place)
        .hint("add it at the right position, or set `overrides: {enabled: false}` to omit it")
}

/// Reports a component that depends on itself.
fn cycle(references: &[ComponentReference<'_>]) -> Option<Diagnostic> {
    let reference = references
        .iter()
        .find(|reference| needed(references, reference).contains(reference.name))?;
    let finding = Diagnostic::error(format!(
        "`{}` depends on itself through its `dependencyRefs`",
        reference.name
    ));
    Some(finding.at(reference.place).hint("remove one of the dependencies in the cycle"))
}

fn find<'r, 'a>(
    references: &'r [ComponentReference<'a>],
    name: &str,
) -> Option<&'r ComponentReference<'a>> {
    references.iter().find(|reference| reference.name == name)
}

fn unknown(
    references: &[ComponentReference<'_>],
    name: &str,
    what: &str,
    origin: SourceSpan,
) -> Diagnostic {
    let names = || references.iter().map(|reference| reference.name);
    let hint = did_you_mean(name, names())
        .unwrap_or_else(|| "add it to `componentRefs`, or remove it here".to_owned());
    Diagnostic::error(format!("{what} `{name}`, which is not a component of the recipe"))
        .at(origin)
        .hint(hint)
}

fn dependencies(references: &[ComponentReference<'_>], findings: &mut Vec<Diagnostic>) {
    for reference in references {
        for (name, origin) in reference.dependencies() {
            if find(references, name).is_none() {
                findings.push(unknown(
                    references,
                    name,
                    &format!("`{}` depends on", reference.name),
                    origin,
                ));
            }
        }
    }
}

/// Reports components that come before their dependencies.
fn against(references: &[ComponentReference<'_>], order: &[&str], findings: &mut Vec<Diagnostic>) {
    for (index, name) in order.iter().enumerate() {
        let Some(reference) = find(references, name) else { continue };
        for (needed, origin) in reference.dependencies() {
            if order[index..].contains(&needed) {
                Diagnostic::error(format!(
                    "`{name}` depends on `{needed}`, which comes later in `deploymentOrder`"
                ))
                .at(origin)
                .hint("change the order or the dependency")
                .report(findings);
            }
        }
    }
}

/// Returns all dependencies of a component, direct and indirect.
fn needed<'a>(
    references: &[ComponentReference<'a>],
    reference: &ComponentReference<'a>,
) -> BTreeSet<&'a str> {
    let mut seen = BTreeSet::new();
    let mut open: Vec<&str> = reference.dependencies().map(|(name, _)| name).collect();
    while let Some(name) = open.pop() {
        if seen.insert(name) {
            open.extend(
                find(references, name)
                    .into_iter()
                    .flat_map(|found| found.dependencies().map(|(name, _)| name)),
            );
        }
    }
    seen
}

fn after<'a>(
    references: &[ComponentReference<'a>],
    reference: &ComponentReference<'a>,
) -> Vec<(&'a str, SourceSpan)> {
    let mut found: Vec<(&str, SourceSpan)> = Vec::new();
    let mut seen = BTreeSet::new();
    let mut open: Vec<(&str, SourceSpan)> = reference.dependencies().collect();
    open.reverse();
    while let Some((name, origin)) = open.pop() {
        if !seen.insert(name) {
            continue;
        }
        match find(references, name) {
            Some(needed) if needed.is_deployed => found.push((name, origin)),
            Some(left_out) => open.extend(left_out.dependencies().map(|(name, _)| (name, origin))),
            None => {}
        }
    }
    found
}
