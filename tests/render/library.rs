//! The library's recipes as bundles, and what holds for every one of them.

use gpu_rollout::bundle::{Parts, Tree, build};
use gpu_rollout::catalog::{self, hook_chart};
use gpu_rollout::contract::yaml;
use gpu_rollout::deployer::Deployer;
use gpu_rollout::recipe::load::load;
use gpu_rollout::recipe::model::Recipe;
use gpu_rollout::recipe::read::Files;
use gpu_rollout::release::{Embedded, Options, Plan, plan};
use serde_json::Value;

/// A recipe of the library.
pub(crate) fn recipe(name: &str) -> Recipe {
    load(name, &[], &mut Files).unwrap().recipe
}

/// Its plan, with nothing further said.
pub(crate) fn planned(recipe: &Recipe) -> Plan {
    plan(recipe, &Embedded, &Options::default()).unwrap()
}

/// Its bundle.
pub(crate) fn bundle(name: &str, deployer: Deployer) -> Tree {
    let recipe = recipe(name);
    let plan = planned(&recipe);
    build(Parts { recipe: &recipe, plan: &plan, options: &Options::default(), deployer, hook_chart: hook_chart::FILES }).unwrap()
}

/// Every recipe with every deployer.
pub(crate) fn all() -> impl Iterator<Item = (&'static str, Deployer)> {
    catalog::recipe_names().flat_map(|name| Deployer::ALL.map(|deployer| (name, deployer)))
}

/// Whether a file carries Helm's own syntax.
pub(crate) fn is_helm_template(path: &str) -> bool {
    path.contains("-post/templates/")
}

#[test]
fn the_same_recipe_gives_the_same_bytes() {
    for (name, deployer) in all() {
        assert_eq!(bundle(name, deployer), bundle(name, deployer), "{name} with {deployer}");
    }
}

#[test]
fn every_file_is_text_that_ends_with_one_newline() {
    for (name, deployer) in all() {
        for file in bundle(name, deployer).files() {
            let text = std::str::from_utf8(&file.content).unwrap();
            assert!(text.ends_with('\n') && !text.ends_with("\n\n"), "{name}: {}", file.path);
            assert!(!text.contains('\r'), "{name}: {}", file.path);
        }
    }
}

#[test]
fn every_yaml_file_is_yaml() {
    for (name, deployer) in all() {
        let bundle = bundle(name, deployer);
        for file in bundle.files().filter(|file| file.path.rsplit('.').next() == Some("yaml") && !is_helm_template(&file.path)) {
            let parsed: Result<Value, _> = yaml::from_str(std::str::from_utf8(&file.content).unwrap());
            assert!(parsed.is_ok(), "{name}: {}: {parsed:?}", file.path);
        }
    }
}

#[test]
fn the_hook_chart_is_copied_as_it_is() {
    for (name, deployer) in all() {
        let bundle = bundle(name, deployer);
        let folders: Vec<&str> = bundle.files().filter_map(|file| file.path.strip_suffix("-post/rollout.yaml")).collect();
        assert!(!folders.is_empty(), "{name}");
        for folder in folders {
            for (path, text) in hook_chart::FILES {
                assert_eq!(bundle.get(&format!("{folder}-post/{path}")).unwrap().content, text.as_bytes(), "{name}: {path}");
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
        std::fs::write(&path, &first.get("recipe.yaml").unwrap().content).unwrap();
        assert_eq!(bundle(path.to_str().unwrap(), deployer), first, "{name}");
    }
}
