//! Checks of `rollout`: each setting is set once, and no wait is endless, because each hook Job has
//! a time budget.

use super::RuleTarget;
use crate::model::DriverRollout;
use contract::duration::Duration;
use contract::grammar::{is_digest, is_tag};
use contract::names::GPU_OPERATOR;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::path::KeyPath;
use diagnostics::tree::YamlNode;

/// Longer than any node takes. A longer time is a typing mistake.
pub(super) const LONGEST_SECONDS: u64 = 24 * 3600;
/// The keys of the chart's `driver.upgradePolicy`, each with the key of the recipe's policy that
/// sets it. `autoUpgrade` is not one of them: the mode sets it, and `observe` leaves it to the
/// recipe.
pub const POLICY: [(&str, &str); 5] = [
    ("maxParallelUpgrades", "maxParallelUpgrades"),
    ("maxUnavailable", "maxUnavailable"),
    ("waitForCompletion", "waitForCompletion"),
    ("gpuPodDeletion", "podDeletion"),
    ("drain", "drain"),
];
const OPERATOR_VALUES: [&str; 4] = ["components", GPU_OPERATOR, "values", "driver"];

/// Returns the path in the recipe that sets the chart's value `path`, if the recipe's policy sets
/// it.
pub fn policy_of(component: &str, path: &KeyPath) -> Option<KeyPath> {
    let ["driver", "upgradePolicy", chart, rest @ ..] =
        &path.keys().iter().map(String::as_str).collect::<Vec<_>>()[..]
    else {
        return None;
    };
    let (_, own) = POLICY.iter().find(|(known, _)| component == GPU_OPERATOR && known == chart)?;
    let rest = rest.iter().map(|key| if *key == "timeoutSeconds" { "timeout" } else { key });
    Some(["rollout", "gpuDriver", "policy", own].into_iter().chain(rest).collect())
}

/// Checks `rollout` against itself and against the operator's values.
pub fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    times(subject, findings);
    driver_version(subject, findings);
    waiting(subject, findings);
    leaving(subject, findings);
    one_place(subject, findings);
    used(subject, findings);
}

fn times(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let times = |driver: DriverRollout| {
        [(driver.key, "perNode", driver.per_node), (driver.key, "quiet", driver.quiet)]
    };
    for (driver, key, duration) in subject.recipe.rollout.drivers().flat_map(times) {
        if duration.as_secs() == 0 || duration.as_secs() > LONGEST_SECONDS {
            Diagnostic::error(format!(
                "`rollout.{driver}.{key}` must be from 1s to 24h, found {duration}"
            ))
            .at(subject.place(&["rollout", driver, key]))
            .report(findings);
        }
    }
}

/// Whether a text is the branch of a driver, such as `580`.
pub fn is_branch(text: &str) -> bool {
    text.len() == 3 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether a text is a driver version: `580.126.20`, `550.90`, `570.86.15-grid` or `sha256:…`.
pub fn is_version(version: &str) -> bool {
    let known = is_tag(version)
        && version.starts_with(|first: char| first.is_ascii_digit())
        && version.contains('.');
    known || is_digest(version)
}

fn driver_version(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let is_precompiled = subject
        .component(GPU_OPERATOR)
        .is_some_and(|operator| operator.is_on(&["driver", "usePrecompiled"]) == Some(true));
    if is_precompiled {
        precompiled_version(subject, findings);
        return;
    }
    let Some(version) = &subject.recipe.rollout.gpu_driver.version else { return };
    if !is_version(version) {
        let branch = is_branch(version)
            .then_some("only precompiled drivers have a branch: `driver.usePrecompiled: true`");
        Diagnostic::error(format!("`{version}` is not a version of the NVIDIA driver"))
            .at(subject.place(&["rollout", "gpuDriver", "version"]))
            .hint("versions look like `580.126.20`, image digests like `sha256:…` (64 digits)")
            .maybe_hint(branch.map(str::to_owned))
            .report(findings);
    }
}

/// Checks the version of precompiled drivers: NVIDIA's images have the tag
/// `BRANCH-KERNEL-OPERATING_SYSTEM`.
fn precompiled_version(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let own = ["rollout", "gpuDriver", "version"];
    let value = [&OPERATOR_VALUES[..], &["version"]].concat();
    let set = [&own[..], &value[..]].into_iter().find_map(|keys| {
        let text = subject.node_at(keys).and_then(YamlNode::text)?;
        Some((keys, text))
    });
    let Some((keys, version)) = set else {
        let Some(default) = subject
            .component(GPU_OPERATOR)
            .and_then(|operator| operator.value(&["driver", "version"]))
        else {
            return;
        };
        let default = default.as_str().unwrap_or_default();
        let place = [&OPERATOR_VALUES[..], &["usePrecompiled"]].concat();
        findings.push(not_a_branch(default).at(subject.place(&place)));
        return;
    };
    if version.starts_with("sha256:") {
        Diagnostic::error(
            "precompiled drivers cannot be pinned by digest, because each kernel has its own image",
        )
        .lint(Lint::Incompatible)
        .at(subject.place(keys))
        .hint("set the branch, such as `\"580\"`")
        .report(findings);
    } else if is_version(version) {
        findings.push(not_a_branch(version).at(subject.place(keys)));
    } else if !is_branch(version) {
        Diagnostic::error(format!("`{version}` is not a branch of the NVIDIA driver"))
            .at(subject.place(keys))
            .hint("branches look like `\"580\"`")
            .report(findings);
    }
}

/// Returns the warning about precompiled drivers of one version.
fn not_a_branch(version: &str) -> Diagnostic {
    Diagnostic::warning(format!(
        "NVIDIA has no precompiled driver images for version `{version}`: their tags have only the branch, kernel and operating system"
    ))
    .lint(Lint::Incompatible)
    .hint(format!(
        "set `rollout.gpuDriver.version` to the branch: `\"{}\"`; ignore this warning if you build your own images",
        version.split('.').next().unwrap_or_default()
    ))
}

fn waiting(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    for DriverRollout { key: driver, policy, .. } in subject.recipe.rollout.drivers() {
        let is_endless =
            |timeout: &Option<Duration>| timeout.is_none_or(|timeout| timeout.as_secs() == 0);
        let Some(wait) = policy.wait_for_completion.filter(|wait| is_endless(&wait.timeout)) else {
            continue;
        };
        let what = if wait.timeout.is_none() { "has no `timeout`" } else { "has the timeout 0" };
        Diagnostic::error(format!("`waitForCompletion` {what}, so it waits forever, and the rollout may never finish"))
            .lint(Lint::EndlessWait)
            .at(subject.place(&["rollout", driver, "policy", "waitForCompletion", "timeout"]))
            .hint(format!("set `rollout.{driver}.policy.waitForCompletion.timeout` to how long a job may delay its node, such as `4h`"))
            .report(findings);
    }
}

/// Reports drains and pod deletions without a time limit: one pod could block its node forever.
fn leaving(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let is_zero =
        |timeout: &Option<Duration>| timeout.is_some_and(|timeout| timeout.as_secs() == 0);
    let waits = |DriverRollout { key, policy, .. }: DriverRollout| {
        let deletion = policy.pod_deletion.and_then(|deletion| deletion.timeout);
        [
            (key, "podDeletion", deletion),
            (key, "drain", policy.drain.and_then(|drain| drain.timeout)),
        ]
    };
    for (driver, key, _) in
        subject.recipe.rollout.drivers().flat_map(waits).filter(|(.., timeout)| is_zero(timeout))
    {
        Diagnostic::error(format!("`{key}` has the timeout 0, so it waits forever: one pod that does not end blocks its node"))
            .lint(Lint::EndlessWait)
            .at(subject.place(&["rollout", driver, "policy", key, "timeout"]))
            .hint(format!("set `rollout.{driver}.policy.{key}.timeout`, such as `5m`; without the key, the operators' own five minutes apply"))
            .report(findings);
    }
}

/// Reports a version or a policy that is set in two places.
fn one_place(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let version = [&OPERATOR_VALUES[..], &["version"]].concat();
    if subject.recipe.rollout.gpu_driver.version.is_some()
        && subject.node_at(&version).is_some_and(|node| !node.is_null())
    {
        Diagnostic::error("the driver's version is set twice")
            .lint(Lint::SetTwice)
            .at(subject.place(&version))
            .label("the chart's value")
            .related(subject.place(&["rollout", "gpuDriver", "version"]), "the `rollout` setting")
            .hint("keep `rollout.gpuDriver.version`; it sets the chart's value")
            .report(findings);
    }
    let policy = [&OPERATOR_VALUES[..], &["upgradePolicy"]].concat();
    for (chart, own) in POLICY {
        let Some(entry) = subject.node_at(&policy).and_then(|node| node.entry(chart)) else {
            continue;
        };
        let keys = ["rollout", "gpuDriver", "policy", own];
        let mut finding = Diagnostic::error(format!(
            "`driver.upgradePolicy.{}` cannot be set in values: time budgets derive from the recipe's policy",
            entry.key
        ))
        .lint(Lint::SetTwice)
        .at(entry.key_origin)
        .hint(format!("set `{}` instead; it sets the chart's value", keys.join(".")));
        if subject.node_at(&keys).is_some() {
            finding = finding.related(subject.place(&keys), "also set here");
        }
        findings.push(finding);
    }
}

/// Reports a setting that nothing reads.
fn used(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let Some(written) = subject.node_at(&["rollout", "gpuDriver"]) else { return };
    let key = ["version", "policy"].into_iter().find(|key| written.get(key).is_some());
    let mode = subject.recipe.rollout.gpu_driver.mode;
    let key = key.or(mode.decides().then_some("mode"));
    let Some(key) = key else { return };
    let reason = match subject.component(GPU_OPERATOR) {
        None => "the recipe does not deploy `gpu-operator`",
        Some(operator) if operator.is_on(&["driver", "enabled"]) == Some(false) => {
            "`driver.enabled` is false, so the operator does not manage the driver"
        }
        Some(_) => return,
    };
    Diagnostic::warning(format!("`rollout.gpuDriver.{key}` has no effect: {reason}"))
        .lint(Lint::NoEffect)
        .at(subject.place(&["rollout", "gpuDriver", key]))
        .hint(format!("remove it; if a parent sets it, write `{key}: null`"))
        .report(findings);
}
