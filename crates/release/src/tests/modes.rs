//! Tests of what each mode renders: values, hooks with their tasks, settings, budgets.

use serde_json::{Value, json};

use super::super::model::{ReleaseKind, ReleasePlan};
use super::super::{EmbeddedCatalog, PlanError, PlanOptions, plan, upgrade};
use super::{hook, upstream};
use crate::fixture::recipe;
use contract::budget::OVERHEAD_SECONDS;
use contract::driver::Driver;
use contract::settings::Mode;
use contract::task::Task;
use recipe::model::{
    OfedDriverRollout, RecipeDrain, RecipeOfedUpgradePolicy, RecipePodDeletion, RecipeRollout,
    RecipeUpgradePolicy,
};

fn planned(overlay: Value) -> Result<ReleasePlan, PlanError> {
    plan(&recipe(overlay), &EmbeddedCatalog, &PlanOptions::default())
}

/// A recipe with both operators, in this mode and with the same policy for both drivers.
fn both(mode: Mode, policy: &Value) -> Value {
    let driver = json!({"version": "1.0", "mode": mode, "policy": policy});
    json!({
        "rollout": {"gpuDriver": driver, "ofedDriver": driver},
        "components": [
            {"name": "gpu-operator", "version": "v26.3.1"},
            {"name": "network-operator", "version": "26.4.1", "customResources": {"NicClusterPolicy": {"ofedDriver": {"image": "x"}}}},
        ],
    })
}

/// The hooks of a plan with their tasks.
fn hooks(plan: &ReleasePlan) -> Vec<(&str, &[Task])> {
    let hooks = plan.releases.iter().filter_map(|release| match &release.kind {
        ReleaseKind::Hook(hook) => Some((release.name.as_str(), hook.tasks.as_slice())),
        ReleaseKind::Upstream(_)
        | ReleaseKind::Crds(_)
        | ReleaseKind::Kustomization(_)
        | ReleaseKind::Manifests(_)
        | ReleaseKind::Templates(_) => None,
    });
    hooks.collect()
}

/// Returns `driver` of the GPU Operator's values, and `ofedDriver` of NicClusterPolicy.
fn drivers(plan: &ReleasePlan) -> (Value, Value) {
    let network = super::release(plan, "network-operator-resources");
    let ReleaseKind::Manifests(manifests) = &network.kind else { panic!("no manifests") };
    (
        upstream(plan, "gpu-operator").values["driver"].clone(),
        manifests.objects[0]["spec"]["ofedDriver"].clone(),
    )
}

#[test]
fn each_mode_has_its_values() {
    let policy = json!({
        "maxParallelUpgrades": 4, "waitForCompletion": {"podSelector": "app=train", "timeout": "1h"}, "drain": {"enable": true},
    });
    let wait = json!({"podSelector": "app=train", "timeoutSeconds": 3600});
    let drain = json!({"enable": true});
    let mapped = json!({"maxParallelUpgrades": 4, "waitForCompletion": wait, "drain": drain});
    let with = |more: Value| {
        let mut merged = mapped.clone();
        merged.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        merged
    };
    let cases = [
        (Mode::Observe, mapped.clone(), with(json!({"autoUpgrade": true}))),
        (Mode::Assist, with(json!({"autoUpgrade": true})), with(json!({"autoUpgrade": true}))),
        (
            Mode::Steer,
            with(json!({"autoUpgrade": true, "maxParallelUpgrades": 1, "maxUnavailable": "25%"})),
            with(json!({"autoUpgrade": true, "maxParallelUpgrades": 1})),
        ),
        (Mode::Drive, json!({"autoUpgrade": false}), json!({"autoUpgrade": false})),
    ];
    for (mode, gpu, ofed) in cases {
        let (found_gpu, found_ofed) = drivers(&planned(both(mode, &policy)).unwrap());
        assert_eq!(
            (&found_gpu["upgradePolicy"], &found_gpu["version"]),
            (&gpu, &json!("1.0")),
            "{mode:?}"
        );
        assert_eq!(
            (&found_ofed["upgradePolicy"], &found_ofed["version"]),
            (&ofed, &json!("1.0")),
            "{mode:?}"
        );
        let env = json!([{"name": "ENABLE_GPU_POD_EVICTION", "value": "false"}, {"name": "ENABLE_AUTO_DRAIN", "value": "false"}]);
        assert_eq!(
            found_gpu.get("manager"),
            (mode == Mode::Drive).then(|| json!({"env": env})).as_ref(),
            "{mode:?}"
        );
    }
}

#[test]
fn each_mode_has_its_tasks() {
    use Task::{Drive, Hold, Preflight, PrepareNetwork, Settle, Steer, Wake};
    let cases: [(Mode, &[Task], &[Task]); 4] = [
        (Mode::Observe, &[], &[Settle]),
        (Mode::Assist, &[Preflight], &[Settle, Wake]),
        (Mode::Steer, &[Preflight, Hold], &[Settle, Wake, Steer]),
        (Mode::Drive, &[Preflight], &[Settle, Drive]),
    ];
    for (mode, pre, post) in cases {
        // The tasks of the mode, and those that come with no mode.
        let allowed = |task: &Task| {
            mode.tasks().contains(task) || !Mode::ALL.iter().any(|mode| mode.tasks().contains(task))
        };
        let plan = planned(both(mode, &json!({}))).unwrap();
        let network = [&[PrepareNetwork][..], pre].concat();
        // In `assist` nodes are held only while the GPU Operator is upgraded.
        let gpu: &[Task] = if mode == Mode::Assist { &[Preflight, Hold] } else { pre };
        let mut expected =
            vec![("network-operator-pre", network.as_slice()), ("network-operator-post", post)];
        expected.extend((!gpu.is_empty()).then_some(("gpu-operator-pre", gpu)));
        expected.push(("gpu-operator-post", post));
        assert_eq!(hooks(&plan), expected, "{mode:?}");
        for (name, tasks) in hooks(&plan) {
            assert_eq!(hook(&plan, name).settings["mode"], json!(mode), "{name}");
            assert!(tasks.iter().all(allowed), "{name}");
        }
    }
}

/// Only the hooks of the driver's operator have the tasks of a mode, and only if there is a driver.
#[test]
fn mode_belongs_to_the_drivers_own_operator() {
    let of = |components: Value, rollout: Value| {
        let plan = planned(json!({"rollout": rollout, "components": components})).unwrap();
        let found: Vec<(String, Vec<Task>, Value)> = hooks(&plan)
            .into_iter()
            .map(|(name, tasks)| {
                (name.to_owned(), tasks.to_vec(), hook(&plan, name).settings["mode"].clone())
            })
            .collect();
        found
    };
    let one =
        |name: &str, tasks: &[Task], mode: Mode| (name.to_owned(), tasks.to_vec(), json!(mode));
    let drive = json!({"gpuDriver": {"mode": "drive"}});
    let dra =
        of(json!([{"name": "gpu-operator"}, {"name": "nvidia-dra-driver-gpu"}]), drive.clone());
    assert_eq!(
        dra[2],
        one("nvidia-dra-driver-gpu-post", &[Task::Settle, Task::Reroll], Mode::Drive)
    );
    let off = json!({"driver": {"enabled": false}});
    let only_settles = |rollout: Value, values: &Value| {
        of(json!([{"name": "gpu-operator", "values": values}]), rollout)
    };
    assert_eq!(
        only_settles(drive.clone(), &off),
        [one("gpu-operator-post", &[Task::Settle], Mode::Observe)]
    );
    let sandbox = json!({"sandboxWorkloads": {"enabled": true}});
    assert_eq!(
        only_settles(json!({}), &sandbox),
        [one("gpu-operator-post", &[Task::Settle], Mode::Observe)]
    );
    let alone = of(json!([{"name": "nvidia-dra-driver-gpu"}]), drive);
    assert_eq!(
        alone,
        [one("nvidia-dra-driver-gpu-post", &[Task::Settle, Task::Reroll], Mode::Observe)]
    );
    // The recipe does not configure the OFED driver, so its policy stays unchanged.
    let network = json!([{"name": "network-operator", "customResources": {"NicClusterPolicy": {"ofedDriver": {"image": "x"}}}}]);
    assert_eq!(
        of(network, json!({}))[1],
        one("network-operator-post", &[Task::Settle], Mode::Observe)
    );
}

#[test]
fn drive_hook_receives_all_policy_settings() {
    let policy = json!({
        "maxParallelUpgrades": 4, "maxUnavailable": 3, "waitForCompletion": {"podSelector": "app=train", "timeout": "1h"},
        "drain": {"podSelector": "a=b"}, "failureBudget": "10%", "attempts": 3, "soak": "1m", "foreignCordon": "include",
        "windows": ["daily 01:00-05:00 UTC"],
        "canary": {"nodes": 2, "per": ["nvidia.com/gpu.product"], "soak": "30m"}, "ramp": ["10%", "50%"], "halt": {"failedProofs": 3},
        "topology": {"label": "nvidia.com/gpu.clique", "maxUnavailable": 2}, "extraConsumers": ["app=dcgm"], "driverStart": "40m",
    });
    let plan = planned(both(Mode::Drive, &policy)).unwrap();
    let upgrade = |deletion: bool, drain: bool| {
        json!({
            "policy": {
                "maxParallelUpgrades": 4, "maxUnavailable": 3,
                "waitForCompletion": {"podSelector": "app=train", "timeoutSeconds": 3600},
                "podDeletion": {"enable": deletion, "force": false, "timeoutSeconds": 300, "deleteEmptyDir": false},
                "drain": {
                    "enable": drain, "force": false, "podSelector": if drain { "a=b" } else { "" }, "timeoutSeconds": 300,
                    "deleteEmptyDir": false,
                },
            },
            "failureBudget": "10%", "attempts": 3, "soakSeconds": 60, "windows": ["daily 01:00-05:00 UTC"],
            "canary": {"nodes": 2, "per": ["nvidia.com/gpu.product"], "soakSeconds": 1800},
            "ramp": ["10%", "50%"], "halt": {"failedProofs": 3, "failedNodes": 0}, "acceptance": [],
            "topology": {"label": "nvidia.com/gpu.clique", "maxUnavailable": 2},
            "foreignCordon": "include", "extraConsumers": ["app=dcgm"], "startSeconds": 2400, "validationSeconds": 600,
        })
    };
    // Like the operators' own defaults: the GPU Operator evicts and does not drain, the Network
    // Operator drains and does not evict.
    assert_eq!(hook(&plan, "gpu-operator-post").settings["upgrade"], upgrade(true, false));
    assert_eq!(hook(&plan, "network-operator-post").settings["upgrade"], upgrade(false, true));
    let assist = planned(both(Mode::Assist, &json!({"attempts": 5}))).unwrap();
    assert_eq!(hook(&assist, "gpu-operator-post").settings["upgrade"], json!({"attempts": 5}));
    let observe = planned(both(Mode::Observe, &json!({}))).unwrap();
    assert_eq!(hook(&observe, "gpu-operator-post").settings.get("upgrade"), None);
}

#[test]
fn budgets_follow_the_policy_that_is_in_force() {
    let budget = |mode: Mode, policy: Value| {
        planned(both(mode, &policy))
            .map(|plan| hook(&plan, "gpu-operator-post").budget.clone())
            .unwrap()
    };
    let limits = json!({"maxParallelUpgrades": 4, "maxUnavailable": "50%"});
    for mode in Mode::ALL {
        let found = budget(
            mode,
            if mode.decides() { limits.clone() } else { json!({"maxParallelUpgrades": 4}) },
        );
        assert_eq!(found.seconds, 4 * 720 + OVERHEAD_SECONDS, "{mode:?}");
    }
    let slow = budget(Mode::Drive, json!({"maxParallelUpgrades": 4, "soak": "5m", "attempts": 9}));
    assert_eq!(
        slow.seconds,
        6 * 720 + 5 * 300 + OVERHEAD_SECONDS,
        "one may fail, and then three of four are left"
    );
    insta::assert_snapshot!(slow.explanation, @"1h52m: 16 GPU nodes, 3 upgraded at once, 12m per node, 5m between them, 15m for everything else");
    let nights = budget(
        Mode::Drive,
        json!({"maxParallelUpgrades": 4, "windows": ["Mon-Fri 22:00-05:00 Europe/Berlin"]}),
    );
    assert_eq!(nights.seconds, 6 * 720 + 65 * 3600 + OVERHEAD_SECONDS, "deployed on a Saturday");
    insta::assert_snapshot!(nights.explanation, @"66h27m: 16 GPU nodes, 3 upgraded at once, 12m per node, at most 65h of waiting for maintenance windows, 15m for everything else");
    let in_steps = budget(
        Mode::Drive,
        json!({"maxParallelUpgrades": 4, "canary": {"soak": "30m"}, "ramp": ["25%", "50%", "100%"]}),
    );
    assert_eq!(
        in_steps.seconds,
        (1 + 1 + 2 + 3) * 720 + 3 * 1800 + OVERHEAD_SECONDS,
        "steps of 1, 3, 4 and 8 nodes, and three at once"
    );
    insta::assert_snapshot!(in_steps.explanation, @"3h9m: 16 GPU nodes, 3 upgraded at once, 12m per node, 4 steps (first 1 canary) with 30m between them, 15m for everything else");
    let assumed = budget(
        Mode::Steer,
        json!({"canary": {"per": ["nvidia.com/gpu.product"]}, "halt": {"failedNodes": 4}}),
    );
    insta::assert_snapshot!(assumed.explanation, @"3h27m: 16 GPU nodes, 1 upgraded at once, 12m per node, 2 steps (first up to 10 canaries), 15m for everything else");
    let failing = budget(
        Mode::Steer,
        json!({"maxParallelUpgrades": 4, "maxUnavailable": 4, "failureBudget": 3}),
    );
    assert_eq!(failing.seconds, 16 * 720 + OVERHEAD_SECONDS, "three that failed leave one at once");
    let plan = planned(both(Mode::Drive, &json!({}))).unwrap();
    assert_eq!(hook(&plan, "gpu-operator-pre").budget.seconds, OVERHEAD_SECONDS);
    assert_eq!(hook(&plan, "network-operator-post").budget.seconds, 16 * 1200 + OVERHEAD_SECONDS);
}

#[test]
fn values_in_conflict_with_mode_are_errors() {
    let with = |mode: Mode, driver: Value| {
        planned(
            json!({"rollout": {"gpuDriver": {"mode": mode}}, "components": [{"name": "gpu-operator", "values": {"driver": driver}}]}),
        )
    };
    let auto = |on: bool| json!({"upgradePolicy": {"autoUpgrade": on}});
    for mode in Mode::ALL {
        let (needed, wrong) = (mode != Mode::Drive, mode == Mode::Drive);
        assert!(with(mode, auto(needed)).is_ok(), "{mode:?}");
        match with(mode, auto(wrong)) {
            Ok(plan) => {
                assert_eq!(mode, Mode::Observe);
                assert_eq!(
                    upstream(&plan, "gpu-operator").values["driver"],
                    auto(wrong),
                    "untouched"
                );
            }
            Err(error) => assert_eq!(
                error.to_string(),
                format!(
                    "`values.driver.upgradePolicy.autoUpgrade` of component `gpu-operator`: mode `{}` needs {needed}, found {wrong}",
                    mode.name()
                )
            ),
        }
    }
    let env = |entries: Value| with(Mode::Drive, json!({"manager": {"env": entries}}));
    let other = json!({"name": "DRAIN_USE_FORCE", "value": "false"});
    let drain = |value: &str| json!({"name": "ENABLE_AUTO_DRAIN", "value": value});
    let plan = env(json!([other, drain("false")])).unwrap();
    assert_eq!(
        upstream(&plan, "gpu-operator").values["driver"]["manager"]["env"],
        json!([other, drain("false"), {"name": "ENABLE_GPU_POD_EVICTION", "value": "false"}])
    );
    insta::assert_snapshot!(env(json!([drain("true")])).unwrap_err(), @r#"`values.driver.manager.env` of component `gpu-operator`: in mode `drive`, the entry `ENABLE_AUTO_DRAIN` must have the value "false", found {"name":"ENABLE_AUTO_DRAIN","value":"true"}"#);
    insta::assert_snapshot!(env(json!({})).unwrap_err(), @"`values.driver.manager.env` of component `gpu-operator`: expected a list of `{name: …, value: …}`");
}

/// The Job before the operator's release ends before the rollout begins: the budget that its
/// preflight holds against the live fleet is that of the one that waits.
#[test]
fn preflight_knows_waiting_job_and_strictness() {
    let recipe = json!({"rollout": {"gpuDriver": {"mode": "drive", "preflight": {"empty-dir": "warn"}}}, "components": [{"name": "gpu-operator"}]});
    let plan = planned(recipe).unwrap();
    let (pre, post) = (hook(&plan, "gpu-operator-pre"), hook(&plan, "gpu-operator-post"));
    assert_ne!(pre.budget.seconds, post.budget.seconds);
    let waits = json!({"release": "gpu-operator-post", "budgetSeconds": post.budget.seconds});
    assert_eq!(
        pre.settings["preflight"],
        json!({"waits": waits, "strictness": {"empty-dir": "warn"}})
    );
    assert_eq!(post.settings.get("preflight"), None);
}

/// `recipe explain` shows the defaults that apply to absent keys.
#[test]
fn written_defaults_change_no_policy() {
    let steps = [(None, None), (Some(RecipePodDeletion::default()), Some(RecipeDrain::default()))];
    for (pod_deletion, drain) in steps {
        let gpu = RecipeUpgradePolicy {
            pod_deletion: pod_deletion.clone(),
            drain: drain.clone(),
            ..RecipeUpgradePolicy::default()
        };
        let ofed =
            RecipeOfedUpgradePolicy { pod_deletion, drain, ..RecipeOfedUpgradePolicy::default() };
        let rollout = |gpu: &RecipeUpgradePolicy, ofed: &RecipeOfedUpgradePolicy| {
            let mut rollout = RecipeRollout {
                ofed_driver: Some(OfedDriverRollout {
                    policy: ofed.clone(),
                    ..OfedDriverRollout::default()
                }),
                ..RecipeRollout::default()
            };
            rollout.gpu_driver.policy = gpu.clone();
            rollout
        };
        let absent = rollout(&gpu, &ofed);
        let written = rollout(&gpu.with_defaults(Driver::Gpu), &ofed.with_defaults());
        for driver in [Driver::Gpu, Driver::Ofed] {
            assert_eq!(upgrade(&written, driver), upgrade(&absent, driver), "{driver:?}");
        }
    }
}
