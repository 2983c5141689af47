//! Tests with `tests/data/vectors.json`: for every input, the verdict equals the plugin's own, for
//! all four versions.

use std::collections::BTreeMap;

use device_plugin_config::check::PluginVerdict;
use device_plugin_config::environment::PluginEnvironment;
use device_plugin_config::version::PluginVersion;
use serde::Deserialize;
use serde_json::Value;

use crate::check;

#[derive(Deserialize)]
struct Vectors {
    count: usize,
    vectors: Vec<Vector>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Vector {
    id: String,
    yaml: String,
    env: BTreeMap<String, String>,
    stage: String,
    effective: Option<Value>,
    error: Option<String>,
    #[serde(default)]
    other_versions: BTreeMap<String, Other>,
}

#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields)]
struct Other {
    stage: Option<String>,
    error: Option<String>,
    effective_diff: Option<serde_json::Map<String, Value>>,
}

#[test]
fn every_vector_has_the_plugins_verdict() {
    let Vectors { count, vectors } =
        serde_json::from_str(include_str!("../data/vectors.json")).unwrap();
    assert_eq!(vectors.len(), count);
    let mut wrong = Vec::new();
    for vector in &vectors {
        for version in PluginVersion::PROVEN {
            wrong.extend(compare(vector, version));
        }
    }
    assert!(wrong.is_empty(), "{} verdicts differ:\n{}", wrong.len(), wrong.join("\n"));
}

fn compare(vector: &Vector, version: PluginVersion) -> Option<String> {
    let mut environment = PluginEnvironment::default();
    for (name, value) in &vector.env {
        environment.set(name, value.as_str(), "the vector");
    }
    let nothing = Other::default();
    let other = vector.other_versions.get(&format!("v{version}")).unwrap_or(&nothing);
    let expected_stage = other.stage.as_ref().unwrap_or(&vector.stage);
    let expected_error =
        if other.stage.is_some() { other.error.as_ref() } else { vector.error.as_ref() };
    let (stage, error, effective) = match check(&vector.yaml, version, environment).0.verdict {
        PluginVerdict::Ok(effective) => {
            ("OK", None, Some(serde_json::to_value(*effective).unwrap()))
        }
        PluginVerdict::ParseError(error) => ("PARSE-ERR", Some(error), None),
        PluginVerdict::ValidateError(error) => ("VALIDATE-ERR", Some(error), None),
    };
    let difference = |what: &str, found: &str, expected: &str| {
        Some(format!("{} at {version}: {what}: {found}, expected {expected}", vector.id))
    };
    if stage != expected_stage {
        return difference("stage", stage, expected_stage);
    }
    if let (Some(error), Some(expected)) = (&error, expected_error)
        && error.split('[').next() != expected.split('[').next()
    {
        return difference("error", error, expected);
    }
    if error.is_some() != expected_error.is_some() {
        return difference("error", &format!("{error:?}"), &format!("{expected_error:?}"));
    }
    // Where only another version's stage is known, its result is not.
    let (Some(found), Some(mut expected)) = (effective, vector.effective.clone()) else {
        return None;
    };
    for (key, value) in other.effective_diff.iter().flatten() {
        expected[key] = value.clone();
    }
    if version < PluginVersion::minor(20) {
        expected.as_object_mut().unwrap().remove("sharedDevicesAllocationPolicy");
    }
    if found == expected {
        None
    } else {
        difference("effective", &found.to_string(), &expected.to_string())
    }
}
