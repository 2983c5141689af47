//! Configurations of the device plugin, and the hooks that restart its pods.

use serde_json::{Value, json};

use super::{hook, planned, release, upstream};
use crate::fixture::recipe;
use crate::model::ReleaseKind;
use crate::{EmbeddedCatalog, PlanError, PlanOptions, plan};
use contract::task::Task;

/// The plugin's pods do not start without their ConfigMap, so it comes first; and an edit of it
/// fires the hook.
#[test]
fn device_plugin_configurations_precede_their_component() {
    let config = json!({"default": "shared", "configs": {"shared": {"version": "v1"}, "whole": {"version": "v1"}}});
    let plan = planned(json!({"components": [{"name": "gpu-operator", "version": "v26.3.1", "devicePluginConfig": config}]})).unwrap();
    let ReleaseKind::Manifests(manifests) = &release(&plan, "gpu-operator-config").kind else {
        panic!("the configurations are manifests")
    };
    assert!(manifests.shared);
    assert_eq!(
        manifests.objects,
        [json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "gpu-operator-config", "namespace": "gpu-operator"},
            "data": {"shared": "version: v1\n", "whole": "version: v1\n"},
        })]
    );
    assert!(release(&plan, "gpu-operator").needs.contains(&"gpu-operator-config".to_owned()));
    assert_eq!(
        upstream(&plan, "gpu-operator").values["devicePlugin"],
        json!({"config": {"name": "gpu-operator-config", "default": "shared"}})
    );
    assert_eq!(hook(&plan, "gpu-operator-post").shares, ["gpu-operator", "gpu-operator-config"]);
}

/// A Job gets the task and its rights only if nothing else restarts the plugin.
#[test]
fn plugins_restart_only_where_something_can_change() {
    let tasks = |components: Value| -> Vec<(String, Vec<Task>)> {
        let observe = json!({"gpuDriver": {"mode": "observe"}});
        let plan = plan(
            &recipe(json!({"rollout": observe, "components": components})),
            &EmbeddedCatalog,
            &PlanOptions::default(),
        )
        .unwrap();
        let hooks = plan.releases.into_iter().filter_map(|release| match release.kind {
            ReleaseKind::Hook(hook) => Some((release.name, hook.tasks)),
            ReleaseKind::Upstream(_)
            | ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_) => None,
        });
        hooks.collect()
    };
    let config = json!({"configs": {"default": {"version": "v1"}}});
    let operator = |tasks: &[Task]| ("gpu-operator-post".to_owned(), tasks.to_vec());
    let plugin = |tasks: &[Task]| ("nvidia-device-plugin-post".to_owned(), tasks.to_vec());
    let both = [Task::Settle, Task::RestartPlugins];
    assert_eq!(tasks(json!([{"name": "gpu-operator"}])), [operator(&[Task::Settle])]);
    assert_eq!(
        tasks(json!([{"name": "gpu-operator", "devicePluginConfig": config}])),
        [operator(&both)]
    );
    let named = json!({"devicePlugin": {"config": {"name": "mine", "default": "a"}}});
    assert_eq!(tasks(json!([{"name": "gpu-operator", "values": named}])), [operator(&both)]);
    assert_eq!(tasks(json!([{"name": "nvidia-device-plugin"}])), []);
    assert_eq!(
        tasks(json!([{"name": "nvidia-device-plugin", "devicePluginConfig": config}])),
        [plugin(&[Task::RestartPlugins])]
    );
    let without = json!({"devicePlugin": {"enabled": false}});
    let together =
        json!([{"name": "nvidia-device-plugin"}, {"name": "gpu-operator", "values": without}]);
    assert_eq!(tasks(together), [operator(&[Task::Settle]), plugin(&both)]);
}

#[test]
fn device_plugin_configurations_are_named_once() {
    let with = |name: &str, values: Value| {
        planned(
            json!({"components": [{"name": name, "values": values, "devicePluginConfig": {"configs": {"a": {}}}}]}),
        )
    };
    let twice = with("gpu-operator", json!({"devicePlugin": {"config": {"name": "mine"}}}));
    let (first, second) =
        ("devicePluginConfig".to_owned(), "values.devicePlugin.config.name".to_owned());
    assert_eq!(
        twice,
        Err(PlanError::SetTwice { component: "gpu-operator".to_owned(), first, second })
    );
    assert_eq!(
        with("cert-manager", json!({})),
        Err(PlanError::NoDevicePlugin("cert-manager".to_owned()))
    );
    assert!(with("gpu-operator", json!({"devicePlugin": {"config": {"name": ""}}})).is_ok());
}

/// Both would be under `objects` in the values that the hook shares, so the later one would hide
/// the earlier one from the trigger digest.
#[test]
fn no_component_has_configurations_and_custom_resources() {
    for chart in device_plugin_config::environment::PluginChart::ALL {
        let component = catalog::component(chart.name()).unwrap();
        assert!(
            component.versions.iter().all(|version| version.custom_resources.is_empty()),
            "{chart}"
        );
    }
}
