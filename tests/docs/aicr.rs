//! `docs/aicr.md` has the library's recipe for each leaf of AICR. `UPDATE=1` updates the table.

use std::collections::{BTreeMap, BTreeSet};

use recipe::criteria::{LibraryRecipe, library, select};
use recipe::model::RecipeCriteria;
use serde_json::Value;

use crate::{generated, root};

/// The overlays of AICR; `PROVENANCE.md` next to them says where they come from.
const OVERLAYS: &str = "crates/recipe/tests/data/aicr-v0.11.1/overlays";

/// Returns the overlays by name.
fn overlays() -> BTreeMap<String, Value> {
    let files = std::fs::read_dir(root(OVERLAYS)).unwrap();
    let read = |path: std::path::PathBuf| {
        let overlay: Value = serde_yaml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
        (overlay["metadata"]["name"].as_str().unwrap().to_owned(), overlay)
    };
    files.map(|file| read(file.unwrap().path())).collect()
}

/// Returns the overlays that no other overlay extends, by what they are for, without the platform:
/// its components are not part of the library.
fn leaves() -> BTreeMap<[String; 4], BTreeSet<String>> {
    let overlays = overlays();
    let parents: BTreeSet<&str> =
        overlays.values().filter_map(|overlay| overlay["spec"]["base"].as_str()).collect();
    let mut leaves: BTreeMap<[String; 4], BTreeSet<String>> = BTreeMap::new();
    for (name, overlay) in overlays.iter().filter(|(name, _)| !parents.contains(name.as_str())) {
        let criteria = &overlay["spec"]["criteria"];
        let text = |key: &str| criteria[key].as_str().unwrap_or_default().to_owned();
        // An overlay without a service is a part for all recipes.
        if !text("service").is_empty() {
            let key = ["service", "accelerator", "intent", "os"].map(text);
            leaves.entry(key).or_default().insert(name.clone());
        }
    }
    leaves
}

/// Returns the only recipe of the library for a leaf.
fn recipe_for(leaf: &[String; 4], recipes: &[LibraryRecipe]) -> String {
    let [service, accelerator, intent, os] =
        leaf.clone().map(|text| Some(text).filter(|text| !text.is_empty()));
    let asked = RecipeCriteria { service, accelerator, intent, os };
    let found = select(recipes, &asked).unwrap_or_else(|error| panic!("{error}"));
    // A recipe for one operating system is not one for all.
    let exact: Vec<String> = found
        .into_iter()
        .filter(|recipe| recipe.criteria == asked)
        .map(|recipe| recipe.name)
        .collect();
    assert_eq!(exact.len(), 1, "{leaf:?}: {exact:?}");
    exact.concat()
}

#[test]
fn every_leaf_of_aicr_has_a_library_recipe() {
    let leaves = leaves();
    assert_eq!(leaves.len(), 10, "{leaves:?}");
    let recipes = library().unwrap();
    let rows = leaves.iter().map(|(leaf, overlays)| {
        let name = recipe_for(leaf, &recipes);
        let overlays: Vec<String> = overlays.iter().map(|name| format!("`{name}`")).collect();
        let [service, accelerator, intent, os] = leaf;
        let os = if os.is_empty() { "–" } else { os };
        let overlays = overlays.join(", ");
        format!("| {overlays} | {service} | {accelerator} | {intent} | {os} | `{name}` |\n")
    });
    let rows: String = rows.collect();
    generated(
        "docs/aicr.md",
        "the overlays of AICR v0.11.1",
        &format!(
            "\n| AICR v0.11.1 | Service | GPU | Intent | OS | Recipe of the library |\n|---|---|---|---|---|---|\n{rows}\n"
        ),
    );
}
