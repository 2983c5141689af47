//! `docs/recipe.md` has every key of recipes, from their schema. `UPDATE=1` updates it.

use super::json::{check, rows};

#[test]
fn every_key_of_recipes_is_described() {
    let schema = serde_json::from_str(include_str!("../../bundles/recipe.schema.json")).unwrap();
    check(
        "docs/recipe.md",
        &format!("\n| Key | Type | What it is |\n|---|---|---|\n{}\n", rows(&schema)),
    );
}
