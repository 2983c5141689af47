//! Tests of bundles for Flux: every object against the CRDs, and known traps of helm-controller and
//! kustomize-controller.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use bundle::BundleTree;
use contract::budget::deployer_timeout_seconds;
use contract::duration::Duration;
use deployer::layout::{folders, values_of};
use release::model::ReleaseKind;
use release::{Release, ReleasePlan};
use serde_json::Value;

use super::crd_schema::Schemas;
use super::hostile::is_helm_template;
use super::library;

mod push;
mod sources;
mod verification;

/// The kinds of sources: a Git repository and a registry.
const URLS: [&str; 2] = ["https://git.example.com/fleet.git", "oci://registry.example.com/gpu"];
const LABEL: &str = "gpu-rollout.dev/bundle";

/// A rendered bundle with its input.
struct Scene {
    name: String,
    plan: ReleasePlan,
    tree: BundleTree,
}

/// Every recipe from every kind of source.
fn scenes() -> &'static [Scene] {
    static SCENES: OnceLock<Vec<Scene>> = OnceLock::new();
    SCENES.get_or_init(|| {
        catalog::recipe_names().flat_map(|name| URLS.map(|url| scene(name, url))).collect()
    })
}

fn scene(name: &str, url: &str) -> Scene {
    Scene {
        name: format!("{name} from {url}"),
        plan: library::planned(&library::recipe(name)),
        tree: library::bundle_from(name, "flux".parse().unwrap(), url),
    }
}

impl Scene {
    fn text(&self, path: &str) -> &str {
        let file = self.tree.get(path).unwrap_or_else(|| panic!("{}: no file {path}", self.name));
        std::str::from_utf8(&file.content).unwrap()
    }

    fn yaml(&self, path: &str) -> Value {
        yaml::from_str(self.text(path)).unwrap()
    }

    /// The objects of some folders, by path.
    fn objects(&self, folders: &[&str]) -> BTreeMap<String, Value> {
        let paths = self.tree.files().map(|file| file.path.as_str());
        let wanted = paths.filter(|path| {
            path.split_once('/').is_some_and(|(folder, _)| folders.contains(&folder))
        });
        wanted.map(|path| (path.to_owned(), self.yaml(path))).collect()
    }

    /// The plan's releases with their folders and HelmReleases.
    fn releases(&self) -> Vec<(String, &Release, Value)> {
        folders(&self.plan)
            .map(|(folder, release)| {
                (folder.clone(), release, self.yaml(&format!("releases/{folder}.yaml")))
            })
            .collect()
    }
}

/// Runs `hold` for every HelmRelease.
#[expect(clippy::print_stdout, reason = "shown if the test fails: which release it was")]
fn each_release(hold: impl Fn(&Release, &Value)) {
    for scene in scenes() {
        for (_, release, object) in scene.releases() {
            println!("{}: {}", scene.name, release.name);
            hold(release, &object["spec"]);
        }
    }
}

fn seconds(value: &Value) -> u64 {
    value.as_str().unwrap().parse::<Duration>().unwrap().as_secs()
}

#[test]
fn every_object_fits_its_crd() {
    let schemas = Schemas::load("flux");
    for scene in scenes() {
        for (path, object) in scene.objects(&["releases", "sources", "flux-system"]) {
            assert_eq!(schemas.judge(&object), [""; 0], "{}: {path}", scene.name);
            assert_eq!(object["metadata"]["namespace"], "flux-system", "{}: {path}", scene.name);
        }
    }
}

#[test]
fn the_schemas_find_what_is_wrong() {
    let schemas = Schemas::load("flux");
    let scene = &scenes()[0];
    let object = scene.objects(&["releases"]).pop_last().unwrap().1;
    let broken = |path: &str, value: Option<Value>| {
        let mut object = object.clone();
        let (parent, key) = path.rsplit_once('/').unwrap();
        let parent = object.pointer_mut(parent).unwrap().as_object_mut().unwrap();
        match value {
            Some(value) => drop(parent.insert(key.to_owned(), value)),
            None => drop(parent.remove(key)),
        }
        schemas.judge(&object).join("; ")
    };
    let mut found = Vec::new();
    for (path, value) in [
        ("/spec/interval", None),
        ("/spec/timeout", Some("5 minutes".into())),
        ("/spec/timeouts", Some("5m".into())),
        ("/spec/install/crds", Some("Replace".into())),
        ("/spec/maxHistory", Some("5".into())),
        ("/spec/releaseName", Some("x".repeat(54).into())),
        ("/spec/valuesFrom/0/kind", None),
        ("/apiVersion", Some("helm.toolkit.fluxcd.io/v2beta2".into())),
    ] {
        found.push(broken(path, value));
    }
    insta::assert_snapshot!(found.join("\n"), @r#"
    .spec.interval: is missing
    .spec.timeout: `5 minutes` does not match ^([0-9]+(\.[0-9]+)?(ms|s|m|h))+$
    .spec.timeouts: there is no such field
    .spec.install.crds: "Replace" is none of [String("Skip"), String("Create"), String("CreateReplace")]
    .spec.maxHistory: expected "integer", found "5"
    .spec.releaseName: 54 characters are too few or too many
    .spec.valuesFrom[0].kind: is missing
    no CRD of kind `HelmRelease` in `helm.toolkit.fluxcd.io/v2beta2`
    "#);
}

#[test]
fn flux_release_equals_the_helm_command_line() {
    each_release(|release, spec| {
        assert_eq!(spec["releaseName"], release.name.as_str());
        // Another storage namespace would create a second release next to Helm's.
        assert_eq!(
            (&spec["targetNamespace"], &spec["storageNamespace"]),
            (&release.namespace.clone().into(), &release.namespace.clone().into())
        );
    });
}

#[test]
fn every_need_is_a_dependency() {
    each_release(|release, spec| {
        let names: Vec<&str> = spec["dependsOn"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|need| need["name"].as_str().unwrap())
            .collect();
        assert_eq!(names, release.needs);
    });
}

#[test]
fn trap_flux_ready_expr_replaces_built_in_check() {
    each_release(|_, spec| {
        for need in spec["dependsOn"].as_array().into_iter().flatten() {
            let clauses: Vec<&str> = need["readyExpr"].as_str().unwrap().split(" && ").collect();
            assert!(
                clauses.contains(&"dep.status.observedGeneration == dep.metadata.generation"),
                "{clauses:?}"
            );
            assert!(
                clauses[clauses.len() - 2..].join(" && ")
                    == "dep.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
            );
            assert!(
                !clauses.iter().any(|clause| clause.contains('"') || clause.contains("||")),
                "{clauses:?}"
            );
        }
    });
}

#[test]
fn trap_flux_dependency_is_ready_from_earlier_commit() {
    for scene in scenes() {
        let kustomization = scene.yaml("kustomization.yaml");
        let generators = kustomization["configMapGenerator"].as_array().unwrap();
        let digest = generators.last().unwrap();
        // The digest covers everything that a commit of an edit or of a new bundle can change.
        let files: Vec<&str> = digest["files"]
            .as_array()
            .unwrap()
            .iter()
            .map(|file| file.as_str().unwrap().split_once('=').unwrap().1)
            .collect();
        for generator in &generators[..generators.len() - 1] {
            let file =
                generator["files"][0].as_str().unwrap().strip_prefix("values.yaml=").unwrap();
            assert!(files.contains(&file), "{}: {file}", scene.name);
        }
        for resource in kustomization["resources"].as_array().unwrap() {
            assert!(files.contains(&resource.as_str().unwrap()), "{}: {resource}", scene.name);
        }
        for (_, _, object) in scene.releases() {
            assert_eq!(object["metadata"]["labels"][LABEL], digest["name"]);
            for need in object["spec"]["dependsOn"].as_array().into_iter().flatten() {
                let same =
                    format!("dep.metadata.labels['{LABEL}'] == self.metadata.labels['{LABEL}']");
                assert!(need["readyExpr"].as_str().unwrap().contains(&same));
            }
        }
    }
}

#[test]
fn trap_flux_default_timeout_kills_the_hook() {
    each_release(|release, spec| {
        let least = match &release.kind {
            ReleaseKind::Hook(hook) => deployer_timeout_seconds(hook.budget.seconds),
            ReleaseKind::Upstream(_)
            | ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_) => release.timeout_seconds,
        };
        for timeout in [
            &spec["timeout"],
            &spec["install"]["timeout"],
            &spec["upgrade"]["timeout"],
            &spec["rollback"]["timeout"],
        ] {
            assert!(seconds(timeout) >= least, "{timeout} of at least {least} s");
        }
    });
}

#[test]
fn trap_flux_kustomization_times_out_before_its_chain() {
    for scene in scenes() {
        let releases: BTreeMap<String, Value> = scene
            .releases()
            .into_iter()
            .map(|(_, release, object)| (release.name.clone(), object["spec"].clone()))
            .collect();
        let longest = releases.keys().map(|name| chain(&releases, name)).max().unwrap();
        let sync = scene.yaml("flux-system/sync.yaml");
        assert!(seconds(&sync["spec"]["timeout"]) >= longest, "{}: {longest} s", scene.name);
        assert_eq!((&sync["spec"]["wait"], &sync["spec"]["prune"]), (&true.into(), &true.into()));
    }
}

/// Returns the longest time in seconds until `name` is deployed.
fn chain(releases: &BTreeMap<String, Value>, name: &str) -> u64 {
    let spec = &releases[name];
    let needs = spec["dependsOn"].as_array().into_iter().flatten();
    let before = needs.map(|need| chain(releases, need["name"].as_str().unwrap()) + 30).max();
    before.unwrap_or_default() + seconds(&spec["timeout"])
}

#[test]
fn trap_flux_failed_release_blocks_the_repairing_commit() {
    for scene in scenes() {
        let check = &scene.yaml("flux-system/sync.yaml")["spec"]["healthCheckExprs"][0];
        assert_eq!(
            (&check["apiVersion"], &check["kind"]),
            (&"helm.toolkit.fluxcd.io/v2".into(), &"HelmRelease".into())
        );
        for reason in ["InstallFailed", "UpgradeFailed"] {
            assert!(check["failed"].as_str().unwrap().contains(reason));
        }
        assert!(
            check["failed"].as_str().unwrap().contains("c.type == 'Stalled' && c.status == 'True'")
        );
        let page = scene.text("README.md");
        let requirement = page
            .find("must run with `--feature-gates=CancelHealthCheckOnNewRevision=true`")
            .unwrap();
        assert!(
            (page.find("## Deploy\n").unwrap()..page.find("## Watch the deployment").unwrap())
                .contains(&requirement)
        );
    }
}

#[test]
fn trap_flux_waits_for_resources_the_hook_prepares() {
    each_release(|_, spec| {
        for action in ["install", "upgrade", "rollback"] {
            assert_eq!(spec[action]["disableWait"], true, "{action}");
            assert_eq!(spec[action].get("disableHooks"), None, "{action}");
        }
    });
}

#[test]
fn trap_flux_remediation_rolls_back_or_stops_trying() {
    each_release(|_, spec| {
        for action in ["install", "upgrade"] {
            assert_eq!(spec[action]["strategy"]["name"], "RetryOnFailure");
            assert!(seconds(&spec[action]["strategy"]["retryInterval"]) > 0);
            assert_eq!(spec[action].get("remediation"), None);
        }
        assert_eq!(
            (&spec["upgrade"]["cleanupOnFail"], &spec["upgrade"]["force"]),
            (&false.into(), &false.into())
        );
    });
}

#[test]
fn trap_flux_crd_policies_differ_between_operations() {
    each_release(|release, spec| {
        let brings_crds =
            matches!(&release.kind, ReleaseKind::Upstream(upstream) if !upstream.skip_crds);
        let policy = if brings_crds { "CreateReplace" } else { "Skip" };
        assert_eq!(
            (&spec["install"]["crds"], &spec["upgrade"]["crds"]),
            (&policy.into(), &policy.into())
        );
    });
}

#[test]
fn trap_flux_persistent_client_misses_new_crds() {
    each_release(|release, spec| {
        let brings_crds = match &release.kind {
            ReleaseKind::Crds(_) => true,
            ReleaseKind::Upstream(upstream) => !upstream.skip_crds,
            ReleaseKind::Manifests(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Kustomization(_)
            | ReleaseKind::Hook(_) => false,
        };
        assert_eq!(spec.get("persistentClient"), brings_crds.then_some(&Value::Bool(false)));
    });
}

#[test]
fn trap_flux_makes_namespaces_without_their_labels() {
    each_release(|_, spec| assert_eq!(spec["install"].get("createNamespace"), None));
}

#[test]
fn trap_flux_drift_correction_reverts_what_others_write() {
    each_release(|_, spec| assert_eq!(spec["driftDetection"]["mode"], "warn"));
}

#[test]
fn trap_flux_values_edit_misses_the_hook() {
    for scene in scenes() {
        let kustomization = scene.yaml("kustomization.yaml");
        let mut generated: BTreeMap<&str, &str> = BTreeMap::new();
        for generator in kustomization["configMapGenerator"].as_array().unwrap() {
            let [file] = generator["files"].as_array().unwrap().as_slice() else { continue };
            generated.insert(
                generator["name"].as_str().unwrap(),
                file.as_str().unwrap().strip_prefix("values.yaml=").unwrap(),
            );
        }
        assert_eq!(
            kustomization.get("generatorOptions"),
            None,
            "names without a digest would not reach the HelmReleases"
        );
        let config = scene.yaml("kustomizeconfig.yaml");
        assert_eq!(config["nameReference"][0]["fieldSpecs"][0]["path"], "spec/valuesFrom/name");
        for (folder, release, object) in scene.releases() {
            let references = object["spec"]["valuesFrom"].as_array().into_iter().flatten();
            let files: Vec<&str> = references
                .map(|reference| generated[reference["name"].as_str().unwrap()])
                .collect();
            let own = || vec![format!("{folder}/values.yaml")];
            let expected = match &release.kind {
                ReleaseKind::Upstream(_) => own(),
                ReleaseKind::Templates(_) => [own(), values_of(&scene.plan, release)].concat(),
                ReleaseKind::Manifests(manifests) if manifests.shared => own(),
                ReleaseKind::Crds(_)
                | ReleaseKind::Kustomization(_)
                | ReleaseKind::Manifests(_) => Vec::new(),
                ReleaseKind::Hook(_) => values_of(&scene.plan, release)
                    .into_iter()
                    .chain([format!("{folder}/rollout.yaml")])
                    .collect(),
            };
            assert_eq!(files, expected, "{}: {folder}", scene.name);
            assert_eq!(
                object["spec"].get("values"),
                None,
                "{}: {folder}: values are written in one place",
                scene.name
            );
        }
    }
}

#[test]
fn trap_flux_substitution_rewrites_values() {
    for scene in scenes() {
        let annotations = &scene.yaml("kustomization.yaml")["commonAnnotations"];
        assert_eq!(annotations["kustomize.toolkit.fluxcd.io/substitute"], "disabled");
        assert_eq!(scene.yaml("flux-system/sync.yaml")["spec"].get("postBuild"), None);
    }
}

/// Regression: a second bundle replaced the Kustomization of the first, and Flux uninstalled its
/// operator.
#[test]
fn readme_of_flux_says_one_bundle_per_cluster() {
    for scene in scenes() {
        let page = scene.text("README.md");
        let warning = page.find("**Deploy only one bundle with Flux in a cluster.**").unwrap();
        assert!(page.contains("uninstalls every release that only the first one contains"));
        assert!(page.find("## Deploy\n").unwrap() < warning, "{}", scene.name);
        assert!(warning < page.find("kubectl apply -f flux-system/").unwrap(), "{}", scene.name);
        assert!(page.contains("\nwith another deployer too:\n"), "{}", scene.name);
    }
}

#[test]
fn trap_flux_panics_on_hook_output_log_policy() {
    for scene in scenes() {
        for file in scene.tree.files() {
            assert!(
                !std::str::from_utf8(&file.content).unwrap().contains("hook-output-log-policy"),
                "{}: {}",
                scene.name,
                file.path
            );
        }
    }
}

#[test]
fn yaml_files_are_equal_in_both_yaml_versions() {
    let strict = serde_yaml::options! { strict_booleans: true, legacy_octal_numbers: false, with_snippet: false };
    for scene in scenes() {
        for file in scene.tree.files().filter(|file| {
            file.path.rsplit('.').next() == Some("yaml") && !is_helm_template(&file.path)
        }) {
            let text = std::str::from_utf8(&file.content).unwrap();
            let new: Value = serde_yaml::from_str_with_options(text, strict.clone()).unwrap();
            assert_eq!(
                yaml::from_str::<Value>(text).unwrap(),
                new,
                "{}: {}",
                scene.name,
                file.path
            );
        }
    }
}
