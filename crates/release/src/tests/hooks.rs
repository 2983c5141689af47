//! The hooks of a plan: budgets, settings and rights.

use serde_json::{Value, json};

use super::{hook, planned, release, with_policy};
use crate::fixture::{catalog, recipe};
use crate::model::{HookReleasePlan, IMAGE_WITHOUT_REGISTRY, ReleaseKind};
use crate::{EmbeddedCatalog, PlanOptions, plan};
use contract::budget::{OVERHEAD_SECONDS, SLACK_SECONDS};
use contract::settings::Settings;
use contract::task::{Task, rights};

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
    let with_operands = |daemon_sets: Value| {
        let all = json!({"maxParallelUpgrades": 0, "maxUnavailable": "100%"});
        json!({"cluster": {"gpuNodes": 100}, "rollout": {"gpuDriver": {"version": "1", "policy": all}},
            "components": [{"name": "gpu-operator", "values": {"daemonsets": daemon_sets}}]})
    };
    let many = |daemon_sets: Value| seconds(with_operands(daemon_sets));
    assert_eq!(many(json!({})), 100 * 60 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"rollingUpdate": {"maxUnavailable": "25%"}})), 720 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"rollingUpdate": {"maxUnavailable": 50}})), 720 + OVERHEAD_SECONDS);
    assert_eq!(many(json!({"updateStrategy": "OnDelete"})), 720 + OVERHEAD_SECONDS);
    let operands = planned(with_operands(json!({}))).unwrap();
    insta::assert_snapshot!(hook(&operands, "gpu-operator-post").budget.explanation, @"1h55m: 100 GPU nodes, operands other than the driver updated on 1 of them at a time, 1m per node, 15m for everything else");
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
        rights(&with_tasks(&[Task::Settle, Task::Wake, Task::Reroll])).collect::<Vec<_>>()
    );
}

fn with_tasks(tasks: &[Task]) -> Settings {
    Settings { tasks: tasks.to_vec(), ..Settings::default() }
}

#[test]
fn rights_follow_settings_of_the_recipe() {
    let deletes = |reroll: &str| {
        let overlay =
            json!({"rollout": {"gpuDriver": {"version": "1"}, "dra": {"reroll": reroll}}});
        let plan = planned(overlay).unwrap();
        hook(&plan, "gpu-operator-post").rights.iter().any(|right| right.verbs.contains(&"delete"))
    };
    assert!(deletes("auto"));
    assert!(!deletes("off"));
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
    assert_eq!(hook.rights, rights(&with_tasks(&[Task::Settle, Task::Wake])).collect::<Vec<_>>());
    insta::assert_snapshot!(plan.notes[0], @"the recipe has no nvidia-dra-driver-gpu, so the hooks of the bundle do not replace DRA plugins (no task `reroll`): the plugins of a DRA driver that is installed separately stay stale after an upgrade");
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
fn every_hook_serves_metrics_one_brings_the_dashboard() {
    let metrics = json!({"enabled": true, "podMonitor": {"enabled": true, "labels": {"release": "prometheus"}}, "dashboard": {"enabled": true}});
    let plan = planned(json!({"rollout": {"metrics": metrics}})).unwrap();
    let hooks: Vec<&HookReleasePlan> = plan
        .releases
        .iter()
        .filter_map(|release| match &release.kind {
            ReleaseKind::Hook(hook) => Some(&**hook),
            ReleaseKind::Upstream(_)
            | ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_) => None,
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

/// Regression: hooks of three components came before the CRD of their PodMonitor, which another
/// component of the bundle brings. A first installation failed at each try.
#[test]
fn hooks_with_pod_monitors_come_after_kube_prometheus_stack() {
    let metrics = json!({"enabled": true, "podMonitor": {"enabled": true}});
    let monitored = json!({"metrics": metrics});
    let ofed = json!({
        "version": "doca3.4.1-26.04-1.1.0.0-1",
        "policy": {"maxParallelUpgrades": 4},
    });
    let config = json!({"configs": {"default": {"version": "v1"}}});
    let policy = json!({"NicClusterPolicy": {"ofedDriver": {"image": "doca-driver"}}});
    for (component, rollout) in [
        (json!({"name": "gpu-operator"}), monitored.clone()),
        (json!({"name": "nvidia-dra-driver-gpu"}), monitored.clone()),
        (json!({"name": "nvidia-device-plugin", "devicePluginConfig": config}), monitored),
        (
            json!({"name": "network-operator", "version": "26.4.1", "customResources": policy}),
            json!({"metrics": metrics, "ofedDriver": ofed}),
        ),
    ] {
        let components = json!([component, {"name": "kube-prometheus-stack"}]);
        let recipe = recipe(json!({"rollout": rollout, "components": components}));
        let plan = plan(&recipe, &EmbeddedCatalog, &PlanOptions::default()).unwrap();
        let releases = plan.releases.iter();
        let after = releases.skip_while(|release| release.name != "kube-prometheus-stack");
        let hooks = plan.releases.iter().filter(|release| release.kind.hook().is_some()).count();
        assert!(hooks > 0, "{component}");
        let found = after.filter(|release| release.kind.hook().is_some()).count();
        assert_eq!(found, hooks, "{component}");
        let needs = &release(&plan, component["name"].as_str().unwrap()).needs;
        assert!(needs.contains(&"kube-prometheus-stack".to_owned()), "{component}: {needs:?}");
    }
}

#[test]
fn every_hook_has_the_admission_policies() {
    let policy = json!({"enabled": true, "users": ["ada@example.com"]});
    let plan = planned(json!({"rollout": {"admissionPolicy": policy}})).unwrap();
    let hooks = plan.releases.iter().filter_map(|release| release.kind.hook());
    let recognized = |hook: &HookReleasePlan| {
        hook.rights.iter().any(|right| right.verbs.contains(&"coordinate"))
    };
    let mut count = 0;
    for hook in hooks {
        assert_eq!(hook.settings["admissionPolicy"], policy);
        assert!(recognized(hook), "{}", hook.component);
        count += 1;
    }
    assert!(count > 1, "{count} hooks");
    let plan = planned(json!({})).unwrap();
    let hook = hook(&plan, "gpu-operator-post");
    assert_eq!((hook.settings.get("admissionPolicy"), recognized(hook)), (None, false));
}

#[test]
fn openshift_chooses_the_user_of_the_hooks_pods() {
    let plan = planned(json!({"cluster": {"gpuNodes": 16, "platform": "openshift"}})).unwrap();
    assert_eq!(hook(&plan, "gpu-operator-post").settings["pod"], json!({"runAsUser": null}));
    let plan = planned(json!({})).unwrap();
    assert_eq!(hook(&plan, "gpu-operator-post").settings.get("pod"), None);
}
