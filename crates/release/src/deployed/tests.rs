//! Tests that a plan, converted back into a recipe, gives the same plan.

use serde_json::{Map, Value, json};

use super::{DeployedStack, unmapped_settings, without_defaults};
use crate::fixture::recipe;
use crate::model::{HookReleasePlan, Release, ReleaseKind, ReleasePlan};
use crate::{EmbeddedCatalog, PlanOptions, plan, upgrade};
use contract::count::Count;
use contract::driver::Driver;
use contract::settings::{DraRequired, FORMAT_VERSION, Mode, Settings};
use contract::task::Task;
use recipe::load::load;
use recipe::model::{ClusterFacts, Recipe, RecipeAdmissionPolicy, RecipeComponent, RecipeMetrics};
use recipe::read::{ReadError, TextReader};

fn written_back(
    cluster: ClusterFacts,
    components: Vec<RecipeComponent>,
    hooks: &[&Settings],
) -> Recipe {
    super::recipe(
        DeployedStack {
            cluster,
            components,
            hooks,
            metrics: RecipeMetrics::default(),
            admission_policy: RecipeAdmissionPolicy::default(),
        },
        &EmbeddedCatalog,
    )
}

/// The recipe on standard input.
struct Input(String);

impl TextReader for Input {
    fn file(&mut self, _: &str) -> Result<String, ReadError> {
        Err(ReadError::Missing)
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        Ok(self.0.clone())
    }
}

/// Returns the findings of the recipe rules.
fn errors(recipe: &Value) -> Vec<String> {
    match load("-", &[], &mut Input(recipe.to_string())) {
        Ok(_) => Vec::new(),
        Err(found) => {
            let is_error = |finding: &&_| {
                let mut alone = found.clone();
                alone.list.retain(|other| other == *finding);
                alone.has_errors()
            };
            found.list.iter().filter(is_error).map(|finding| finding.message.to_string()).collect()
        }
    }
}

fn planned(recipe: &Recipe) -> ReleasePlan {
    plan(recipe, &EmbeddedCatalog, &PlanOptions::default())
        .unwrap_or_else(|error| panic!("{error}: {recipe:#?}"))
}

/// What the hook chart makes of a hook's values, as far as the way back reads it.
fn settings(hook: &HookReleasePlan, recipe: &Recipe) -> Settings {
    let said = |key: &str, default: Value| hook.settings.get(key).cloned().unwrap_or(default);
    let mut settings: Settings = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "digest": "", "release": "", "namespace": "", "record": "",
        "component": hook.component, "tasks": hook.tasks, "driver": said("driver", json!("gpu")), "mode": said("mode", Value::Null),
        "gate": "settled", "budgetSeconds": hook.budget.seconds, "perNodeSeconds": hook.budget.per_node_seconds,
        "quietSeconds": said("quietSeconds", Value::Null), "graceSeconds": 300, "operatorNamespace": "",
        "clusterPolicy": "cluster-policy", "tolerateNotReady": said("tolerateNotReady", Value::Null),
        "operatorUpgrade": said("operatorUpgrade", json!({})),
        "dra": {
            "reroll": hook.settings["dra"]["reroll"], "required": hook.settings["dra"]["required"], "namespaces": [],
            "maxUnavailable": 1, "replacementSeconds": 300,
        },
        "preflight": {"strictness": said("preflight", json!({})).get("strictness").cloned().unwrap_or(json!({}))},
        "expected": {},
    }))
    .expect("settings of a hook");
    let all = upgrade(&recipe.rollout, settings.driver);
    match settings.mode {
        Mode::Observe => {}
        Mode::Assist => settings.upgrade.attempts = all.attempts,
        Mode::Steer | Mode::Drive => settings.upgrade = all,
    }
    settings
}

/// Converts the plan's releases back into a recipe.
fn back(recipe: &Recipe, plan: &ReleasePlan) -> Recipe {
    let mut components: Vec<RecipeComponent> = Vec::new();
    let mut hooks = Vec::new();
    for release in &plan.releases {
        match &release.kind {
            ReleaseKind::Upstream(upstream) => components.push(RecipeComponent {
                version: recipe
                    .components
                    .iter()
                    .find(|one| one.name == release.name)
                    .and_then(|one| one.version.clone()),
                namespace: Some(release.namespace.clone()),
                values: upstream.values.clone(),
                ..RecipeComponent::from_name(&release.name)
            }),
            ReleaseKind::Manifests(manifests) => {
                let Some(component) = components
                    .iter_mut()
                    .find(|one| Some(&one.name) == manifests.component.as_ref())
                else {
                    continue;
                };
                for object in &manifests.objects {
                    component.custom_resources.insert(
                        object["kind"].as_str().unwrap().to_owned(),
                        object["spec"].clone(),
                    );
                }
            }
            ReleaseKind::Hook(hook) => hooks.push(settings(hook, recipe)),
            ReleaseKind::Crds(_) | ReleaseKind::Kustomization(_) | ReleaseKind::Templates(_) => {}
        }
    }
    written_back(recipe.cluster.clone(), components, &hooks.iter().collect::<Vec<_>>())
}

/// What is of interest where two releases differ: all of one is too long to read.
fn gist(release: &Release) -> Value {
    match &release.kind {
        ReleaseKind::Upstream(upstream) => json!({&release.name: upstream.values}),
        ReleaseKind::Manifests(manifests) => json!({&release.name: manifests.objects}),
        ReleaseKind::Hook(hook) => json!({&release.name: hook.settings}),
        ReleaseKind::Crds(_) | ReleaseKind::Kustomization(_) | ReleaseKind::Templates(_) => {
            json!(release.name)
        }
    }
}

fn with_ofed(rollout: &Value, policy: &Value) -> Value {
    let ofed = json!({"ofedDriver": {"image": "doca-driver", "upgradePolicy": policy}, "rdmaSharedDevicePlugin": {"image": "k8s-rdma"}});
    json!({
        "rollout": rollout,
        "components": [
            {"name": "gpu-operator", "version": "v26.3.1"},
            {"name": "network-operator", "version": "26.4.1", "customResources": {"NicClusterPolicy": ofed}},
        ],
    })
}

#[test]
fn plan_written_back_is_the_same_plan() {
    let gpu = |driver: Value| json!({"rollout": {"gpuDriver": driver}});
    let everything = json!({
        "maxParallelUpgrades": 4, "maxUnavailable": 3, "waitForCompletion": {"podSelector": "a=b", "timeout": "4h"},
        "podDeletion": {"force": true, "timeout": "10m", "deleteEmptyDir": true},
        "drain": {"enable": true, "podSelector": "c!=d", "timeout": "20m"},
        "failureBudget": "10%", "attempts": 3, "soak": "1m", "windows": ["daily 22:00-24:00 UTC"],
        "canary": {"nodes": 2, "per": ["zone"], "soak": "5m"}, "ramp": ["10%", "50%"], "halt": {"failedProofs": 2}, "topology": {"label": "zone", "maxUnavailable": 1}, "foreignCordon": "include",
        "extraConsumers": ["e=f"], "driverStart": "20m", "validation": "5m",
    });
    let of_theirs = json!({
        "maxParallelUpgrades": 4, "maxUnavailable": "50%", "waitForCompletion": {"podSelector": "a=b", "timeout": "4h"},
        "podDeletion": {"force": true}, "drain": {"enable": true, "timeout": "90s"},
    });
    let ofed = json!({"drain": {"timeout": "15m"}, "maxParallelUpgrades": 2, "podDeletion": {}, "soak": "30s"});
    let cases = [
        json!({}),
        gpu(json!({})),
        gpu(
            json!({"mode": "observe", "version": "580.126.20", "policy": of_theirs, "perNode": "9m", "quiet": "30s", "tolerateNotReady": "5%"}),
        ),
        gpu(
            json!({"mode": "assist", "policy": {"attempts": 5, "maxParallelUpgrades": 2}, "preflight": {"empty-dir": "ignore"}}),
        ),
        gpu(
            json!({"mode": "steer", "policy": {"maxUnavailable": "100%", "drain": {"enable": true}, "halt": {"failedNodes": 3}}}),
        ),
        gpu(json!({"mode": "drive", "policy": everything, "preflight": {"empty-dir": "block"}})),
        json!({"rollout": {"dra": {"reroll": "off", "required": "false"}}}),
        json!({"rollout": {}, "components": [{"name": "gpu-operator", "version": "v26.3.1", "values": {"driver": {"enabled": false, "version": "570.1"}}}]}),
        json!({"rollout": {"gpuDriver": {"mode": "drive"}}, "components": [
            {"name": "gpu-operator", "version": "v25.3.4", "values": {"driver": {"manager": {"env": [{"name": "A", "value": "b"}]}}}},
        ]}),
        // Of versions that it does not know a bundle does not know either what it would have to
        // set.
        json!({"components": [
            {"name": "gpu-operator", "version": "v26.3.9", "values": {"operator": {"upgradeCRD": false}}},
            {"name": "cert-manager", "version": "v1.99.0", "values": {"crds": {"enabled": true}}},
        ]}),
        with_ofed(&json!({}), &json!({})),
        with_ofed(&json!({"ofedDriver": {}}), &json!({})),
        with_ofed(
            &json!({"ofedDriver": {"mode": "observe", "policy": {"drain": {"enable": true}}}}),
            &json!({"autoUpgrade": true}),
        ),
        with_ofed(
            &json!({"ofedDriver": {"mode": "drive", "version": "doca3.4.1-26.04-1.1.0.0-1", "policy": ofed, "perNode": "25m"}}),
            &json!({}),
        ),
        with_ofed(
            &json!({"ofedDriver": {"mode": "steer", "policy": {"safeLoad": true}}, "gpuDriver": {"mode": "steer"}}),
            &json!({}),
        ),
        with_ofed(
            &json!({"ofedDriver": {"mode": "assist", "policy": {"attempts": 4}}}),
            &json!({}),
        ),
    ];
    for case in cases {
        let before = recipe(case.clone());
        let plan = planned(&before);
        let after = back(&before, &plan);
        for (now, before) in planned(&after).releases.iter().zip(&plan.releases) {
            assert_eq!(gist(now), gist(before), "{case:#}");
        }
        assert!(planned(&after).releases == plan.releases, "{case:#}");
        let document = without_defaults(&after);
        assert_eq!(errors(&document), errors(&without_defaults(&before)), "{document:#}");
        assert_eq!(
            serde_json::from_value::<Recipe>(document.clone()).expect("a recipe"),
            after,
            "{document:#}"
        );
    }
}

/// Values of a fleet that no bundle brought: a recipe has another place for the policy, and it
/// could not be rendered.
#[test]
fn an_upgrade_policy_leaves_the_values() {
    let values = json!({
        "toolkit": {"version": "v1"},
        "driver": {"version": "570.1", "upgradePolicy": {
            "autoUpgrade": true, "maxParallelUpgrades": 3, "maxUnavailable": null, "waitForCompletion": {"timeoutSeconds": 0, "podSelector": ""},
            "gpuPodDeletion": {"force": true, "timeoutSeconds": 600}, "drain": {"enabled": true},
        }},
    });
    let Value::Object(values) = values else { panic!("a map") };
    let operator = RecipeComponent {
        version: Some("v26.3.1".to_owned()),
        values,
        ..RecipeComponent::from_name("gpu-operator")
    };
    let cluster = recipe(json!({})).cluster;
    let document = without_defaults(&written_back(cluster.clone(), vec![operator], &[]));
    let rollout = json!({"gpuDriver": {
        "mode": "observe", "version": "570.1",
        "policy": {"maxParallelUpgrades": 3, "podDeletion": {"force": true, "timeout": "10m"}},
    }});
    assert_eq!(document["rollout"], rollout);
    // `drain.enabled` cannot be moved, so it stays, and the rules report it.
    let left = json!({"toolkit": {"version": "v1"}, "driver": {"upgradePolicy": {"autoUpgrade": true, "drain": {"enabled": true}}}});
    assert_eq!(document["components"][0]["values"], left);
    let mut as_it_was = document.clone();
    as_it_was["components"][0]["values"]["driver"]["upgradePolicy"]["maxParallelUpgrades"] =
        json!(3);
    assert_eq!(
        errors(&as_it_was).len(),
        errors(&document).len() + 1,
        "the rules reject the policy in the values"
    );

    // The object on the API server, with the defaults of its CRD.
    let spec = json!({"ofedDriver": {"version": "1", "upgradePolicy": {
        "autoUpgrade": false, "maxParallelUpgrades": 1, "safeLoad": false, "waitForCompletion": {"timeoutSeconds": 0},
    }}});
    let resources: Map<String, Value> = Map::from_iter([("NicClusterPolicy".to_owned(), spec)]);
    let operator = RecipeComponent {
        version: Some("26.4.1".to_owned()),
        custom_resources: resources,
        ..RecipeComponent::from_name("network-operator")
    };
    let document = without_defaults(&written_back(cluster, vec![operator], &[]));
    assert_eq!(document["rollout"], json!({"gpuDriver": {"mode": "observe"}}));
    let left = json!({"ofedDriver": {"version": "1", "upgradePolicy": {"autoUpgrade": false}}});
    assert_eq!(document["components"][0]["customResources"]["NicClusterPolicy"], left);
}

/// The recipe must not configure a component that it does not have.
#[test]
fn hooks_of_missing_components_are_ignored() {
    let before = recipe(json!({"rollout": {"gpuDriver": {"mode": "drive"}}}));
    let plan = planned(&before);
    let hooks: Vec<Settings> = plan
        .releases
        .iter()
        .filter_map(|release| {
            if let ReleaseKind::Hook(hook) = &release.kind {
                Some(settings(hook, &before))
            } else {
                None
            }
        })
        .collect();
    assert!(hooks.iter().any(|hook| hook.has(Task::Drive)));
    // Argo CD keeps no Helm releases: only the hook knows then.
    let mut told = hooks.clone();
    for hook in &mut told {
        hook.expected.driver_version = Some("580.1".to_owned());
    }
    let operator = vec![RecipeComponent {
        version: Some("v26.3.1".to_owned()),
        ..RecipeComponent::from_name("gpu-operator")
    }];
    let document = without_defaults(&written_back(
        before.cluster.clone(),
        operator,
        &told.iter().collect::<Vec<_>>(),
    ));
    assert_eq!(document["rollout"]["gpuDriver"]["version"], "580.1");
    let document = without_defaults(&written_back(
        before.cluster,
        Vec::new(),
        &hooks.iter().collect::<Vec<_>>(),
    ));
    assert_eq!(document["rollout"], json!({"gpuDriver": {"mode": "observe"}}));
}

/// Returns the settings of a hook that a user has installed from the hook chart alone.
fn of_chart(driver: Driver, mode: Mode) -> Settings {
    let component = driver.traits().component;
    let mut settings: Settings = serde_json::from_value(json!({
        "formatVersion": FORMAT_VERSION, "digest": "", "release": "gpu-rollout", "namespace": "a", "record": "", "component": component,
        "tasks": ["settle"], "driver": driver, "mode": mode, "gate": "settled", "budgetSeconds": 900, "perNodeSeconds": 600,
        "quietSeconds": 0, "graceSeconds": 300, "operatorNamespace": "a", "clusterPolicy": "cluster-policy", "tolerateNotReady": 0,
        "dra": {"reroll": "auto", "required": "false", "namespaces": [], "maxUnavailable": "25%", "replacementSeconds": 300}, "expected": {},
    }))
    .expect("settings of a hook");
    settings.upgrade.extra_consumers =
        if mode == Mode::Drive { vec!["a=b".to_owned()] } else { Vec::new() };
    settings
}

#[test]
fn hook_chart_defaults_can_be_a_recipe() {
    for driver in [Driver::Gpu, Driver::Ofed] {
        for mode in [Mode::Observe, Mode::Assist, Mode::Steer, Mode::Drive] {
            let spec = json!({"ofedDriver": {"image": "doca-driver", "upgradePolicy": {"autoUpgrade": mode != Mode::Drive}}});
            let gpu = json!({"driver": {"upgradePolicy": {"autoUpgrade": mode != Mode::Drive}}});
            let components = vec![
                RecipeComponent {
                    version: Some("v26.3.1".to_owned()),
                    values: gpu.as_object().unwrap().clone(),
                    ..RecipeComponent::from_name("gpu-operator")
                },
                RecipeComponent {
                    version: Some("26.4.1".to_owned()),
                    custom_resources: Map::from_iter([("NicClusterPolicy".to_owned(), spec)]),
                    ..RecipeComponent::from_name("network-operator")
                },
            ];
            let hook = of_chart(driver, mode);
            assert_eq!(unmapped_settings(&hook), Vec::<&str>::new());
            let recipe = written_back(recipe(json!({})).cluster, components, &[&hook]);
            assert_eq!(
                errors(&without_defaults(&recipe)),
                Vec::<String>::new(),
                "{driver:?} {mode:?} {:#}",
                without_defaults(&recipe)
            );
            planned(&recipe);
            let judged = if driver == Driver::Gpu { DraRequired::False } else { DraRequired::Auto };
            assert_eq!(
                recipe.rollout.dra.required, judged,
                "a stand-alone hook checks the DRA driver itself"
            );
        }
    }
}

#[test]
fn settings_without_a_recipe_key_are_named() {
    let mut hook = of_chart(Driver::Gpu, Mode::Drive);
    hook.upgrade.policy.pod_deletion = None;
    hook.grace_seconds = 60;
    hook.dra.max_unavailable = Count::Number(2);
    assert_eq!(
        unmapped_settings(&hook),
        ["upgrade.policy.podDeletion.enable", "graceSeconds", "dra.maxUnavailable"]
    );
}

/// Only precompiled drivers have a branch for a version.
#[test]
fn version_unfit_for_recipes_stays_in_values() {
    let cluster = recipe(json!({})).cluster;
    let of = |driver: Value| {
        let values = Map::from_iter([("driver".to_owned(), driver)]);
        let operator = RecipeComponent {
            version: Some("v26.3.1".to_owned()),
            values,
            ..RecipeComponent::from_name("gpu-operator")
        };
        let mut hook = of_chart(Driver::Gpu, Mode::Drive);
        hook.expected.driver_version = Some("580".to_owned());
        let document = without_defaults(&written_back(cluster.clone(), vec![operator], &[&hook]));
        assert_eq!(errors(&document), Vec::<String>::new(), "{document:#}");
        (
            document["rollout"]["gpuDriver"]["version"].clone(),
            document["components"][0]["values"]["driver"].clone(),
        )
    };
    let branch = json!({"usePrecompiled": true, "version": "580"});
    assert_eq!(of(branch), (json!("580"), json!({"usePrecompiled": true})));
    assert_eq!(
        of(json!({"rdma": {"enabled": true}, "version": ""})),
        (Value::Null, json!({"rdma": {"enabled": true}}))
    );
    // The chart's whole values, of a driver that is on the nodes already: nothing of its policy
    // counts.
    let whole = json!({"enabled": false, "version": "580.1", "upgradePolicy": {"autoUpgrade": false, "maxParallelUpgrades": 1}});
    assert_eq!(of(whole), (Value::Null, json!({"enabled": false, "version": "580.1"})));
}
