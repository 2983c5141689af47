//! Acceptance tests in a bundle: their pod templates in the values of the hook that runs them.

use serde_json::{Map, Value, json};

use super::images::LocatedImage;
use catalog::lookup;
use contract::image_reference::split;
use recipe::model::{RecipeAcceptanceTest, RecipeTestPod};

/// The key of a test's pod template in the hook chart's values.
const TEMPLATE: &str = "template";
/// The name of the only container of a pod in the recipe's short form.
const CONTAINER: &str = "test";
/// The lists of a pod's containers.
const CONTAINERS: [&str; 2] = ["initContainers", "containers"];

/// Adds the pod templates to `rollout.upgrade` of the hook chart, whose tests are these, in this
/// order.
pub(super) fn add_templates(upgrade: &mut Value, tests: &[RecipeAcceptanceTest]) {
    let listed = upgrade.get_mut("acceptance").and_then(Value::as_array_mut);
    for (settings, test) in listed.into_iter().flatten().zip(tests) {
        if let Some(settings) = settings.as_object_mut() {
            settings.insert(TEMPLATE.to_owned(), template(test));
        }
    }
}

/// Returns the PodTemplateSpec of a test. It names the only restart policy that a test can have,
/// because the API server's default would be another one.
fn template(test: &RecipeAcceptanceTest) -> Value {
    let mut template = match (&test.pod_template, &test.pod) {
        (Some(template), _) => template.clone(),
        (None, Some(pod)) => with_values([("spec", Some(json!(short_spec(pod))))]),
        // The rules of recipes refuse it.
        (None, None) => Map::new(),
    };
    if let Some(spec) = template.get_mut("spec").and_then(Value::as_object_mut) {
        spec.insert("restartPolicy".to_owned(), json!("Never"));
    }
    Value::Object(template)
}

/// Returns the PodSpec of the short form.
fn short_spec(pod: &RecipeTestPod) -> Map<String, Value> {
    let env = pod.env.iter().map(|(name, value)| json!({"name": name, "value": value}));
    let some = |value: Value, is_empty: bool| (!is_empty).then_some(value);
    let container = [
        ("name", Some(json!(CONTAINER))),
        ("image", Some(json!(pod.image))),
        ("command", some(json!(pod.command), pod.command.is_empty())),
        ("args", some(json!(pod.args), pod.args.is_empty())),
        ("env", some(env.collect(), pod.env.is_empty())),
        ("resources", some(json!(pod.resources), pod.resources.is_empty())),
        ("securityContext", some(json!(pod.security_context), pod.security_context.is_empty())),
    ];
    let spec = [
        // A test has no reason to talk to the API server.
        ("automountServiceAccountToken", Some(json!(false))),
        ("runtimeClassName", pod.runtime_class_name.as_ref().map(|name| json!(name))),
        (
            "imagePullSecrets",
            some(json!(pod.image_pull_secrets), pod.image_pull_secrets.is_empty()),
        ),
        ("tolerations", some(json!(pod.tolerations), pod.tolerations.is_empty())),
        ("containers", Some(json!([with_values(container)]))),
    ];
    with_values(spec)
}

/// Returns the fields that have a value.
fn with_values<const N: usize>(fields: [(&str, Option<Value>); N]) -> Map<String, Value> {
    fields.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))).collect()
}

/// Returns the PodSpecs of all tests in the settings of a hook release.
pub(super) fn pod_specs(settings: &mut Map<String, Value>) -> Vec<&mut Map<String, Value>> {
    let tests = settings
        .get_mut("upgrade")
        .and_then(|upgrade| upgrade.get_mut("acceptance"))
        .and_then(Value::as_array_mut);
    tests.into_iter().flatten().filter_map(pod_spec).collect()
}

fn pod_spec(test: &mut Value) -> Option<&mut Map<String, Value>> {
    test.get_mut(TEMPLATE)?.get_mut("spec")?.as_object_mut()
}

/// Returns the containers of a PodSpec, with those that run before the others.
pub(super) fn containers(spec: &mut Map<String, Value>) -> Vec<&mut Map<String, Value>> {
    spec.iter_mut()
        .filter(|(key, _)| CONTAINERS.contains(&key.as_str()))
        .filter_map(|(_, list)| list.as_array_mut())
        .flatten()
        .filter_map(Value::as_object_mut)
        .collect()
}

/// Returns the images of the acceptance tests in the values of a hook release.
pub fn images(release: &str, values: &Map<String, Value>) -> Vec<LocatedImage> {
    let place = "rollout.upgrade.acceptance";
    let tests = lookup(values, place).and_then(Value::as_array);
    let mut found = Vec::new();
    for (number, test) in tests.into_iter().flatten().enumerate() {
        for key in CONTAINERS {
            let containers = test[TEMPLATE]["spec"][key].as_array();
            for (index, container) in containers.into_iter().flatten().enumerate() {
                let Some(reference) = container["image"].as_str() else { continue };
                let (repository, tag, digest) = split(reference);
                found.push(LocatedImage {
                    release: release.to_owned(),
                    place: format!("{place}.{number}.{TEMPLATE}.spec.{key}.{index}.image"),
                    repository: repository.to_owned(),
                    tag: tag.map(str::to_owned),
                    digest: digest.map(str::to_owned),
                    suffix: None,
                    enabled: true,
                });
            }
        }
    }
    found
}
