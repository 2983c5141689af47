//! Tests of plans, with a small catalog.

use serde_json::{Value, json};

use super::fixture::{catalog, crd, recipe};
use super::model::{
    ChartOrigin, HookReleasePlan, IMAGE_WITHOUT_REGISTRY, Release, ReleaseKind, ReleasePlan,
    UpstreamRelease,
};
use super::{EmbeddedCatalog, PlanError, PlanOptions, plan};
use contract::budget::{OVERHEAD_SECONDS, SLACK_SECONDS};
use contract::driver::Driver;
use contract::names::DRA_DRIVER;
use contract::task::{Task, rights};

mod modes;
mod network;

fn planned(overlay: Value) -> Result<ReleasePlan, PlanError> {
    plan(&recipe(overlay), &catalog(), &PlanOptions::default())
}

fn release<'a>(plan: &'a ReleasePlan, name: &str) -> &'a Release {
    plan.releases
        .iter()
        .find(|release| release.name == name)
        .unwrap_or_else(|| panic!("no release {name}"))
}

fn upstream<'a>(plan: &'a ReleasePlan, name: &str) -> &'a UpstreamRelease {
    let ReleaseKind::Upstream(upstream) = &release(plan, name).kind else {
        panic!("{name} is of another kind")
    };
    upstream
}

fn hook<'a>(plan: &'a ReleasePlan, name: &str) -> &'a HookReleasePlan {
    let ReleaseKind::Hook(hook) = &release(plan, name).kind else {
        panic!("{name} is of another kind")
    };
    hook
}

fn with_policy(policy: &Value) -> Value {
    json!({"rollout": {"gpuDriver": {"policy": policy}}})
}

#[test]
fn releases_come_in_a_deployable_order() {
    let all = json!({"components": [
        {"name": "nvidia-dra-driver-gpu"}, {"name": "gpu-operator"}, {"name": "cert-manager"}, {"name": "node-feature-discovery"},
    ]});
    let plan = planned(all).unwrap();
    let names: Vec<&str> = plan.releases.iter().map(|release| release.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gpu-rollout-namespaces",
            "cert-manager",
            "node-feature-discovery-crds",
            "node-feature-discovery",
            "gpu-operator-crds",
            "gpu-operator-pre",
            "gpu-operator",
            "gpu-operator-post",
            "nvidia-dra-driver-gpu-crds",
            "nvidia-dra-driver-gpu",
            "nvidia-dra-driver-gpu-post",
        ]
    );
    for (index, release) in plan.releases.iter().enumerate() {
        for need in &release.needs {
            assert!(names[..index].contains(&need.as_str()), "{} needs {need}", release.name);
        }
    }
    assert_eq!(
        release(&plan, DRA_DRIVER).needs,
        [
            "gpu-rollout-namespaces",
            "nvidia-dra-driver-gpu-crds",
            "gpu-operator-post",
            "cert-manager"
        ]
    );
    // One owner for a CRD: NFD's, which the operator's chart brings as well.
    assert_eq!(
        release(&plan, "gpu-operator").needs,
        [
            "gpu-rollout-namespaces",
            "gpu-operator-crds",
            "node-feature-discovery-crds",
            "node-feature-discovery",
            "gpu-operator-pre"
        ]
    );
    let ReleaseKind::Crds(crds) = &release(&plan, "gpu-operator-crds").kind else {
        panic!("no CRDs")
    };
    assert_eq!(
        crds.crds.iter().map(|crd| crd.name.as_str()).collect::<Vec<_>>(),
        ["clusterpolicies.nvidia.com"]
    );
}

#[test]
fn namespaces_have_the_laxest_level_they_need() {
    let plan = planned(
        json!({"components": [{"name": "node-feature-discovery"}, {"name": "gpu-operator"}, {"name": "cert-manager", "namespace": "kube-system"}]}),
    );
    let plan = plan.unwrap();
    let ReleaseKind::Manifests(manifests) = &plan.releases[0].kind else { panic!("no namespaces") };
    assert_eq!(manifests.objects.len(), 1, "Kubernetes' own namespaces are left alone");
    assert_eq!(
        manifests.objects[0]["metadata"]["labels"]["pod-security.kubernetes.io/enforce"],
        "privileged"
    );
    assert_eq!(manifests.objects[0]["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
}

#[test]
fn the_policy_becomes_the_charts_values() {
    let plan = planned(json!({"rollout": {"gpuDriver": {"version": "580.10", "policy": {
        "maxParallelUpgrades": 4, "maxUnavailable": "25%",
        "waitForCompletion": {"podSelector": "app=train", "timeout": "2h"},
        "podDeletion": {"force": true, "timeout": "10m", "deleteEmptyDir": true},
        "drain": {"enable": true, "force": false, "podSelector": "a=b", "timeout": "5m", "deleteEmptyDir": false},
    }}}}))
    .unwrap();
    assert_eq!(
        json!(upstream(&plan, "gpu-operator").values),
        json!({
            "toolkit": {"version": "v1.19.0"},
            "operator": {"upgradeCRD": false},
            "driver": {"version": "580.10", "upgradePolicy": {
                "autoUpgrade": true,
                "maxParallelUpgrades": 4, "maxUnavailable": "25%",
                "waitForCompletion": {"podSelector": "app=train", "timeoutSeconds": 7200},
                "gpuPodDeletion": {"force": true, "timeoutSeconds": 600, "deleteEmptyDir": true},
                "drain": {"enable": true, "force": false, "podSelector": "a=b", "timeoutSeconds": 300, "deleteEmptyDir": false},
            }},
        })
    );
    // The chart's defaults apply to absent keys.
    let plan = planned(json!({"rollout": {"gpuDriver": {"mode": "observe"}}})).unwrap();
    assert_eq!(
        json!(upstream(&plan, "gpu-operator").values),
        json!({"toolkit": {"version": "v1.19.0"}, "operator": {"upgradeCRD": false}})
    );
}

#[test]
fn budgets_follow_nodes_pace_and_waits() {
    let seconds = |overlay| hook(&planned(overlay).unwrap(), "gpu-operator-post").budget.seconds;
    assert_eq!(seconds(json!({})), 4 * 720 + OVERHEAD_SECONDS);
    assert_eq!(
        seconds(with_policy(&json!({"maxParallelUpgrades": 0, "maxUnavailable": "50%"}))),
        2 * 720 + OVERHEAD_SECONDS
    );
    assert_eq!(
        seconds(with_policy(&json!({}))),
        16 * 720 + OVERHEAD_SECONDS,
        "the chart's own limits"
    );
    let wait = json!({"maxParallelUpgrades": 4, "waitForCompletion": {"podSelector": "a=b", "timeout": "1h"}});
    assert_eq!(seconds(with_policy(&wait)), 4 * (720 + 3600) + OVERHEAD_SECONDS);
    let values = json!({"rollout": {}, "components": [{"name": "gpu-operator", "values": {"driver": {"upgradePolicy": {"maxParallelUpgrades": 2}}}}]});
    assert_eq!(seconds(values), 8 * 720 + OVERHEAD_SECONDS, "limits in the values count too");
    let alone = json!({"components": [{"name": "gpu-operator"}], "rollout": {"gpuDriver": {"version": "1", "perNode": "1m"}}, "cluster": {"gpuNodes": 1}});
    assert_eq!(seconds(alone), 60 + OVERHEAD_SECONDS, "without a DRA driver nothing is re-rolled");
    // Operands are replaced one node at a time, regardless of how many drivers are upgraded at
    // once.
    let many = |daemon_sets: Value| {
        let all = json!({"maxParallelUpgrades": 0, "maxUnavailable": "100%"});
        seconds(
            json!({"cluster": {"gpuNodes": 100}, "rollout": {"gpuDriver": {"version": "1", "policy": all}},
            "components": [{"name": "gpu-operator", "values": {"daemonsets": daemon_sets}}]}),
        )
    };
    assert_eq!(many(json!({})), 100 * 60 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"rollingUpdate": {"maxUnavailable": "25%"}})), 720 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"rollingUpdate": {"maxUnavailable": 50}})), 720 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"updateStrategy": "OnDelete"})), 720 + OVERHEAD_SECONDS);
    let plan = planned(json!({})).unwrap();
    let budget = &hook(&plan, "nvidia-dra-driver-gpu-post").budget;
    assert_eq!(
        release(&plan, "nvidia-dra-driver-gpu-post").timeout_seconds,
        budget.seconds + SLACK_SECONDS
    );
    insta::assert_snapshot!(budget.explanation, @"1h3m: 16 GPU nodes, 4 upgraded at once, 12m per node, 15m for everything else");
}

#[test]
fn the_hooks_settings_are_what_the_chart_takes() {
    let options = PlanOptions {
        hook_image: Some("localhost:5000/hook:1".parse().unwrap()),
        ..PlanOptions::default()
    };
    let overlay = json!({"rollout": {"gpuDriver": {"version": "1", "tolerateNotReady": "10%"}, "dra": {"required": true, "reroll": "off"}}});
    let plan = plan(&recipe(overlay), &catalog(), &options).unwrap();
    assert_eq!(
        json!(hook(&plan, "nvidia-dra-driver-gpu-post").settings),
        json!({
            "image": {"repository": "localhost:5000/hook", "tag": "1", "digest": ""},
            "component": {"name": "nvidia-dra-driver-gpu", "version": "25.12.0"},
            "tasks": ["settle", "reroll"], "mode": "assist", "gate": "settled",
            "budgetSeconds": 16 * 720 + OVERHEAD_SECONDS, "perNodeSeconds": 720, "quietSeconds": 15, "tolerateNotReady": "10%",
            "operatorNamespace": "gpu-operator", "upgrade": {"attempts": 2},
            "dra": {"reroll": "off", "required": "true", "namespaces": ["nvidia-dra-driver-gpu"], "skipAbsentNamespaces": false},
        })
    );
    assert_eq!(
        hook(&plan, "gpu-operator-post").settings["dra"]["required"],
        "auto",
        "runs before the DRA driver is there"
    );
}

#[test]
fn rights_are_the_task_tables() {
    let plan = planned(json!({})).unwrap();
    let found = &hook(&plan, "gpu-operator-post").rights;
    assert_eq!(
        *found,
        rights(Driver::Gpu, &[Task::Settle, Task::Wake, Task::Reroll]).collect::<Vec<_>>()
    );
}

#[test]
fn missing_dra_driver_disables_reroll_with_a_note() {
    let plan =
        planned(json!({"components": [{"name": "gpu-operator", "version": "v26.3.1"}]})).unwrap();
    let hook = hook(&plan, "gpu-operator-post");
    assert_eq!(
        (hook.tasks.as_slice(), &hook.settings["tasks"]),
        (&[Task::Settle, Task::Wake][..], &json!(["settle", "wake"]))
    );
    assert_eq!(hook.rights, rights(Driver::Gpu, &[Task::Settle, Task::Wake]).collect::<Vec<_>>());
    insta::assert_snapshot!(plan.notes[0], @"the recipe has no nvidia-dra-driver-gpu, so its hook has no task `reroll`, and a separately installed DRA driver keeps its stale plugins");
}

#[test]
fn image_without_registry_is_noted_for_hooks() {
    let asked = recipe(json!({}));
    let noted = |options: PlanOptions| {
        plan(&asked, &catalog(), &options)
            .unwrap()
            .notes
            .iter()
            .any(|note| note == IMAGE_WITHOUT_REGISTRY)
    };
    assert!(noted(PlanOptions::default()));
    assert!(noted(PlanOptions {
        pull_secrets: vec!["registry".to_owned()],
        ..PlanOptions::default()
    }));
    assert!(!noted(PlanOptions {
        hook_image: Some("registry.example.com/gpu-rollout:1".parse().unwrap()),
        ..PlanOptions::default()
    }));
    let hookless =
        planned(json!({"components": [{"name": "cert-manager", "version": "v1.17.2"}]})).unwrap();
    assert_eq!(hookless.image_note(), None);
}

#[test]
fn repositories_can_be_replaced() {
    let at = |url: &str| {
        let options = PlanOptions {
            chart_repositories: [("nvidia".to_owned(), url.to_owned())].into(),
            ..PlanOptions::default()
        };
        plan(&recipe(json!({})), &catalog(), &options)
            .map(|plan| upstream(&plan, "gpu-operator").chart.clone())
    };
    assert_eq!(
        at("http://mirror"),
        Ok(ChartOrigin::Repository {
            url: "http://mirror".to_owned(),
            name: "gpu-operator".to_owned()
        })
    );
    assert_eq!(
        at("oci://mirror/x"),
        Ok(ChartOrigin::Oci("oci://mirror/x/gpu-operator".to_owned()))
    );
    assert_eq!(at("/charts"), Ok(ChartOrigin::File("/charts/gpu-operator-v26.3.1.tgz".to_owned())));
    let options = PlanOptions {
        chart_repositories: [("nvdia".to_owned(), "http://x".to_owned())].into(),
        ..PlanOptions::default()
    };
    let error = plan(&recipe(json!({})), &catalog(), &options).unwrap_err();
    assert_eq!(error.hint().as_deref(), Some("known repositories: jetstack, nfd, nvidia"));
}

#[test]
fn unknown_version_keeps_its_own_crds() {
    let plan =
        planned(json!({"components": [{"name": "gpu-operator", "version": "v27.1.0"}]})).unwrap();
    assert!(!upstream(&plan, "gpu-operator").skip_crds);
    assert!(plan.releases.iter().all(|release| release.name != "gpu-operator-crds"));
    assert!(plan.notes[0].contains("v27.1.0 is not in the catalog"), "{:?}", plan.notes);
}

#[test]
fn contradictions_are_errors() {
    let operator =
        |values: Value| json!({"components": [{"name": "gpu-operator", "values": values}]});
    let endless = json!({"waitForCompletion": {"podSelector": "a=b"}});
    let cases = [
        (json!({"components": []}), "the recipe has no components"),
        (json!({"components": [{"name": "nope"}]}), "component `nope` is not in the catalog"),
        (
            json!({"components": [{"name": "gpu-operator"}, {"name": "gpu-operator"}]}),
            "component `gpu-operator` is in the recipe twice",
        ),
        (
            operator(json!({"driver": {"version": "1"}})),
            "`rollout.gpuDriver.version` and `values.driver.version` of component `gpu-operator` set the same value",
        ),
        (
            operator(json!({"driver": "x"})),
            "`values.driver` of component `gpu-operator` is not a map",
        ),
        (
            operator(json!({"operator": {"upgradeCRD": true}})),
            "`values.operator.upgradeCRD` of component `gpu-operator` must be false, found true",
        ),
        (
            with_policy(&json!({"maxUnavailable": 0})),
            "`maxUnavailable: 0` has no effect: the gpu-operator chart treats 0 as not set, and renders 25%",
        ),
        (
            json!({"components": [{"name": "gpu-operator"}], "rollout": {"dra": {"required": true}}}),
            "`rollout.dra.required` is true, but the recipe has no component `nvidia-dra-driver-gpu`",
        ),
        (
            json!({"rollout": {"gpuDriver": {"perNode": "600h"}}}),
            "the time budget of `rollout.gpuDriver` is longer than the limit of 24 days: 9600h15m: 16 GPU nodes, 1 upgraded at once, 600h per node, 15m for \
             everything else",
        ),
    ];
    for (overlay, message) in cases {
        assert_eq!(planned(overlay).unwrap_err().to_string(), message);
    }
    assert_eq!(planned(with_policy(&endless)).unwrap_err(), PlanError::EndlessWait("gpuDriver"));
    let zero = json!({"waitForCompletion": {"podSelector": "a=b", "timeout": "0s"}});
    assert_eq!(planned(with_policy(&zero)).unwrap_err(), PlanError::EndlessWait("gpuDriver"));
    let raw = json!({"driver": {"upgradePolicy": {"waitForCompletion": {"podSelector": "a=b"}}}});
    let raw = json!({"rollout": {}, "components": [{"name": "gpu-operator", "values": raw}]});
    assert_eq!(
        planned(raw).unwrap_err(),
        PlanError::EndlessWait("gpuDriver"),
        "also where the values say it"
    );
}

#[test]
fn two_forms_of_one_crd_are_refused() {
    let mut catalog = catalog();
    let key = ("node-feature-discovery".to_owned(), "crds/features.yaml".to_owned());
    catalog.files.insert(key, crd("nodefeatures.nfd.k8s-sigs.io").replace("such as", "like"));
    let both = recipe(
        json!({"components": [{"name": "gpu-operator"}, {"name": "node-feature-discovery"}]}),
    );
    let error = plan(&both, &catalog, &PlanOptions::default()).unwrap_err();
    assert!(matches!(error, PlanError::CrdConflict { .. }), "{error}");
}

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
            ReleaseKind::Upstream(_) | ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) => None,
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

#[test]
fn names_that_helm_does_not_take_are_errors() {
    let renamed = |from: &str, name: &str| {
        let mut catalog = catalog();
        let component =
            catalog.components.iter_mut().find(|component| component.name == from).unwrap();
        component.name = name.to_owned();
        catalog
    };
    let one = |name: &str| recipe(json!({"rollout": {}, "components": [{"name": name}]}));
    let long = "a".repeat(54);
    let error =
        plan(&one(&long), &renamed("cert-manager", &long), &PlanOptions::default()).unwrap_err();
    assert_eq!(error, PlanError::LongName(long));
    let both = recipe(
        json!({"rollout": {}, "components": [{"name": "gpu-operator"}, {"name": "gpu-operator-post"}]}),
    );
    let error = plan(&both, &renamed("cert-manager", "gpu-operator-post"), &PlanOptions::default())
        .unwrap_err();
    assert_eq!(error, PlanError::NameTwice("gpu-operator-post".to_owned()));
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

#[test]
fn every_hook_serves_metrics_one_brings_the_dashboard() {
    let metrics = json!({"enabled": true, "podMonitor": {"enabled": true, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": true}});
    let plan = planned(json!({"rollout": {"metrics": metrics}})).unwrap();
    let hooks: Vec<&HookReleasePlan> = plan
        .releases
        .iter()
        .filter_map(|release| match &release.kind {
            ReleaseKind::Hook(hook) => Some(&**hook),
            ReleaseKind::Upstream(_) | ReleaseKind::Crds(_) | ReleaseKind::Manifests(_) => None,
        })
        .collect();
    assert!(hooks.len() > 1, "{} hooks", hooks.len());
    for (at, hook) in hooks.iter().enumerate() {
        let said = &hook.settings["metrics"];
        assert_eq!((&said["enabled"], &said["podMonitor"]), (&json!(true), &metrics["podMonitor"]));
        assert_eq!(said.get("dashboard").is_some(), at == 0, "hook {at}: {said}");
    }
    let plan = planned(json!({})).unwrap();
    assert_eq!(
        hook(&plan, "gpu-operator-post").settings.get("metrics"),
        None,
        "nothing is written of what is not asked for"
    );
}

#[test]
fn openshift_chooses_the_user_of_the_hooks_pods() {
    let plan = planned(json!({"cluster": {"gpuNodes": 16, "platform": "openshift"}})).unwrap();
    assert_eq!(hook(&plan, "gpu-operator-post").settings["pod"], json!({"runAsUser": null}));
    let plan = planned(json!({})).unwrap();
    assert_eq!(hook(&plan, "gpu-operator-post").settings.get("pod"), None);
}
