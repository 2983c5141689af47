//! The objects of bundles, as deployers create them: those of local charts, Flux and Argo CD.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use recipe::load::load;
use recipe::read::FileSystemReader;
use release::model::ReleaseKind;
use release::{EmbeddedCatalog, PlanOptions, ReleasePlan, plan};
use serde_json::Value;
use tokio::process::Command;

use super::helm::Helm;
use super::repository::{gpu_rollout, repository};
use super::tools::program;

/// An object, and the namespace that it is in if it names none.
pub(crate) type Rendered = (String, Value);

/// Renders every recipe of the library as a user does.
pub(crate) async fn render_library(
    deployers: &[&str],
    repository: &str,
    output: &Path,
) -> Result<()> {
    let mut command = Command::new(gpu_rollout()?);
    command
        .args(["bundle", "render", "--repo", repository, "--path", "clusters/a", "--output"])
        .arg(output);
    command.args(catalog::recipe_names().flat_map(|name| ["--recipe", name]));
    command.args(deployers.iter().flat_map(|deployer| ["--deployer", deployer]));
    said(&mut command).await?;
    Ok(())
}

/// Returns the plan of a recipe of the library.
pub(crate) fn planned(name: &str) -> Result<ReleasePlan> {
    let recipe = load(name, &[], &mut FileSystemReader)?.recipe;
    Ok(plan(&recipe, &EmbeddedCatalog, &PlanOptions::default())?)
}

/// Returns the CRDs of a deployer, from `tests/data`.
pub(crate) fn crds_of_deployer(deployer: &str) -> Result<Vec<Value>> {
    let mut files = Vec::new();
    for file in fs::read_dir(repository("tests/data").join(deployer))? {
        let path = file?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            files.push(path);
        }
    }
    read(&files)
}

/// Returns the objects of the local charts in deployment order, Namespaces and CRDs included.
pub(crate) async fn of_local_charts(
    helm: &Helm,
    plan: &ReleasePlan,
    bundle: &Path,
) -> Result<Vec<Rendered>> {
    let mut objects = Vec::new();
    for (folder, release) in deployer::layout::folders(plan) {
        let made = match &release.kind {
            // No recipe of the library has templates or kustomizations.
            ReleaseKind::Upstream(_)
            | ReleaseKind::Templates(_)
            | ReleaseKind::Kustomization(_) => Vec::new(),
            ReleaseKind::Crds(own) => own
                .crds
                .iter()
                .map(|crd| serde_yaml::from_str(crd.text.as_str()).with_context(|| folder.clone()))
                .collect::<Result<_>>()?,
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
                serde_yaml::from_multiple(&helm.ok(&arguments).await?.stdout)?
            }
        };
        objects.extend(made.into_iter().map(|object| (release.namespace.clone(), object)));
    }
    Ok(objects)
}

/// Returns the objects of Flux: those that are applied once, and the output of Kustomize for the
/// rest.
pub(crate) async fn of_flux(bundle: &Path) -> Result<Vec<Rendered>> {
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
pub(crate) fn of_argocd(bundle: &Path) -> Result<Vec<Rendered>> {
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

/// Runs a command to its end, and returns its standard output.
pub(crate) async fn said(command: &mut Command) -> Result<String> {
    let output = command.kill_on_drop(true).output().await?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
