//! What disturbs a rollout in the middle.

use std::time::Duration;

use anyhow::{Context, Result};
use contract::driver::Driver;
use hook::CANNOT_BE_READ;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use super::observer::Observer;
use crate::harness::fleet::NEW;
use crate::harness::node_agent::NodeAgent;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{OPERATOR_NAMESPACE, driver_version};
use crate::harness::wait::until;

const LIMIT: Duration = Duration::from_mins(3);
/// What a second hand asks for in between.
const OTHER: &str = "580.159.03";
/// How many rounds of commands a disturbance lasts.
const ROUNDS: usize = 5;
/// The same while the API server is away: some 15 s. kwok does not bring back nodes that were lost for longer than their Lease.
const ROUNDS_AWAY: usize = 3;
/// What a hook logs that has yielded its Lease, because the whole fleet waits, and cannot take it
/// again.
const WITHOUT_LEASE: &str = "unable to take the Lease";

/// What disturbs a rollout in the middle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Disturbance {
    Nothing,
    /// The driver of a node never gets ready.
    FailingDriver,
    /// The operator has no pod for a while.
    OperatorAway,
    /// A node in progress is not Ready for a while.
    NodeNotReady,
    ServerAway,
    /// A user ends the rollout.
    Abort,
    /// A second hand changes the driver version of the ClusterPolicy, and changes it back.
    SecondHand,
}

impl Disturbance {
    /// Waits until the rollout is in the middle, and disturbs it.
    pub(super) async fn happens(self, stack: &Stack, observer: &Observer<'_>) -> Result<()> {
        match self {
            Self::Nothing | Self::FailingDriver => Ok(()),
            Self::OperatorAway => operator_is_away(stack, observer).await,
            Self::NodeNotReady => node_is_not_ready(stack, observer).await,
            Self::ServerAway => server_is_away(stack, observer).await,
            Self::Abort => {
                replaced(stack, 2).await?;
                started(stack).await?;
                observer.console.types("gpu-rollout abort --yes").await.map(drop)
            }
            Self::SecondHand => policy_is_changed(stack, observer).await,
        }
    }
}

/// Waits until so many nodes have the new driver.
async fn replaced(stack: &Stack, nodes: usize) -> Result<()> {
    until(&format!("{nodes} drivers to be replaced"), LIMIT, async || {
        let drivers = stack.drivers().await?;
        let images =
            drivers.values().filter_map(|pod| pod.spec.as_ref()?.containers.first()?.image.clone());
        let new = images.filter(|image| driver_version(image) == NEW.driver).count();
        Ok((new >= nodes).then_some(()))
    })
    .await
}

/// Waits until a driver is replaced and does not run yet; returns the node.
async fn started(stack: &Stack) -> Result<String> {
    until("a node in progress", LIMIT, async || {
        let nodes = Api::<Node>::all(stack.client.clone()).list(&ListParams::default()).await?;
        let traits = Driver::Gpu.traits();
        // The label of the hook in mode drive, and that of NVIDIA's controller in mode assist.
        let is_started = |node: &&Node| {
            let states =
                [traits.own_state_label, traits.state_label].map(|key| node.labels().get(key));
            states.into_iter().flatten().any(|state| state == "pod-restart-required")
        };
        Ok(nodes.iter().find(is_started).map(ResourceExt::name_any))
    })
    .await
}

/// Waits until the fleet waits, by `status`.
async fn fleet_waits(observer: &Observer<'_>) -> Result<()> {
    until("the fleet to wait", LIMIT, async || {
        let status = observer.console.status().await?;
        let fleet = status["fleet"].as_array().context("fleet")?;
        Ok((!fleet.is_empty()).then_some(()))
    })
    .await
}

async fn operator_is_away(stack: &Stack, observer: &Observer<'_>) -> Result<()> {
    replaced(stack, 1).await?;
    let scale = |replicas: usize| {
        format!(
            "kubectl -n {OPERATOR_NAMESPACE} scale deployment gpu-operator --replicas={replicas}"
        )
    };
    observer.console.types(&scale(0)).await?;
    fleet_waits(observer).await?;
    observer.rounds(ROUNDS).await?;
    observer.console.types(&scale(1)).await.map(drop)
}

async fn node_is_not_ready(stack: &Stack, observer: &Observer<'_>) -> Result<()> {
    let node = started(stack).await?;
    set_ready(stack, &node, false).await?;
    observer.rounds(ROUNDS).await?;
    set_ready(stack, &node, true).await
}

async fn set_ready(stack: &Stack, node: &str, ready: bool) -> Result<()> {
    let (status, now) = (if ready { "True" } else { "False" }, Timestamp::now());
    let patch = Patch::Strategic(json!({"status": {"conditions": [{
        "type": "Ready", "status": status, "reason": "Played", "lastTransitionTime": now, "lastHeartbeatTime": now,
    }]}}));
    let nodes = Api::<Node>::all(stack.client.clone());
    nodes.patch_status(node, &PatchParams::default(), &patch).await?;
    Ok(())
}

async fn server_is_away(stack: &Stack, observer: &Observer<'_>) -> Result<()> {
    replaced(stack, 1).await?;
    observer.switch_server(false).await?;
    until("the hook to notice", LIMIT, async || {
        let logs: Result<String> = stack.workers.iter().map(NodeAgent::all_logs).collect();
        let logs = logs?;
        let has_noticed = logs.contains(CANNOT_BE_READ) || logs.contains(WITHOUT_LEASE);
        Ok(has_noticed.then_some(()))
    })
    .await?;
    observer.rounds(ROUNDS_AWAY).await?;
    observer.switch_server(true).await
}

async fn policy_is_changed(stack: &Stack, observer: &Observer<'_>) -> Result<()> {
    replaced(stack, 1).await?;
    let patch = |version: &str| {
        let patch = json!({"spec": {"driver": {"version": version}}});
        format!("kubectl patch clusterpolicy cluster-policy --type merge -p '{patch}'")
    };
    observer.console.types(&patch(OTHER)).await?;
    fleet_waits(observer).await?;
    observer.rounds(ROUNDS).await?;
    observer.console.types(&patch(NEW.driver)).await.map(drop)
}
