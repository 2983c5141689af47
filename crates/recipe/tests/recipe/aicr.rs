//! Tests of the import of NVIDIA AICR's recipes: real ones, and all possible mistakes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;

use recipe::aicr::AicrOptions as Aicr;
use recipe::explain::explain;
use recipe::load::{ValidRecipe, load, load_with};
use recipe::model::ManifestTime;
use recipe::overrides::ValueOverride;
use recipe::read::{FileSystemReader, ReadError, TextReader};
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::Value;

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

/// A result with these components.
fn result(components: &str) -> String {
    format!(
        "kind: RecipeResult\napiVersion: aicr.nvidia.com/v1alpha1\ncomponentRefs:\n{components}"
    )
}

/// Files in memory.
struct Fake(BTreeMap<String, Vec<u8>>);

impl Fake {
    fn new(files: &[(&str, &str)]) -> Self {
        Self(
            files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
        )
    }

    fn input(text: &str) -> Self {
        Self::new(&[("-", text)])
    }
}

impl TextReader for Fake {
    fn file(&mut self, path: &str) -> Result<String, ReadError> {
        let bytes = self.0.get(path).ok_or(ReadError::Missing)?;
        recipe::read::read_limited(bytes.as_slice())
    }

    fn standard_input(&mut self) -> Result<String, ReadError> {
        self.file("-")
    }
}

/// A result, values files below `data/`, and what else is on the command line.
struct Case {
    name: &'static str,
    result: String,
    files: Vec<(&'static str, &'static [u8])>,
    data: Option<&'static str>,
    set: Vec<&'static str>,
}

fn case(name: &'static str, components: &str) -> Case {
    Case {
        name,
        result: result(components),
        files: Vec::new(),
        data: Some("data"),
        set: vec!["cluster.gpuNodes=8"],
    }
}

fn with_file(
    name: &'static str,
    components: &str,
    path: &'static str,
    text: &'static [u8],
) -> Case {
    Case { files: vec![(path, text)], ..case(name, components) }
}

fn whole(name: &'static str, result: &str) -> Case {
    Case { result: result.to_owned(), ..case(name, "") }
}

const OPERATOR: &str = "  - {name: gpu-operator, version: v26.3.1}\n";
const OPERATOR_FILE: &str =
    "  - {name: gpu-operator, version: v26.3.1, valuesFile: components/gpu-operator/values.yaml}\n";
/// The GPU Operator with one manifest file.
fn with_manifest(path: &str) -> String {
    format!("  - {{name: gpu-operator, version: v26.3.1, manifestFiles: [{path}]}}\n")
}

const VALUES: &str = "data/components/gpu-operator/values.yaml";

fn said(case: &Case) -> String {
    let mut files = Fake::input(&case.result);
    files.0.extend(case.files.iter().map(|(path, bytes)| ((*path).to_owned(), bytes.to_vec())));
    let options = Aicr { data: case.data.map(str::to_owned), ..Aicr::default() };
    let text = match load_with("-", &overrides(&case.set), &options, &mut files) {
        Ok(loaded) => format!("ok\n{}", loaded.warnings.render_plain()),
        Err(findings) => findings.render_plain(),
    };
    assert!(!text.contains("hunter2"), "{}: a secret is shown", case.name);
    format!("## {}\n{text}", case.name)
}

fn say(name: &str, cases: &[Case]) {
    let text: Vec<String> = cases.iter().map(said).collect();
    snapshot(name, &text.join("\n\n"));
}

#[test]
fn documents_that_are_no_recipe() {
    let head = |api_version: &str, kind: &str| {
        format!("kind: {kind}\napiVersion: {api_version}\ncomponentRefs:\n{OPERATOR}")
    };
    say(
        "aicr-documents",
        &[
            whole("the later format", &head("aicr.run/v1alpha2", "RecipeResult")),
            whole("a format that is not known", &head("aicr.run/v1alpha3", "RecipeResult")),
            whole("an overlay", &head("aicr.nvidia.com/v1alpha1", "RecipeMetadata")),
            whole("no version", &format!("kind: RecipeResult\ncomponentRefs:\n{OPERATOR}")),
            whole(
                "nothing",
                "kind: RecipeResult\napiVersion: aicr.nvidia.com/v1alpha1\ncomponentRefs: []\n",
            ),
            whole(
                "a key that is not known",
                &(head("aicr.run/v1alpha2", "RecipeResult") + "configuration: {a: 1}\n"),
            ),
            Case { set: vec![], ..case("no number of nodes", OPERATOR) },
        ],
    );
}

#[test]
fn values_files() {
    say(
        "aicr-values-files",
        &[
            Case { data: None, ..case("no directory", OPERATOR_FILE) },
            case("no such file", OPERATOR_FILE),
            with_file("not UTF-8", OPERATOR_FILE, VALUES, &[0xc3, 0x28]),
            with_file("not YAML", OPERATOR_FILE, VALUES, b"driver: [\n"),
            with_file("a key twice", OPERATOR_FILE, VALUES, b"driver: {}\ndriver: {}\n"),
            with_file("a list", OPERATOR_FILE, VALUES, b"- driver\n"),
            with_file("empty is fine", OPERATOR_FILE, VALUES, b"# nothing\n"),
            case(
                "out of the directory",
                "  - {name: gpu-operator, version: v26.3.1, valuesFile: ../secrets.yaml}\n",
            ),
            case("no text", "  - {name: gpu-operator, version: v26.3.1, valuesFile: [a]}\n"),
            with_file(
                "a version as a number",
                OPERATOR_FILE,
                VALUES,
                b"driver:\n  version: 570.10\n",
            ),
            with_file(
                "a version as a number, of an unknown chart",
                "  - {name: queue, chart: queue, source: https://charts.example.com, version: 1.0.0, namespace: queue, valuesFile: components/queue/values.yaml}\n",
                "data/components/queue/values.yaml",
                b"image: {tag: 1.10}\n",
            ),
            with_file(
                "a secret",
                OPERATOR_FILE,
                VALUES,
                b"driver: {env: [{name: TOKEN, value: hunter2}]}\ntoken: hunter2\n",
            ),
        ],
    );
}

#[test]
fn components() {
    say(
        "aicr-components",
        &[
            case("twice", &format!("{OPERATOR}{OPERATOR}")),
            case("without a name", "  - {version: v26.3.1}\n"),
            case(
                "not in the catalog and not described",
                &format!("{OPERATOR}  - {{name: queue, chart: queue, version: 1.0.0}}\n"),
            ),
            case(
                "not in the catalog, described",
                &format!(
                    "{OPERATOR}  - {{name: queue, chart: queue, source: 'oci://charts.example.com', version: 1.0.0, namespace: queue, dependencyRefs: [gpu-operator]}}\n"
                ),
            ),
            case(
                "described badly",
                "  - {name: queue, chart: a/queue, source: charts, version: latest, namespace: queue}\n",
            ),
            case("an unknown key", "  - {name: gpu-operator, version: v26.3.1, override: {}}\n"),
            case(
                "overrides that are not a map",
                "  - {name: gpu-operator, version: v26.3.1, overrides: [a]}\n",
            ),
            case("a chart version as a number", "  - {name: gpu-operator, version: 26.10}\n"),
            case("a version without its v", "  - {name: gpu-operator, version: 26.3.1}\n"),
            case(
                "a version that is not in the catalog",
                "  - {name: gpu-operator, version: 26.3.99}\n",
            ),
            case("another chart", "  - {name: gpu-operator, version: v26.3.1, chart: operator}\n"),
            case(
                "another repository",
                "  - {name: gpu-operator, version: v26.3.1, source: 'https://mirror.example.com/nvidia'}\n",
            ),
            case(
                "Kustomize",
                &format!(
                    "{OPERATOR}  - {{name: queue, type: Kustomize, source: 'https://git.example.com', tag: v1, path: deploy}}\n"
                ),
            ),
            case("patches", "  - {name: gpu-operator, version: v26.3.1, patches: [a.yaml]}\n"),
            case(
                "manifest files that are not there",
                "  - {name: gpu-operator, version: v26.3.1, preManifestFiles: [a.yaml], manifestFiles: [b.yaml]}\n",
            ),
            Case {
                data: None,
                ..case("manifest files without a directory", &with_manifest("manifests/a.yaml"))
            },
            case("a manifest file out of the directory", &with_manifest("../a.yaml")),
            with_file(
                "a manifest file with another name",
                &with_manifest("a.txt"),
                "data/a.txt",
                b"",
            ),
            Case {
                files: vec![("data/a/x.yaml", b""), ("data/b/x.yaml", b"")],
                ..case(
                    "two manifest files with one name",
                    "  - {name: gpu-operator, version: v26.3.1, manifestFiles: [a/x.yaml, b/x.yaml]}\n",
                )
            },
            with_file(
                "a Secret",
                &with_manifest("a.yaml"),
                "data/a.yaml",
                b"apiVersion: v1\nkind: Secret\nstringData: {a: hunter2}\n",
            ),
            with_file(
                "a CRD with other objects",
                &with_manifest("a.yaml"),
                "data/a.yaml",
                b"kind: CustomResourceDefinition\n---\nkind: ConfigMap\n",
            ),
            with_file(
                "a Helm hook on one line",
                &with_manifest("a.yaml"),
                "data/a.yaml",
                b"kind: Job\nmetadata: {annotations: {helm.sh/hook: test}}\n",
            ),
            with_file(
                "manifests without a chart and a namespace",
                "  - {name: queue, type: Helm, source: '', manifestFiles: [a.yaml]}\n",
                "data/a.yaml",
                b"kind: Job\n",
            ),
            case(
                "a switch that is none",
                "  - {name: gpu-operator, version: v26.3.1, overrides: {enabled: 'false'}}\n",
            ),
            case(
                "switched off",
                "  - {name: gpu-operator, version: v26.3.1}\n  - {name: aws-efa, overrides: {enabled: false}, tag: v1}\n",
            ),
            Case {
                set: vec!["cluster.gpuNodes=8", "components.queue.values.a=1"],
                ..case("an override for what is not there", OPERATOR)
            },
            case(
                "a key that only newer charts have lost",
                "  - {name: gpu-operator, version: v26.3.1, overrides: {cdi: {default: true}, dirver: {enabled: true}}}\n",
            ),
            case(
                "the upgrade policy goes where budgets are made from it",
                "  - {name: gpu-operator, version: v26.3.1, overrides: {driver: {upgradePolicy: {maxUnavailable: 0, waitForCompletion: {podSelector: a=b, timeoutSeconds: 0}}}}}\n",
            ),
        ],
    );
}

#[test]
fn order_and_facts() {
    let two = "  - {name: gpu-operator, version: v26.3.1}\n  - {name: nvidia-dra-driver-gpu, version: 25.12.0, dependencyRefs: [gpu-operator],\n     overrides: {nvidiaDriverRoot: /run/nvidia/driver, resources: {gpus: {enabled: false}}}}\n";
    let ordered = |order: &str| result(&format!("{two}deploymentOrder: {order}\n"));
    let constrained = |constraints: &str| format!("{}{constraints}\n", result(OPERATOR));
    say(
        "aicr-order-and-facts",
        &[
            case(
                "a dependency that is not there",
                "  - {name: gpu-operator, version: v26.3.1, dependencyRefs: [cert-manger]}\n",
            ),
            whole("an order of what is not there", &ordered("[gpu-operator, nvidia-dra-driver]")),
            whole("an order that leaves one out", &ordered("[gpu-operator]")),
            whole(
                "an order against a dependency",
                &ordered("[nvidia-dra-driver-gpu, gpu-operator]"),
            ),
            whole(
                "an order that names one twice",
                &ordered("[gpu-operator, gpu-operator, nvidia-dra-driver-gpu]"),
            ),
            case(
                "a circle",
                "  - {name: gpu-operator, dependencyRefs: [cert-manager]}\n  - {name: cert-manager, dependencyRefs: [gpu-operator]}\n",
            ),
            case(
                "dependencies that are not a list",
                "  - {name: gpu-operator, version: v26.3.1, dependencyRefs: cert-manager}\n",
            ),
            whole("an order that is not a list", &ordered("gpu-operator")),
            whole("an order of numbers", &ordered("[1]")),
            whole(
                "constraints that are not a list",
                &constrained("constraints: {K8s.server.version: '>= 1.32'}"),
            ),
            whole(
                "two constraints on one thing",
                &constrained(
                    "constraints: [{name: K8s.server.version, value: '>= 1.32'}, {name: K8s.server.version, value: '< 1.36'}]",
                ),
            ),
            whole(
                "no range of versions",
                &constrained("constraints: [{name: K8s.server.version, value: new}]"),
            ),
            whole(
                "constraints that nothing checks",
                &constrained("constraints: [{name: OS.release.ID, value: ubuntu}]"),
            ),
            whole(
                "a version that the recipe itself forbids",
                &constrained(
                    "validation: {deployment: {constraints: [{name: Deployment.gpu-operator.version, value: '>= v26.7.0'}]}}",
                ),
            ),
            whole(
                "what AICR left out",
                &constrained(
                    "metadata: {constraintWarnings: [{overlay: h100, reason: driver too old}]}",
                ),
            ),
        ],
    );
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

/// Merges AICR's values.
fn over(all: &mut Value, values: &Value) {
    match (all, values) {
        (Value::Object(all), Value::Object(values)) => {
            for (key, value) in values {
                over(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all, values) => *all = values.clone(),
    }
}

fn yaml_file(path: &str) -> Value {
    yaml::from_str(&std::fs::read_to_string(format!("{DATA}/{path}")).unwrap()).unwrap()
}

/// The values of the GPU Operator in an overlay of AICR, with those that it extends.
fn overlay_values(name: &str) -> Value {
    let mut overlays = vec![yaml_file(&format!("overlays/{name}.yaml"))];
    while let Some(base) = overlays.last().unwrap()["spec"]["base"].as_str() {
        overlays.push(yaml_file(&format!("overlays/{base}.yaml")));
    }
    overlays.push(yaml_file("overlays/base.yaml"));
    let references = overlays.iter().rev().filter_map(|overlay| {
        let references = overlay["spec"]["componentRefs"].as_array()?;
        references.iter().find(|reference| reference["name"] == "gpu-operator")
    });
    let references: Vec<&Value> = references.collect();
    let mut all = yaml_file("components/gpu-operator/values.yaml");
    let file = references.iter().rev().find_map(|reference| reference["valuesFile"].as_str());
    over(&mut all, &yaml_file(file.unwrap()));
    for overrides in references.iter().filter_map(|reference| reference.get("overrides")) {
        over(&mut all, overrides);
    }
    all
}

/// Each recipe of the library that names a leaf of AICR has the same driver, toolkit and
/// directories.
#[test]
fn library_recipes_agree_with_the_leaves_that_they_name() {
    const MARK: &str = "# Checked against NVIDIA AICR v0.11.1, ";
    let known = catalog::component("gpu-operator").unwrap();
    let mut checked = 0;
    for name in catalog::recipe_names() {
        let text = catalog::recipe(name).unwrap();
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(MARK)) else { continue };
        let leaf = line.strip_suffix(": driver, toolkit, directories.").unwrap();
        checked += 1;
        let recipe = load(name, &[], &mut FileSystemReader).unwrap().recipe;
        let own = recipe.components.iter().find(|one| one.name == "gpu-operator").unwrap();
        let aicr = overlay_values(leaf);
        let defaults = known.defaults(known.version(own.version.as_deref().unwrap()));
        for path in [
            "driver.enabled",
            "toolkit.enabled",
            "toolkit.installDir",
            "hostPaths.driverInstallDir",
        ] {
            let in_chart = catalog::lookup(defaults, path);
            let ours = catalog::lookup(&own.values, path).or(in_chart);
            let theirs = catalog::lookup(aicr.as_object().unwrap(), path).or(in_chart);
            assert_eq!(ours, theirs, "{name}: {path}");
        }
    }
    assert_eq!(checked, 10);
}
