//! kubeconform and kube-score on every object of every bundle of the library. The schemas are those
//! that a real API server publishes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::apply::Applier;
use crate::harness::rendered::{
    Rendered, crds_of_deployer, of_argocd, of_flux, of_local_charts, planned, render_library, said,
};
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::tools::program;

const GIT: &str = "https://git.example.com/fleet.git";
/// The checks of kube-score that hooks fail with default values, and why they may.
const EXPLAINED: [(&str, &str); 6] = [
    (
        "container-cpu-requests-equal-limits",
        "the request is what a hook needs most of the time, the limit what a change of a large fleet needs",
    ),
    ("container-memory-requests-equal-limits", "as above"),
    ("container-resource-requests-equal-limits", "as above"),
    (
        "container-image-pull-policy",
        "a tag of the image never changes, and a hook must start while the registry is away",
    ),
    (
        "container-ephemeral-storage-request-and-limit",
        "`rollout.pod.resources` sets them; the hook writes nothing but its log, and a limit would evict it for that",
    ),
    ("pod-networkpolicy", "`rollout.networkPolicy` creates one; many clusters enforce none"),
];

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e-full"]
async fn bundles_pass_kubeconform_and_kube_score() -> Result<()> {
    scenario("linters", async |stack| {
        let applier = Applier::new(&stack.client);
        let mut crds = [crds_of_deployer("flux")?, crds_of_deployer("argo-cd")?].concat();
        let bundles = stack.helm.directory().join("bundles");
        render_library(&["helm", "flux", "argocd"], GIT, &bundles).await?;
        let mut all: BTreeMap<&str, Vec<Rendered>> = BTreeMap::new();
        for name in catalog::recipe_names() {
            let plan = planned(name)?;
            let bundle = bundles.join(name);
            let mut objects = of_local_charts(&stack.helm, &plan, &bundle.join("helm")).await?;
            crds.extend(objects.iter().map(|(_, object)| object.clone()).filter(is_crd));
            objects.extend(of_flux(&bundle.join("flux")).await?);
            objects.extend(of_argocd(&bundle.join("argocd"))?);
            all.insert(name, objects);
        }
        // The newest version of a component comes last.
        for crd in &crds {
            applier.apply_crd(crd).await?;
        }
        conform(stack, &all).await?;
        score(stack, &all).await
    })
    .await
}

fn is_crd(object: &Value) -> bool {
    object["kind"] == "CustomResourceDefinition"
}

/// Runs kubeconform on all objects, and on one that it must reject.
async fn conform(stack: &Stack, all: &BTreeMap<&str, Vec<Rendered>>) -> Result<()> {
    let directory = stack.helm.directory().join("kubeconform");
    let schemas = directory.join("schemas");
    fs::create_dir_all(&schemas)?;
    let objects = || all.values().flatten().map(|(_, object)| object);
    let kinds: BTreeSet<(&str, &str)> =
        objects().map(|object| (text(&object["apiVersion"]), text(&object["kind"]))).collect();
    for (version, kind) in kinds {
        write_schema(stack, version, kind, &schemas).await?;
    }
    for (recipe, objects) in all {
        let list: Vec<&Value> = objects.iter().map(|(_, object)| object).collect();
        fs::write(
            directory.join(format!("{recipe}.json")),
            json!({"apiVersion": "v1", "kind": "List", "items": list}).to_string(),
        )?;
    }
    let mut wrong = objects().find(|object| object["kind"] == "Job").context("a Job")?.clone();
    wrong["spec"]["backofLimit"] = json!(2);
    fs::write(directory.join("wrong.json"), wrong.to_string())?;
    let kubeconform = |file: &str| -> Result<Command> {
        let mut command = Command::new(program("kubeconform")?);
        command
            .args(["-strict", "-summary", "-schema-location"])
            .arg(schemas.join("{{ .Group }}-{{ .ResourceAPIVersion }}-{{ .ResourceKind }}.json"))
            .arg(directory.join(file));
        Ok(command)
    };
    for recipe in all.keys() {
        let summary = said(&mut kubeconform(&format!("{recipe}.json"))?).await?;
        ensure!(summary.contains("Skipped: 0"), "{recipe}: {summary}");
        eprintln!("{recipe}: {}", summary.trim());
    }
    let output = kubeconform("wrong.json")?.output().await?;
    let answer = String::from_utf8_lossy(&output.stdout);
    ensure!(!output.status.success() && answer.contains("backofLimit"), "{answer}");
    Ok(())
}

/// Writes the server's schema of a kind as kubeconform reads it: a JSON schema that allows no other
/// fields.
async fn write_schema(stack: &Stack, version: &str, kind: &str, schemas: &Path) -> Result<()> {
    let (path, group, short) = match version.split_once('/') {
        Some((group, short)) => (format!("apis/{version}"), group, short),
        None => (format!("api/{version}"), "", version),
    };
    let request = http::Request::get(format!("/openapi/v3/{path}")).body(Vec::new())?;
    let mut document: Value = stack.client.request(request).await?;
    let definitions = document["components"]["schemas"].as_object_mut().context("no schemas")?;
    let of_kind = json!({"group": group, "version": short, "kind": kind});
    let name = definitions.iter().find_map(|(name, schema)| {
        let kinds = schema["x-kubernetes-group-version-kind"].as_array()?;
        (kinds.contains(&of_kind) && kinds.len() == 1).then(|| name.clone())
    });
    let name = name.with_context(|| format!("no schema of {kind} in {version}"))?;
    definitions.values_mut().for_each(close);
    document["$ref"] = json!(format!("#/components/schemas/{name}"));
    // As kubeconform fills in the names of files: objects of the core group have no group.
    let group = if group.is_empty() { short } else { group };
    let file = schemas.join(format!("{group}-{short}-{}.json", kind.to_lowercase()));
    fs::write(file, document.to_string())?;
    Ok(())
}

/// Makes a schema reject fields that it does not have.
fn close(schema: &mut Value) {
    let Some(object) = schema.as_object_mut() else { return };
    let keeps_unknown = object.get("x-kubernetes-preserve-unknown-fields") == Some(&json!(true))
        || object.get("x-kubernetes-embedded-resource") == Some(&json!(true));
    if object.contains_key("properties")
        && !object.contains_key("additionalProperties")
        && !keeps_unknown
    {
        object.insert("additionalProperties".to_owned(), json!(false));
    }
    if let Some(properties) = object.get_mut("properties").and_then(Value::as_object_mut) {
        properties.values_mut().for_each(close);
    }
    for key in ["items", "additionalProperties"] {
        if let Some(inner) = object.get_mut(key) {
            close(inner);
        }
    }
}

/// Runs kube-score on the objects of hooks, and compares what it finds with what is explained.
async fn score(stack: &Stack, all: &BTreeMap<&str, Vec<Rendered>>) -> Result<()> {
    let mut found: BTreeMap<String, String> = BTreeMap::new();
    for (recipe, objects) in all {
        let file = stack.helm.directory().join(format!("{recipe}-score.yaml"));
        let mut documents = String::new();
        for (namespace, object) in objects.iter().filter(|(_, object)| !is_crd(object)) {
            let mut object = object.clone();
            // kube-score matches a NetworkPolicy with pods by namespace.
            if object["metadata"]["namespace"].is_null() {
                object["metadata"]["namespace"] = json!(namespace);
            }
            writeln!(documents, "---\n{object}")?;
        }
        fs::write(&file, documents)?;
        let output = Command::new(program("kube-score")?)
            .args([
                "score",
                "--all-default-optional",
                "--kubernetes-version",
                "v1.34",
                "-o",
                "json",
            ])
            .arg(&file)
            .output()
            .await?;
        // Null, if a recipe has no objects that kube-score knows.
        let scored: Option<Vec<Value>> = serde_json::from_slice(&output.stdout)
            .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
        for object in scored.iter().flatten() {
            for check in object["checks"].as_array().into_iter().flatten() {
                // 10 is the best grade.
                if check["skipped"] != true && check["grade"].as_u64().unwrap_or_default() < 10 {
                    let place = format!(
                        "{recipe}: {}: {}",
                        text(&object["object_name"]).to_owned(),
                        check["comments"]
                    );
                    found.entry(text(&check["check"]["id"]).to_owned()).or_insert(place);
                }
            }
        }
    }
    let explained: BTreeSet<String> = EXPLAINED.iter().map(|(id, _)| (*id).to_owned()).collect();
    ensure!(found.keys().cloned().collect::<BTreeSet<_>>() == explained, "{found:#?}");
    Ok(())
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}
