//! Tests of bundles for Argo CD: every object against the CRDs, and known traps of Argo CD.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bundle::{BundleInput, BundleTree, build};
use catalog::{self, hook_chart};
use deployer::argocd_application::waves;
use deployer::layout::{folders, values_of};
use deployer::{BundleSource, RenderError};
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, Release, ReleasePlan, plan};
use serde_json::{Value, json};

use super::crd_schema::Schemas;
use super::library;

mod registry;
mod umbrella;

const REPOSITORY: &str = "https://git.example.com/fleet.git";

/// A rendered bundle with its input.
pub(crate) struct Scene {
    pub(crate) name: String,
    pub(crate) plan: ReleasePlan,
    pub(crate) tree: BundleTree,
}

/// Returns the bundles of every recipe.
pub(crate) fn scenes() -> &'static [Scene] {
    static SCENES: OnceLock<Vec<Scene>> = OnceLock::new();
    SCENES.get_or_init(|| {
        catalog::recipe_names()
            .map(|name| scene(name, REPOSITORY, "clusters/a", &PlanOptions::default()).unwrap())
            .collect()
    })
}

fn scene(name: &str, url: &str, path: &str, options: &PlanOptions) -> Result<Scene, RenderError> {
    scene_of("argocd", name, &BundleSource::new(url, "v1.2.0", path).unwrap(), options)
}

fn scene_of(
    deployer: &str,
    name: &str,
    source: &BundleSource,
    options: &PlanOptions,
) -> Result<Scene, RenderError> {
    let recipe = library::recipe(name);
    let plan = plan(&recipe, &EmbeddedCatalog, options).unwrap();
    let parts = BundleInput {
        recipe: &recipe,
        plan: &plan,
        options,
        deployer: deployer.parse().unwrap(),
        hook_chart: hook_chart::contents(),
        source: Some(source),
    };
    let tree = build(parts)?;
    Ok(Scene { name: recipe.metadata.name.clone(), plan, tree })
}

/// Returns options that replace the catalog's repository `nvidia`.
fn nvidia_from(url: &str) -> PlanOptions {
    PlanOptions {
        chart_repositories: BTreeMap::from([("nvidia".to_owned(), url.to_owned())]),
        ..PlanOptions::default()
    }
}

impl Scene {
    fn read(&self, path: &str) -> Value {
        yaml::from_str(std::str::from_utf8(&self.tree.get(path).unwrap().content).unwrap()).unwrap()
    }

    fn application(&self, folder: &str) -> Value {
        self.read(&format!("apps/{folder}.yaml"))
    }

    fn applications(&self) -> Vec<(&Release, Value)> {
        folders(&self.plan).map(|(folder, release)| (release, self.application(&folder))).collect()
    }

    /// Returns all objects of Argo CD.
    pub(crate) fn objects(&self) -> Vec<Value> {
        let mut objects: Vec<Value> =
            self.applications().into_iter().map(|(_, application)| application).collect();
        objects
            .extend(["root.yaml", "root-project.yaml", "project.yaml"].map(|path| self.read(path)));
        objects
    }
}

fn is_hook(release: &Release) -> bool {
    matches!(release.kind, ReleaseKind::Hook(_))
}

/// Returns the sources of an Application, which has one or several.
fn sources(application: &Value) -> Vec<&Value> {
    let spec = &application["spec"];
    spec.get("source").into_iter().chain(spec["sources"].as_array().into_iter().flatten()).collect()
}

#[test]
fn every_object_fits_its_crd() {
    let schemas = Schemas::load("argo-cd");
    for scene in scenes() {
        for object in scene.objects() {
            assert_eq!(
                schemas.judge(&object),
                [] as [String; 0],
                "{}: {}",
                scene.name,
                object["metadata"]["name"]
            );
        }
    }
    let mut wrong = scenes()[0].objects().remove(0);
    wrong["spec"]["syncPolicy"]["retry"]["limit"] = json!("two");
    wrong["spec"]["sources"] = json!([{"chart": "a"}]);
    assert_eq!(schemas.judge(&wrong).len(), 2);
}

#[test]
fn trap_argocd_waves_follow_needs() {
    for scene in scenes() {
        let planned = waves(&scene.plan);
        let found: BTreeMap<String, i64> = scene
            .applications()
            .into_iter()
            .map(|(release, application)| {
                let wave = application["metadata"]["annotations"]["argocd.argoproj.io/sync-wave"]
                    .as_str()
                    .unwrap()
                    .parse()
                    .unwrap();
                (release.name.clone(), wave)
            })
            .collect();
        for release in &scene.plan.releases {
            for need in &release.needs {
                assert!(
                    found[need] < found[&release.name],
                    "{}: {} does not come after {need}",
                    scene.name,
                    release.name
                );
            }
            assert_eq!(
                found[&release.name],
                i64::try_from(planned[release.name.as_str()]).unwrap()
            );
        }
    }
}

#[test]
fn trap_argocd_component_and_hook_share_values() {
    for scene in scenes() {
        for (folder, release) in folders(&scene.plan) {
            let application = scene.application(&folder);
            for source in sources(&application) {
                for inlined in ["values", "valuesObject", "parameters", "fileParameters"] {
                    assert_eq!(source["helm"].get(inlined), None, "{}: {folder}", scene.name);
                }
            }
            let files: Vec<&str> = sources(&application)[0]["helm"]["valueFiles"]
                .as_array()
                .map(|files| files.iter().map(|file| file.as_str().unwrap()).collect())
                .unwrap_or_default();
            let shared =
                values_of(&scene.plan, release).into_iter().map(|file| format!("../{file}"));
            let expected: Vec<String> = match &release.kind {
                ReleaseKind::Upstream(_) => {
                    vec![format!("$values/clusters/a/{folder}/values.yaml")]
                }
                ReleaseKind::Hook(_) => shared.chain(["rollout.yaml".to_owned()]).collect(),
                ReleaseKind::Templates(_) => shared.collect(),
                ReleaseKind::Crds(_)
                | ReleaseKind::Kustomization(_)
                | ReleaseKind::Manifests(_) => Vec::new(),
            };
            assert_eq!(files, expected, "{}: {folder}", scene.name);
            for file in files {
                let file = file.trim_start_matches("$values/clusters/a/").trim_start_matches("../");
                let inside = format!("{folder}/{file}");
                assert!(
                    scene.tree.get(file).or(scene.tree.get(&inside)).is_some(),
                    "{}: {folder} reads `{file}`",
                    scene.name
                );
            }
        }
    }
}

#[test]
fn trap_argocd_self_heal_and_pruning_are_off() {
    for scene in scenes() {
        for object in scene.objects().iter().filter(|object| object["kind"] == "Application") {
            assert_eq!(
                object["spec"]["syncPolicy"]["automated"],
                json!({"prune": false, "selfHeal": false}),
                "{}",
                scene.name
            );
            assert_eq!(
                object["metadata"].get("finalizers"),
                None,
                "{}: deleting it would delete what it deployed",
                scene.name
            );
        }
    }
}

#[test]
fn trap_argocd_retries_are_explicit() {
    for scene in scenes() {
        for (release, application) in scene.applications() {
            let retry = &application["spec"]["syncPolicy"]["retry"];
            assert_eq!(
                retry["limit"],
                if is_hook(release) { 2 } else { 5 },
                "{}: {}",
                scene.name,
                release.name
            );
            assert!(retry["backoff"]["maxDuration"].is_string());
        }
    }
}

#[test]
fn trap_argocd_manifest_generate_paths_hide_shared_values() {
    for scene in scenes() {
        for object in scene.objects() {
            assert!(!object.to_string().contains("manifest-generate-paths"), "{}", scene.name);
        }
    }
}

#[test]
fn trap_argocd_hook_applications_have_a_plain_object() {
    // Without one, Argo CD never finds the Application out of sync.
    let trigger =
        hook_chart::FILES.iter().find(|(path, _)| *path == "templates/trigger.yaml").unwrap().1;
    assert!(trigger.contains("kind: ConfigMap") && !trigger.contains("helm.sh/hook"));
}

#[test]
fn trap_argocd_crds_have_one_writer() {
    for scene in scenes() {
        for (release, application) in scene.applications() {
            if let ReleaseKind::Upstream(upstream) = &release.kind {
                let options = &application["spec"]["syncPolicy"]["syncOptions"];
                let skips_dry_run = options
                    .as_array()
                    .unwrap()
                    .contains(&json!("SkipDryRunOnMissingResource=true"));
                assert_eq!(
                    sources(&application)[0]["helm"].get("skipCrds"),
                    upstream.skip_crds.then_some(&json!(true)),
                    "{}",
                    scene.name
                );
                assert_eq!(skips_dry_run, upstream.skip_crds, "{}: {}", scene.name, release.name);
            }
        }
    }
}

#[test]
fn trap_argocd_crds_need_server_side_apply() {
    for scene in scenes() {
        for (release, application) in scene.applications() {
            let options =
                application["spec"]["syncPolicy"]["syncOptions"].as_array().unwrap().clone();
            assert!(
                options.contains(&json!("ServerSideApply=true")),
                "{}: {}",
                scene.name,
                release.name
            );
            for wrong in ["CreateNamespace=true", "Replace=true", "ApplyOutOfSyncOnly=true"] {
                assert!(
                    !options.contains(&json!(wrong)),
                    "{}: {}: {wrong}",
                    scene.name,
                    release.name
                );
            }
        }
    }
}

/// Argo CD omits empty fields when it records what it compared, so an empty field would make the
/// health check wait forever.
#[test]
fn trap_argocd_sources_have_no_empty_fields() {
    fn empty(value: &Value) -> bool {
        match value {
            Value::Null => true,
            Value::Bool(value) => !value,
            Value::String(text) => text.is_empty(),
            Value::Array(items) => items.is_empty() || items.iter().any(empty),
            Value::Object(fields) => fields.is_empty() || fields.values().any(empty),
            Value::Number(_) => false,
        }
    }
    for scene in scenes() {
        for (release, application) in scene.applications() {
            assert!(
                !sources(&application).into_iter().any(empty),
                "{}: {}",
                scene.name,
                release.name
            );
        }
    }
}

#[test]
fn trap_argocd_run_record_is_never_written_back() {
    for scene in scenes() {
        for (release, application) in scene.applications() {
            let options = application["spec"]["syncPolicy"]["syncOptions"].to_string();
            assert!(
                !options.contains("RespectIgnoreDifferences"),
                "{}: {}",
                scene.name,
                release.name
            );
            let ignored = &application["spec"]["ignoreDifferences"];
            if is_hook(release) {
                assert_eq!(ignored[0]["name"], format!("{}-record", release.name));
                assert_eq!(ignored[0]["jsonPointers"], json!(["/data"]));
            } else if !ignored.is_null() {
                assert_eq!(ignored[0]["managedFieldsManagers"], json!(["gpu-rollout"]));
            }
        }
    }
}

#[test]
fn trap_argocd_names_are_unique_but_releases_keep() {
    for scene in scenes() {
        let mut names = Vec::new();
        for (release, application) in scene.applications() {
            assert_eq!(sources(&application)[0]["helm"]["releaseName"], release.name);
            assert_eq!(application["spec"]["destination"]["namespace"], release.namespace);
            names.push(application["metadata"]["name"].as_str().unwrap().to_owned());
            assert_eq!(names.last().unwrap(), &format!("{}-{}", scene.name, release.name));
        }
        names.push(scene.read("root.yaml")["metadata"]["name"].as_str().unwrap().to_owned());
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count, "{}", scene.name);
    }
}

#[test]
fn trap_argocd_project_allows_only_what_is_used() {
    for scene in scenes() {
        let project = scene.read("project.yaml");
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let mut allowed: Vec<String> =
            project["spec"]["sourceRepos"].as_array().unwrap().iter().map(text).collect();
        let applications = scene.applications();
        let mut used: Vec<String> = applications
            .iter()
            .flat_map(|(_, application)| sources(application))
            .map(|source| text(&source["repoURL"]))
            .collect();
        for list in [&mut allowed, &mut used] {
            list.sort();
            list.dedup();
        }
        assert_eq!(allowed, used, "{}", scene.name);
        for (_, application) in &applications {
            assert_eq!(application["spec"]["project"], project["metadata"]["name"]);
            let destinations = project["spec"]["destinations"].as_array().unwrap();
            assert!(destinations.contains(&application["spec"]["destination"]), "{}", scene.name);
        }
        assert_eq!(
            scene.read("root.yaml")["spec"]["project"],
            scene.read("root-project.yaml")["metadata"]["name"]
        );
    }
}

#[test]
fn project_names_cluster_kinds_if_crds_are_known() {
    let scene = scenes().iter().find(|scene| scene.name == "base").unwrap();
    let kinds = scene.read("project.yaml")["spec"]["clusterResourceWhitelist"].clone();
    let kinds = kinds.as_array().unwrap();
    assert!(kinds.contains(&json!({"group": "nvidia.com", "kind": "ClusterPolicy"})), "{kinds:?}");
    assert!(kinds.contains(&json!({"group": "", "kind": "Namespace"})));
    assert!(!kinds.contains(&json!({"group": "*", "kind": "*"})));
}

/// Regression: the chart of the GPU Operator contains rules for NFD (`nfd.nodefeaturerules`), even
/// if the NFD is not in the bundle. Argo CD refused to sync them.
#[test]
fn project_allows_node_feature_rules_of_the_operator() {
    let rule = json!({"group": "nfd.k8s-sigs.io", "kind": "NodeFeatureRule"});
    let any = json!({"group": "*", "kind": "*"});
    for scene in scenes() {
        let project = scene.read("project.yaml");
        let kinds = project["spec"]["clusterResourceWhitelist"].as_array().unwrap();
        assert!(kinds.contains(&rule) || kinds.contains(&any), "{}", scene.name);
    }
}

/// A chart whose CRDs the catalog does not know would need every cluster-scoped kind.
#[test]
fn project_of_no_library_recipe_allows_every_kind() {
    for name in catalog::recipe_names() {
        let tree = library::bundle(name, "argocd".parse().unwrap());
        let project = tree.get("project.yaml").unwrap();
        let project: Value =
            yaml::from_str(std::str::from_utf8(&project.content).unwrap()).unwrap();
        let kinds = project["spec"]["clusterResourceWhitelist"].as_array().unwrap();
        assert!(!kinds.contains(&json!({"group": "*", "kind": "*"})), "{name}");
    }
}

#[test]
fn trap_argocd_health_checks_the_operation_too() {
    let health: Value = yaml::from_str(deployer::argocd_application::HEALTH_TEXT).unwrap();
    let lua =
        health["data"]["resource.customizations.health.argoproj.io_Application"].as_str().unwrap();
    for field in ["operationState", "comparedTo", "syncResult", "sync.status", "obj.operation"] {
        assert!(lua.contains(field), "{field}");
    }
    assert!(
        lua.contains(r#"last == nil and labels["gpu-rollout.dev/kind"] ~= "hook" and sync.status == "Synced""#),
        "a hook must have run"
    );
    for scene in scenes() {
        for (release, application) in scene.applications() {
            let labels = &application["metadata"]["labels"];
            assert_eq!(labels["gpu-rollout.dev/kind"], release.kind.name());
            if let Some(hook) = labels["gpu-rollout.dev/awaited-by"].as_str() {
                let hook = scene.plan.releases.iter().find(|release| release.name == hook).unwrap();
                assert!(
                    is_hook(hook) && hook.needs.contains(&release.name),
                    "{}: {}",
                    scene.name,
                    release.name
                );
            }
        }
    }
}

#[test]
fn trap_argocd_registry_charts_have_no_scheme() {
    let scene =
        scene("base", REPOSITORY, "", &nvidia_from("oci://registry.example.com/mirror/nvidia"))
            .unwrap();
    let (folder, _) =
        folders(&scene.plan).find(|(_, release)| release.name == "gpu-operator").unwrap();
    let application = scene.application(&folder);
    assert_eq!(sources(&application)[0]["repoURL"], "registry.example.com/mirror/nvidia");
    assert_eq!(sources(&application)[0]["chart"], "gpu-operator");
    assert_eq!(
        sources(&application)[0]["helm"]["valueFiles"],
        json!([format!("$values/{folder}/values.yaml")])
    );
    let readme = std::str::from_utf8(&scene.tree.get("README.md").unwrap().content).unwrap();
    assert!(readme.contains("enableOCI"));
    assert!(
        scene.read("project.yaml")["spec"]["sourceRepos"]
            .to_string()
            .contains("\"registry.example.com/mirror/nvidia\"")
    );
    assert_eq!(scene.read("root.yaml")["spec"]["source"]["path"], "apps");
}

#[test]
fn trap_argocd_unreachable_sources_are_refused() {
    let digest = format!("sha256:{}", "0a".repeat(32));
    let local = nvidia_from("/srv/charts");
    let none = PlanOptions::default();
    for (deployer, url, revision, options, expected) in [
        ("argocd", REPOSITORY, "v1", &local, "from a local directory"),
        ("argocd", registry::REGISTRY, digest.as_str(), &none, "cannot contain its own digest"),
        ("argocd-helm", registry::REGISTRY, "v1", &none, "is an OCI registry"),
    ] {
        let source = BundleSource::new(url, revision, "").unwrap();
        let error = scene_of(deployer, "base", &source, options).err().unwrap();
        assert!(matches!(error, RenderError::Unable { .. }), "{error}");
        assert!(error.to_string().contains(expected), "{error}");
    }
}
