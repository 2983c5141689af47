//! The bundles of the library's recipes, and checks of all of them.

use std::collections::BTreeMap;
use std::sync::Mutex;

use bundle::{BundleInput, BundleTree, build, verify, write};
use catalog::{self, hook_chart};
use deployer::{BundleSource, DEPLOYERS, Deployer, SourceNeed};
use recipe::load::load;
use recipe::model::Recipe;
use recipe::read::FileSystemReader;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, ReleasePlan, plan};
use serde_json::Value;

use super::hostile::is_helm_template;

/// The source for deployers that read bundles from a repository.
pub(crate) const REPOSITORY: &str = "https://git.example.com/fleet.git";

/// A recipe of the library.
pub(crate) fn recipe(name: &str) -> Recipe {
    load(name, &[], &mut FileSystemReader).unwrap().recipe
}

/// Returns its plan, without options.
pub(crate) fn planned(recipe: &Recipe) -> ReleasePlan {
    plan(recipe, &EmbeddedCatalog, &PlanOptions::default()).unwrap()
}

/// Returns its bundle, which is rendered once for all tests.
pub(crate) fn bundle(name: &str, deployer: Deployer) -> BundleTree {
    static MADE: Mutex<BTreeMap<(String, &str), BundleTree>> = Mutex::new(BTreeMap::new());
    let key = (name.to_owned(), deployer.name);
    if let Some(made) = MADE.lock().unwrap().get(&key) {
        return made.clone();
    }
    // Not under the lock: tests make different ones at the same time.
    let made = bundle_from(name, deployer, REPOSITORY);
    MADE.lock().unwrap().insert(key, made.clone());
    made
}

/// Its bundle in the repository at `url`.
pub(crate) fn bundle_from(name: &str, deployer: Deployer, url: &str) -> BundleTree {
    bundle_of(&recipe(name), deployer, url)
}

/// The bundle of any recipe in the repository at `url`.
pub(crate) fn bundle_of(recipe: &Recipe, deployer: Deployer, url: &str) -> BundleTree {
    let plan = planned(recipe);
    let source =
        BundleSource::new(url, "main", &format!("bundles/{}/{deployer}", recipe.metadata.name))
            .unwrap();
    let source = (deployer.source == SourceNeed::Rendered).then_some(&source);
    build(BundleInput {
        recipe,
        plan: &plan,
        options: &PlanOptions::default(),
        deployer,
        hook_chart: hook_chart::contents(),
        source,
    })
    .unwrap()
}

/// Every recipe with every deployer.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Deployer)> {
    catalog::recipe_names().flat_map(|name| DEPLOYERS.iter().map(move |deployer| (name, *deployer)))
}

/// Whether `path` is the copy of the hook chart's file `chart_file` in a hook release.
pub(crate) fn is_hook_chart(path: &str, chart_file: &str) -> bool {
    ["-pre/", "-post/"]
        .iter()
        .any(|folder| path.strip_suffix(chart_file).is_some_and(|before| before.ends_with(folder)))
}

#[test]
fn the_same_recipe_gives_the_same_bytes() {
    for (name, deployer) in all() {
        assert_eq!(
            bundle_from(name, deployer, REPOSITORY),
            bundle(name, deployer),
            "{name} with {deployer}"
        );
    }
}

#[test]
fn every_bundle_keeps_its_promises() {
    for (name, deployer) in all() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("out");
        write(&bundle(name, deployer), &output, false).unwrap();
        assert_eq!(verify(&output).unwrap(), [], "{name} with {deployer}");
    }
}

#[test]
fn files_are_text_with_one_final_newline() {
    for (name, deployer) in all() {
        for file in bundle(name, deployer).files() {
            let text = std::str::from_utf8(&file.content).unwrap();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: {}", file.path);
            assert!(!text.contains('\r'), "{name}: {}", file.path);
        }
    }
}

/// `bundle push` and `bundle archive` recognize scripts by this rule.
#[test]
fn exactly_scripts_are_executable() {
    for (name, deployer) in all() {
        for file in bundle(name, deployer).files() {
            assert_eq!(file.executable, file.content.starts_with(b"#!"), "{name}: {}", file.path);
        }
    }
}

#[test]
fn every_yaml_file_is_yaml() {
    for (name, deployer) in all() {
        let bundle = bundle(name, deployer);
        for file in bundle.files().filter(|file| {
            file.path.rsplit('.').next() == Some("yaml") && !is_helm_template(&file.path)
        }) {
            let parsed: Result<Value, _> =
                yaml::from_str(std::str::from_utf8(&file.content).unwrap());
            assert!(parsed.is_ok(), "{name}: {}: {parsed:?}", file.path);
        }
    }
}

#[test]
fn hook_chart_copy_has_digest_in_version() {
    for (name, deployer) in all() {
        let bundle = bundle(name, deployer);
        let folders: Vec<&str> =
            bundle.files().filter_map(|file| file.path.strip_suffix("/rollout.yaml")).collect();
        let hooks = planned(&recipe(name))
            .releases
            .iter()
            .filter(|release| matches!(release.kind, ReleaseKind::Hook(_)))
            .count();
        assert_eq!(folders.len(), hooks, "{name}");
        for folder in folders {
            for (path, text) in hook_chart::FILES {
                let copy = bundle.get(&format!("{folder}/{path}")).unwrap();
                // The bundle's copy says in its version what is in it.
                let lines: Vec<&str> =
                    std::str::from_utf8(&copy.content).unwrap().lines().collect();
                let version = lines
                    .iter()
                    .find(|line| line.starts_with("version: "))
                    .copied()
                    .unwrap_or_default();
                let plain = version.split('+').next().unwrap_or_default();
                let copy: String = lines
                    .iter()
                    .flat_map(|line| [if *line == version { plain } else { line }, "\n"])
                    .collect();
                assert_eq!(copy, *text, "{name}: {path}");
                assert!(
                    *path != "Chart.yaml" || version.len() == plain.len() + "+d".len() + 12,
                    "{version}"
                );
            }
        }
    }
}

#[test]
fn a_bundles_own_recipe_gives_the_bundle_again() {
    for (name, deployer) in all() {
        let first = bundle(name, deployer);
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("recipe.yaml");
        std::fs::write(&path, &*first.get("recipe.yaml").unwrap().content).unwrap();
        assert_eq!(bundle(path.to_str().unwrap(), deployer), first, "{name}");
    }
}
