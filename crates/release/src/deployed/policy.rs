//! Converts a driver's upgrade policy back into a recipe, from the vendor's values or a hook's
//! settings.

use serde_json::{Map, Value, json};

use super::removal::remove_if;
use crate::mode;
use crate::values::{gpu, ofed};
use contract::count::Count;
use contract::driver::Driver;
use contract::duration::Duration;
use contract::policy::{self, Policy, UpgradeSettings};
use contract::settings::Mode;
use recipe::model::{
    OfedDriverRollout, RecipeCanary, RecipeDrain, RecipeOfedUpgradePolicy, RecipePodDeletion,
    RecipeRollout, RecipeUpgradePolicy, RecipeWaitForCompletion,
};
use recipe::rules;

/// Moves the values that a recipe sets in `rollout` out of the values. Unusable ones stay, so that
/// the rules report them.
pub(super) fn of_values(values: &mut Map<String, Value>, driver: Driver) -> RecipeUpgradePolicy {
    let (place, keys): (_, &[(&str, &str)]) = match driver {
        Driver::Gpu | Driver::DaemonSet => (gpu::POLICY, &rules::rollout::POLICY),
        Driver::Ofed => (ofed::POLICY, &rules::ofed::POLICY),
    };
    let mut policy = Map::new();
    for &(theirs, own) in keys {
        let place = format!("{place}.{theirs}");
        if own == "waitForCompletion" && remove_if(values, &place, has_no_selector).is_some() {
            continue;
        }
        let read = |value: &Value| {
            Some((own, own_words(value))).filter(|(own, value)| is_readable(own, value))
        };
        let taken = remove_if(values, &place, |value| read(value).is_some());
        policy.extend(
            taken.and_then(|value| read(&value)).map(|(own, value)| (own.to_owned(), value)),
        );
    }
    // All of them were parsed.
    let policy: RecipeUpgradePolicy =
        serde_json::from_value(Value::Object(policy)).unwrap_or_default();
    // The API server writes the defaults of the Network Operator's CRD.
    let is_usual = driver == Driver::Ofed && policy.max_parallel_upgrades == Some(1);
    RecipeUpgradePolicy {
        max_parallel_upgrades: policy.max_parallel_upgrades.filter(|_| !is_usual),
        ..policy
    }
}

/// Whether a wait has no selector. The API server writes its timeout anyway.
fn has_no_selector(wait: &Value) -> bool {
    let selector = wait.as_object().map(|wait| wait.get("podSelector").unwrap_or(&Value::Null));
    selector.is_some_and(|selector| selector.is_null() || *selector == "")
}

fn is_readable(own: &str, value: &Value) -> bool {
    serde_json::from_value::<RecipeUpgradePolicy>(json!({own: value})).is_ok()
}

/// Converts a value for a recipe, where times have a unit.
fn own_words(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let own = fields.iter().map(|(key, value)| match (key.as_str(), value.as_u64()) {
        ("timeoutSeconds", Some(seconds)) => {
            ("timeout".to_owned(), json!(Duration::from_secs(seconds)))
        }
        _ => (key.clone(), value.clone()),
    });
    Value::Object(own.collect())
}

/// Removes and returns `safeLoad`; `None` if it is not set.
pub(super) fn safe_load(values: &mut Map<String, Value>) -> Option<bool> {
    remove_if(values, &format!("{}.safeLoad", ofed::POLICY), Value::is_boolean)?
        .as_bool()
        .filter(|on| *on)
}

/// Returns the policy of a recipe in this mode. `said` comes from the vendor's values, `upgrade`
/// from the hook's settings.
pub(super) fn in_mode(
    mode: Mode,
    said: RecipeUpgradePolicy,
    upgrade: Option<&UpgradeSettings>,
    driver: Driver,
) -> RecipeUpgradePolicy {
    let usual = usual(driver);
    match (mode, upgrade) {
        (Mode::Observe, _) | (_, None) => said,
        (Mode::Assist, Some(upgrade)) => {
            RecipeUpgradePolicy { attempts: unlike(&upgrade.attempts, &usual.attempts), ..said }
        }
        (Mode::Drive, Some(upgrade)) => of_settings(upgrade, &usual, driver),
        // Both contain the wait for jobs.
        (Mode::Steer, Some(upgrade)) => {
            let ours = of_settings(upgrade, &usual, driver);
            RecipeUpgradePolicy {
                wait_for_completion: said.wait_for_completion.or(ours.wait_for_completion),
                pod_deletion: said
                    .pod_deletion
                    .or(ours.pod_deletion)
                    .filter(|_| driver != Driver::Ofed),
                drain: said.drain.or(ours.drain),
                // NVIDIA's controllers decide about evictions. The chart has a default for the
                // rest.
                extra_consumers: Vec::new(),
                ..ours
            }
        }
    }
}

/// Returns the upgrade settings of a recipe without a policy.
fn usual(driver: Driver) -> UpgradeSettings {
    mode::upgrade(
        &RecipeRollout {
            ofed_driver: Some(OfedDriverRollout::default()),
            ..RecipeRollout::default()
        },
        driver,
    )
}

fn unlike<T: Clone + PartialEq>(value: &T, usual: &T) -> Option<T> {
    (value != usual).then(|| value.clone())
}

fn time(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn of_settings(
    upgrade: &UpgradeSettings,
    usual: &UpgradeSettings,
    driver: Driver,
) -> RecipeUpgradePolicy {
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } =
        &upgrade.policy;
    let seconds = |value: u64, usual: u64| unlike(&value, &usual).map(time);
    let (deletion, draining) =
        (policy::PodDeletionPolicy::default(), policy::DrainPolicy::default());
    // A recipe sets one of them.
    let is_replaced = upgrade.halt.is_some_and(|halt| halt.failed_nodes.is_some());
    RecipeUpgradePolicy {
        max_parallel_upgrades: unlike(max_parallel_upgrades, &usual.policy.max_parallel_upgrades),
        max_unavailable: unlike(max_unavailable, &usual.policy.max_unavailable)
            .map(|limit| limit.unwrap_or(Count::Percent(100))),
        wait_for_completion: wait_for_completion.as_ref().map(|wait| RecipeWaitForCompletion {
            pod_selector: wait.pod_selector.clone(),
            timeout: Some(time(wait.timeout_seconds)),
        }),
        pod_deletion: pod_deletion
            .as_ref()
            .filter(|_| *pod_deletion != usual.policy.pod_deletion)
            .map(|step| RecipePodDeletion {
                force: unlike(&step.force, &deletion.force),
                timeout: seconds(step.timeout_seconds, deletion.timeout_seconds),
                delete_empty_dir: unlike(&step.delete_empty_dir, &deletion.delete_empty_dir),
            }),
        drain: drain.as_ref().map(|step| RecipeDrain {
            enable: Some(true),
            force: unlike(&step.force, &draining.force),
            pod_selector: unlike(&step.pod_selector, &draining.pod_selector),
            timeout: seconds(step.timeout_seconds, draining.timeout_seconds),
            delete_empty_dir: unlike(&step.delete_empty_dir, &draining.delete_empty_dir),
        }),
        failure_budget: unlike(&upgrade.failure_budget, &usual.failure_budget)
            .filter(|_| !is_replaced),
        attempts: unlike(&upgrade.attempts, &usual.attempts),
        soak: seconds(upgrade.soak_seconds, usual.soak_seconds),
        windows: upgrade.windows.clone(),
        canary: upgrade.canary.as_ref().map(RecipeCanary::from),
        ramp: upgrade.ramp.clone(),
        halt: upgrade.halt,
        topology: upgrade.topology.clone(),
        foreign_cordon: unlike(&upgrade.foreign_cordon, &usual.foreign_cordon),
        extra_consumers: upgrade.extra_consumers.clone(),
        driver_start: seconds(upgrade.start_seconds, usual.start_seconds),
        validation: seconds(upgrade.validation_seconds, usual.validation_seconds)
            .filter(|_| driver == Driver::Gpu),
    }
}

/// Converts the policy into that of the OFED driver.
pub(super) fn ofed(
    policy: RecipeUpgradePolicy,
    safe_load: Option<bool>,
) -> RecipeOfedUpgradePolicy {
    // The Network Operator has no validator.
    RecipeOfedUpgradePolicy {
        max_parallel_upgrades: policy.max_parallel_upgrades,
        max_unavailable: policy.max_unavailable,
        wait_for_completion: policy.wait_for_completion,
        pod_deletion: policy.pod_deletion,
        drain: policy.drain,
        safe_load,
        failure_budget: policy.failure_budget,
        attempts: policy.attempts,
        soak: policy.soak,
        windows: policy.windows,
        canary: policy.canary,
        ramp: policy.ramp,
        halt: policy.halt,
        topology: policy.topology,
        foreign_cordon: policy.foreign_cordon,
        extra_consumers: policy.extra_consumers,
        driver_start: policy.driver_start,
    }
}
