//! All possible mistakes in recipes of NVIDIA AICR, with their messages.

use std::collections::BTreeMap;

use recipe::aicr::AicrOptions as Aicr;
use recipe::load::load_with;
use recipe::read::{ReadError, TextReader};

use super::{overrides, snapshot};

/// A result with these components.
pub(super) fn result(components: &str) -> String {
    format!(
        "kind: RecipeResult\napiVersion: aicr.nvidia.com/v1alpha1\ncomponentRefs:\n{components}"
    )
}

/// Files in memory.
pub(super) struct Fake(BTreeMap<String, Vec<u8>>);

impl Fake {
    pub(super) fn new(files: &[(&str, &str)]) -> Self {
        Self(
            files
                .iter()
                .map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec()))
                .collect(),
        )
    }

    pub(super) fn input(text: &str) -> Self {
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
                "a kustomization",
                &format!(
                    "{OPERATOR}  - {{name: queue, type: Kustomize, source: 'https://git.example.com/a', tag: v1, path: deploy, namespace: queue, patches: []}}\n"
                ),
            ),
            case(
                "a kustomization without a source, with keys that AICR ignores",
                &format!(
                    "{OPERATOR}  - {{name: queue, type: kustomize, patches: [a.yaml], valuesFile: a.yaml, overrides: {{enabled: true, a: 1}}}}\n"
                ),
            ),
            case(
                "a kustomization that is in the catalog",
                "  - {name: gpu-operator, type: Kustomize, source: 'https://git.example.com/a', tag: v1, path: a, namespace: a}\n",
            ),
            case("an unknown type", "  - {name: gpu-operator, version: v26.3.1, type: Jsonnet}\n"),
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
