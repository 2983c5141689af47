//! What is deployed, written down as a recipe: the same rules that hold a recipe to what goes together hold a live cluster to it.

use serde_json::{Map, Value, json};

use crate::cluster::helm::Deployed;
use crate::contract::driver::Driver;
use crate::contract::duration::Duration;
use crate::contract::duty::Duty;
use crate::contract::policy::{Drain, PodDeletion, Policy, Upgrade};
use crate::contract::settings::{Mode, Settings};

/// A component of the catalog as it is deployed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Component {
    /// Its name in recipes.
    pub name: String,
    /// The chart's version.
    pub version: String,
    /// Its namespace.
    pub namespace: String,
    /// The values that it was given; `None`: they could not be read.
    pub values: Option<Map<String, Value>>,
}

impl Component {
    /// A release that is of this component's chart.
    pub fn of_release(name: &str, release: &Deployed) -> Self {
        Self {
            name: name.to_owned(),
            version: release.version.clone(),
            namespace: release.namespace.clone(),
            values: Some(release.values.clone()),
        }
    }
}

/// How the drivers are rolled out, below `rollout`: as their hooks do it, and where none is as NVIDIA's controllers do it alone.
pub fn rollout(hooks: &[&Settings]) -> Value {
    let mut rollout = json!({"gpuDriver": {"mode": Mode::Observe}});
    for settings in hooks.iter().filter(|settings| settings.has(Duty::Settle)) {
        let key = match settings.driver {
            Driver::Gpu => "gpuDriver",
            Driver::Ofed => "ofedDriver",
            // No recipe brings it.
            Driver::DaemonSet => continue,
        };
        rollout[key] = json!({"mode": settings.mode, "perNode": time(settings.per_node_seconds)});
        let policy = policy(&settings.upgrade, settings.driver);
        if settings.mode.decides() && !policy.is_empty() {
            rollout[key]["policy"] = Value::Object(policy);
        }
    }
    rollout
}

fn time(seconds: u64) -> String {
    Duration::from_secs(seconds).to_string()
}

/// The policy that a hook goes by, as far as it is not the default.
fn policy(upgrade: &Upgrade, driver: Driver) -> Map<String, Value> {
    let Policy { max_parallel_upgrades, max_unavailable, wait_for_completion, pod_deletion, drain } = &upgrade.policy;
    let (usual, gpu) = (Upgrade::default(), driver == Driver::Gpu);
    let mut policy = Map::new();
    let mut put = |wanted: bool, key: &str, value: Value| drop(wanted.then(|| policy.insert(key.to_owned(), value)));
    put(*max_parallel_upgrades != usual.policy.max_parallel_upgrades, "maxParallelUpgrades", json!(max_parallel_upgrades));
    put(*max_unavailable != usual.policy.max_unavailable && max_unavailable.is_some(), "maxUnavailable", json!(max_unavailable));
    if let Some(wait) = wait_for_completion {
        put(true, "waitForCompletion", json!({"podSelector": wait.pod_selector, "timeout": time(wait.timeout_seconds)}));
    }
    if let Some(PodDeletion { force, timeout_seconds, delete_empty_dir }) =
        pod_deletion.as_ref().filter(|step| **step != PodDeletion::default())
    {
        put(true, "podDeletion", json!({"force": force, "timeout": time(*timeout_seconds), "deleteEmptyDir": delete_empty_dir}));
    }
    if let Some(Drain { force, pod_selector, timeout_seconds, delete_empty_dir }) = drain {
        let mut value = json!({"enable": true, "force": force, "timeout": time(*timeout_seconds), "deleteEmptyDir": delete_empty_dir});
        if !pod_selector.is_empty() {
            value["podSelector"] = pod_selector.as_str().into();
        }
        put(true, "drain", value);
    }
    put(upgrade.failure_budget != usual.failure_budget, "failureBudget", json!(upgrade.failure_budget));
    put(upgrade.attempts != usual.attempts, "attempts", json!(upgrade.attempts));
    put(upgrade.soak_seconds > 0, "soak", time(upgrade.soak_seconds).into());
    put(upgrade.topology.is_some(), "topology", json!(upgrade.topology));
    put(upgrade.foreign_cordon != usual.foreign_cordon, "foreignCordon", json!(upgrade.foreign_cordon));
    put(!upgrade.extra_consumers.is_empty(), "extraConsumers", json!(upgrade.extra_consumers));
    put(upgrade.start_seconds != usual.start_seconds, "driverStart", time(upgrade.start_seconds).into());
    put(gpu && upgrade.validation_seconds != usual.validation_seconds, "validation", time(upgrade.validation_seconds).into());
    policy
}

/// The recipe. `kubernetes`: the server's version as `major.minor`; `nodes`: how many have GPUs.
pub fn recipe(components: &[Component], kubernetes: Option<&str>, nodes: usize, rollout: &Value) -> Value {
    let component = |one: &Component| {
        let mut written = json!({"name": one.name, "version": one.version, "namespace": one.namespace});
        if let Some(values) = one.values.as_ref().filter(|values| !values.is_empty()) {
            written["values"] = Value::Object(values.clone());
        }
        written
    };
    let mut cluster = json!({"gpuNodes": nodes.max(1)});
    if let Some(version) = kubernetes {
        cluster["kubernetes"] = format!("={version}").into();
    }
    json!({
        "apiVersion": "gpu-rollout.dev/v1",
        "kind": "Recipe",
        "metadata": {"name": "deployed"},
        "cluster": cluster,
        "rollout": rollout,
        "components": components.iter().map(component).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::console::subject::without_release;
    use crate::contract::count::Count;

    /// A fleet that is driven was written down as one that NVIDIA's controller upgrades, and held to the rules of that.
    #[test]
    fn a_rollout_is_written_as_its_hook_does_it() {
        let none = rollout(&[]);
        assert_eq!(none, json!({"gpuDriver": {"mode": "observe"}}));
        let mut settings = without_release(Driver::Gpu, "gpu-operator", None).settings;
        settings.mode = Mode::Drive;
        settings.per_node_seconds = 90;
        assert_eq!(rollout(&[&settings]), json!({"gpuDriver": {"mode": "drive", "perNode": "1m30s"}}));
        settings.upgrade.policy.max_parallel_upgrades = 4;
        settings.upgrade.policy.max_unavailable = Some(Count::Percent(50));
        settings.upgrade.policy.drain = Some(Drain { pod_selector: "a=b".into(), ..Drain::default() });
        settings.upgrade.soak_seconds = 60;
        let policy = json!({
            "maxParallelUpgrades": 4, "maxUnavailable": "50%", "soak": "1m",
            "drain": {"enable": true, "force": false, "timeout": "5m", "deleteEmptyDir": false, "podSelector": "a=b"},
        });
        let mut expected = json!({"gpuDriver": {"mode": "drive", "perNode": "1m30s"}});
        expected["gpuDriver"]["policy"] = policy;
        assert_eq!(rollout(&[&settings]), expected);
    }
}
