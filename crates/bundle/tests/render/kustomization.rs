//! Bundles with a component that is a kustomization.

use std::fmt::Write as _;
use std::process::Command;

use bundle::images::images;
use bundle::{BundleInput, BundleTree, build, verify, write};
use catalog::hook_chart;
use deployer::{BundleSource, DEPLOYERS, Deployer, RenderError, SourceNeed};
use parity::{BundleFacts, DeployerFact, compare, read_facts};
use recipe::load::load;
use recipe::model::Recipe;
use recipe::read::FileSystemReader;
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::{Value, json};

use super::library::{REPOSITORY, planned};
use super::parity::{files, lines};
use super::tools::tool;

/// The deployers that can deploy a kustomization.
const ABLE: [&str; 3] = ["flux", "argocd", "argocd-helm"];

/// A recipe with the kustomization `queue`, and more of it.
fn recipe(more: &str) -> Recipe {
    recipe_with_name("queue", more)
}

fn recipe_with_name(name: &str, more: &str) -> Recipe {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("recipe.yaml");
    let mut text = String::from(
        "apiVersion: gpu-rollout.dev/v1\nkind: Recipe\nmetadata: {name: with-queue}\nextends: [base]\ncluster: {gpuNodes: 8}\ncomponents:\n",
    );
    write!(
        text,
        "  - name: {name}\n    namespace: jobs\n    kustomize: {{repository: 'https://git.example.com/queue.git', revision: v1.2.0, path: deploy/base}}\n{more}"
    )
    .unwrap();
    std::fs::write(&file, text).unwrap();
    load(file.to_str().unwrap(), &[], &mut FileSystemReader)
        .unwrap_or_else(|findings| panic!("{}", findings.render_plain()))
        .recipe
}

fn rendered(recipe: &Recipe, deployer: Deployer) -> Result<BundleTree, RenderError> {
    let source = BundleSource::new(REPOSITORY, "main", "bundles").unwrap();
    build(BundleInput {
        recipe,
        plan: &planned(recipe),
        options: &PlanOptions::default(),
        deployer,
        hook_chart: hook_chart::contents(),
        source: (deployer.source == SourceNeed::Rendered).then_some(&source),
    })
}

fn deployer(name: &str) -> Deployer {
    name.parse().unwrap()
}

fn object(tree: &BundleTree, path: &str) -> Value {
    let file = tree.files().find(|file| file.path == path).unwrap();
    serde_yaml::from_slice(&file.content).unwrap()
}

/// Returns the path of the only file of the deployer whose path ends like this.
fn path(tree: &BundleTree, end: &str) -> String {
    let mut paths = tree
        .files()
        .map(|file| &file.path)
        .filter(|path| path.ends_with(end) && !path.starts_with("00"));
    let path = paths.next().unwrap();
    assert_eq!(paths.next(), None, "{end}");
    path.clone()
}

#[test]
fn kustomization_means_the_same_with_every_able_deployer() {
    let recipe = recipe("");
    let facts: Vec<BundleFacts> = ABLE
        .into_iter()
        .map(|name| read_facts(&files(&rendered(&recipe, deployer(name)).unwrap())).unwrap())
        .collect();
    let parity = compare(&facts);
    assert_eq!(lines(&parity), "");
    for bundle in &facts {
        let queue = &bundle.releases["queue"];
        assert_eq!(
            (queue.kind, queue.namespace.as_str(), queue.chart.place.as_str()),
            ("kustomization", "jobs", "https://git.example.com/queue.git//deploy/base"),
            "{}",
            bundle.deployer
        );
        assert_eq!(queue.chart.version.as_deref(), Some("v1.2.0"));
        assert_eq!(queue.unmet_needs.len(), 0);
        assert_eq!(queue.prunes, DeployerFact::Is(true));
    }
}

#[test]
fn helm_and_helmfile_refuse_a_kustomization() {
    for name in ["helm", "helmfile"] {
        let error = rendered(&recipe(""), deployer(name)).unwrap_err().to_string();
        assert!(error.contains("cannot deploy `queue`: it is a kustomization"), "{error}");
    }
    assert_eq!(DEPLOYERS.len(), ABLE.len() + 2);
}

#[test]
fn flux_refuses_names_of_its_other_kustomizations() {
    for name in ["gpu-rollout", "flux-system"] {
        let recipe = recipe_with_name(name, "");
        let error = rendered(&recipe, deployer("flux")).unwrap_err().to_string();
        assert!(error.contains(&format!("cannot deploy `{name}`: Flux has")), "{error}");
        rendered(&recipe, deployer("argocd")).unwrap();
    }
}

#[test]
fn flux_refuses_order_between_charts_and_kustomizations() {
    for more in ["    after: [gpu-operator]\n", "  - name: gpu-operator\n    after: [queue]\n"] {
        let recipe = recipe(more);
        let error = rendered(&recipe, deployer("flux")).unwrap_err().to_string();
        assert!(error.contains("Flux has no dependency between them"), "{error}");
        for name in ["argocd", "argocd-helm"] {
            rendered(&recipe, deployer(name)).unwrap();
        }
    }
}

#[test]
fn argocd_waits_as_recipe_says() {
    let wave = |recipe: &Recipe, name: &str| -> i64 {
        let tree = rendered(recipe, deployer("argocd")).unwrap();
        let application = object(&tree, &path(&tree, &format!("-{name}.yaml")));
        let wave = &application["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"];
        wave.as_str().unwrap().parse().unwrap()
    };
    // The first wave creates the namespaces.
    assert_eq!(wave(&recipe(""), "queue"), 1);
    let later = recipe("    after: [gpu-operator]\n");
    assert!(wave(&later, "queue") > wave(&later, "gpu-operator-post"));
}

#[test]
fn flux_makes_kustomizations_wait_for_each_other() {
    let recipe = recipe(
        "  - {name: jobs, namespace: jobs, after: [queue], kustomize: {repository: 'ssh://git@git.example.com/jobs', revision: bc05c6be7859cee7ce6680b93333ed03ba795f88, path: .}}\n",
    );
    let tree = rendered(&recipe, deployer("flux")).unwrap();
    let kustomization = object(&tree, &path(&tree, "-jobs.yaml"));
    let spec = &kustomization["spec"];
    assert_eq!(spec["dependsOn"][0]["name"], "queue");
    assert_eq!(spec["path"], "./.");
    let source = spec["sourceRef"]["name"].as_str().unwrap();
    let source = object(&tree, &format!("sources/{source}.yaml"));
    assert_eq!(
        source["spec"]["ref"],
        json!({"commit": "bc05c6be7859cee7ce6680b93333ed03ba795f88"})
    );
    let facts = read_facts(&files(&tree)).unwrap();
    assert!(facts.releases["jobs"].after.releases.contains("queue"));
}

/// Without the label, `dependsOn` would be satisfied by the state before a commit.
#[test]
fn parity_finds_kustomizations_that_do_not_wait_for_the_same_bundle() {
    let recipe = recipe(
        "  - {name: jobs, namespace: jobs, after: [queue], kustomize: {repository: 'https://git.example.com/jobs', revision: v1, path: .}}\n",
    );
    let tree = rendered(&recipe, deployer("flux")).unwrap();
    let mut texts = files(&tree);
    let path = path(&tree, "kustomizeconfig.yaml");
    let text = texts.get(&path).unwrap().replace("kind: Kustomization\n", "kind: Other\n");
    assert_ne!(Some(text.as_str()), texts.get(&path));
    texts = files(&tree)
        .iter()
        .map(|(path, text)| (path.to_owned(), text.to_owned()))
        .chain([(path.clone(), text)])
        .collect();
    let facts = read_facts(&texts).unwrap();
    assert!(facts.releases["jobs"].unmet_needs.contains("queue"));
}

/// Regression: the pages left out kustomizations and manifests, which kept running.
#[test]
fn uninstall_of_argocd_names_every_release_that_goes() {
    let recipe = recipe(
        "  - name: gpu-operator\n    manifests: {own.yaml: {when: after, template: 'kind: ConfigMap'}}\n",
    );
    let releases = planned(&recipe).releases;
    for name in ["argocd", "argocd-helm"] {
        let tree = rendered(&recipe, deployer(name)).unwrap();
        let page = std::str::from_utf8(&tree.get("README.md").unwrap().content).unwrap();
        let is_named = |release: &str| {
            page.contains(&format!("argocd app delete with-queue-{release} --cascade --wait\n"))
        };
        for release in &releases {
            assert_eq!(is_named(&release.name), !release.kind.stays(), "{name}: {}", release.name);
        }
        assert!(is_named("queue") && is_named("gpu-operator-manifests"), "{name}");
    }
}

#[test]
fn images_and_mirrors_of_a_kustomization_are_unknown() {
    let recipe = recipe("");
    let options = PlanOptions {
        registry_mirrors: vec!["mirror.example.com".parse().unwrap()],
        ..PlanOptions::default()
    };
    let plan = plan(&recipe, &EmbeddedCatalog, &options).unwrap();
    assert!(
        plan.notes.iter().any(|note| note.starts_with("queue: images of a kustomization")),
        "{:?}",
        plan.notes
    );
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    write(&rendered(&recipe, deployer("argocd")).unwrap(), &bundle, false).unwrap();
    assert_eq!(verify(&bundle).unwrap(), []);
    let unknown = images(&bundle).unwrap().unknown;
    assert!(unknown.iter().any(|one| one.starts_with("queue: a kustomization")), "{unknown:?}");
}

#[test]
#[ignore = "needs kustomize (make e2e)"]
fn kustomize_names_the_bundle_in_every_kustomization() {
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    write(&rendered(&recipe(""), deployer("flux")).unwrap(), &bundle, false).unwrap();
    let output = Command::new(tool("kustomize")).arg("build").arg(&bundle).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let objects: Vec<Value> =
        serde_yaml::from_multiple(&String::from_utf8(output.stdout).unwrap()).unwrap();
    let label = |kind: &str| {
        let object = objects.iter().find(|object| object["kind"] == kind).unwrap();
        object["metadata"]["labels"]["gpu-rollout.dev/bundle"].as_str().unwrap().to_owned()
    };
    assert_eq!(label("Kustomization"), label("HelmRelease"));
    assert_ne!(label("Kustomization"), "gpu-rollout-bundle");
}
