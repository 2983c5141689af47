//! Checks the keys of a `RecipeResult` other than the components, and reports those that a bundle
//! cannot apply.

use semver::{Version, VersionReq};

use super::build::KUBERNETES;
use super::components::ComponentReference;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::nearest::did_you_mean;
use diagnostics::tree::YamlNode;

/// All keys at the top of AICR's format.
const KEYS: [&str; 8] = [
    "apiVersion",
    "kind",
    "metadata",
    "criteria",
    "constraints",
    "componentRefs",
    "deploymentOrder",
    "validation",
];
/// Keys of components that only AICR's own checks use.
const OF_VALIDATION: [&str; 3] = ["cleanup", "expectedResources", "healthCheckAsserts"];

/// Reports keys that the supported formats do not have, because they may change what is deployed.
pub(super) fn unknown_keys(result: &YamlNode, findings: &mut Vec<Diagnostic>) {
    for entry in result.entries().iter().filter(|entry| !KEYS.contains(&entry.key.as_str())) {
        Diagnostic::error(format!("the supported formats of AICR have no key `{}`", entry.key))
            .at(entry.key_origin)
            .hint(
                did_you_mean(&entry.key, KEYS).unwrap_or_else(|| {
                    "remove it if it does not change what is deployed".to_owned()
                }),
            )
            .report(findings);
    }
}

/// Reports settings that a bundle cannot apply, and AICR's own warnings.
pub(super) fn not_taken_over(
    result: &YamlNode,
    references: &[ComponentReference<'_>],
    findings: &mut Vec<Diagnostic>,
) {
    unchecked_constraints(result, findings);
    checks_of_validate(result, references, findings);
    for warning in list(result, &["metadata", "constraintWarnings"]) {
        Diagnostic::warning(format!(
            "AICR omitted its overlay `{}`: {}",
            text(warning, "overlay"),
            if text(warning, "reason").is_empty() {
                "a constraint did not hold"
            } else {
                text(warning, "reason")
            }
        ))
        .at(warning.origin)
        .report(findings);
    }
    for constraint in list(result, &["validation", "deployment", "constraints"]) {
        deployed_version(constraint, references, findings);
    }
}

/// Reports constraints that are not one range of Kubernetes versions.
fn unchecked_constraints(result: &YamlNode, findings: &mut Vec<Diagnostic>) {
    if let Some(entry) = result
        .entry("constraints")
        .filter(|entry| !entry.node.is_null() && entry.node.list().is_none())
    {
        Diagnostic::error(format!("`constraints`: expected a list, found {}", entry.node.kind()))
            .at(entry.key_origin)
            .report(findings);
    }
    let (versions, others): (Vec<&YamlNode>, Vec<&YamlNode>) = list(result, &["constraints"])
        .iter()
        .partition(|constraint| text(constraint, "name") == KUBERNETES);
    if let [first, second, ..] = versions[..] {
        Diagnostic::error(format!("`{KUBERNETES}` has two constraints"))
            .at(second.origin)
            .related(first.origin, "first here")
            .hint("combine them: `'>= 1.32, < 1.36'`")
            .report(findings);
    }
    if let Some(first) = others.first() {
        let names: Vec<String> = others
            .iter()
            .map(|other| format!("`{} {}`", text(other, "name"), text(other, "value")))
            .collect();
        Diagnostic::warning(format!(
            "a bundle does not check these constraints: {}",
            names.join(", ")
        ))
        .at(first.get("name").map_or(first.origin, |name| name.origin))
        .hint("make sure that the nodes meet them, or check them with `aicr validate`")
        .report(findings);
    }
}

/// Reports checks that only `aicr validate` runs.
fn checks_of_validate(
    result: &YamlNode,
    references: &[ComponentReference<'_>],
    findings: &mut Vec<Diagnostic>,
) {
    let of_components = references
        .iter()
        .filter(|reference| reference.is_deployed)
        .flat_map(|reference| OF_VALIDATION.iter().filter_map(|key| reference.node.entry(key)))
        .find(|entry| !entry.node.is_null());
    if let Some(entry) =
        result.entry("validation").filter(|entry| !entry.node.is_null()).or(of_components)
    {
        Diagnostic::warning(format!("`{}` is for `aicr validate`: a bundle does not run these checks", entry.key))
            .at(entry.key_origin)
            .hint("the bundle's hooks wait for the operators and the driver; check the rest with `aicr validate`")
            .report(findings);
    }
}

/// Checks a constraint such as `Deployment.gpu-operator.version` against the deployed version.
fn deployed_version(
    constraint: &YamlNode,
    references: &[ComponentReference<'_>],
    findings: &mut Vec<Diagnostic>,
) {
    let name = text(constraint, "name")
        .strip_prefix("Deployment.")
        .and_then(|rest| rest.strip_suffix(".version"));
    let Some(reference) = name.and_then(|name| {
        references.iter().find(|reference| reference.name == name && reference.is_deployed)
    }) else {
        return;
    };
    let (Some(value), Some(version)) = (constraint.get("value"), reference.get("version")) else {
        return;
    };
    let range = value
        .text()
        .and_then(|text| VersionReq::parse(&text.replace('v', "").replace("==", "=")).ok());
    let number = version.text().and_then(|text| Version::parse(text.trim_start_matches('v')).ok());
    if let (Some(range), Some(number)) = (range, number)
        && !range.matches(&number)
    {
        Diagnostic::error(format!(
            "the recipe deploys a version of `{}` that its own constraint excludes",
            reference.name
        ))
        .at(version.origin)
        .related(value.origin, "the constraint")
        .hint("change the version or the constraint")
        .report(findings);
    }
}

fn list<'a>(node: &'a YamlNode, keys: &[&str]) -> &'a [YamlNode] {
    node.at_keys(keys).map_or(&[], YamlNode::items)
}

fn text<'a>(node: &'a YamlNode, key: &str) -> &'a str {
    node.get(key).and_then(YamlNode::text).unwrap_or_default()
}
