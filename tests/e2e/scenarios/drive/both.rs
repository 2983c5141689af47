//! GPU driver and network driver on the same nodes, with one hook Job for each. Both Jobs run at
//! the same time.

use anyhow::{Context, Result, ensure};
use contract::record::NodeOutcome;
use hook::WAITING_FOR_LEASE;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::{
    LIMIT, check_deleted_once, check_done, is_cordoned, nodes, settings, tell_cost, upgrade,
};
use crate::harness::fleet::first_image;
use crate::harness::hook_release::HookRelease;
use crate::harness::network::{NETWORK_CHART, NEW_NETWORK, OLD_NETWORK, nic_cluster_policy};
use crate::harness::rights;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, NETWORK_NAMESPACE, SAFE_LOAD, Script};
use crate::harness::turns::Turns;
use crate::harness::wait::until;
use crate::harness::workloads::{NAMESPACE, Serving};

const STATE: &str = "gpu-rollout.dev/ofed-driver-upgrade-state";

/// Returns the settings of the network hook: those of both hooks, and its own.
fn network_settings() -> Value {
    let mut settings = settings(2, 240);
    settings["component"] = json!({"name": "network-operator", "version": NETWORK_CHART});
    settings["driver"] = "ofed".into();
    settings["tasks"] = json!(["settle", "drive"]);
    settings
}

async fn holds_the_lease(stack: &Stack, hook: &HookRelease<'_>) -> Result<()> {
    let leases = Api::<Lease>::namespaced(stack.client.clone(), "default");
    until(&format!("{} to hold the Lease", hook.name()), LIMIT, async || {
        let holder =
            leases.get_opt("gpu-rollout").await?.and_then(|lease| lease.spec?.holder_identity);
        Ok(holder.filter(|holder| holder.starts_with(hook.name())).map(drop))
    })
    .await
}

/// Checks that each node gets the network driver before the GPU driver, never both at once, and
/// that the hook lets the network driver load only on a cordoned node.
fn check_turns(turns: &Turns) -> Result<()> {
    for (node, looks) in turns.by_node() {
        ensure!(
            looks.iter().all(|look| look.gpu.is_none() || look.ofed.is_none()),
            "both drivers on {node}: {looks:#?}"
        );
        let first_gpu = looks.iter().position(|look| look.gpu.is_some()).unwrap_or(looks.len());
        ensure!(
            looks[first_gpu..].iter().all(|look| look.ofed.is_none()),
            "the GPU driver was replaced before the network driver on {node}: {looks:#?}"
        );
        let told = looks.windows(2).find(|pair| pair[0].waits_to_load && !pair[1].waits_to_load);
        ensure!(told.is_some() == (node == "gpu-1"), "safe load on {node}: {looks:#?}");
        ensure!(
            told.is_none_or(|pair| pair[0].cordoned),
            "the driver was loaded on a node that was not cordoned: {looks:#?}"
        );
    }
    let most = turns.most_cordoned();
    ensure!(
        most == 2,
        "{most} nodes were cordoned at once, expected 2, the limit of both drivers together"
    );
    Ok(())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn network_and_gpu_drivers_share_budget_not_node() -> Result<()> {
    scenario("drive-both", async |stack| {
        let names =
            stack.fleet(Script { driver: (500, 1_500), ..Script::seeded(54) }, 4, false).await?;
        stack.network(&names).await?;
        stack.create_namespace(NAMESPACE).await?;
        let networks = json!({"k8s.v1.cni.cncf.io/networks": "rdma-net"});
        stack
            .run(&Serving { name: "mpi", replicas: 4, annotations: networks, ..Serving::default() })
            .await?;
        stack.await_serving("mpi", 4).await?;
        stack.rewrite(|live| {
            live.network_faults = [("gpu-3".to_owned(), Fault::CrashLoop)].into();
            live.safe_load = ["gpu-1".to_owned()].into();
        })?;
        let (networks, gpus) = (stack.network_drivers().await?, stack.drivers().await?);
        let network = HookRelease::in_namespace(stack, "network-operator-post", NETWORK_NAMESPACE);
        let gpu = HookRelease::new(stack, "gpu-operator-post");

        let (turns, begin) = (Turns::record(&stack.client), Timestamp::now());
        stack.ask_for_network(NEW_NETWORK).await?;
        let (values, network_settings, mut gpu_settings) = (
            json!({"objects": [nic_cluster_policy(NEW_NETWORK)]}),
            network_settings(),
            settings(2, 240),
        );
        // Only the upgrade record of the other driver keeps the GPU hook from the node that the
        // network hook leaves cordoned.
        gpu_settings["upgrade"]["foreignCordon"] = "include".into();
        let (network_said, gpu_said) =
            tokio::join!(network.deploy(&values, &network_settings), async {
                holds_the_lease(stack, &network).await?;
                upgrade(stack, &gpu, &gpu_settings).await
            });
        let (network_said, gpu_said) = (network_said?, gpu_said?);

        let logs = (network.logs().await?, gpu.logs().await?);
        ensure!(
            !network_said.success && gpu_said.success,
            "{network_said:?}\n{gpu_said:?}\n{}\n{}",
            logs.0,
            logs.1
        );
        ensure!(
            logs.1.contains(WAITING_FOR_LEASE),
            "the second hook did not wait for the Lease:\n{}",
            logs.1
        );
        check_turns(&turns)?;
        check_done(stack, &["gpu-3"]).await?;
        for (node, pod) in stack.network_drivers().await? {
            let image = first_image(&pod);
            ensure!(
                image.contains(NEW_NETWORK) && !image.contains(OLD_NETWORK),
                "{node} runs {image}"
            );
        }
        let nodes = nodes(stack).await?;
        ensure!(
            nodes.values().all(|node| !node.annotations().contains_key(SAFE_LOAD)),
            "a driver still waits to be loaded"
        );
        // The node without a network driver keeps its old GPU driver and counts as unavailable.
        // Both hooks report it.
        let failed = nodes.get("gpu-3").context("gpu-3")?;
        ensure!(
            is_cordoned(failed)
                && failed.labels().get(STATE).is_some_and(|state| state == "upgrade-failed"),
            "{failed:?}"
        );
        ensure!(network.named().await? == ["gpu-3:UpgradeFailed"], "{:?}", network.named().await?);
        ensure!(gpu.named().await?[0] == "*:Settled", "{:?}", gpu.named().await?);
        let deferred = gpu.node_record("gpu-3").await?;
        ensure!(deferred.outcome == Some(NodeOutcome::Deferred), "{deferred:?}");
        check_deleted_once(&network, NETWORK_NAMESPACE, &networks, &[])?;
        check_deleted_once(&gpu, crate::harness::stand_in::OPERATOR_NAMESPACE, &gpus, &["gpu-3"])?;
        for (hook, name) in [(&network, "drive-both-network"), (&gpu, "drive-both-gpu")] {
            tell_cost(hook, name, begin, 4)?;
            rights::check(stack, hook, name).await?;
        }
        Ok(())
    })
    .await
}
