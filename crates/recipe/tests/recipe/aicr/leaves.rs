//! The library against the leaves of AICR's tree of recipes.

#![expect(clippy::unwrap_used, reason = "a test that fails says where")]

use recipe::load::load;
use recipe::read::FileSystemReader;
use serde_json::Value;

use super::DATA;

/// Merges AICR's values.
fn over(all: &mut Value, values: &Value) {
    match (all, values) {
        (Value::Object(all), Value::Object(values)) => {
            for (key, value) in values {
                over(all.entry(key).or_insert(Value::Null), value);
            }
        }
        (all, values) => *all = values.clone(),
    }
}

fn yaml_file(path: &str) -> Value {
    yaml::from_str(&std::fs::read_to_string(format!("{DATA}/{path}")).unwrap()).unwrap()
}

/// The values of the GPU Operator in an overlay of AICR, with those that it extends.
fn overlay_values(name: &str) -> Value {
    let mut overlays = vec![yaml_file(&format!("overlays/{name}.yaml"))];
    while let Some(base) = overlays.last().unwrap()["spec"]["base"].as_str() {
        overlays.push(yaml_file(&format!("overlays/{base}.yaml")));
    }
    overlays.push(yaml_file("overlays/base.yaml"));
    let references = overlays.iter().rev().filter_map(|overlay| {
        let references = overlay["spec"]["componentRefs"].as_array()?;
        references.iter().find(|reference| reference["name"] == "gpu-operator")
    });
    let references: Vec<&Value> = references.collect();
    let mut all = yaml_file("components/gpu-operator/values.yaml");
    let file = references.iter().rev().find_map(|reference| reference["valuesFile"].as_str());
    over(&mut all, &yaml_file(file.unwrap()));
    for overrides in references.iter().filter_map(|reference| reference.get("overrides")) {
        over(&mut all, overrides);
    }
    all
}

/// Each recipe of the library that names a leaf of AICR has the same values for what it names.
#[test]
fn library_recipes_agree_with_the_leaves_that_they_name() {
    const MARK: &str = "# Checked against NVIDIA AICR v0.11.1, ";
    let known = catalog::component("gpu-operator").unwrap();
    let mut checked = 0;
    for name in catalog::recipe_names() {
        let text = catalog::recipe(name).unwrap();
        let Some(line) = text.lines().find_map(|line| line.strip_prefix(MARK)) else { continue };
        let (leaf, facets) = line.strip_suffix('.').unwrap().split_once(": ").unwrap();
        checked += 1;
        let recipe = load(name, &[], &mut FileSystemReader).unwrap().recipe;
        let own = recipe.components.iter().find(|one| one.name == "gpu-operator").unwrap();
        let aicr = overlay_values(leaf);
        let defaults = known.defaults(known.version(own.version.as_deref().unwrap()));
        for path in facets.split(", ").flat_map(|facet| match facet {
            "driver" => &["driver.enabled"][..],
            "toolkit" => &["toolkit.enabled"],
            "directories" => &["toolkit.installDir", "hostPaths.driverInstallDir"],
            facet => panic!("{name}: unknown facet `{facet}`"),
        }) {
            let in_chart = catalog::lookup(defaults, path);
            let ours = catalog::lookup(&own.values, path).or(in_chart);
            let theirs = catalog::lookup(aicr.as_object().unwrap(), path).or(in_chart);
            assert_eq!(ours, theirs, "{name}: {path}");
        }
    }
    assert_eq!(checked, 10);
}
