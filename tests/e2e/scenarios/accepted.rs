//! A real API server accepts all objects of bundles: the CRDs of the catalog, each version applied
//! over the previous one, and for every recipe the objects of Flux, Argo CD and the local charts.
//! Server-side apply includes CEL rules, and strict validation rejects unknown fields.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use serde_json::{Value, json};

use crate::harness::apply::Applier;
use crate::harness::rendered::{
    Rendered, crds_of_deployer, of_argocd, of_flux, of_local_charts, planned, render_library,
};
use crate::harness::scenario::scenario;

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
        for crd in [crds_of_deployer("flux")?, crds_of_deployer("argo-cd")?].concat() {
            applier.apply_crd(&crd).await?;
        }
        let mut crds = Crds::default();
        catalog_upgrades(&applier, &mut crds).await?;

        let bundles = stack.helm.directory().join("bundles");
        render_library(&["helm", "flux", "argocd"], GIT, &bundles.join("git")).await?;
        render_library(&["flux", "argocd"], REGISTRY, &bundles.join("registry")).await?;
        let mut judged = 0;
        for name in catalog::recipe_names() {
            let plan = planned(name)?;
            let bundle = |place: &str| bundles.join(place.replace('*', name));
            let objects = of_local_charts(&stack.helm, &plan, &bundle("git/*/helm")).await?;
            let mut objects = prepare(&applier, &mut crds, objects)
                .await
                .with_context(|| format!("recipe {name}"))?;
            for place in ["git/*/flux", "registry/*/flux"] {
                objects.extend(of_flux(&bundle(place)).await?);
            }
            for place in ["git/*/argocd", "registry/*/argocd"] {
                objects.extend(of_argocd(&bundle(place))?);
            }
            judged += objects.len();
            let answers = stream::iter(&objects)
                .map(async |(namespace, object)| applier.accepts(object, namespace).await);
            answers
                .buffer_unordered(AT_ONCE)
                .try_collect::<Vec<_>>()
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

/// Applies Namespaces and CRDs, and returns the other objects.
async fn prepare(
    applier: &Applier,
    crds: &mut Crds,
    objects: Vec<Rendered>,
) -> Result<Vec<Rendered>> {
    let mut others = Vec::new();
    for (namespace, object) in objects {
        match object["kind"].as_str() {
            Some("CustomResourceDefinition") => crds.replace(applier, object).await?,
            Some("Namespace") => applier.apply(&object, "").await?,
            _ => others.push((namespace, object)),
        }
    }
    Ok(others)
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
