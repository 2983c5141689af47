//! Tests how Go programs read our YAML: values of all kinds with texts that are difficult for YAML
//! parsers, and every YAML file of the bundles.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::tools::tool;

/// Pieces of texts that some parser reads otherwise than they are meant, refuses, or takes for its
/// own syntax.
fn hard_to_write() -> Vec<String> {
    serde_json::from_str(include_str!("../../../../tests/data/texts-hard-to-write.json")).unwrap()
}

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![3 => prop::sample::select(hard_to_write()), 1 => any::<char>().prop_map(String::from), 1 => "[ -~]{0,6}"];
    prop::collection::vec(piece, 0..4).prop_map(|pieces| pieces.concat())
}

/// Values of every kind.
fn tree() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        6 => text().prop_map(Value::from),
        1 => any::<i64>().prop_map(Value::from),
        1 => any::<bool>().prop_map(Value::from),
        1 => Just(Value::Null),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text(), inner, 0..5)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// What Go reads from each file: its documents.
pub(crate) fn read(files: &[PathBuf]) -> Vec<Value> {
    let output = Command::new(tool("read-yaml")).args(files).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let documents: Vec<Value> = output
        .stdout
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    assert_eq!(documents.len(), files.len());
    documents
}

/// Values of every kind, always the same.
pub(crate) fn trees(count: usize) -> Vec<Value> {
    let mut runner = TestRunner::deterministic();
    let mut trees: Vec<Value> =
        hard_to_write().iter().map(|text| json!({"value": text, "list": [text, [text]], "map": {text: {text: [{text: text}]}}})).collect();
    let long = "{{ x }} ".repeat(1000);
    trees.push(json!({"long": long, &long: {&long: [&long]}}));
    trees.extend(
        (0..count).map(|_| json!({"value": tree().new_tree(&mut runner).unwrap().current()})),
    );
    trees
}

#[test]
#[ignore = "needs Go (make e2e)"]
fn go_reads_every_value_as_written() {
    let directory = tempfile::tempdir().unwrap();
    let trees = trees(1000);
    let write = |(index, tree): (usize, &Value)| {
        let path = directory.path().join(format!("{index:05}.yaml"));
        fs::write(&path, yaml::to_string(tree).unwrap()).unwrap();
        path
    };
    let files: Vec<PathBuf> = trees.iter().enumerate().map(write).collect();
    for (found, meant) in read(&files).iter().zip(&trees) {
        assert_eq!(found, &json!([meant]), "{}", yaml::to_string(meant).unwrap());
    }
}
