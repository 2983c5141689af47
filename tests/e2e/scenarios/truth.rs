//! What the commands of a workstation and the metrics say is true at every moment of a rollout: while it is played on the real stack, each answer is
//! compared with the objects on the API server.

mod claims;
mod disturbance;
mod facts;
mod judge;
mod observer;
mod rows;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use contract::exit::ExitCode;
use futures::future::{Either, select};
use serde_json::{Value, json};

use self::disturbance::Disturbance;
use self::observer::Observer;
use crate::harness::fleet::NEW;
use crate::harness::hook_release::HookRelease;
use crate::harness::ports::free_port;
use crate::harness::scenario::scenario;
use crate::harness::stack::Stack;
use crate::harness::stand_in::{Fault, OPERATOR_NAMESPACE, Script};
use crate::harness::wait::until;
use crate::harness::workloads::NAMESPACE;

const LIMIT: Duration = Duration::from_mins(3);
const NODES: usize = 4;

/// A story.
struct Story {
    name: &'static str,
    seed: u64,
    /// Mode `drive`; otherwise `assist`, with the library of NVIDIA as controller.
    is_driven: bool,
    disturbance: Disturbance,
}

impl Story {
    fn values(&self) -> Value {
        if self.is_driven { NEW.driven_values() } else { NEW.values() }
    }

    fn settings(&self, port: u16) -> Value {
        let mut settings = json!({
            "component": {"version": NEW.chart}, "metrics": {"enabled": true, "port": port},
            "mode": "assist", "tasks": ["settle", "wake", "reroll"],
        });
        if self.is_driven {
            settings["mode"] = "drive".into();
            settings["tasks"] = json!(["settle", "drive", "reroll"]);
            settings["upgrade"] = json!({
                "policy": {"maxParallelUpgrades": 1, "maxUnavailable": "50%", "podDeletion": {"timeoutSeconds": 60}},
                "attempts": 1,
                "startSeconds": if self.disturbance == Disturbance::FailingDriver { 20 } else { 60 },
            });
        } else if self.disturbance == Disturbance::FailingDriver {
            settings["budgetSeconds"] = 120.into();
        }
        settings
    }

    /// How it ends.
    fn codes(&self) -> &'static [ExitCode] {
        match (self.disturbance, self.is_driven) {
            (Disturbance::FailingDriver, true) => &[ExitCode::NodesFailed],
            (Disturbance::FailingDriver, false) => &[ExitCode::Budget, ExitCode::NodesFailed],
            _ => &[ExitCode::Success],
        }
    }

    /// A driver takes so long that a node in progress is found.
    fn script(&self) -> Script {
        Script { driver: (3_000, 5_000), ..Script::seeded(self.seed) }
    }
}

async fn drives(name: &'static str, seed: u64, disturbance: Disturbance) -> Result<()> {
    plays(Story { name, seed, is_driven: true, disturbance }).await
}

async fn assists(name: &'static str, seed: u64, disturbance: Disturbance) -> Result<()> {
    plays(Story { name, seed, is_driven: false, disturbance }).await
}

async fn plays(story: Story) -> Result<()> {
    scenario(story.name, async |stack| {
        let nodes = stack.fleet(story.script(), NODES, true).await?;
        let stack = &*stack;
        stack.create_namespace(NAMESPACE).await?;
        stack.serve("serve", NODES, None).await?;
        if story.disturbance == Disturbance::FailingDriver {
            stack
                .rewrite(|script| script.faults.extend([(nodes[1].clone(), Fault::NeverReady)]))?;
        }
        let port = free_port()?;
        let hook = HookRelease::new(stack, "gpu-rollout");
        let observer = Observer::new(stack, HookRelease::new(stack, "gpu-rollout"), nodes, port)?;
        Box::pin(observer.observe(rolls_out(&story, stack, &hook, &observer, port))).await
    })
    .await
}

/// Deploys the operator and the hook, and disturbs the rollout.
async fn rolls_out(
    story: &Story,
    stack: &Stack,
    hook: &HookRelease<'_>,
    observer: &Observer<'_>,
    port: u16,
) -> Result<()> {
    let (values, settings) = (story.values(), story.settings(port));
    let upgrade = async {
        stack.deploy("gpu-operator", NEW.chart, OPERATOR_NAMESPACE, &values).await?;
        hook.deploy(&values, &settings).await
    };
    let disturbance = story.disturbance.happens(stack, observer);
    if story.disturbance == Disturbance::Abort {
        // Helm may end before the abort does: the Job has failed then.
        match select(Box::pin(upgrade), Box::pin(disturbance)).await {
            Either::Left((_, disturbance)) => disturbance.await?,
            Either::Right((disturbed, _)) => disturbed?,
        }
        let status = observer.console.status().await?;
        ensure!(status["run"]["phase"] == "aborted", "{status}");
        return Ok(());
    }
    let (said, ()) = tokio::try_join!(upgrade, disturbance)?;
    // Helm may give up on an API server that is away; the Job does not.
    let verdict = until("a verdict", LIMIT, async || Ok(hook.verdict().await.map(Some)?))
        .await
        .with_context(|| format!("{said:?}"))?;
    ensure!(story.codes().contains(&verdict.code), "{verdict:?}\n{}", hook.logs().await?);
    Ok(())
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn driven_upgrade_is_reported_truly() -> Result<()> {
    drives("truth-drive", 201, Disturbance::Nothing).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn absent_operator_is_reported_truly() -> Result<()> {
    drives("truth-operator-away", 202, Disturbance::OperatorAway).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn driver_that_is_never_ready_is_reported_truly() -> Result<()> {
    drives("truth-never-ready", 203, Disturbance::FailingDriver).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn node_that_is_not_ready_is_reported_truly() -> Result<()> {
    drives("truth-not-ready", 204, Disturbance::NodeNotReady).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn absent_api_server_is_reported_truly() -> Result<()> {
    drives("truth-api-away", 205, Disturbance::ServerAway).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn aborted_rollout_is_reported_truly() -> Result<()> {
    drives("truth-abort", 206, Disturbance::Abort).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_upgrade_is_reported_truly() -> Result<()> {
    assists("truth-assist", 207, Disturbance::Nothing).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn changed_policy_is_reported_truly() -> Result<()> {
    assists("truth-second-hand", 208, Disturbance::SecondHand).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_driver_never_ready_is_reported_truly() -> Result<()> {
    assists("truth-assist-never-ready", 209, Disturbance::FailingDriver).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_absent_operator_is_reported_truly() -> Result<()> {
    assists("truth-assist-operator-away", 210, Disturbance::OperatorAway).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_node_not_ready_is_reported_truly() -> Result<()> {
    assists("truth-assist-not-ready", 211, Disturbance::NodeNotReady).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_absent_api_server_is_reported_truly() -> Result<()> {
    assists("truth-assist-api-away", 212, Disturbance::ServerAway).await
}

#[tokio::test(flavor = "local")]
#[ignore = "end to end: make e2e"]
async fn assisted_aborted_rollout_is_reported_truly() -> Result<()> {
    assists("truth-assist-abort", 213, Disturbance::Abort).await
}
