//! Every recipe of the library on a small fleet, with its requirements for GPU Operator, DRA driver
//! and hooks: as a first install, as an upgrade, and again without a change. Every healthy rollout
//! succeeds.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use crate::harness::fleet::{NEW, OLD, Release};
use crate::harness::hook_release::HookRelease;
use crate::harness::node_agent::HOOK_REPOSITORY;
use crate::harness::repository::{gpu_rollout, repository};
use crate::harness::scenario::scenario;
use crate::harness::stand_in::Script;

const NODES: usize = 2;
/// Components that the stand-ins simulate. The others are left out: the Network Operator has its
/// own scenarios, and no hook waits for the rest.
const PLAYED: [&str; 2] = ["gpu-operator", "nvidia-dra-driver-gpu"];
/// Recipes without an operator, where a hook has nothing to wait for.
const WITHOUT_OPERATOR: [&str; 1] = ["device-plugin-only"];

/// Returns a recipe of the library with another release of operator and driver, for two nodes that
/// start quickly.
async fn recipe(name: &str, release: &Release) -> Result<Value> {
    let output =
        Command::new(gpu_rollout()?).args(["recipe", "show", name, "-o", "json"]).output().await?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut recipe: Value = serde_json::from_slice(&output.stdout)?;
    recipe["cluster"]["gpuNodes"] = json!(NODES);
    let components = recipe["components"].as_array_mut().context("components")?;
    components
        .retain(|component| component["name"].as_str().is_some_and(|name| PLAYED.contains(&name)));
    for component in components {
        let version = if component["name"] == "gpu-operator" { release.chart } else { "25.12.0" };
        component["version"] = json!(version);
        // The older operator's chart does not have this key.
        if let Some(values) = component.get_mut("values").and_then(Value::as_object_mut) {
            values.remove("extraObjects");
        }
    }
    let rollout = recipe["rollout"].as_object_mut().context("rollout")?;
    rollout.remove("ofedDriver");
    let driver = rollout.get_mut("gpuDriver").context("gpuDriver")?;
    if driver["version"].is_string() {
        driver["version"] = json!(release.driver);
    }
    driver["perNode"] = json!("20s");
    driver["quiet"] = json!("3s");
    if driver["policy"]["maxUnavailable"].is_string() {
        driver["policy"]["maxUnavailable"] = json!("50%");
    }
    Ok(recipe)
}

async fn rolls_out(name: &str) -> Result<()> {
    scenario(&format!("recipe-{name}"), async |stack| {
        let asked = recipe(name, &OLD).await?;
        let of_operator = asked["components"]
            .as_array()
            .into_iter()
            .flatten()
            .find(|component| component["name"] == "gpu-operator");
        let host_driver =
            of_operator.is_some_and(|component| component["values"]["driver"]["enabled"] == false);
        stack.play(Script { host_driver, ..Script::seeded(91) }).await?;
        let nodes = stack.add_gpu_nodes(NODES).await?;
        let hook = HookRelease::new(stack, "gpu-operator-post");
        let bundle = stack.helm.directory().join("bundle");
        for (what, release) in
            [("first install", &OLD), ("upgrade", &NEW), ("the same again", &NEW)]
        {
            let asked = recipe(name, release).await?;
            let image = format!("{HOOK_REPOSITORY}:e2e");
            stack.render_recipe("helm", &bundle, &[], &asked, &image).await?;
            let said = stack.deploy_bundle(&bundle).await?;
            ensure!(said.success, "{what}: {said:?}\n{}", hook.logs().await.unwrap_or_default());
        }
        let offers = stack.offers().await?;
        ensure!(
            nodes.iter().all(|node| offers.contains_key(node))
                || stack.plugins().await?.len() == NODES,
            "{offers:?}"
        );
        Ok(())
    })
    .await
}

macro_rules! recipes {
    ($list:ident: $($test:ident = $name:literal),+ $(,)?) => {
        pub(super) const $list: &[&str] = &[$($name),+];

        $(
            #[tokio::test(flavor = "local")]
            #[ignore = "end to end: make e2e"]
            async fn $test() -> anyhow::Result<()> {
                super::rolls_out($name).await
            }
        )+
    };
}

/// On every change.
mod short {
    recipes!(SHORT: gke_h100_training = "gke-h100-training", h100_mig = "h100-mig", l40s_mps = "l40s-mps");
}

/// With `make e2e-full`.
mod long {
    recipes!(LONG:
        aks_h100_inference = "aks-h100-inference",
        aks_h100_training = "aks-h100-training",
        baremetal_h100_training_rdma = "baremetal-h100-training-rdma",
        baremetal_l40s_inference = "baremetal-l40s-inference",
        base = "base",
        dra = "dra",
        eks_gb200_inference = "eks-gb200-inference",
        eks_gb200_training = "eks-gb200-training",
        eks_h100_inference = "eks-h100-inference",
        eks_h100_training = "eks-h100-training",
        gke_h100_inference = "gke-h100-inference",
        inference = "inference",
        kind_dev = "kind-dev",
        kind_h100_inference = "kind-h100-inference",
        kind_h100_training = "kind-h100-training",
        l40s_time_slicing = "l40s-time-slicing",
        rdma = "rdma",
        training = "training",
    );
}

#[test]
fn every_recipe_of_the_library_is_rolled_out() -> Result<()> {
    let library = std::fs::read_dir(repository("bundles/recipes"))?;
    let names = library.map(|entry| {
        Ok(entry?.path().file_stem().unwrap_or_default().to_string_lossy().into_owned())
    });
    let names = names.collect::<Result<BTreeSet<String>>>()?;
    let tried = [short::SHORT, long::LONG, &WITHOUT_OPERATOR].concat();
    assert_eq!(names, tried.into_iter().map(str::to_owned).collect());
    Ok(())
}
