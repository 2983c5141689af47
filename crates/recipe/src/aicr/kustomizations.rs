//! Components of AICR's type `Kustomize`: kustomizations in a Git repository.

use super::build::{entry, map};
use super::components::{ComponentReference, GATES, place};
use diagnostics::diagnostic::Diagnostic;
use diagnostics::tree::{MapEntry, YamlNode};

/// Keys of a kustomization's source, in AICR and in a recipe.
const SOURCE: [(&str, &str); 3] = [("source", "repository"), ("tag", "revision"), ("path", "path")];
/// Keys that only components of this type have.
const OWN: [&str; 3] = ["tag", "path", "patches"];
/// Keys that AICR ignores for this type.
const WITHOUT_EFFECT: [&str; 6] =
    ["chart", "version", "patches", "valuesFile", "manifestFiles", "preManifestFiles"];

/// Checks the type of a component, and the keys of a kustomization.
pub(super) fn check(reference: &ComponentReference<'_>, findings: &mut Vec<Diagnostic>) {
    let name = reference.name;
    if reference.is_kustomization() {
        check_kustomization(reference, findings);
        return;
    }
    let kind = reference
        .get("type")
        .filter(|node| node.text().is_some_and(|text| !text.eq_ignore_ascii_case("helm")));
    if let Some(kind) = kind {
        let text = kind.text().unwrap_or_default();
        Diagnostic::error(format!("`{name}` cannot be deployed: AICR has no type `{text}`"))
            .at(kind.origin)
            .hint("write `type: Helm` or `type: Kustomize`")
            .report(findings);
        return;
    }
    for key in OWN {
        let Some(found) = set(reference, key) else { continue };
        Diagnostic::error(format!("`{key}` has no effect on `{name}`, which is a chart"))
            .at(place(found))
            .hint(format!("remove `{key}`, or write `type: Kustomize`"))
            .report(findings);
    }
}

fn check_kustomization(reference: &ComponentReference<'_>, findings: &mut Vec<Diagnostic>) {
    let name = reference.name;
    for key in ["source", "tag", "path", "namespace"] {
        if reference.get(key).is_none() {
            Diagnostic::error(format!("`{name}` is a kustomization and has no `{key}`"))
                .at(reference.place)
                .hint(format!("add `{key}: …`"))
                .report(findings);
        }
    }
    for key in WITHOUT_EFFECT {
        let Some(found) = set(reference, key) else { continue };
        Diagnostic::error(format!(
            "`{key}` has no effect on `{name}`: AICR ignores it for kustomizations"
        ))
        .at(place(found))
        .hint(format!("remove `{key}`, and change the kustomization in its Git repository"))
        .report(findings);
    }
    let overrides = reference.get("overrides").map_or(&[][..], YamlNode::entries);
    for found in overrides.iter().filter(|found| !GATES.contains(&found.key.as_str())) {
        Diagnostic::error(format!(
            "the value `{}` has no effect on `{name}`: a kustomization has no values",
            found.key
        ))
        .at(place(found))
        .hint("remove it, and change the kustomization in its Git repository")
        .report(findings);
    }
}

/// Returns an entry, unless its value is null, empty, or a list without items.
fn set<'a>(reference: &ComponentReference<'a>, key: &str) -> Option<&'a MapEntry> {
    let is_empty = |node: &YamlNode| node.list().is_some_and(<[_]>::is_empty);
    reference.get(key).filter(|node| !is_empty(node))?;
    reference.node.entry(key)
}

/// Returns the recipe's entry `kustomize`.
pub(super) fn source(reference: &ComponentReference<'_>) -> MapEntry {
    let entries = SOURCE.into_iter().filter_map(|(theirs, ours)| {
        let node = reference.get(theirs)?;
        Some(entry(ours, node.origin, node.clone()))
    });
    entry("kustomize", reference.place, map(reference.place, entries.collect()))
}
