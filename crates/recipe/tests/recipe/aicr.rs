//! Tests of the import of NVIDIA AICR's recipes: real ones, and all possible mistakes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use std::collections::BTreeMap;

use bundle::{BundleInput, build};
use catalog::hook_chart;
use deployer::{BundleSource, DEPLOYERS, SourceNeed};
use recipe::aicr::AicrOptions as Aicr;
use recipe::explain::explain;
use recipe::load::{ValidRecipe, load, load_with};
use recipe::overrides::ValueOverride;
use recipe::read::{FileSystemReader, ReadError, TextReader};
use release::{EmbeddedCatalog, PlanOptions, plan};

const DATA: &str = "tests/data/aicr-v0.11.1";

fn overrides(texts: &[&str]) -> Vec<ValueOverride> {
    texts.iter().map(|text| text.parse().expect("the tests write PATH=VALUE")).collect()
}

fn options(fix_dead_keys: bool) -> Aicr {
    Aicr { data: Some(DATA.to_owned()), fix_dead_keys, without_manifests: true }
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

#[test]
fn every_real_result_renders_for_every_deployer() {
    assert_eq!(names().len(), 9);
    for name in names() {
        let recipe = real(&name, false).recipe;
        let plan = plan(&recipe, &EmbeddedCatalog, &PlanOptions::default())
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        for deployer in DEPLOYERS {
            let source =
                BundleSource::new("https://git.example.com/fleet.git", "main", "bundles").unwrap();
            let source = (deployer.source == SourceNeed::Rendered).then_some(&source);
            let options = PlanOptions::default();
            let parts = BundleInput {
                recipe: &recipe,
                plan: &plan,
                options: &options,
                deployer: *deployer,
                hook_chart: hook_chart::FILES,
                source,
            };
            assert!(build(parts).is_ok(), "{name} with {deployer}");
        }
    }
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

/// Without `--without-manifests`, every result with manifest files is refused.
#[test]
fn manifest_files_are_never_dropped_silently() {
    for name in names() {
        let options = Aicr { without_manifests: false, ..options(false) };
        let path = format!("{DATA}/recipe-results/{name}.yaml");
        let said =
            load_with(&path, &overrides(&["cluster.gpuNodes=8"]), &options, &mut FileSystemReader)
                .unwrap_err()
                .render_plain();
        let text = std::fs::read_to_string(&path).unwrap();
        let files: Vec<&str> =
            text.lines().filter_map(|line| line.trim().strip_prefix("- components/")).collect();
        assert!(!files.is_empty(), "{name}");
        for file in files {
            assert!(said.contains(&format!("`components/{file}`")), "{name}: nothing about {file}");
        }
    }
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
                "manifest files",
                "  - {name: gpu-operator, version: v26.3.1, preManifestFiles: [a.yaml], manifestFiles: [b.yaml]}\n",
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
    let operator = plan.releases.iter().find(|release| release.name == "gpu-operator").unwrap();
    // `skyhook-customizations` has nothing but manifest files; what it waits for, the operator
    // waits for now.
    assert!(operator.needs.contains(&"skyhook-operator".to_owned()), "{:?}", operator.needs);
    assert!(operator.needs.contains(&"kube-prometheus-stack".to_owned()), "{:?}", operator.needs);
}
