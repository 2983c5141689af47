//! A recipe without what goes without saying.

use serde_json::{Map, Value, json};

use recipe::model::{OfedDriverRollout, Recipe, RecipeRollout};

/// The recipe as a document: of `rollout` what is not the default, and always the modes.
pub fn brief(recipe: &Recipe) -> Value {
    // Types of ours, whose keys are texts: they can be written.
    let written = |value: serde_json::Result<Value>| value.unwrap_or_default();
    let mut usual = written(serde_json::to_value(RecipeRollout::default()));
    usual["ofedDriver"] = written(serde_json::to_value(OfedDriverRollout::default()));
    let mut document = written(serde_json::to_value(recipe));
    if let (Some(rollout), Value::Object(usual)) = (document["rollout"].as_object_mut(), usual) {
        without(rollout, &usual);
    }
    document["rollout"]["gpuDriver"]["mode"] = json!(recipe.rollout.gpu_driver.mode);
    if let Some(ofed) = &recipe.rollout.ofed_driver {
        document["rollout"]["ofedDriver"]["mode"] = json!(ofed.mode);
    }
    document
}

/// Takes out what is the default.
fn without(values: &mut Map<String, Value>, usual: &Map<String, Value>) {
    values.retain(|key, value| {
        let Some(usual) = usual.get(key) else { return true };
        match (&mut *value, usual) {
            (Value::Object(below), Value::Object(usual)) => {
                without(below, usual);
                !below.is_empty()
            }
            _ => value != usual,
        }
    });
}
