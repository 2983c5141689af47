//! Checks for values that would move or rename what the hook looks for.

use super::RuleTarget;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::path::KeyPath;
use diagnostics::tree::YamlNode;
use serde_json::json;

/// Checks the values of all components of the catalog.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for component in &subject.known {
        for value in &component.entry.moving_values {
            let keys: Vec<&str> = value.keys.iter().map(String::as_str).collect();
            let written = component.values.and_then(|values| values.at_keys(&keys));
            let Some(written) = written.filter(|node| !is_unset(node)) else { continue };
            let path: KeyPath = keys.iter().copied().collect();
            Diagnostic::error(format!("with `{path}`, the hook would not find {}", value.lost))
                .lint(Lint::MovedObject)
                .at(written.origin)
                .hint(value.hint.as_str())
                .report(findings);
        }
    }
}

/// Whether the chart treats the value like none.
fn is_unset(node: &YamlNode) -> bool {
    node.is_null() || node.to_json() == json!("")
}
