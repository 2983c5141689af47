//! Checks of `rollout.ofedDriver`: where its policy is, and that each setting is set once.

use super::{KnownComponent, RuleTarget};
use contract::grammar::{is_digest, is_tag};
use contract::names::NETWORK_OPERATOR;
use contract::settings::Mode;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;

/// The kind of the custom resource that the Network Operator reads.
pub const POLICY_KIND: &str = "NicClusterPolicy";
/// The keys of `ofedDriver.upgradePolicy`, each with the key of the recipe's policy that sets it.
/// `autoUpgrade` is not one of them, because a recipe may set it.
pub const POLICY: [(&str, &str); 4] = [
    ("maxParallelUpgrades", "maxParallelUpgrades"),
    ("safeLoad", "safeLoad"),
    ("waitForCompletion", "waitForCompletion"),
    ("drain", "drain"),
];

/// Checks the OFED driver's part of `rollout` against the Network Operator.
pub fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    version(subject, findings);
    let Some(operator) = subject.component(NETWORK_OPERATOR) else {
        return unused(subject, "the recipe does not deploy `network-operator`", findings);
    };
    let is_resource = !operator.entry.closest_version(operator.number).custom_resources.is_empty();
    let place: &[&str] = if is_resource {
        &["customResources", POLICY_KIND, "ofedDriver"]
    } else {
        &["values", "ofedDriver"]
    };
    let place = [&["components", NETWORK_OPERATOR], place].concat();
    one_place(subject, &place, findings);
    if is_resource {
        resource(subject, operator, &place, findings);
    } else if operator.is_on(&["deployCR"]) != Some(true)
        || operator.is_on(&["ofedDriver", "deploy"]) != Some(true)
    {
        unused(
            subject,
            "the chart renders an OFED driver only with `deployCR: true` and `ofedDriver: {deploy: true}` in its values",
            findings,
        );
    }
    let switch = [&place[..], &["upgradePolicy", "autoUpgrade"]].concat();
    if subject.node_at(&switch).is_some_and(|node| node.to_json() == false)
        && let Some(driver) = &subject.recipe.rollout.ofed_driver
        && driver.mode == Mode::Observe
        && driver.policy != crate::model::RecipeOfedUpgradePolicy::default()
    {
        Diagnostic::warning("`rollout.ofedDriver.policy` has no effect while `autoUpgrade` is false: no controller upgrades a node")
            .lint(Lint::NoEffect)
            .at(subject.place(&switch))
            .hint("remove `autoUpgrade`: with `rollout.ofedDriver`, a bundle sets it to true")
            .report(findings);
    }
}

fn resource(
    subject: &RuleTarget<'_>,
    operator: &KnownComponent<'_>,
    place: &[&str],
    findings: &mut Vec<Diagnostic>,
) {
    let component = ["components", NETWORK_OPERATOR];
    let (policy, driver) = (subject.node_at(&place[..place.len() - 1]), subject.node_at(place));
    if policy.is_none_or(|node| node.entries().is_empty()) {
        Diagnostic::warning(format!(
            "the chart `{} {}` renders no {POLICY_KIND}, and without one, the operator installs nothing",
            operator.entry.chart, operator.number
        ))
        .lint(Lint::NoEffect)
        .at(subject.place(&component))
        .hint(format!("write its spec below `customResources.{POLICY_KIND}` of this component"))
        .report(findings);
    } else if driver.is_none() {
        unused(subject, &format!("`customResources.{POLICY_KIND}` has no `ofedDriver`"), findings);
    }
}

/// Whether a text is a version of the OFED driver: `24.10-0.7.0.0-0`, `doca3.4.1-26.04-1.1.0.0-1`
/// or `sha256:…`.
pub fn is_version(version: &str) -> bool {
    (is_tag(version) && version.contains('.')) || is_digest(version)
}

fn version(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let Some(version) =
        subject.recipe.rollout.ofed_driver.as_ref().and_then(|driver| driver.version.as_ref())
    else {
        return;
    };
    if !is_version(version) {
        Diagnostic::error(format!("`{version}` is not a version of the OFED driver"))
            .at(subject.place(&["rollout", "ofedDriver", "version"]))
            .hint("versions look like `doca3.4.1-26.04-1.1.0.0-1`, image digests like `sha256:…` (64 digits)")
            .report(findings);
    }
}

/// Reports a version or a policy that is set in two places.
fn one_place(subject: &RuleTarget<'_>, place: &[&str], findings: &mut Vec<Diagnostic>) {
    let version = [place, &["version"]].concat();
    let own = ["rollout", "ofedDriver", "version"];
    if subject.node_at(&own).is_some_and(|node| !node.is_null())
        && subject.node_at(&version).is_some_and(|node| !node.is_null())
    {
        Diagnostic::error("the OFED driver's version is set twice")
            .lint(Lint::SetTwice)
            .at(subject.place(&version))
            .related(subject.place(&own), "the `rollout` setting")
            .hint("keep `rollout.ofedDriver.version`; it sets this key")
            .report(findings);
    }
    let policy = [place, &["upgradePolicy"]].concat();
    for (key, _) in POLICY {
        let Some(entry) = subject.node_at(&policy).and_then(|node| node.entry(key)) else {
            continue;
        };
        let own = ["rollout", "ofedDriver", "policy", key];
        let mut finding = Diagnostic::error(format!(
            "`ofedDriver.upgradePolicy.{key}` cannot be set here: time budgets derive from the recipe's policy"
        ))
        .lint(Lint::SetTwice)
        .at(entry.key_origin)
        .hint(format!("set `{}` instead; it sets this key", own.join(".")));
        if subject.node_at(&own).is_some() {
            finding = finding.related(subject.place(&own), "also set here");
        }
        findings.push(finding);
    }
}

/// Reports settings of the OFED driver that nothing reads.
fn unused(subject: &RuleTarget<'_>, reason: &str, findings: &mut Vec<Diagnostic>) {
    if subject.recipe.rollout.ofed_driver.is_some() {
        Diagnostic::warning(format!("`rollout.ofedDriver` has no effect: {reason}"))
            .lint(Lint::NoEffect)
            .at(subject.place(&["rollout", "ofedDriver"]))
            .hint("remove it; if a parent sets it, write `ofedDriver: null`")
            .report(findings);
    }
}
