//! Tests of the charts of a bundle with real Helm.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use bundle::write;
use contract::policy::{PodDeletionPolicy, UpgradeSettings};
use contract::proof::{Canary, Halt};
use contract::settings::{DraRequired, Settings};
use deployer::layout::{folders, values_of};
use release::Release;
use release::model::ReleaseKind;
use serde_json::{Value, json};

use super::library;
use super::modes::RECIPES;
use super::tools::tool;

/// Helm: `GPU_ROLLOUT_HELM`, or the one that is pinned for the tests.
pub(crate) fn program() -> &'static PathBuf {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    PROGRAM.get_or_init(|| {
        std::env::var_os("GPU_ROLLOUT_HELM").map_or_else(|| tool("helm4"), PathBuf::from)
    })
}

pub(crate) fn helm(program: &Path, bundle: &Path, arguments: &[&str]) -> String {
    let Output { status, stdout, stderr } =
        Command::new(program).current_dir(bundle).args(arguments).output().unwrap();
    assert!(
        status.success(),
        "helm {arguments:?}: {}{}",
        String::from_utf8_lossy(&stdout),
        String::from_utf8_lossy(&stderr)
    );
    String::from_utf8(stdout).unwrap()
}

/// Lints a chart of the bundle with Helm, and returns its objects.
fn objects(
    helm_program: &Path,
    bundle: &Path,
    folder: &str,
    release: &Release,
    values: &[String],
) -> Vec<Value> {
    let values = values.iter().flat_map(|file| ["--values", file]);
    let common: Vec<&str> = ["--namespace", &release.namespace, "--kube-version", "1.34.0"]
        .into_iter()
        .chain(values)
        .collect();
    helm(helm_program, bundle, &[&["lint", "--strict", folder][..], &common].concat());
    serde_yaml::from_multiple(&helm(
        helm_program,
        bundle,
        &[&["template", &release.name, folder][..], &common].concat(),
    ))
    .unwrap()
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helm_3_renders_every_chart_as_planned() {
    each(&tool("helm3"));
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helm_4_renders_every_chart_as_planned() {
    each(&tool("helm4"));
}

fn each(helm: &Path) {
    let by_name = |mut objects: Vec<Value>| {
        objects.sort_by_key(|object| object["metadata"]["name"].to_string());
        objects
    };
    for name in catalog::recipe_names().chain(RECIPES) {
        let recipe = library::recipe(name);
        let plan = library::planned(&recipe);
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("bundle");
        write(&library::bundle(name, "helm".parse().unwrap()), &bundle, false).unwrap();
        for (folder, release) in folders(&plan) {
            match &release.kind {
                // The vendor's charts are not available here.
                ReleaseKind::Upstream(_) => {}
                ReleaseKind::Crds(crds) => {
                    let expected = crds
                        .crds
                        .iter()
                        .map(|crd| yaml::from_str(crd.text.as_str()).unwrap())
                        .collect();
                    let found = objects(helm, &bundle, &folder, release, &[]);
                    assert_eq!(by_name(found), by_name(expected), "{name}: {folder}");
                }
                ReleaseKind::Manifests(manifests) => {
                    assert_eq!(
                        objects(helm, &bundle, &folder, release, &[]),
                        manifests.objects,
                        "{name}: {folder}"
                    );
                }
                // The library has none; `aicr.rs` has those of AICR.
                ReleaseKind::Templates(_) | ReleaseKind::Kustomization(_) => {
                    panic!("{name}: {folder}")
                }
                ReleaseKind::Hook(hook) => {
                    let mut values = values_of(&plan, release);
                    values.push(format!("{folder}/rollout.yaml"));
                    check_hook(
                        &objects(helm, &bundle, &folder, release, &values),
                        hook,
                        &release.name,
                    );
                }
            }
        }
    }
}

/// The Job gets the plan's settings, and the roles hold exactly the plan's rights.
fn check_hook(objects: &[Value], hook: &release::model::HookReleasePlan, release: &str) {
    let job = objects.iter().find(|object| object["kind"] == "Job").unwrap();
    assert_eq!(job["spec"]["activeDeadlineSeconds"], hook.budget.seconds);
    let environment = &job["spec"]["template"]["spec"]["containers"][0]["env"];
    let variable = environment
        .as_array()
        .unwrap()
        .iter()
        .find(|variable| variable["name"] == "GPU_ROLLOUT_SETTINGS")
        .unwrap();
    let settings: Settings = serde_json::from_str(variable["value"].as_str().unwrap()).unwrap();
    assert_eq!(
        (settings.release.as_str(), settings.component.as_str()),
        (release, hook.component.as_str())
    );
    assert_eq!(settings.component_version.as_deref(), Some(hook.version.as_str()));
    assert_eq!(
        (settings.budget_seconds, settings.per_node_seconds),
        (hook.budget.seconds, hook.budget.per_node_seconds)
    );
    assert_eq!((&settings.tasks, &json!(settings.mode)), (&hook.tasks, &hook.settings["mode"]));
    check_upgrade(&settings.upgrade, hook.settings.get("upgrade"), release);
    assert_eq!(json!(settings.dra.namespaces), hook.settings["dra"]["namespaces"]);
    assert_eq!(
        settings.dra.required == DraRequired::True,
        hook.settings["dra"]["required"] == "true"
    );

    let verbs_of = |rule: &Value| {
        let text = |key: &str| {
            rule[key]
                .as_array()
                .unwrap()
                .iter()
                .map(|value| value.as_str().unwrap().to_owned())
                .collect::<Vec<_>>()
        };
        (text("apiGroups").join(","), text("resources").join(","), text("verbs").join(","))
    };
    let is_role = |object: &&Value| object["kind"] == "Role" || object["kind"] == "ClusterRole";
    let mut granted: Vec<_> = objects
        .iter()
        .filter(is_role)
        .flat_map(|role| role["rules"].as_array().unwrap())
        .map(verbs_of)
        .collect();
    let mut planned: Vec<_> = hook
        .rights
        .iter()
        .map(|right| (right.group.to_owned(), right.resource.to_owned(), right.verbs.join(",")))
        .collect();
    granted.sort();
    planned.sort();
    assert_eq!(granted, planned, "{release}");
}

/// The Job gets the plan's `rollout.upgrade`. Omitted keys have the program's defaults.
fn check_upgrade(found: &UpgradeSettings, said: Option<&Value>, release: &str) {
    let default = UpgradeSettings::default();
    let (Some(said), attempts) = (said, default.attempts) else {
        return assert_eq!(*found, default, "{release}");
    };
    let Some(policy) = said.get("policy") else {
        assert_eq!(
            *found,
            UpgradeSettings {
                attempts: said["attempts"]
                    .as_u64()
                    .map_or(attempts, |number| u32::try_from(number).unwrap()),
                ..default
            }
        );
        return;
    };
    let is_on = |key: &str| policy[key]["enable"] == true;
    assert_eq!(
        json!(found.policy.max_parallel_upgrades),
        policy["maxParallelUpgrades"],
        "{release}"
    );
    assert_eq!(json!(found.policy.max_unavailable), policy["maxUnavailable"], "{release}");
    assert_eq!(
        (found.policy.pod_deletion.is_some(), found.policy.drain.is_some()),
        (is_on("podDeletion"), is_on("drain")),
        "{release}"
    );
    let seconds = |deletion: &PodDeletionPolicy| json!(deletion.timeout_seconds);
    assert!(
        found
            .policy
            .pod_deletion
            .as_ref()
            .is_none_or(|deletion| seconds(deletion) == policy["podDeletion"]["timeoutSeconds"])
    );
    assert_eq!(
        found.policy.wait_for_completion.is_some(),
        policy["waitForCompletion"]["podSelector"] != "",
        "{release}"
    );
    assert_eq!(
        found.topology.as_ref().map_or("", |topology| &topology.label),
        said["topology"]["label"],
        "{release}"
    );
    let all = json!(found);
    for key in [
        "failureBudget",
        "attempts",
        "soakSeconds",
        "foreignCordon",
        "startSeconds",
        "validationSeconds",
    ] {
        assert_eq!(all[key], said[key], "{release}: {key}");
    }
    assert_eq!(json!(found.extra_consumers), said["extraConsumers"], "{release}");
    assert_eq!(json!(found.windows), said["windows"], "{release}");
    let canary = found.canary.clone().unwrap_or(Canary { nodes: 0, ..Canary::default() });
    assert_eq!(
        json!({"nodes": canary.nodes, "per": canary.per, "soakSeconds": canary.soak_seconds}),
        said["canary"],
        "{release}"
    );
    assert_eq!(json!(found.ramp), said["ramp"], "{release}");
    let halt = found.halt.unwrap_or(Halt { failed_proofs: 0, failed_nodes: None });
    assert_eq!(
        json!({"failedProofs": halt.failed_proofs, "failedNodes": halt.failed_nodes.unwrap_or(0)}),
        said["halt"],
        "{release}"
    );
}
