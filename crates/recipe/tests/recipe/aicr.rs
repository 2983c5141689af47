//! Tests of the import of NVIDIA AICR's recipes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;

use recipe::aicr::AicrOptions as Aicr;
use recipe::explain::explain;
use recipe::load::{ValidRecipe, load, load_with};
use recipe::model::ManifestTime;
use recipe::overrides::ValueOverride;
use recipe::read::FileSystemReader;
use release::{EmbeddedCatalog, PlanOptions, plan};

mod leaves;
mod mistakes;

use mistakes::{Fake, result};

const DATA: &str = "tests/data/aicr-v0.11.1";

fn overrides(texts: &[&str]) -> Vec<ValueOverride> {
    texts.iter().map(|text| text.parse().expect("the tests write PATH=VALUE")).collect()
}

fn options(fix_dead_keys: bool) -> Aicr {
    Aicr { data: Some(DATA.to_owned()), fix_dead_keys, without_manifests: false }
}

/// A real result, eight nodes.
fn real(name: &str, fix_dead_keys: bool) -> ValidRecipe {
    let path = format!("{DATA}/recipe-results/{name}.yaml");
    load_with(
        &path,
        &overrides(&["cluster.gpuNodes=8"]),
        &options(fix_dead_keys),
        &mut FileSystemReader,
    )
    .unwrap_or_else(|findings| panic!("{name}: {}", findings.render_plain()))
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(format!("{DATA}/recipe-results")).unwrap();
    let mut names: Vec<String> = files
        .map(|file| file.unwrap().path().file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    names.sort();
    names
}

/// The output of `recipe show` needs neither AICR's data nor its options.
#[test]
fn converted_result_reads_back_equal() {
    for (name, fix_dead_keys) in names().iter().flat_map(|name| [(name, false), (name, true)]) {
        let recipe = real(name, fix_dead_keys).recipe;
        let again = load("-", &[], &mut Fake::input(&yaml::to_string(&recipe).unwrap()));
        assert_eq!(
            again.unwrap_or_else(|findings| panic!("{name}: {}", findings.render_plain())).recipe,
            recipe,
            "{name}"
        );
    }
}

#[test]
fn what_is_said_about_real_results() {
    for name in ["h100-kind-training", "h100-eks-ubuntu-training-kubeflow"] {
        let loaded = real(name, true);
        snapshot(&format!("aicr-{name}-fixed"), &yaml::to_string(&loaded.recipe).unwrap());
        let loaded = real(name, false);
        snapshot(
            &format!("aicr-{name}"),
            &format!("{}\n\n{}", loaded.warnings.render_plain(), loaded.warnings.summary()),
        );
    }
}

/// Every manifest file of a result is in the recipe, byte by byte.
#[test]
fn manifest_files_of_results_are_in_the_recipe() {
    for name in names() {
        let recipe = real(&name, false).recipe;
        let text = std::fs::read_to_string(format!("{DATA}/recipe-results/{name}.yaml")).unwrap();
        let files: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("- components/")).collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            let expected = std::fs::read_to_string(format!("{DATA}/components/{file}")).unwrap();
            let (component, file) = file.split_once("/manifests/").unwrap();
            let component = recipe.components.iter().find(|one| one.name == component).unwrap();
            assert_eq!(component.manifests[file].template, expected, "{name}: {file}");
        }
    }
}

/// What pods or the driver need to start comes before the chart, even with a hook that waits for
/// them. What needs the chart's CRDs comes after it.
#[test]
fn manifests_come_before_or_after_their_chart() {
    let mut found: BTreeMap<String, ManifestTime> = BTreeMap::new();
    for name in names() {
        for component in real(&name, false).recipe.components {
            let manifests = component.manifests.into_iter();
            found.extend(manifests.map(|(file, manifest)| (file, manifest.when)));
        }
    }
    let before: Vec<&str> = found
        .iter()
        .filter(|(_, when)| **when == ManifestTime::Before)
        .map(|(file, _)| file.as_str())
        .collect();
    assert_eq!(
        before,
        [
            "dcgm-exporter.yaml",
            "gateway-api-crds.yaml",
            "gke-resource-quota.yaml",
            "inference-extension-crds.yaml",
        ]
    );
    assert_eq!(found.len(), 11, "{found:?}");
}

/// AICR's templates read keys that the chart does not read.
#[test]
fn manifests_see_values_that_charts_do_not_read() {
    let recipe = real("h100-kind-training", false).recipe;
    let operator = recipe.components.iter().find(|one| one.name == "gpu-operator").unwrap();
    let seen = |path: &str| catalog::lookup(&operator.manifest_values, path).cloned();
    assert_eq!(seen("driver.maxParallelUpgrades"), Some(5.into()));
    assert_eq!(seen("driver.useOpenKernelModules"), Some(true.into()));
    assert_eq!(catalog::lookup(&operator.values, "driver.maxParallelUpgrades"), None);
}

/// The result does not name the namespace, and AICR's registry does.
#[test]
fn component_without_chart_has_the_registered_namespace() {
    let recipe = real("h100-gke-cos-training", false).recipe;
    let plugin = recipe.components.iter().find(|one| one.name == "gke-nccl-tcpxo").unwrap();
    assert_eq!(
        (plugin.namespace.as_deref(), &plugin.chart, plugin.manifests.len()),
        (Some("kube-system"), &None, 2)
    );
}

/// A recipe that extends AICR's adds what AICR does not know, and `explain` shows all three
/// positions.
#[test]
fn a_recipe_extends_a_result() {
    let mut reader = Fake::new(&[
        (
            "mine.yaml",
            "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {name: mine}\nextends: [result.yaml]\ncluster: {gpuNodes: 4}\ncomponents:\n  - name: gpu-operator\n    values: {driver: {rdma: {enabled: true}}}\n",
        ),
        (
            "result.yaml",
            &result(
                "  - {name: gpu-operator, valuesFile: components/gpu-operator/own.yaml, version: 26.3.1,\n     overrides: {driver: {rdma: {enabled: null}}, mig: null}}\n",
            ),
        ),
        (
            "data/components/gpu-operator/values.yaml",
            "driver: {rdma: {enabled: true, useHostMofed: true}, version: 580.126.20}\nmig: {strategy: mixed}\n",
        ),
        ("data/components/gpu-operator/own.yaml", "driver: {rdma: {enabled: false}}\n"),
    ]);
    let options = Aicr { data: Some("data/".to_owned()), ..Aicr::default() };
    let loaded = load_with("mine.yaml", &[], &options, &mut reader)
        .unwrap_or_else(|findings| panic!("{}", findings.render_plain()));
    let operator = &loaded.recipe.components[0];
    assert_eq!(
        (loaded.recipe.cluster.gpu_nodes, operator.version.as_deref()),
        (4, Some("v26.3.1"))
    );
    assert_eq!(
        serde_json::to_value(&operator.values).unwrap(),
        serde_json::json!({"driver": {"rdma": {"enabled": true, "useHostMofed": true}, "version": "580.126.20"}})
    );
    let path = "components.gpu-operator.values.driver.rdma.enabled".parse().unwrap();
    assert_eq!(
        explain(&loaded, &path).unwrap(),
        "components.gpu-operator.values.driver.rdma.enabled: true\n\
         \x20 data/components/gpu-operator/values.yaml:1:26: true\n\
         \x20 data/components/gpu-operator/own.yaml:1:26: false\n\
         \x20 result.yaml:5:43: null\n\
         \x20 mine.yaml:8:39: true  ← wins\n"
    );
}

fn snapshot(name: &str, text: &str) {
    insta::with_settings!({snapshot_path => "snapshots", prepend_module_to_snapshot => false, omit_expression => true}, {
        insta::assert_snapshot!(name, text);
    });
}

/// The order of the result and its dependencies are kept, also across omitted components.
#[test]
fn the_order_is_kept() {
    let recipe = real("h100-eks-ubuntu-training-kubeflow", false).recipe;
    let names: Vec<&str> =
        recipe.components.iter().map(|component| component.name.as_str()).collect();
    assert_eq!(
        names[..4],
        ["aws-ebs-csi-driver", "aws-efa", "cert-manager", "kube-prometheus-stack"]
    );
    let plan = plan(&recipe, &EmbeddedCatalog, &PlanOptions::default()).unwrap();
    let position = |name: &str| {
        plan.releases
            .iter()
            .position(|release| release.name == name)
            .unwrap_or_else(|| panic!("{name}"))
    };
    let order = [
        "skyhook-operator",
        "skyhook-customizations",
        "gpu-operator-pre",
        "gpu-operator-pre-manifests",
        "gpu-operator",
        "gpu-operator-post",
        "kubeflow-trainer",
        "kubeflow-trainer-manifests",
    ];
    assert!(order.map(position).is_sorted(), "{:?}", order.map(position));
    let needs = |name: &str| &plan.releases[position(name)].needs;
    assert!(needs("gpu-operator").contains(&"skyhook-customizations".to_owned()));
    assert!(needs("gpu-operator").contains(&"gpu-operator-pre-manifests".to_owned()));
    assert!(needs("gpu-operator").contains(&"kube-prometheus-stack".to_owned()));
    assert_eq!(needs("kubeflow-trainer-manifests"), &["kubeflow-trainer"]);

    // What a component that is left out waits for, the components after it wait for.
    let omitted = Aicr { without_manifests: true, ..options(false) };
    let path = format!("{DATA}/recipe-results/h100-eks-ubuntu-training-kubeflow.yaml");
    let set = overrides(&["cluster.gpuNodes=8"]);
    let recipe = load_with(&path, &set, &omitted, &mut FileSystemReader).unwrap().recipe;
    let plan = release::plan(&recipe, &EmbeddedCatalog, &PlanOptions::default()).unwrap();
    let operator = plan.releases.iter().find(|release| release.name == "gpu-operator").unwrap();
    assert!(operator.needs.contains(&"skyhook-operator".to_owned()), "{:?}", operator.needs);
}
