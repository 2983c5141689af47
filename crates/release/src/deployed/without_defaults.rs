//! Removes the defaults of a recipe.

use serde_json::{Map, Value, json};

use recipe::model::{OfedDriverRollout, Recipe, RecipeRollout};

/// Returns the recipe as a document. Its `rollout` has only the modes and values that differ from
/// the defaults.
pub fn without_defaults(recipe: &Recipe) -> Value {
    let mut usual = json!(RecipeRollout::default());
    usual["ofedDriver"] = json!(OfedDriverRollout::default());
    let mut document = json!(recipe);
    if let (Some(rollout), Value::Object(usual)) = (document["rollout"].as_object_mut(), usual) {
        remove_defaults(rollout, &usual);
    }
    document["rollout"]["gpuDriver"]["mode"] = json!(recipe.rollout.gpu_driver.mode);
    if let Some(ofed) = &recipe.rollout.ofed_driver {
        document["rollout"]["ofedDriver"]["mode"] = json!(ofed.mode);
    }
    document
}

/// Removes values that equal the default.
fn remove_defaults(values: &mut Map<String, Value>, usual: &Map<String, Value>) {
    values.retain(|key, value| {
        let Some(usual) = usual.get(key) else { return true };
        match (&mut *value, usual) {
            (Value::Object(below), Value::Object(usual)) => {
                remove_defaults(below, usual);
                !below.is_empty()
            }
            _ => value != usual,
        }
    });
}
