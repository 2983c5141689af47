//! Upgrades of the Network Operator from 24.7.1, whose chart renders the NicClusterPolicy, to
//! 26.4.1, for which it is an object of the bundle. Its driver is replaced on every node. The GPU
//! Operator is upgraded in the same deployment, and again after it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::core::GroupVersionKind;
use kube::{Api, ResourceExt};

use crate::harness::ask::{Ask, Network};
use crate::harness::audit::Request;
use crate::harness::cells::Cells;
use crate::harness::deployers::{Deployer, Kind, Outcome};
use crate::harness::fleet::{NEW, first_image};
use crate::harness::hook_release::HookRelease;
use crate::harness::scenario::scenario_within;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{NETWORK_NAMESPACE, OPERATOR_NAMESPACE, Script, is_ready};

use super::for_each_deployer;

for_each_deployer!(network_road);

/// Two deployments with two drivers, on a busy machine.
const DEADLINE: Duration = Duration::from_mins(25);
const NODES: usize = 2;

async fn network_road(kind: Kind) -> Result<()> {
    scenario_within(DEADLINE, &format!("network-{}", kind.word()), async |stack| {
        stack.play(Script::seeded(24)).await?;
        let nodes = stack.add_gpu_nodes(NODES).await?;
        stack.add_nics(&nodes).await?;
        let (stack, cells) = (&*stack, Cells::new("network", kind));
        let deployer = kind.start_in_order(stack).await?;
        let hooks = [
            HookRelease::in_namespace(stack, "network-operator-pre", NETWORK_NAMESPACE),
            HookRelease::in_namespace(stack, "network-operator-post", NETWORK_NAMESPACE),
            HookRelease::new(stack, "gpu-operator-pre"),
            HookRelease::new(stack, "gpu-operator-post"),
        ];

        let begin = Timestamp::now();
        let old = Ask { dra: false, network: Some(Network::Old), ..Ask::old(NODES) };
        deployer.deploy(stack, &old).await?;
        finish(stack, &*deployer, &hooks).await?;
        check_fired(&hooks, begin)?;
        ensure!(
            hooks[1].deleted_pods()?.is_empty(),
            "a first installation replaced pods: {:#?}",
            hooks[1].deleted_pods()?
        );
        let policy = policy(stack).await?;
        check_network(stack, Network::Old).await?;
        cells.note("24.7.1 is installed", "its chart creates the NicClusterPolicy");

        let (begin, drivers) = (Timestamp::now(), stack.network_drivers().await?);
        deployer.deploy(stack, &Ask { network: Some(Network::New), ..old.with(&NEW) }).await?;
        finish(stack, &*deployer, &hooks).await?;
        check_fired(&hooks, begin)?;
        let after = self::policy(stack).await?;
        ensure!(after.uid() == policy.uid(), "the NicClusterPolicy was replaced by another object");
        cells.note("NicClusterPolicy", "stays; the bundle takes it over");
        check_network(stack, Network::New).await?;
        let deleted = hooks[1].deleted_pods()?;
        for (node, driver) in &drivers {
            let times = deleted.iter().filter(|request| request.name == driver.name_any()).count();
            ensure!(
                times == 1,
                "the network driver of {node} was replaced {times} times: {deleted:#?}"
            );
        }
        ensure!(
            deleted.len() == drivers.len(),
            "other pods than the network drivers were replaced: {deleted:#?}"
        );
        cells.note("network drivers", "each replaced once");
        let after = is_after(stack, &hooks[1], begin)?;
        ensure!(
            after || !kind.keeps_order(),
            "the GPU Operator was upgraded before the network hook ended"
        );
        cells.note(
            "GPU Operator",
            if after {
                "upgraded after the network hook"
            } else {
                "upgraded immediately; its hook waits for its preconditions"
            },
        );
        cells.check()
    })
    .await
}

async fn finish(stack: &Stack, deployer: &dyn Deployer, hooks: &[HookRelease<'_>]) -> Result<()> {
    if let Err(error) = deployer.wait(stack, Outcome::Succeeded).await {
        let mut logs = String::new();
        for hook in hooks {
            logs += &hook.logs().await?;
        }
        return Err(error.context(format!("{}\n{logs}", deployer.status(stack).await?)));
    }
    Ok(())
}

/// Checks that each hook has fired once. Each has a reason.
fn check_fired(hooks: &[HookRelease<'_>], since: Timestamp) -> Result<()> {
    for hook in hooks {
        let fired = hook.firings(since)?;
        ensure!(fired == 1, "{} fired {fired} times", hook.name());
    }
    Ok(())
}

async fn policy(stack: &Stack) -> Result<DynamicObject> {
    let kind = ApiResource::from_gvk_with_plural(
        &GroupVersionKind::gvk("mellanox.com", "v1alpha1", "NicClusterPolicy"),
        "nicclusterpolicies",
    );
    Ok(Api::<DynamicObject>::all_with(stack.client.clone(), &kind)
        .get("nic-cluster-policy")
        .await?)
}

/// Checks that every node runs the network driver of this release.
async fn check_network(stack: &Stack, release: Network) -> Result<()> {
    let drivers = stack.network_drivers().await?;
    ensure!(
        drivers.len() == NODES,
        "network drivers are missing, found only those of {:?}",
        drivers.keys()
    );
    for (node, driver) in drivers {
        let image = first_image(&driver);
        ensure!(image.contains(release.driver()) && is_ready(&driver), "{node} runs {image}");
    }
    Ok(())
}

/// Whether the GPU Operator was changed only after the end of the network hook, so that no GPU
/// driver and network driver were replaced at the same time.
fn is_after(stack: &Stack, network: &HookRelease<'_>, since: Timestamp) -> Result<bool> {
    let end = network.requests(since)?.last().context("the network hook sent no requests")?.time;
    let touched = |request: &&Request| is_operator(request) && request.time >= since;
    let requests = stack.audit.by_user("admin")?;
    let first = requests.iter().find(touched).context("the GPU Operator was not upgraded")?;
    Ok(first.time > end)
}

/// Whether a request changes the Deployment of the GPU Operator.
fn is_operator(request: &Request) -> bool {
    let names = (request.namespace.as_str(), request.resource.as_str(), request.name.as_str());
    names == (OPERATOR_NAMESPACE, "deployments", "gpu-operator")
        && matches!(request.verb.as_str(), "patch" | "update")
}
