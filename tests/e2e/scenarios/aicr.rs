//! Manifest files of NVIDIA AICR on a real API server. What a bundle's local charts send is what
//! real Helm makes of AICR's own files, read here without the program's code for AICR.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use tokio::process::Command;

use crate::harness::apply::Applier;
use crate::harness::repository::{gpu_rollout, repository};
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;

/// The data of AICR; `PROVENANCE.md` in it says where it comes from.
const DATA: &str = "crates/recipe/tests/data/aicr-v0.11.1";
/// Kinds of objects whose CRDs come with charts that are not here: group, kind, plural and scope.
/// All have the version v1alpha1. The server accepts every field of them.
const WITHOUT_SCHEMA: [[&str; 4]; 3] = [
    ["skyhook.nvidia.com", "Skyhook", "skyhooks", "Cluster"],
    ["trainer.kubeflow.org", "ClusterTrainingRuntime", "clustertrainingruntimes", "Cluster"],
    ["gateway.kgateway.dev", "GatewayParameters", "gatewayparameters", "Namespaced"],
];
/// Prefixes of annotations that a bundle adds or removes: those of deployers.
const OF_DEPLOYERS: [&str; 3] = ["helm.sh/", "argocd.argoproj.io/", "kustomize.toolkit.fluxcd.io/"];

/// Objects by kind, namespace and name.
type Objects = BTreeMap<String, Value>;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn server_receives_what_helm_makes_of_aicr_files() -> Result<()> {
    scenario("aicr", async |stack| {
        let applier = Applier::new(&stack.client);
        for kind in WITHOUT_SCHEMA {
            applier.apply_crd(&crd_without_schema(kind)).await?;
        }
        let mut namespaces = BTreeSet::from(["kube-system".to_owned()]);
        let mut compared = 0;
        for result in results()? {
            compared += check(stack, &applier, &mut namespaces, &result)
                .await
                .with_context(|| result.display().to_string())?;
        }
        eprintln!("aicr: {compared} objects");
        ensure!(compared > 40, "only {compared} objects");
        Ok(())
    })
    .await
}

fn results() -> Result<Vec<PathBuf>> {
    let files = fs::read_dir(repository(DATA).join("recipe-results"))?;
    let mut files = files.map(|file| Ok(file?.path())).collect::<Result<Vec<_>>>()?;
    files.sort();
    ensure!(files.len() == 9, "{files:?}");
    Ok(files)
}

/// Renders the bundle of a result, and compares what the server makes of both. Returns the number
/// of objects.
async fn check(
    stack: &Stack,
    applier: &Applier,
    namespaces: &mut BTreeSet<String>,
    result: &Path,
) -> Result<usize> {
    let bundle =
        stack.helm.directory().join("bundles").join(result.file_stem().unwrap_or_default());
    let output = Command::new(gpu_rollout()?)
        .args(["bundle", "render", "--deployer", "helm", "--set", "cluster.gpuNodes=8", "--recipe"])
        .arg(result)
        .arg("--data")
        .arg(repository(DATA))
        .arg("--output")
        .arg(&bundle)
        .output()
        .await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let info = yaml_file(&bundle.join("bundle-info.yaml"))?;
    let of_aicr = yaml_file(result)?;
    let mut all: Vec<(String, Objects, Objects)> = Vec::new();
    for component in of_aicr["componentRefs"].as_array().context("componentRefs")? {
        let namespace = namespace(&info, component)?;
        let theirs = helm_of_aicr(stack, component, &namespace).await?;
        let mut ours = helm_of_bundle(stack, &bundle, &info, text(&component["name"])).await?;
        // The catalog's CRDs are not AICR's.
        ours.retain(|name, object| !is_crd(object) || theirs.contains_key(name));
        all.push((namespace, theirs, ours));
    }
    // Other objects may be of these kinds.
    for object in all.iter().flat_map(|(_, _, ours)| ours.values()) {
        if is_crd(object) {
            applier.apply_crd(object).await?;
        }
    }
    let mut compared = 0;
    for (namespace, theirs, ours) in &all {
        for object in theirs.values().chain(ours.values()) {
            let own = object["metadata"]["namespace"].as_str().unwrap_or(namespace);
            if namespaces.insert(own.to_owned()) {
                stack.create_namespace(own).await?;
            }
        }
        ensure!(
            theirs.keys().eq(ours.keys()),
            "of AICR: {:?}\nof the bundle: {:?}",
            theirs.keys(),
            ours.keys()
        );
        for (name, object) in theirs {
            let expected = as_received(applier, object, namespace).await.context("of AICR")?;
            let found = as_received(applier, &ours[name], namespace).await?;
            ensure!(found == expected, "{name}:\nof AICR {expected:#}\nof the bundle {found:#}");
            compared += 1;
        }
    }
    Ok(compared)
}

/// Returns the namespace of a component. AICR's registry, which the program reads, has those that a
/// result does not name.
fn namespace(info: &Value, component: &Value) -> Result<String> {
    let releases = info["releases"].as_array().context("releases")?;
    let of_bundle = releases.iter().find(|release| release["name"] == component["name"]);
    let of_bundle = of_bundle.and_then(|release| release["namespace"].as_str());
    let named = component["namespace"].as_str();
    ensure!(named.is_none_or(|named| Some(named) == of_bundle), "{component}: {of_bundle:?}");
    Ok(of_bundle.context("no release")?.to_owned())
}

/// Returns what Helm makes of a component's manifest files in a chart that has the name and version
/// of the component's chart, and the component's values below the component's name.
async fn helm_of_aicr(stack: &Stack, component: &Value, namespace: &str) -> Result<Objects> {
    let files: Vec<&str> = ["preManifestFiles", "manifestFiles"]
        .iter()
        .filter_map(|key| component[*key].as_array())
        .flatten()
        .map(text)
        .collect();
    if files.is_empty() {
        return Ok(Objects::new());
    }
    let name = text(&component["name"]);
    let chart = tempfile::tempdir_in(stack.helm.directory())?;
    fs::create_dir(chart.path().join("templates"))?;
    let version = component["version"].as_str().unwrap_or("0.1.0");
    let head = json!({
        "apiVersion": "v2",
        "name": component["chart"].as_str().unwrap_or(name),
        "version": version.trim_start_matches('v'),
    });
    fs::write(chart.path().join("Chart.yaml"), head.to_string())?;
    let values = json!({ name: values_of_aicr(component)? });
    fs::write(chart.path().join("values.yaml"), values.to_string())?;
    for file in files {
        let file = repository(DATA).join(file);
        let copy = chart.path().join("templates").join(file.file_name().context("a name")?);
        fs::copy(&file, copy).with_context(|| file.display().to_string())?;
    }
    let chart = chart.path().display().to_string();
    template(stack, &[name, &chart, "--namespace", namespace]).await
}

/// Merges values as AICR does: those of the component, those of the named file, and the overrides.
fn values_of_aicr(component: &Value) -> Result<Value> {
    let base = repository(DATA).join("components").join(text(&component["name"]));
    let mut all = Value::Object(Map::new());
    if let Some(named) = component["valuesFile"].as_str() {
        for file in [base.join("values.yaml"), repository(DATA).join(named)] {
            if file.exists() {
                merge(&mut all, &yaml_file(&file)?);
            }
        }
    }
    merge(&mut all, &component["overrides"]);
    Ok(all)
}

/// Merges maps. A null deletes.
fn merge(all: &mut Value, values: &Value) {
    let (Some(all), Some(values)) = (all.as_object_mut(), values.as_object()) else { return };
    for (key, value) in values {
        if value.is_null() {
            all.remove(key);
        } else if value.is_object() && all.get(key).is_some_and(Value::is_object) {
            merge(&mut all[key], value);
        } else {
            all.insert(key.clone(), value.clone());
        }
    }
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Returns what Helm makes of the bundle's local charts of a component, without custom resources and
/// hooks.
async fn helm_of_bundle(
    stack: &Stack,
    bundle: &Path,
    info: &Value,
    component: &str,
) -> Result<Objects> {
    let of_manifests = [
        format!("{component}-crds"),
        format!("{component}-pre-manifests"),
        format!("{component}-manifests"),
        component.to_owned(),
    ];
    let releases = info["releases"].as_array().context("releases")?;
    let mut objects = Objects::new();
    for release in releases.iter().filter(|release| {
        of_manifests.iter().any(|name| release["name"] == **name)
            && (release["kind"] == "manifests" || release["kind"] == "crds")
    }) {
        let chart = bundle.join(text(&release["folder"])).display().to_string();
        let mut arguments =
            vec![text(&release["name"]).to_owned(), chart, "--namespace".to_owned()];
        arguments.push(text(&release["namespace"]).to_owned());
        for shared in release["shares"].as_array().into_iter().flatten() {
            let shared = releases.iter().find(|release| release["name"] == *shared);
            let folder = text(&shared.context("shares")?["folder"]);
            arguments.push("--values".to_owned());
            arguments.push(bundle.join(folder).join("values.yaml").display().to_string());
        }
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        objects.extend(template(stack, &arguments).await?);
    }
    Ok(objects)
}

async fn template(stack: &Stack, arguments: &[&str]) -> Result<Objects> {
    let arguments = [&["template"], arguments].concat();
    let objects: Vec<Value> = serde_yaml::from_multiple(&stack.helm.ok(&arguments).await?.stdout)?;
    let objects = objects.into_iter().filter(|object| !object.is_null());
    Ok(objects
        .map(|object| {
            let metadata = &object["metadata"];
            let namespace = metadata["namespace"].as_str().unwrap_or_default();
            (format!("{} {namespace}/{}", text(&object["kind"]), text(&metadata["name"])), object)
        })
        .collect())
}

/// Returns an object as the server would store it, without what differs at each request.
async fn as_received(applier: &Applier, object: &Value, namespace: &str) -> Result<Value> {
    let mut object = object.clone();
    if let Some(annotations) = object["metadata"]["annotations"].as_object_mut() {
        annotations.retain(|key, _| !OF_DEPLOYERS.iter().any(|prefix| key.starts_with(prefix)));
    }
    let mut received = serde_json::to_value(applier.accepts(&object, namespace).await?)?;
    let metadata = received["metadata"].as_object_mut().context("metadata")?;
    metadata.retain(|key, value| {
        let differs = ["creationTimestamp", "managedFields", "resourceVersion", "uid"];
        !differs.contains(&key.as_str()) && value != &json!({})
    });
    Ok(received)
}

fn crd_without_schema([group, kind, plural, scope]: [&str; 4]) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {
            "group": group,
            "names": {"kind": kind, "plural": plural},
            "scope": scope,
            "versions": [{
                "name": "v1alpha1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": schema},
            }],
        },
    })
}

fn yaml_file(path: &Path) -> Result<Value> {
    let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    Ok(serde_yaml::from_str(&text)?)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
