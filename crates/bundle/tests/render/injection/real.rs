//! Runs the programs that read bundles (Go's YAML, Helm, a shell) on a bundle in which every free
//! text is hostile.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use bundle::write;
use deployer::layout::folders;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, plan};
use serde_json::{Map, Value, json};

use super::{bases, bundles, read};
use crate::render::helm::helm;
use crate::render::hostile::{PAYLOADS, files, is_helm_template, is_yaml};
use crate::render::reading;
use crate::render::tools::tool;

/// Returns all payloads and all trees that Helm passes on. Helm removes null entries from values,
/// and reads numbers as floating-point numbers. (A recipe written as JSON cannot contain a longer
/// key.)
fn values() -> Map<String, Value> {
    fn tame(value: &Value) -> Value {
        match value {
            Value::Object(map) => Value::Object(
                map.iter()
                    .filter(|(key, value)| !value.is_null() && key.len() < 1000)
                    .map(|(key, value)| (key.clone(), tame(value)))
                    .collect(),
            ),
            Value::Array(items) => items.iter().map(tame).collect(),
            Value::Number(number) => json!(number.as_i64().unwrap_or_default() >> 12),
            Value::Null | Value::Bool(_) | Value::String(_) => value.clone(),
        }
    }
    let keys: Map<String, Value> =
        PAYLOADS.iter().map(|payload| ((*payload).to_owned(), json!(payload))).collect();
    let trees: Vec<Value> = reading::trees(150).iter().map(tame).collect();
    Map::from_iter([
        ("payloads".to_owned(), json!(PAYLOADS)),
        ("keys".to_owned(), json!(keys)),
        ("trees".to_owned(), json!(trees)),
    ])
}

/// A recipe whose free texts are hostile.
pub(crate) fn hostile() -> Value {
    let mut recipe = bases().swap_remove(0);
    let env: Vec<Value> = PAYLOADS
        .iter()
        .enumerate()
        .map(|(index, payload)| json!({"name": format!("E{index}"), "value": payload}))
        .collect();
    let annotations: Map<String, Value> = PAYLOADS
        .iter()
        .enumerate()
        .map(|(index, payload)| (format!("example.com/a{index}"), json!(payload)))
        .collect();
    recipe["metadata"]["description"] =
        json!("{{ fail \"x\" }} # `touch injected` $(touch injected) 'x' \"y\" --- key: injected");
    recipe["rollout"]["metrics"]["dashboard"]["annotations"] = json!(annotations);
    let components = recipe["components"].as_array_mut().unwrap();
    components[0]["values"] = json!({"driver": {"env": env.clone()}});
    components[1]["customResources"]["NicClusterPolicy"]["ofedDriver"]["env"] = json!(env);
    components[2]["values"] = Value::Object(values());
    recipe
}

/// Returns the files of a bundle that are YAML without being rendered.
fn documents(bundle: &Path) -> Vec<(PathBuf, String)> {
    let all = files(bundle.parent().unwrap().parent().unwrap()).into_iter();
    all.filter(|(name, _)| is_yaml(name) && !is_helm_template(name))
        .map(|(name, text)| (bundle.join(name), text))
        .collect()
}

#[test]
#[ignore = "needs Go (make e2e)"]
fn go_reads_every_hostile_bundle_as_meant() {
    let loaded = read(&hostile()).unwrap();
    for (deployer, tree) in bundles(&loaded, &PlanOptions::default()) {
        let directory = tempfile::tempdir().unwrap();
        let bundle = directory.path().join("injection").join(deployer);
        write(&tree, &bundle, false).unwrap();
        let documents = documents(&bundle);
        let paths: Vec<PathBuf> = documents.iter().map(|(path, _)| path.clone()).collect();
        for (found, (path, text)) in reading::read(&paths).iter().zip(&documents) {
            let meant: Vec<Value> = serde_yaml::from_multiple(text).unwrap();
            assert_eq!(found, &json!(meant), "{}", path.display());
        }
        let queue = documents.iter().position(|(path, _)| {
            path.ends_with("values.yaml")
                && path.parent().unwrap().to_str().unwrap().ends_with("-queue")
        });
        assert_eq!(
            reading::read(&paths[queue.unwrap()..=queue.unwrap()])[0],
            json!([values()]),
            "{deployer}"
        );
    }
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helm_3_passes_hostile_values_on_unchanged() {
    passes_on(&tool("helm3"));
}

#[test]
#[ignore = "needs helm (make e2e)"]
fn helm_4_passes_hostile_values_on_unchanged() {
    passes_on(&tool("helm4"));
}

fn passes_on(program: &Path) {
    let recipe = hostile();
    let loaded = read(&recipe).unwrap();
    let plan = plan(&loaded.recipe, &EmbeddedCatalog, &PlanOptions::default()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    let (_, tree) = bundles(&loaded, &PlanOptions::default()).swap_remove(0);
    write(&tree, &bundle, false).unwrap();
    let chart = directory.path().join("chart");
    fs::create_dir_all(chart.join("templates")).unwrap();
    fs::write(chart.join("Chart.yaml"), "apiVersion: v2\nname: show\nversion: 1.0.0\n").unwrap();
    fs::write(chart.join("templates/values.yaml"), "shown: {{ .Values | toJson | b64enc }}\n")
        .unwrap();
    for (folder, release) in folders(&plan) {
        match &release.kind {
            ReleaseKind::Upstream(upstream) => {
                let values = format!("{folder}/values.yaml");
                let text = helm(
                    program,
                    &bundle,
                    &["template", chart.to_str().unwrap(), "--values", &values],
                );
                let shown = text.lines().find_map(|line| line.strip_prefix("shown: ")).unwrap();
                let shown: Value = serde_json::from_slice(&base64(shown)).unwrap();
                assert_eq!(shown, json!(upstream.values), "{folder}");
            }
            ReleaseKind::Manifests(manifests) => {
                let text = helm(
                    program,
                    &bundle,
                    &["template", &release.name, &folder, "--namespace", &release.namespace],
                );
                assert_eq!(
                    serde_yaml::from_multiple::<Value>(&text).unwrap(),
                    manifests.objects,
                    "{folder}"
                );
            }
            ReleaseKind::Hook(hook) if hook.settings["metrics"].get("dashboard").is_some() => {
                let values = format!("{folder}/rollout.yaml");
                let arguments = [
                    "template",
                    &release.name,
                    &folder,
                    "--values",
                    &values,
                    "--kube-version",
                    "1.34.0",
                ];
                let objects: Vec<Value> =
                    serde_yaml::from_multiple(&helm(program, &bundle, &arguments)).unwrap();
                let meant = &recipe["rollout"]["metrics"]["dashboard"]["annotations"];
                let has_all = |object: &Value| {
                    meant
                        .as_object()
                        .unwrap()
                        .iter()
                        .all(|(key, value)| &object["metadata"]["annotations"][key] == value)
                };
                assert!(objects.iter().any(has_all), "{folder}");
            }
            ReleaseKind::Hook(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Crds(_)
            | ReleaseKind::Kustomization(_) => {}
        }
    }
    // The umbrella chart of Argo CD.
    let (_, tree) = bundles(&loaded, &PlanOptions::default())
        .into_iter()
        .find(|(deployer, _)| *deployer == "argocd-helm")
        .unwrap();
    let umbrella = directory.path().join("umbrella");
    write(&tree, &umbrella, false).unwrap();
    let text = helm(
        program,
        &umbrella,
        &[
            "template",
            "x",
            ".",
            "--set",
            "repoURL=https://git.example.com/fleet.git,targetRevision=main",
        ],
    );
    let applications: Vec<Value> = serde_yaml::from_multiple(&text).unwrap();
    assert_eq!(
        applications.iter().filter(|object| object["kind"] == "Application").count(),
        plan.releases.len()
    );
    assert!(!bundle.join("injected").exists() && !umbrella.join("injected").exists());
}

fn base64(text: &str) -> Vec<u8> {
    const DIGITS: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut bytes = Vec::new();
    let (mut bits, mut count) = (0_u32, 0);
    for digit in text.bytes().filter_map(|byte| DIGITS.bytes().position(|digit| digit == byte)) {
        bits = bits << 6 | u32::try_from(digit).unwrap();
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 0xff).unwrap());
        }
    }
    bytes
}

/// A Helm that writes its arguments down, each ended by NUL, each call by a second one.
const HELM: &str = "#!/bin/sh\ncase $1 in\n  version) echo v3.18.0; exit 0 ;;\n  list) exit 0 ;;\nesac\nprintf '%s\\0' \"$@\" >>\"$CALLS\"\nprintf '\\0' >>\"$CALLS\"\n";

#[test]
fn deploy_script_passes_every_word_unchanged() {
    let loaded = read(&hostile()).unwrap();
    let place = "/mnt/a b;touch injected&(x)#*";
    let options = PlanOptions {
        chart_repositories: [("nvidia".to_owned(), place.to_owned())].into(),
        ..PlanOptions::default()
    };
    let plan = plan(&loaded.recipe, &EmbeddedCatalog, &options).unwrap();
    let source = bundle::BundleInput {
        recipe: &loaded.recipe,
        plan: &plan,
        options: &options,
        deployer: "helm".parse().unwrap(),
        hook_chart: catalog::hook_chart::contents(),
        source: None,
    };
    let directory = tempfile::tempdir().unwrap();
    let bundle = directory.path().join("bundle");
    write(&bundle::build(source).unwrap(), &bundle, false).unwrap();
    let (stub, calls) = (directory.path().join("helm"), directory.path().join("calls"));
    fs::write(&stub, HELM).unwrap();
    fs::set_permissions(&stub, fs::Permissions::from_mode(0o755)).unwrap();
    for script in ["deploy.sh", "undeploy.sh"] {
        assert!(
            Command::new("sh").arg("-n").arg(bundle.join(script)).status().unwrap().success(),
            "{script}"
        );
    }
    let output = Command::new("sh")
        .arg(bundle.join("deploy.sh"))
        .current_dir(directory.path())
        .env("HELM", &stub)
        .env("CALLS", &calls)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = fs::read_to_string(&calls).unwrap();
    let calls: Vec<Vec<&str>> =
        text.split_terminator("\0\0").map(|call| call.split('\0').collect()).collect();
    assert_eq!(calls.len(), plan.releases.len());
    for (call, release) in calls.iter().zip(&plan.releases) {
        assert_eq!(call[..3], ["upgrade", "--install", &release.name]);
        let behind = |option: &str| {
            call.iter().position(|word| *word == option).map(|index| call[index + 1])
        };
        assert_eq!(behind("--namespace"), Some(release.namespace.as_str()));
        if let ReleaseKind::Upstream(upstream) = &release.kind {
            assert!(call.contains(&"--values"), "{call:?}");
            match &upstream.chart {
                release::ChartOrigin::File(path) => assert_eq!(call[3], path),
                release::ChartOrigin::Repository { url, name } => {
                    assert_eq!(
                        (call[3], behind("--repo"), behind("--version")),
                        (name.as_str(), Some(url.as_str()), Some(upstream.version.as_str()))
                    );
                }
                release::ChartOrigin::Oci(reference) => assert_eq!(call[3], reference),
            }
        }
    }
    assert!(!directory.path().join("injected").exists() && !bundle.join("injected").exists());
}
