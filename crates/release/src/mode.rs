//! The effective mode of a driver's hooks, and its policy in the hook chart's values.

use serde_json::{Map, Value, json};

use super::values::{gpu, ofed};
use contract::acceptance::AcceptanceTest;
use contract::count::Count;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::policy::{self, Policy, UpgradeSettings};
use contract::proof::Canary;
use contract::settings::Mode;
use recipe::model::{RecipeRollout, RecipeUpgradePolicy};

/// Returns the recipe's mode if there is a driver to upgrade, otherwise `observe`. `operator` are
/// the values of the driver's operator, if the recipe deploys it. `resource` is the custom resource
/// that requests the driver, if the operator has one.
pub(super) fn in_force(
    rollout: &RecipeRollout,
    driver: Driver,
    operator: Option<&Map<String, Value>>,
    resource: Option<&Map<String, Value>>,
) -> Mode {
    match driver {
        // No component of a recipe has this driver.
        Driver::DaemonSet => Mode::Observe,
        Driver::Gpu => {
            operator.map_or(Mode::Observe, |values| gpu::mode(&rollout.gpu_driver, values))
        }
        Driver::Ofed => {
            let is_there = resource.is_some() || operator.is_some_and(ofed::is_rendered);
            rollout
                .ofed_driver
                .as_ref()
                .filter(|_| is_there)
                .map_or(Mode::Observe, |driver| driver.mode)
        }
    }
}

/// Returns the policy of the modes in which the hook decides: the recipe's, with the operators'
/// defaults for absent keys. The Network Operator has no `maxUnavailable`, so its default is that
/// of the GPU driver, because both drivers share one budget.
pub fn upgrade(rollout: &RecipeRollout, driver: Driver) -> UpgradeSettings {
    let asked = rollout
        .driver(driver)
        .filter(|_| driver != Driver::DaemonSet)
        .map(|driver| driver.policy)
        .unwrap_or_default();
    let default = UpgradeSettings::default();
    // The tests are of the GPU driver.
    let tests = rollout.acceptance.iter().filter(|_| driver == Driver::Gpu);
    UpgradeSettings {
        policy: limits(&asked, driver),
        failure_budget: asked.failure_budget.unwrap_or(default.failure_budget),
        attempts: asked.attempts.unwrap_or(default.attempts),
        soak_seconds: asked.soak.map_or(default.soak_seconds, Duration::as_secs),
        windows: asked.windows,
        canary: asked.canary.as_ref().map(Canary::from),
        ramp: asked.ramp,
        halt: asked.halt,
        acceptance: tests.map(AcceptanceTest::from).collect(),
        topology: asked.topology,
        foreign_cordon: asked.foreign_cordon.unwrap_or(default.foreign_cordon),
        extra_consumers: asked.extra_consumers,
        start_seconds: asked.driver_start.map_or(default.start_seconds, Duration::as_secs),
        validation_seconds: asked.validation.map_or(default.validation_seconds, Duration::as_secs),
    }
}

fn limits(asked: &RecipeUpgradePolicy, driver: Driver) -> Policy {
    let default = Policy::default();
    // The gpu-operator chart always evicts pods, and the Network Operator never does by default.
    // The Network Operator's CRD drains by default if there is a `drain`; the gpu-operator chart
    // does not.
    let (evicts, drains) = match driver {
        Driver::DaemonSet => (false, false),
        Driver::Gpu => (true, false),
        Driver::Ofed => (asked.pod_deletion.is_some(), true),
    };
    let deletion = asked.pod_deletion.clone().unwrap_or_default();
    let seconds = policy::PodDeletionPolicy::default().timeout_seconds;
    let drain = asked.drain.as_ref().filter(|drain| drain.enable.unwrap_or(drains));
    Policy {
        max_parallel_upgrades: asked.max_parallel_upgrades.unwrap_or(default.max_parallel_upgrades),
        max_unavailable: asked.max_unavailable.or(default.max_unavailable),
        wait_for_completion: asked.wait_for_completion.as_ref().map(|wait| {
            policy::CompletionPolicy {
                pod_selector: wait.pod_selector.clone(),
                timeout_seconds: wait.timeout.map_or(0, Duration::as_secs),
            }
        }),
        pod_deletion: evicts.then(|| policy::PodDeletionPolicy {
            force: deletion.force.unwrap_or_default(),
            timeout_seconds: deletion.timeout.map_or(seconds, Duration::as_secs),
            delete_empty_dir: deletion.delete_empty_dir.unwrap_or_default(),
        }),
        drain: drain.map(|drain| policy::DrainPolicy {
            force: drain.force.unwrap_or_default(),
            pod_selector: drain.pod_selector.clone().unwrap_or_default(),
            timeout_seconds: drain
                .timeout
                .map_or(policy::DrainPolicy::default().timeout_seconds, Duration::as_secs),
            delete_empty_dir: drain.delete_empty_dir.unwrap_or_default(),
        }),
    }
}

/// Returns the hook chart's `rollout.upgrade` for this mode; `None` if the mode does not use it.
pub(super) fn values(mode: Mode, upgrade: &UpgradeSettings) -> Option<Value> {
    match mode {
        Mode::Observe => None,
        Mode::Assist => Some(json!({"attempts": upgrade.attempts})),
        Mode::Steer | Mode::Drive => Some(policy_values(upgrade)),
    }
}

/// Returns the policy in the chart's form: keys that are absent in settings are disabled or empty
/// in values.
fn policy_values(upgrade: &UpgradeSettings) -> Value {
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } =
        &upgrade.policy;
    let wait = wait_for_completion.as_ref();
    let (deletion, draining) =
        (pod_deletion.clone().unwrap_or_default(), drain.clone().unwrap_or_default());
    let topology = upgrade.topology.as_ref();
    let (canary, halt) = (upgrade.canary.as_ref(), upgrade.halt);
    json!({
        "policy": {
            "maxParallelUpgrades": max_parallel_upgrades,
            "maxUnavailable": max_unavailable.unwrap_or(Count::Percent(100)),
            "waitForCompletion": {
                "podSelector": wait.map_or("", |wait| &wait.pod_selector),
                "timeoutSeconds": wait.map_or(0, |wait| wait.timeout_seconds),
            },
            "podDeletion": {
                "enable": pod_deletion.is_some(),
                "force": deletion.force,
                "timeoutSeconds": deletion.timeout_seconds,
                "deleteEmptyDir": deletion.delete_empty_dir,
            },
            "drain": {
                "enable": drain.is_some(),
                "force": draining.force,
                "podSelector": draining.pod_selector,
                "timeoutSeconds": draining.timeout_seconds,
                "deleteEmptyDir": draining.delete_empty_dir,
            },
        },
        "failureBudget": upgrade.failure_budget,
        "attempts": upgrade.attempts,
        "soakSeconds": upgrade.soak_seconds,
        "windows": upgrade.windows,
        "canary": {
            "nodes": canary.map_or(0, |canary| canary.nodes),
            "per": canary.map(|canary| canary.per.clone()).unwrap_or_default(),
            "soakSeconds": canary.map_or(0, |canary| canary.soak_seconds),
        },
        "ramp": upgrade.ramp,
        "halt": {
            "failedProofs": halt.map_or(0, |halt| halt.failed_proofs),
            "failedNodes": halt.and_then(|halt| halt.failed_nodes).unwrap_or(0),
        },
        "acceptance": upgrade.acceptance,
        "topology": {
            "label": topology.map_or("", |topology| &topology.label),
            "maxUnavailable": topology.map_or(Count::Number(1), |topology| topology.max_unavailable),
        },
        "foreignCordon": upgrade.foreign_cordon,
        "extraConsumers": upgrade.extra_consumers,
        "startSeconds": upgrade.start_seconds,
        "validationSeconds": upgrade.validation_seconds,
    })
}
