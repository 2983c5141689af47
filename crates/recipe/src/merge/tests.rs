use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::parse::parse;
use diagnostics::source::{SourceText, SourceTexts};

/// Returns layers, each of which extends those in its list.
fn layers(texts: &[(&Json, &[usize])]) -> Vec<RecipeLayer> {
    let mut sources = SourceTexts::default();
    let mut layers: Vec<RecipeLayer> = Vec::new();
    for (json, parents) in texts {
        let id = sources.add(SourceText {
            name: layers.len().to_string(),
            text: yaml::to_string(json).unwrap(),
        });
        let mut ancestors: BTreeSet<usize> = parents.iter().copied().collect();
        ancestors.extend(parents.iter().flat_map(|parent| layers[*parent].ancestors.clone()));
        layers.push(RecipeLayer { node: parse(&sources, id).unwrap(), ancestors, own: false });
    }
    layers.last_mut().unwrap().own = true;
    layers
}

fn merged(texts: &[(&Json, &[usize])]) -> Result<Json, Vec<String>> {
    merge(&layers(texts))
        .map(|node| node.to_json())
        .map_err(|conflicts| conflicts.iter().map(|conflict| conflict.path.to_string()).collect())
}

#[test]
fn maps_recurse_lists_and_scalars_replace_null_deletes() {
    let parent = json!({"cluster": {"gpuNodes": 4, "kubernetes": ">=1.32", "zones": [1, 2]}});
    let child = json!({"cluster": {"gpuNodes": 8, "kubernetes": null, "zones": [3]}});
    assert_eq!(
        merged(&[(&parent, &[]), (&child, &[0])]),
        Ok(json!({"cluster": {"gpuNodes": 8, "zones": [3]}}))
    );
}

#[test]
fn components_merge_by_name_in_parents_order() {
    let parent = json!({"components": [{"name": "b", "values": {"x": 1, "y": 1}}, {"name": "a"}]});
    let child = json!({"components": [{"name": "c"}, {"name": "b", "values": {"x": 2}}]});
    let expected = json!({"components": [{"name": "b", "values": {"x": 2, "y": 1}}, {"name": "a"}, {"name": "c"}]});
    assert_eq!(merged(&[(&parent, &[]), (&child, &[0])]), Ok(expected));
}

#[test]
fn null_that_deletes_nothing_reaches_the_chart() {
    let parent = json!({"components": [{"name": "a", "values": {"set": 1}}]});
    let child = json!({"components": [{"name": "a", "version": null, "values": {"set": null, "affinity": null}}]});
    assert_eq!(
        merged(&[(&parent, &[]), (&child, &[0])]),
        Ok(json!({"components": [{"name": "a", "values": {"affinity": null}}]}))
    );
}

#[test]
fn kind_and_metadata_come_from_recipe_itself() {
    let parent = json!({"kind": "Recipe", "metadata": {"name": "parent", "description": "x"}, "extends": ["base"], "cluster": {}});
    let child = json!({"kind": "Recipe", "metadata": {"name": "child"}, "extends": ["parent"]});
    assert_eq!(
        merged(&[(&parent, &[]), (&child, &[0])]),
        Ok(json!({"kind": "Recipe", "metadata": {"name": "child"}, "cluster": {}}))
    );
}

#[test]
fn unrelated_parents_must_agree_unless_a_child_decides() {
    let base = json!({"a": 1, "b": 1, "same": 1});
    let left = json!({"a": 2, "same": 2, "m": {"x": 1}});
    let right = json!({"a": 3, "same": 2, "m": {"y": 1}});
    let texts: [(&Json, &[usize]); 3] = [(&base, &[]), (&left, &[0]), (&right, &[0])];
    assert_eq!(merged(&texts), Err(vec!["a".to_owned()]));
    let child = json!({"a": 4});
    let decided = merged(&[texts[0], texts[1], texts[2], (&child, &[1, 2])]);
    assert_eq!(decided, Ok(json!({"a": 4, "b": 1, "same": 2, "m": {"x": 1, "y": 1}})));
}

/// A parent's own setting overrides a value that the other parent only inherits, in any order of
/// `extends`.
#[test]
fn what_is_inherited_does_not_contradict() {
    let base = json!({"a": 1});
    let left = json!({"a": 2});
    let right = json!({"b": 1});
    for order in [[1, 2], [2, 1]] {
        let child = json!({});
        let texts: [(&Json, &[usize]); 4] =
            [(&base, &[]), (&left, &[0]), (&right, &[0]), (&child, &order)];
        assert_eq!(merged(&texts), Ok(json!({"a": 2, "b": 1})));
    }
}

#[test]
fn deleting_and_setting_contradict() {
    let left = json!({"a": {"x": 1}});
    let right = json!({"a": null});
    assert_eq!(merged(&[(&left, &[]), (&right, &[])]), Err(vec!["a".to_owned()]));
}

/// Outside chart values, a child merges onto a parent like a JSON Merge Patch (RFC 7396).
fn merge_patch(target: &Json, patch: &Json) -> Json {
    let Json::Object(patch) = patch else { return patch.clone() };
    let mut result = target.as_object().cloned().unwrap_or_default();
    for (key, value) in patch {
        if value.is_null() {
            result.shift_remove(key);
        } else {
            result.insert(key.clone(), merge_patch(result.get(key).unwrap_or(&Json::Null), value));
        }
    }
    Json::Object(result)
}

fn trees() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        (0..3).prop_map(Json::from),
        "[a-c]".prop_map(Json::from)
    ];
    let value = leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3).prop_map(Json::from),
            prop::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|map| Json::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[e-h]", value, 0..4)
        .prop_map(|map| Json::Object(map.into_iter().collect::<Map<_, _>>()))
}

proptest! {
    #[test]
    fn a_child_is_a_merge_patch(parent in trees(), child in trees()) {
        let expected = merge_patch(&merge_patch(&json!({}), &parent), &child);
        prop_assert_eq!(merged(&[(&parent, &[]), (&child, &[0])]), Ok(expected));
    }

    #[test]
    fn saying_the_same_twice_changes_nothing(tree in trees()) {
        let once = merged(&[(&tree, &[])]);
        prop_assert_eq!(merged(&[(&tree, &[]), (&tree, &[0])]), once.clone());
        prop_assert_eq!(merged(&[(&tree, &[]), (&tree, &[])]), once);
    }

    #[test]
    fn the_order_of_unrelated_parents_does_not_matter(left in trees(), right in trees()) {
        let sorted = |result: Result<Json, Vec<String>>| result.map_err(|mut paths| { paths.sort(); paths });
        prop_assert_eq!(sorted(merged(&[(&left, &[]), (&right, &[])])), sorted(merged(&[(&right, &[]), (&left, &[])])));
    }

    #[test]
    fn every_value_stands_where_its_origin_says(parent in trees(), child in trees()) {
        let layers = layers(&[(&parent, &[]), (&child, &[0])]);
        let tree = merge(&layers).unwrap();
        check_origins(&KeyPath::default(), &tree, &layers);
    }
}

fn check_origins(path: &KeyPath, node: &YamlNode, layers: &[RecipeLayer]) {
    for entry in node.entries() {
        check_origins(&path.child(&entry.key), &entry.node, layers);
    }
    if node.entries().is_empty() {
        let layer =
            layers.iter().find(|layer| layer.node.origin.source == node.origin.source).unwrap();
        let there = layer.node.get_path(path).unwrap();
        assert_eq!(there.origin, node.origin, "{path}");
        assert!(there.same(node) || !there.entries().is_empty(), "{path}");
    }
}
