//! Bundles of NVIDIA AICR's own results, as they are.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use bundle::images::images;
use bundle::{BundleInput, build, read, verify, write};
use catalog::hook_chart;
use deployer::layout::{folders, values_of};
use deployer::{BundleSource, DEPLOYERS, SourceNeed};
use parity::{BundleFacts, compare, read_facts};
use recipe::aicr::AicrOptions;
use recipe::load::load_with;
use recipe::model::Recipe;
use recipe::read::FileSystemReader;
use release::model::{ReleaseKind, TemplatesRelease};
use release::{EmbeddedCatalog, PlanOptions, Release, ReleasePlan, plan};
use serde_json::{Value, json};

use super::helm::{helm, program};

/// The data of AICR; `PROVENANCE.md` in it says where it comes from.
const DATA: &str = "../recipe/tests/data/aicr-v0.11.1";

/// Returns the names of AICR's results.
fn names() -> Vec<String> {
    let files = fs::read_dir(format!("{DATA}/recipe-results")).unwrap();
    let name = |path: &Path| path.file_stem().unwrap().to_str().unwrap().to_owned();
    let mut names: Vec<String> = files.map(|file| name(&file.unwrap().path())).collect();
    names.sort();
    names
}

/// Returns a result as a recipe, with `--data` and `--set cluster.gpuNodes=8`.
fn recipe(name: &str) -> Recipe {
    let path = format!("{DATA}/recipe-results/{name}.yaml");
    let options = AicrOptions { data: Some(DATA.to_owned()), ..AicrOptions::default() };
    let nodes = "cluster.gpuNodes=8".parse().unwrap();
    load_with(&path, &[nodes], &options, &mut FileSystemReader)
        .unwrap_or_else(|findings| panic!("{name}: {}", findings.render_plain()))
        .recipe
}

fn planned(recipe: &Recipe, options: &PlanOptions) -> ReleasePlan {
    plan(recipe, &EmbeddedCatalog, options).unwrap()
}

/// Writes the bundle for a deployer, verifies it, and returns its facts.
fn facts(recipe: &Recipe, plan: &ReleasePlan, at: usize, directory: &Path) -> BundleFacts {
    let (deployer, options) = (DEPLOYERS[at], PlanOptions::default());
    let source = BundleSource::new("https://git.example.com/fleet.git", "main", "bundles").unwrap();
    let source = (deployer.source == SourceNeed::Rendered).then_some(&source);
    let hook_chart = hook_chart::contents();
    let input = BundleInput { recipe, plan, options: &options, deployer, hook_chart, source };
    let bundle = directory.join(deployer.name);
    write(&build(input).unwrap(), &bundle, false).unwrap();
    assert_eq!(verify(&bundle).unwrap(), [], "{} with {deployer}", recipe.metadata.name);
    read_facts(&read(&bundle).unwrap()).unwrap()
}

#[test]
fn results_verify_and_are_equal_for_every_deployer() {
    let names = names();
    assert_eq!(names.len(), 9);
    for name in names {
        let recipe = recipe(&name);
        let plan = planned(&recipe, &PlanOptions::default());
        let directory = tempfile::tempdir().unwrap();
        let facts: Vec<BundleFacts> = std::thread::scope(|scope| {
            let render = |at| {
                let (recipe, plan, directory) = (&recipe, &plan, directory.path());
                scope.spawn(move || facts(recipe, plan, at, directory))
            };
            let running: Vec<_> = (0..DEPLOYERS.len()).map(render).collect();
            running.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(compare(&facts).differences, [], "{name}");
    }
}

/// Returns the templates of a release.
fn templates<'a>(plan: &'a ReleasePlan, name: &str) -> &'a TemplatesRelease {
    let release = plan.releases.iter().find(|release| release.name == name);
    let Some(ReleaseKind::Templates(templates)) = release.map(|release| &release.kind) else {
        panic!("{name}: no manifests")
    };
    templates
}

#[test]
fn crds_of_manifests_are_released_as_crds() {
    let plan = planned(&recipe("aks-inference"), &PlanOptions::default());
    let find = |name: &str| plan.releases.iter().find(|release| release.name == name);
    let ReleaseKind::Crds(crds) = &find("kgateway-crds-crds").unwrap().kind else {
        panic!("no CRDs")
    };
    assert_eq!(crds.crds.len(), 10);
    let chart = find("kgateway-crds").unwrap();
    // The chart has CRDs of its own, which the catalog does not have.
    assert!(!chart.kind.upstream().unwrap().skip_crds);
    assert!(chart.needs.contains(&"kgateway-crds-crds".to_owned()));
    assert!(find("kgateway-crds-manifests").is_none());
}

#[test]
fn images_of_manifests_are_listed() {
    let recipe = recipe("h100-gke-cos-training");
    let plan = planned(&recipe, &PlanOptions::default());
    let directory = tempfile::tempdir().unwrap();
    facts(&recipe, &plan, 0, directory.path());
    let found = images(&directory.path().join(DEPLOYERS[0].name)).unwrap();
    let of = |release: &str| -> Vec<String> {
        let images = found.images.iter().filter(|image| image.release == release);
        images.map(release::images::LocatedImage::reference).collect()
    };
    assert_eq!(
        of("gke-nccl-tcpxo"),
        [
            "ubuntu",
            "us-docker.pkg.dev/gce-ai-infra/gpudirect-tcpxo/nccl-plugin-gpudirecttcpx-dev:v1.0.15",
            "gke.gcr.io/pause@sha256:880e63f94b145e46f1b1082bb71b85e21f16b99b180b9996407d61240ceb9830",
            "gcr.io/gke-release/nri-device-injector@sha256:7704e2bd74b8edbb76b6913c7904cc2362f1fa887c4d4aba7b19778ea353537c",
        ]
    );
    assert_eq!(
        of("skyhook-customizations"),
        ["ghcr.io/nvidia/skyhook-packages/nvidia-tuning-gke:0.1.1"]
    );
}

#[test]
fn images_of_manifests_are_mirrored() {
    let options = PlanOptions {
        registry_mirrors: vec!["mirror.example.com".parse().unwrap()],
        pull_secrets: vec!["pull".to_owned()],
        ..PlanOptions::default()
    };
    let plan = planned(&recipe("h100-gke-cos-training"), &options);
    let injector = &templates(&plan, "gke-nccl-tcpxo").files["nri-device-injector.yaml"];
    assert!(
        injector.contains("image: \"mirror.example.com/gke-release/nri-device-injector@sha256:")
    );
    assert!(plan.notes.iter().any(|note| note.starts_with("gke-nccl-tcpxo: pods of manifests")));
}

/// Evaluates a template with Helm as if AICR did: in a chart with the component's chart name and
/// version, and with the values below the component's name.
fn as_aicr(release: &Release, templates: &TemplatesRelease, values: &Value) -> Vec<Value> {
    let chart = tempfile::tempdir().unwrap();
    let put = |path: &str, text: &str| fs::write(chart.path().join(path), text).unwrap();
    fs::create_dir(chart.path().join("templates")).unwrap();
    let head =
        json!({"apiVersion": "v2", "name": templates.chart, "version": templates.chart_version});
    put("Chart.yaml", &head.to_string());
    put("values.yaml", &json!({&templates.component: values}).to_string());
    for (file, text) in &templates.files {
        let lines = text
            .lines()
            .filter(|line| !line.trim_start().trim_start_matches('"').starts_with("helm.sh/hook"));
        put(&format!("templates/{file}"), &(lines.collect::<Vec<_>>().join("\n") + "\n"));
    }
    let text = helm(
        program(),
        chart.path(),
        &["template", &release.name, ".", "--namespace", &release.namespace],
    );
    sorted(&text)
}

fn sorted(text: &str) -> Vec<Value> {
    let objects: Vec<Value> = serde_yaml::from_multiple(text).unwrap();
    let name = |object: &Value| format!("{} {}", object["kind"], object["metadata"]["name"]);
    let by_name: BTreeMap<String, Value> =
        objects.into_iter().map(|object| (name(&object), object)).collect();
    by_name.into_values().filter(|object| !object.is_null()).collect()
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helm_evaluates_manifests_as_aicr_gives_them() {
    let mut evaluated = 0;
    for name in names() {
        let recipe = recipe(&name);
        let plan = planned(&recipe, &PlanOptions::default());
        let directory = tempfile::tempdir().unwrap();
        facts(&recipe, &plan, 0, directory.path());
        let bundle = directory.path().join(DEPLOYERS[0].name);
        for (folder, release) in folders(&plan) {
            let ReleaseKind::Templates(templates) = &release.kind else { continue };
            let component = plan.releases.iter().find(|one| one.name == templates.component);
            let upstream = component.and_then(|component| component.kind.upstream());
            let mut values = upstream.map(|upstream| json!(upstream.values)).unwrap_or(json!({}));
            merge(&mut values, &json!(templates.values));
            let shared = values_of(&plan, release);
            let shared = shared.iter().flat_map(|file| ["--values", file]);
            let arguments = ["template", &release.name, &folder, "--namespace", &release.namespace];
            let arguments: Vec<&str> = arguments.into_iter().chain(shared).collect();
            let found = sorted(&helm(program(), &bundle, &arguments));
            assert_eq!(found, as_aicr(release, templates, &values), "{name}: {folder}");
            evaluated += found.len();
        }
    }
    assert!(evaluated > 20, "{evaluated}");
}

fn merge(all: &mut Value, values: &Value) {
    match (all, values) {
        (Value::Object(all), Value::Object(values)) => {
            for (key, value) in values {
                merge(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all, values) => *all = values.clone(),
    }
}
