//! Checks of drivers that come from NVIDIADriver objects: keys of `driver` that nothing reads then.

use std::cmp::Ordering;

use super::{KnownComponent, RuleTarget};
use catalog::lookup;
use contract::names::GPU_OPERATOR;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::source::SourceSpan;
use diagnostics::tree::{MapEntry, YamlNode};

/// Keys below `driver` that the operator or the chart always reads.
const ALWAYS_READ: [&str; 3] = ["enabled", "nvidiaDriverCRD", "upgradePolicy"];
/// Keys below `driver.nvidiaDriverCRD` that are read only if it is enabled.
const OF_THE_DEFAULT_RESOURCE: [&str; 3] = ["deployDefaultCR", "driverType", "nodeSelector"];
const DRIVER: [&str; 4] = ["components", GPU_OPERATOR, "values", "driver"];

/// From this version, each NVIDIADriver has its own upgrade policy, and the ClusterPolicy's is not
/// used.
const POLICY_PER_DRIVER: &str = "v26.7.0";
/// NVIDIA's keys of `rollout.gpuDriver.policy`.
const VENDORS_POLICY: [&str; 5] =
    ["maxParallelUpgrades", "maxUnavailable", "waitForCompletion", "podDeletion", "drain"];

/// Reports an upgrade policy that does not apply to any NVIDIADriver.
fn policy(
    subject: &RuleTarget<'_>,
    operator: &KnownComponent<'_>,
    place: SourceSpan,
    findings: &mut Vec<Diagnostic>,
) {
    if operator.entry.compare(operator.number, POLICY_PER_DRIVER).is_none_or(Ordering::is_lt) {
        return;
    }
    let path = ["rollout", "gpuDriver", "policy"];
    let asked = subject.node_at(&path).map(YamlNode::entries).unwrap_or_default();
    for entry in asked
        .iter()
        .filter(|entry| VENDORS_POLICY.contains(&entry.key.as_str()) && !entry.node.is_null())
    {
        let message = format!(
            "`rollout.gpuDriver.policy.{}` has no effect: each NVIDIADriver has its own policy, and the chart does not create these objects",
            entry.key
        );
        Diagnostic::warning(message)
            .lint(Lint::NoEffect)
            .at(entry.key_origin)
            .related(place, "set here")
            .hint(format!("write it into `spec.upgradePolicy` of your NVIDIADriver objects, and `{}: null` here", entry.key))
            .report(findings);
    }
}

/// Checks the GPU Operator's `driver` against `driver.nvidiaDriverCRD`.
pub(crate) fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let Some(operator) = subject.component(GPU_OPERATOR) else { return };
    let Some(driver) = subject.node_at(&DRIVER) else { return };
    let switch = ["driver", "nvidiaDriverCRD", "enabled"];
    if operator.is_on(&switch) == Some(false) {
        let settings = driver.get("nvidiaDriverCRD").map(YamlNode::entries).unwrap_or_default();
        let is_default = |entry: &MapEntry| {
            let path = format!("driver.nvidiaDriverCRD.{}", entry.key);
            lookup(operator.defaults, &path).is_some_and(|default| entry.node.to_json() == *default)
        };
        for entry in settings.iter().filter(|entry| {
            OF_THE_DEFAULT_RESOURCE.contains(&entry.key.as_str()) && !is_default(entry)
        }) {
            Diagnostic::warning(format!(
                "`driver.nvidiaDriverCRD.{}` has no effect: `driver.nvidiaDriverCRD.enabled` is false",
                entry.key
            ))
            .lint(Lint::NoEffect)
            .at(entry.key_origin)
            .hint("remove it, or set `driver.nvidiaDriverCRD.enabled: true`")
            .report(findings);
        }
    }
    let own = operator.is_on(&switch) == Some(true)
        && operator.is_on(&["driver", "nvidiaDriverCRD", "deployDefaultCR"]) == Some(false);
    if !own {
        return;
    }
    let place = subject.place(&[&DRIVER[..], &["nvidiaDriverCRD", "deployDefaultCR"]].concat());
    for entry in driver
        .entries()
        .iter()
        .filter(|entry| !ALWAYS_READ.contains(&entry.key.as_str()) && !entry.node.is_null())
    {
        Diagnostic::error(format!(
            "`driver.{}` has no effect: the driver comes from NVIDIADriver objects that the chart does not create",
            entry.key
        ))
        .lint(Lint::DriverCrd)
        .at(entry.key_origin)
        .related(place, "set here")
        .hint("write it into your NVIDIADriver objects, or remove `deployDefaultCR`: the chart then creates one from `driver`")
        .report(findings);
    }
    policy(subject, operator, place, findings);
    if subject.recipe.rollout.gpu_driver.version.is_some() {
        Diagnostic::error("`rollout.gpuDriver.version` has no effect: the driver comes from NVIDIADriver objects that the chart does not create")
            .lint(Lint::DriverCrd)
            .at(subject.place(&["rollout", "gpuDriver", "version"]))
            .related(place, "set here")
            .hint("write it into your NVIDIADriver objects, and `version: null` here")
            .report(findings);
    }
}
