//! A real API server accepts all objects of bundles: the CRDs of the catalog, each version applied
//! over the previous one, and for every recipe the objects of Flux, Argo CD and the local charts.
//! Server-side apply includes CEL rules, and strict validation rejects unknown fields.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use recipe::load::load;
use recipe::read::FileSystemReader;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, ReleasePlan, plan};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::apply::Applier;
use crate::harness::repository::{gpu_rollout, repository};
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::tools::program;

const GIT: &str = "https://git.example.com/fleet.git";
const REGISTRY: &str = "oci://registry.example.com/fleet";
/// Concurrent requests.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn api_server_accepts_every_object_of_every_bundle() -> Result<()> {
    scenario("accepted", async |stack| {
        let applier = Applier::new(&stack.client);
        for namespace in ["flux-system", "argocd"] {
            stack.create_namespace(namespace).await?;
        }
        for folder in ["flux", "argo-cd"] {
            crds_of(folder, &applier).await?;
        }
        let mut crds = Crds::default();
        catalog_upgrades(&applier, &mut crds).await?;

        let bundles = stack.helm.directory().join("bundles");
        render(&["helm", "flux", "argocd"], GIT, &bundles.join("git")).await?;
        render(&["flux"], REGISTRY, &bundles.join("registry")).await?;
        let mut judged = 0;
        for name in catalog::recipe_names() {
            let plan = plan(
                &load(name, &[], &mut FileSystemReader)?.recipe,
                &EmbeddedCatalog,
                &PlanOptions::default(),
            )?;
            let bundle = |place: &str| bundles.join(place.replace('*', name));
            let mut objects =
                of_local_charts(stack, &applier, &mut crds, &plan, &bundle("git/*/helm")).await?;
            for place in ["git/*/flux", "registry/*/flux"] {
                objects.extend(of_flux(&bundle(place)).await?);
            }
            objects.extend(of_argocd(&bundle("git/*/argocd"))?);
            judged += objects.len();
            let answers = stream::iter(&objects)
                .map(async |(namespace, object)| applier.accepts(object, namespace).await);
            answers
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<()>>()
                .await
                .with_context(|| format!("recipe {name}"))?;
        }
        eprintln!("accepted: {judged} objects, {} CRDs", crds.0.len());
        refuses(&applier).await
    })
    .await
}

/// The CRDs in the server, by name.
#[derive(Default)]
struct Crds(BTreeMap<String, Value>);

impl Crds {
    /// Makes the server validate with this CRD.
    async fn replace(&mut self, applier: &Applier, crd: Value) -> Result<()> {
        let name = crd["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        match self.0.get(&name) {
            Some(known) if known["spec"] == crd["spec"] => return Ok(()),
            Some(_) => applier.remove_crd(&name).await?,
            None => {}
        }
        self.upgrade(applier, crd).await
    }

    /// Applies a CRD over the existing one, as deployers do.
    async fn upgrade(&mut self, applier: &Applier, crd: Value) -> Result<()> {
        applier.apply_crd(&crd).await?;
        self.0.insert(crd["metadata"]["name"].as_str().unwrap_or_default().to_owned(), crd);
        Ok(())
    }
}

/// Applies the CRDs of a deployer, from `tests/data`.
async fn crds_of(deployer: &str, applier: &Applier) -> Result<()> {
    for file in fs::read_dir(repository("tests/data").join(deployer))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            applier.apply_crd(&serde_yaml::from_str(&fs::read_to_string(&path)?)?).await?;
        }
    }
    Ok(())
}

/// Applies the CRDs of every component, from the oldest version to the newest.
async fn catalog_upgrades(applier: &Applier, crds: &mut Crds) -> Result<()> {
    for component in catalog::component_names().filter_map(catalog::component) {
        for version in &component.versions {
            let optional = version.optional_crds.iter().flat_map(|optional| &optional.crds);
            for path in version.crds.iter().chain(optional) {
                let path = format!("components/{}/{}/{path}", component.name, version.version);
                for crd in serde_yaml::from_multiple(
                    catalog::file(&path).context("no such file in the catalog")?,
                )? {
                    crds.upgrade(applier, crd).await.with_context(|| path.clone())?;
                }
            }
        }
    }
    Ok(())
}

/// Renders every recipe of the library as a user does.
async fn render(deployers: &[&str], repository: &str, output: &Path) -> Result<()> {
    let mut command = Command::new(gpu_rollout()?);
    command
        .args(["bundle", "render", "--repo", repository, "--path", "clusters/a", "--output"])
        .arg(output);
    command.args(catalog::recipe_names().flat_map(|name| ["--recipe", name]));
    command.args(deployers.iter().flat_map(|deployer| ["--deployer", deployer]));
    said(&mut command).await?;
    Ok(())
}

/// Returns the objects of the local charts, with the namespaces of their releases. Applies
/// namespaces and CRDs before it returns.
async fn of_local_charts(
    stack: &Stack,
    applier: &Applier,
    crds: &mut Crds,
    plan: &ReleasePlan,
    bundle: &Path,
) -> Result<Vec<(String, Value)>> {
    let mut objects = Vec::new();
    for (folder, release) in deployer::layout::folders(plan) {
        let made = match &release.kind {
            ReleaseKind::Upstream(_) => Vec::new(),
            ReleaseKind::Crds(own) => {
                for crd in &own.crds {
                    crds.replace(applier, serde_yaml::from_str(&crd.text)?)
                        .await
                        .with_context(|| folder.clone())?;
                }
                Vec::new()
            }
            // The library has none.
            ReleaseKind::Templates(_) => Vec::new(),
            ReleaseKind::Manifests(manifests) => manifests.objects.clone(),
            ReleaseKind::Hook(_) => {
                let own = format!("{folder}/rollout.yaml");
                let values = deployer::layout::values_of(plan, release).into_iter().chain([own]);
                let values = values
                    .map(|file| format!("--values={}", bundle.join(file).display()))
                    .collect::<Vec<_>>();
                let chart = bundle.join(&folder).display().to_string();
                let mut arguments = vec![
                    "template",
                    &release.name,
                    &chart,
                    "--namespace",
                    &release.namespace,
                    "--kube-version=1.34.0",
                ];
                arguments.extend(values.iter().map(String::as_str));
                serde_yaml::from_multiple(&stack.helm.ok(&arguments).await?.stdout)?
            }
        };
        for object in made {
            if object["kind"] == "Namespace" {
                applier.apply(&object, "").await.with_context(|| folder.clone())?;
            } else {
                objects.push((release.namespace.clone(), object));
            }
        }
    }
    Ok(objects)
}

/// Returns the objects of Flux: those that are applied once, and the output of Kustomize for the
/// rest.
async fn of_flux(bundle: &Path) -> Result<Vec<(String, Value)>> {
    let built = said(Command::new(program("kustomize")?).arg("build").arg(bundle)).await?;
    let mut objects: Vec<Value> = serde_yaml::from_multiple(&built)?;
    ensure!(
        objects.iter().any(|object| object["kind"] == "HelmRelease"),
        "no HelmRelease in {}",
        bundle.display()
    );
    objects.extend(read(&[
        bundle.join("flux-system/source.yaml"),
        bundle.join("flux-system/sync.yaml"),
    ])?);
    Ok(objects.into_iter().map(|object| ("flux-system".to_owned(), object)).collect())
}

/// Returns the objects of Argo CD. The umbrella chart of `argocd-helm` renders the same
/// Applications; `crates/bundle/tests/render` compares them.
fn of_argocd(bundle: &Path) -> Result<Vec<(String, Value)>> {
    let mut files: Vec<PathBuf> =
        ["root.yaml", "root-project.yaml", "project.yaml"].map(|file| bundle.join(file)).into();
    for file in fs::read_dir(bundle.join("apps"))? {
        files.push(file?.path());
    }
    Ok(read(&files)?.into_iter().map(|object| ("argocd".to_owned(), object)).collect())
}

fn read(files: &[PathBuf]) -> Result<Vec<Value>> {
    files
        .iter()
        .map(|file| {
            Ok(serde_yaml::from_str(
                &fs::read_to_string(file).with_context(|| file.display().to_string())?,
            )?)
        })
        .collect()
}

async fn said(command: &mut Command) -> Result<String> {
    let output = command.kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Checks that the server rejects a violated CEL rule, an unknown field and a wrong type.
async fn refuses(applier: &Applier) -> Result<()> {
    let object = |api: &str, kind: &str, spec: Value| json!({"apiVersion": api, "kind": kind, "metadata": {"name": "x"}, "spec": spec});
    let chart =
        json!({"spec": {"chart": "x", "sourceRef": {"kind": "GitRepository", "name": "x"}}});
    let reference = json!({"kind": "OCIRepository", "name": "x"});
    let both = json!({"interval": "1m", "chart": chart, "chartRef": reference});
    let source = json!({"project": "x", "destination": {}, "source": {"repoURL": "https://example.com/x", "directories": {}}});
    for (namespace, object, reason) in [
        (
            "flux-system",
            object("helm.toolkit.fluxcd.io/v2", "HelmRelease", both),
            "either chart or chartRef must be set",
        ),
        (
            "argocd",
            object("argoproj.io/v1alpha1", "Application", source),
            ".spec.source.directories: field not declared in schema",
        ),
        (
            "",
            object(
                "mellanox.com/v1alpha1",
                "NicClusterPolicy",
                json!({"ofedDriver": {"upgradePolicy": {"maxParallelUpgrades": "1"}}}),
            ),
            "maxParallelUpgrades",
        ),
    ] {
        let answer =
            applier.accepts(&object, namespace).await.err().map(|error| format!("{error:#}"));
        ensure!(
            answer.as_ref().is_some_and(|answer| answer.contains(reason)),
            "expected `{reason}`, got {answer:?} for {object}"
        );
    }
    Ok(())
}
