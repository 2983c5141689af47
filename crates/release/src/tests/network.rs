//! Tests of plans with the Network Operator, with the real catalog.

use serde_json::{Value, json};

use super::super::model::{ManifestsRelease, ReleaseKind, ReleasePlan};
use super::super::{EmbeddedCatalog, PlanError, PlanOptions, plan};
use super::{hook, release, upstream};
use crate::fixture::recipe;
use contract::budget::OVERHEAD_SECONDS;
use contract::task::Task;

fn planned(overlay: Value) -> Result<ReleasePlan, PlanError> {
    plan(&recipe(overlay), &EmbeddedCatalog, &PlanOptions::default())
}

fn network(version: &str, more: &Value) -> Value {
    let mut component = json!({"name": "network-operator", "version": version});
    component.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    component
}

fn with_policy(policy: &Value) -> Value {
    json!({
        "rollout": {"ofedDriver": {"version": "doca3.4.1-26.04-1.1.0.0-1", "perNode": "20m", "policy": policy}},
        "components": [
            {"name": "gpu-operator", "version": "v26.3.1"},
            network("26.4.1", &json!({"customResources": {"NicClusterPolicy": {"ofedDriver": {"image": "doca-driver"}}}})),
        ],
    })
}

fn resources<'a>(plan: &'a ReleasePlan, name: &str) -> &'a ManifestsRelease {
    let ReleaseKind::Manifests(manifests) = &release(plan, name).kind else {
        panic!("{name} is of another kind")
    };
    manifests
}

#[test]
fn network_comes_first_and_steps_wait_in_order() {
    let plan = planned(with_policy(&json!({"maxParallelUpgrades": 4}))).unwrap();
    let steps: Vec<(&str, &str)> =
        plan.releases.iter().map(|release| (release.name.as_str(), release.kind.name())).collect();
    assert_eq!(
        steps,
        [
            ("gpu-rollout-namespaces", "manifests"),
            ("network-operator-crds", "crds"),
            ("network-operator-pre", "hook"),
            ("network-operator", "upstream"),
            ("network-operator-resources", "manifests"),
            ("network-operator-post", "hook"),
            ("gpu-operator-crds", "crds"),
            ("gpu-operator-pre", "hook"),
            ("gpu-operator", "upstream"),
            ("gpu-operator-post", "hook"),
        ]
    );
    assert_eq!(
        release(&plan, "network-operator-pre").needs,
        ["gpu-rollout-namespaces", "network-operator-crds"]
    );
    assert_eq!(
        release(&plan, "network-operator").needs,
        ["gpu-rollout-namespaces", "network-operator-crds", "network-operator-pre"]
    );
    assert_eq!(release(&plan, "network-operator-resources").needs, ["network-operator"]);
    assert_eq!(
        release(&plan, "network-operator-post").needs,
        ["network-operator", "network-operator-resources"]
    );
    assert_eq!(
        release(&plan, "gpu-operator").needs,
        [
            "gpu-rollout-namespaces",
            "gpu-operator-crds",
            "network-operator-post",
            "gpu-operator-pre"
        ]
    );
}

#[test]
fn policy_becomes_an_unpruned_custom_resource() {
    let policy = json!({
        "maxParallelUpgrades": 4, "safeLoad": true, "waitForCompletion": {"podSelector": "app=train", "timeout": "1h"},
        "drain": {"enable": true, "force": false, "podSelector": "a=b", "timeout": "5m", "deleteEmptyDir": true},
    });
    let plan = planned(with_policy(&policy)).unwrap();
    let manifests = resources(&plan, "network-operator-resources");
    assert!(manifests.shared, "an edit of it fires the hook");
    let object = &manifests.objects[0];
    assert_eq!(
        (&object["kind"], &object["metadata"]["name"]),
        (&json!("NicClusterPolicy"), &json!("nic-cluster-policy"))
    );
    assert_eq!(object["metadata"]["annotations"]["helm.sh/resource-policy"], "keep");
    assert!(
        object["metadata"]["annotations"]["argocd.argoproj.io/sync-options"]
            .as_str()
            .unwrap()
            .contains("Prune=false")
    );
    assert_eq!(
        object["spec"],
        json!({"ofedDriver": {"image": "doca-driver", "version": "doca3.4.1-26.04-1.1.0.0-1", "upgradePolicy": {
            "maxParallelUpgrades": 4, "safeLoad": true, "autoUpgrade": true,
            "waitForCompletion": {"podSelector": "app=train", "timeoutSeconds": 3600},
            "drain": {"enable": true, "force": false, "podSelector": "a=b", "timeoutSeconds": 300, "deleteEmptyDir": true},
        }}})
    );
    assert_eq!(
        upstream(&plan, "network-operator").values["upgradeCRDs"],
        false,
        "the bundle is the only one that writes CRDs"
    );
    let hook = hook(&plan, "network-operator-post");
    assert_eq!(hook.shares, ["network-operator", "network-operator-resources"]);
    assert_eq!(
        hook.budget.seconds,
        4 * (1200 + 3600) + OVERHEAD_SECONDS,
        "16 nodes, 4 at once; there is no `maxUnavailable`"
    );
    assert_eq!(
        (&hook.settings["driver"], &hook.settings["operatorNamespace"]),
        (&json!("ofed"), &json!("nvidia-network-operator"))
    );
}

#[test]
fn hook_before_operator_retains_policy_without_waiting() {
    let plan = planned(with_policy(&json!({}))).unwrap();
    let hook = hook(&plan, "network-operator-pre");
    assert_eq!(
        (hook.tasks.as_slice(), hook.budget.seconds),
        (&[Task::PrepareNetwork, Task::Preflight][..], OVERHEAD_SECONDS)
    );
    insta::assert_snapshot!(hook.budget.explanation, @"15m: waits for no node");
}

#[test]
fn chart_that_renders_policy_gets_it_as_values() {
    let values = json!({"values": {"deployCR": true, "ofedDriver": {"deploy": true}}});
    let rollout =
        json!({"ofedDriver": {"version": "24.07-0.6.1.0-0", "policy": {"maxParallelUpgrades": 2}}});
    let plan =
        planned(json!({"rollout": rollout, "components": [network("24.7.1", &values)]})).unwrap();
    assert_eq!(
        json!(upstream(&plan, "network-operator").values),
        json!({"deployCR": true, "ofedDriver": {"deploy": true, "version": "24.07-0.6.1.0-0", "upgradePolicy": {"maxParallelUpgrades": 2, "autoUpgrade": true}}})
    );
    let names: Vec<&str> = plan.releases.iter().map(|release| release.name.as_str()).collect();
    assert_eq!(
        names,
        [
            "gpu-rollout-namespaces",
            "network-operator-pre",
            "network-operator",
            "network-operator-post"
        ]
    );
    assert!(!upstream(&plan, "network-operator").skip_crds);
    assert_eq!(hook(&plan, "network-operator-post").budget.seconds, 8 * 1200 + OVERHEAD_SECONDS);
}

#[test]
fn discovery_runs_once_before_its_users() {
    let switches = |components: Value| -> Vec<(String, Value)> {
        let plan = planned(json!({"rollout": {}, "components": components})).unwrap();
        let charts = plan.releases.iter().filter_map(|release| match &release.kind {
            ReleaseKind::Upstream(upstream) => Some((
                release.name.clone(),
                upstream.values.get("nfd").cloned().unwrap_or_default(),
            )),
            ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Hook(_) => None,
        });
        charts.collect()
    };
    let off = json!({"enabled": false});
    let (gpu, net, nfd) = (
        json!({"name": "gpu-operator"}),
        json!({"name": "network-operator"}),
        json!({"name": "node-feature-discovery"}),
    );
    let named = |name: &str, value: &Value| (name.to_owned(), value.clone());
    assert_eq!(switches(json!([gpu])), [named("gpu-operator", &Value::Null)]);
    assert_eq!(
        switches(json!([gpu, net])),
        [named("network-operator", &Value::Null), named("gpu-operator", &off)]
    );
    assert_eq!(
        switches(json!([gpu, net, nfd])),
        [
            named("node-feature-discovery", &Value::Null),
            named("network-operator", &off),
            named("gpu-operator", &off)
        ]
    );
}

#[test]
fn the_renumbered_dra_driver_keeps_its_names() {
    for (version, chart, name) in [
        ("25.12.0", "https://helm.ngc.nvidia.com/nvidia/nvidia-dra-driver-gpu", Value::Null),
        (
            "0.4.1",
            "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu",
            json!("nvidia-dra-driver-gpu"),
        ),
        (
            "0.5.0",
            "oci://registry.k8s.io/dra-driver-nvidia/charts/dra-driver-nvidia-gpu",
            json!("nvidia-dra-driver-gpu"),
        ),
    ] {
        let plan =
            planned(json!({"components": [{"name": "nvidia-dra-driver-gpu", "version": version}]}))
                .unwrap();
        let upstream = upstream(&plan, "nvidia-dra-driver-gpu");
        assert_eq!(
            (
                upstream.chart.place().as_str(),
                upstream.values.get("nameOverride").cloned().unwrap_or_default()
            ),
            (chart, name)
        );
    }
}

#[test]
fn node_scheduling_reaches_the_charts_places() {
    let scheduling = json!({
        "system": {"nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}]},
        "accelerated": {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]},
    });
    let components = |scheduling: &Value| {
        json!([
            {"name": "gpu-operator", "nodeScheduling": scheduling}, {"name": "node-feature-discovery"},
        ])
    };
    let plan = planned(json!({"rollout": {"gpuDriver": {"mode": "observe"}}, "components": components(&scheduling)})).unwrap();
    assert_eq!(
        json!(upstream(&plan, "gpu-operator").values),
        json!({
            "operator": {"upgradeCRD": false, "nodeSelector": {"pool": "system"}, "tolerations": [{"key": "system", "operator": "Exists"}]},
            "node-feature-discovery": {"postDeleteCleanup": false},
            "nfd": {"enabled": false},
            "daemonsets": {"tolerations": [{"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"}]},
        }),
        "a sub-chart that is off gets no scheduling"
    );
    let nowhere = json!({"accelerated": {"nodeSelector": {"pool": "gpu"}}});
    let error = planned(json!({"rollout": {}, "components": components(&nowhere)})).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the chart of component `gpu-operator` has no key for `nodeScheduling.accelerated.nodeSelector`"
    );
}

#[test]
fn contradictions_are_errors() {
    let policy = |policy: Value| {
        network("26.4.1", &json!({"customResources": {"NicClusterPolicy": policy}}))
    };
    let cases = [
        (
            json!({"rollout": {"ofedDriver": {"version": "1.0"}}, "components": [policy(json!({"ofedDriver": {"version": "2.0"}}))]}),
            "`rollout.ofedDriver.version` and `customResources.NicClusterPolicy.ofedDriver.version` of component `network-operator` set the same value",
        ),
        (
            json!({"rollout": {}, "components": [network("24.7.1", &json!({"customResources": {"NicClusterPolicy": {}}}))]}),
            "component `network-operator` has no custom resource `NicClusterPolicy` in version 24.7.1",
        ),
        (
            json!({"rollout": {}, "components": [policy(json!([]))]}),
            "`customResources.NicClusterPolicy` of component `network-operator`: expected a map, the resource's `spec`",
        ),
        (
            json!({"rollout": {}, "components": [policy(json!({"ofedDriver": {"upgradePolicy": {"maxParallelUpgrades": "1"}}}))]}),
            "`customResources.NicClusterPolicy.ofedDriver.upgradePolicy.maxParallelUpgrades` of component `network-operator`: expected an integer of at least 0",
        ),
        (
            json!({"rollout": {}, "components": [
                {"name": "node-feature-discovery"}, {"name": "gpu-operator", "values": {"nfd": {"enabled": true}}},
            ]}),
            "`values.nfd.enabled` of component `gpu-operator` is true, so `node-feature-discovery` would run twice: an earlier component, `node-feature-discovery`, runs it already",
        ),
        (
            json!({"rollout": {}, "components": [{"name": "nvidia-dra-driver-gpu", "version": "0.4.1", "values": {"nameOverride": "x"}}]}),
            "`values.nameOverride` of component `nvidia-dra-driver-gpu` must be \"nvidia-dra-driver-gpu\", found \"x\"",
        ),
    ];
    for (overlay, message) in cases {
        assert_eq!(planned(overlay).unwrap_err().to_string(), message);
    }
    let endless = json!({"waitForCompletion": {"podSelector": "a=b"}});
    assert_eq!(planned(with_policy(&endless)).unwrap_err(), PlanError::EndlessWait("ofedDriver"));
    let raw =
        json!({"ofedDriver": {"upgradePolicy": {"waitForCompletion": {"podSelector": "a=b"}}}});
    let raw = json!({"rollout": {}, "components": [policy(raw)]});
    assert_eq!(
        planned(raw).unwrap_err(),
        PlanError::EndlessWait("ofedDriver"),
        "also where the resource says it"
    );
}

#[test]
fn hook_looks_for_the_overridden_deployment() {
    let deployment = |values: Value| {
        let policy = json!({"NicClusterPolicy": {"ofedDriver": {"image": "doca-driver"}}});
        let component = network("26.4.1", &json!({"customResources": policy, "values": values}));
        let plan = planned(json!({
            "rollout": {"ofedDriver": {"version": "doca3.4.1-26.04-1.1.0.0-1", "perNode": "20m"}},
            "components": [component],
        }))
        .unwrap();
        hook(&plan, "network-operator-post").settings.get("operatorDeployment").cloned()
    };
    let overridden = deployment(json!({"operator": {"nameOverride": "nic"}}));
    assert_eq!(overridden, Some(json!("network-operator-nic")));
    assert_eq!(deployment(json!({})), None);
}
