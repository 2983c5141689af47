//! Checks of the mode of each driver: the keys that it uses, and values of the operators' own
//! policy that contradict it.

use super::ofed::POLICY_KIND;
use super::rollout::LONGEST_SECONDS;
use super::{KnownComponent, RuleTarget};
use crate::model::DriverRollout;
use contract::count::Count;
use contract::duration::Duration;
use contract::names::{DRIVER_MANAGER_OFF, GPU_OPERATOR, MANAGER_EVICTIONS, NETWORK_OPERATOR};
use contract::settings::Mode;
use contract::task::Task;
use diagnostics::diagnostic::Diagnostic;
use diagnostics::lint::Lint;
use diagnostics::source::SourceSpan;
use diagnostics::tree::YamlNode;

/// The modes in which the hook decides.
const OURS: &[Mode] = &[Mode::Steer, Mode::Drive];
/// The mode in which the hook acts.
const DRIVE: &[Mode] = &[Mode::Drive];
/// Keys of the policy that not every mode uses, with the modes that do. In `steer`, NVIDIA's
/// controller evicts, by its own rules.
pub const KEYS: [(&str, &[Mode]); 12] = [
    ("attempts", &[Mode::Assist, Mode::Steer, Mode::Drive]),
    ("failureBudget", OURS),
    ("soak", OURS),
    ("windows", OURS),
    ("canary", OURS),
    ("ramp", OURS),
    ("halt", OURS),
    ("topology", OURS),
    ("foreignCordon", OURS),
    ("driverStart", OURS),
    ("validation", OURS),
    ("extraConsumers", DRIVE),
];
/// The same for keys that the Network Operator does not have: key, modes, reason, alternative.
const OFED_KEYS: [(&str, &[Mode], &str, &str); 2] = [
    (
        "maxUnavailable",
        OURS,
        "NicClusterPolicy has no `maxUnavailable`: for the OFED driver, only `maxParallelUpgrades` limits how many nodes are upgraded at once",
        "set `maxParallelUpgrades`",
    ),
    (
        "podDeletion",
        DRIVE,
        "NicClusterPolicy has no `podDeletion`: only `drain` evicts pods from a node",
        "set `drain`, with a `podSelector` for the pods that use the network",
    ),
];
const GPU_VALUES: [&str; 3] = ["components", GPU_OPERATOR, "values"];

/// Returns whether a mode uses a key of the policy of `driver`, the driver's key below `rollout`.
pub(crate) fn uses(driver: &str, key: &str, mode: Mode) -> bool {
    let common = KEYS.iter().map(|(known, modes)| (*known, *modes));
    let ofed = OFED_KEYS.iter().filter(|_| driver == "ofedDriver");
    let ofed = ofed.map(|(known, modes, ..)| (*known, *modes));
    common.chain(ofed).all(|(known, modes)| known != key || modes.contains(&mode))
}

/// Checks the settings against the modes.
pub fn check(subject: &RuleTarget<'_>, findings: &mut Vec<Diagnostic>) {
    let rollout = &subject.recipe.rollout;
    for driver in rollout.drivers() {
        keys(subject.tree, driver.key, driver.mode, findings);
        preflight(subject, driver.key, driver.mode, findings);
        amounts(subject, &driver, findings);
    }
    operator_upgrade(subject, rollout.gpu_driver.mode, findings);
    gpu_values(subject, rollout.gpu_driver.mode, findings);
    let Some(ofed) = &rollout.ofed_driver else { return };
    for (key, modes, reason, instead) in OFED_KEYS {
        let Some(entry) =
            policy_entry(subject.tree, "ofedDriver", key).filter(|_| !modes.contains(&ofed.mode))
        else {
            continue;
        };
        let own =
            format!("{instead}; or use mode {}, in which the hook applies this key", names(modes));
        Diagnostic::error(reason).lint(Lint::UnknownField).at(entry).hint(own).report(findings);
    }
    ofed_values(subject, ofed.mode, findings);
    if ofed.mode == Mode::Drive && ofed.policy.safe_load == Some(true) {
        Diagnostic::error(
            "`safeLoad` does not work in mode `drive`: with `autoUpgrade: false`, no controller allows a waiting driver to load",
        )
        .lint(Lint::ModeConflict)
        .at(subject.place(&["rollout", "ofedDriver", "policy", "safeLoad"]))
        .hint("remove `safeLoad`, or use mode `steer`")
        .report(findings);
    }
}

/// Joins the modes' names, in backticks, with "or".
fn names(modes: &[Mode]) -> String {
    modes.iter().map(|mode| format!("`{}`", mode.name())).collect::<Vec<_>>().join(" or ")
}

/// Returns the position of a key of a driver's policy, if it is set.
fn policy_entry(tree: &YamlNode, driver: &str, key: &str) -> Option<SourceSpan> {
    let entry = tree.at_keys(&["rollout", driver, "policy"])?.entry(key)?;
    (!entry.node.is_null()).then_some(entry.key_origin)
}

/// Reports preflight settings in a mode without the task `preflight`.
fn preflight(subject: &RuleTarget<'_>, driver: &str, mode: Mode, findings: &mut Vec<Diagnostic>) {
    let entry =
        subject.node_at(&["rollout", driver]).and_then(|section| section.entry("preflight"));
    let Some(entry) =
        entry.filter(|entry| !entry.node.is_null() && !mode.tasks().contains(&Task::Preflight))
    else {
        return;
    };
    let modes: Vec<Mode> =
        Mode::ALL.into_iter().filter(|mode| mode.tasks().contains(&Task::Preflight)).collect();
    findings.push(
        against(format!(
            "`rollout.{driver}.preflight` has no effect in mode `{}`: it has no preflight",
            mode.name()
        ))
        .at(entry.key_origin)
        .hint(format!("set `rollout.{driver}.mode` to {}, or remove the key", names(&modes))),
    );
}

/// Reports `operatorUpgrade` in modes other than `assist`. While the operator is upgraded, `steer`
/// always holds nodes, and `observe` and `drive` never do.
fn operator_upgrade(subject: &RuleTarget<'_>, mode: Mode, findings: &mut Vec<Diagnostic>) {
    let entry = subject
        .node_at(&["rollout", "gpuDriver"])
        .and_then(|section| section.entry("operatorUpgrade"));
    let Some(entry) = entry.filter(|entry| !entry.node.is_null() && mode != Mode::Assist) else {
        return;
    };
    let why = match mode {
        Mode::Steer => "it always holds every node",
        Mode::Observe => "it writes to no node",
        Mode::Assist | Mode::Drive => "the operator does not upgrade drivers itself",
    };
    findings.push(
        against(format!(
            "`rollout.gpuDriver.operatorUpgrade` has no effect in mode `{}`: {why}",
            mode.name()
        ))
        .at(entry.key_origin)
        .hint("set `rollout.gpuDriver.mode` to `assist`, or remove the key"),
    );
}

/// Reports keys that the modes do not use, in a recipe that may lack required keys.
pub(crate) fn unused_keys(tree: &YamlNode, findings: &mut Vec<Diagnostic>) {
    for driver in ["gpuDriver", "ofedDriver"] {
        let written = tree.at_keys(&["rollout", driver, "mode"]).and_then(YamlNode::text);
        let mode = written.and_then(|name| Mode::ALL.into_iter().find(|mode| mode.name() == name));
        keys(tree, driver, mode.unwrap_or_default(), findings);
    }
}

/// Reports keys that the mode does not use.
fn keys(tree: &YamlNode, driver: &str, mode: Mode, findings: &mut Vec<Diagnostic>) {
    for (key, modes) in KEYS {
        let Some(place) = policy_entry(tree, driver, key).filter(|_| !modes.contains(&mode)) else {
            continue;
        };
        let mut finding = Diagnostic::error(format!("`rollout.{driver}.policy.{key}` has no effect in mode `{}`", mode.name()))
            .lint(Lint::ModeConflict)
            .at(place)
            .hint(format!(
                "set `rollout.{driver}.mode` to {}, or remove the key; if a parent sets it, write `{key}: null`",
                names(modes)
            ));
        if let Some(written) = tree.at_keys(&["rollout", driver, "mode"]) {
            finding = finding.related(written.origin, format!("mode `{}`", mode.name()));
        }
        findings.push(finding);
    }
}

/// Reports numbers and times with which no node could be upgraded, or a wait could be endless.
fn amounts(subject: &RuleTarget<'_>, driver: &DriverRollout, findings: &mut Vec<Diagnostic>) {
    let policy = &driver.policy;
    let mut wrong = |key: &[&str], problem: &str, hint: &str| {
        let keys = [&["rollout", driver.key, "policy"], key].concat();
        Diagnostic::error(format!("`{}`: {problem}", keys.join(".")))
            .at(subject.place(&keys))
            .hint(hint)
            .report(findings);
    };
    let is_charts = driver.key == "gpuDriver" && !driver.mode.decides();
    let group = policy.topology.as_ref().map(|topology| topology.max_unavailable);
    let counts: [(&[&str], _); 3] = [
        (&["failureBudget"], policy.failure_budget),
        (&["topology", "maxUnavailable"], group),
        (&["maxUnavailable"], policy.max_unavailable),
    ];
    for (key, count) in counts {
        let problem = match count {
            Some(Count::Number(0)) if is_charts && *key == ["maxUnavailable"] => {
                "the chart treats 0 as not set, and renders 25%"
            }
            Some(Count::Number(0) | Count::Percent(0)) => "no node could be upgraded",
            Some(Count::Percent(101..)) => "more than 100% is not possible",
            Some(Count::Number(1..) | Count::Percent(1..=100)) | None => continue,
        };
        wrong(key, problem, "set a number of at least 1, or a percentage from `1%` to `100%`");
    }
    if policy.attempts == Some(0) {
        wrong(&["attempts"], "no node would be tried", "set a number of at least 1");
    }
    let long = |time: Option<Duration>, least: u64| {
        time.is_some_and(|time| !(least..=LONGEST_SECONDS).contains(&time.as_secs()))
    };
    for (key, time, least) in [
        ("soak", policy.soak, 0),
        ("driverStart", policy.driver_start, 1),
        ("validation", policy.validation, 1),
    ] {
        if long(time, least) {
            wrong(&[key], &format!("must be from {least}s to 24h"), "such as `30m`");
        }
    }
}

/// Reports values of the GPU Operator that contradict the mode.
fn gpu_values(subject: &RuleTarget<'_>, mode: Mode, findings: &mut Vec<Diagnostic>) {
    let Some(operator) = subject.component(GPU_OPERATOR) else { return };
    if operator.is_on(&["driver", "enabled"]) == Some(false) {
        return;
    }
    if operator.is_on(&["sandboxWorkloads", "enabled"]) == Some(true) && mode == Mode::Steer {
        findings.push(
            against("with `sandboxWorkloads.enabled: true`, the operator upgrades no driver, so mode `steer` cannot work")
                .at(subject.place(&[&GPU_VALUES[..], &["sandboxWorkloads", "enabled"]].concat()))
                .related(subject.place(&["rollout", "gpuDriver", "mode"]), format!("mode `{}`", mode.name()))
                .hint("use mode `drive` or `observe`"),
        );
        return;
    }
    auto_upgrade(
        subject,
        "gpuDriver",
        mode,
        &[&GPU_VALUES[..], &["driver", "upgradePolicy", "autoUpgrade"]].concat(),
        findings,
    );
    unused_evictions(subject, operator, mode, findings);
    if !mode.decides() {
        return;
    }
    if operator.is_on(&["driver", "nvidiaDriverCRD", "enabled"]) == Some(true)
        && operator.is_on(&["driver", "nvidiaDriverCRD", "deployDefaultCR"]) == Some(false)
    {
        Diagnostic::error(format!(
                "mode `{}` needs an upgrade policy that a bundle cannot set: the driver comes from NVIDIADriver objects that the chart does not create",
                mode.name()
            ))
            .lint(Lint::DriverCrd)
            .at(subject.place(&[&GPU_VALUES[..], &["driver", "nvidiaDriverCRD", "deployDefaultCR"]].concat()))
            .hint("use mode `assist`, or remove `deployDefaultCR`: the chart then creates the object from `driver`").report(findings);
    }
    if mode != Mode::Drive {
        return;
    }
    let env = manager_env(subject);
    for entry in env {
        let Some(name) = entry
            .get("name")
            .and_then(YamlNode::text)
            .filter(|name| DRIVER_MANAGER_OFF.contains(name))
        else {
            continue;
        };
        if entry.get("value").and_then(YamlNode::text) != Some("false") {
            findings.push(
                against(format!("`{name}` must be \"false\" in mode `drive`: otherwise both the driver manager and the hook would evict pods"))
                    .at(entry.get("value").map_or(entry.origin, |value| value.origin))
                    .related(subject.place(&["rollout", "gpuDriver", "mode"]), format!("mode `{}`", mode.name()))
                    .hint("remove the entry: a bundle sets it"),
            );
        }
    }
}

/// Returns the entries of the driver manager's environment.
fn manager_env<'a>(subject: &RuleTarget<'a>) -> &'a [YamlNode] {
    subject
        .node_at(&[&GPU_VALUES[..], &["driver", "manager", "env"]].concat())
        .map(YamlNode::items)
        .unwrap_or_default()
}

/// Reports eviction settings of the driver manager that have no effect. If the operator upgrades, its
/// driver manager evicts no pods, regardless of its environment (gpu-operator issue 901).
fn unused_evictions(
    subject: &RuleTarget<'_>,
    operator: &KnownComponent<'_>,
    mode: Mode,
    findings: &mut Vec<Diagnostic>,
) {
    let upgrades = match mode {
        Mode::Observe => operator.is_on(&["driver", "upgradePolicy", "autoUpgrade"]) != Some(false),
        Mode::Assist | Mode::Steer => true,
        Mode::Drive => false,
    };
    for entry in manager_env(subject).iter().filter(|_| upgrades) {
        let Some(name) = entry
            .get("name")
            .and_then(YamlNode::text)
            .filter(|name| MANAGER_EVICTIONS.contains(name))
        else {
            continue;
        };
        Diagnostic::warning(format!(
            "`{name}` has no effect: with `autoUpgrade: true`, the operator evicts pods, and the driver manager does not"
        ))
        .lint(Lint::NoEffect)
        .at(entry.origin)
        .hint("remove the entry, and set evictions in `rollout.gpuDriver.policy` (`podDeletion`, `drain`)")
        .report(findings);
    }
}

/// Reports values of NicClusterPolicy that contradict the mode, in the custom resource or in
/// values.
fn ofed_values(subject: &RuleTarget<'_>, mode: Mode, findings: &mut Vec<Diagnostic>) {
    let Some(operator) = subject.component(NETWORK_OPERATOR) else { return };
    let is_resource = !operator.entry.closest_version(operator.number).custom_resources.is_empty();
    let place: &[&str] = if is_resource { &["customResources", POLICY_KIND] } else { &["values"] };
    let switch =
        [&["components", NETWORK_OPERATOR], place, &["ofedDriver", "upgradePolicy", "autoUpgrade"]]
            .concat();
    auto_upgrade(subject, "ofedDriver", mode, &switch, findings);
}

/// Reports an `autoUpgrade` that contradicts the mode.
fn auto_upgrade(
    subject: &RuleTarget<'_>,
    driver: &str,
    mode: Mode,
    switch: &[&str],
    findings: &mut Vec<Diagnostic>,
) {
    let needed = match mode {
        Mode::Observe => return,
        Mode::Assist | Mode::Steer => true,
        Mode::Drive => false,
    };
    let Some(written) =
        subject.node_at(switch).filter(|node| !node.is_null() && node.to_json() != needed)
    else {
        return;
    };
    let consequence = if needed {
        "no controller would upgrade a node"
    } else {
        "two controllers would upgrade the same node"
    };
    let message =
        format!("with `autoUpgrade` {} in mode `{}`, {consequence}", !needed, mode.name());
    findings.push(
        against(message)
            .at(written.origin)
            .related(subject.place(&["rollout", driver, "mode"]), format!("mode `{}`", mode.name()))
            .hint("remove the key, because the bundle sets it"),
    );
}

fn against(message: impl Into<String>) -> Diagnostic {
    Diagnostic::error(message).lint(Lint::ModeConflict)
}
