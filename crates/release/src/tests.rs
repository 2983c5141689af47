//! Tests of plans, with a small catalog.

use serde_json::{Value, json};

use super::fixture::{catalog, recipe};
use super::model::{
    ChartOrigin, HookReleasePlan, Release, ReleaseKind, ReleasePlan, UpstreamRelease,
};
use super::{PlanError, PlanOptions, plan};
use contract::names::DRA_DRIVER;

mod acceptance;
mod device_plugin;
mod errors;
mod hooks;
mod images;
mod modes;
mod network;
mod sub_charts;

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
